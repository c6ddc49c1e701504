#include "warptape/optim/cohorts.h"

#include <algorithm>
#include <cstring>

#include "warptape/core/async_copy.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory/copy_bytes.h"

namespace wt::optim::detail {
namespace {

constexpr i64 kCohort = sizeof(Cohort);

size_t index_of(const Arenas& arenas, const Arena& a) { return size_t(&a - arenas.all().data()); }

}  // namespace

// --- where an arena is cut ---

i64 Cohorts::end_of(const Arena& a, const Parts& parts, size_t k) {
  return k + 1 < parts.size() ? a.slots[parts[k + 1].slot].offset : a.elements;
}

// Whether one of the collected runs reaches over all of it.
bool Cohorts::covers(const Arenas& arenas, const Arena& a, i64 begin, i64 end) {
  for (const Run& r : arenas.runs())
    if (r.arena == &a && r.begin <= begin && end <= r.begin + r.count) return true;
  return false;
}

// A place where a slot begins, or the end.
void Cohorts::cut_at(const Arena& a, Parts& parts, i64 element) {
  if (element >= a.elements) return;
  const auto slot = std::lower_bound(a.slots.begin(), a.slots.end(), element,
                                     [](const Slot& s, i64 offset) { return s.offset < offset; }) -
                    a.slots.begin();
  const auto after = std::upper_bound(parts.begin(), parts.end(), size_t(slot),
                                      [](size_t s, const Part& p) { return s < p.slot; });
  const Part before = *(after - 1);
  if (before.slot != size_t(slot)) parts.insert(after, {size_t(slot), before.lags});
}

Cohorts::Parts Cohorts::parts_for(const Arenas& arenas, size_t arena) const {
  const Arena& a = arenas.all()[arena];
  Parts parts = parts_.empty() ? Parts() : parts_[arena];
  if (parts.empty() && covers(arenas, a, 0, a.elements)) return parts;
  if (parts.empty()) parts.push_back({0, false});
  for (const Run& r : arenas.runs())
    if (r.arena == &a) {
      cut_at(a, parts, r.begin);
      cut_at(a, parts, r.begin + r.count);
    }
  for (size_t k = 0; k < parts.size(); ++k)
    parts[k].lags |= !covers(arenas, a, a.slots[parts[k].slot].offset, end_of(a, parts, k));
  return parts;
}

bool Cohorts::fit(const Arenas& arenas) const {
  const std::vector<Arena>& all = arenas.all();
  const std::vector<Run>& runs = arenas.runs();
  if (parts_.empty()) {  // one run an arena, all of it
    if (runs.size() != all.size()) return false;
    for (size_t i = 0; i < all.size(); ++i)
      if (runs[i].arena != &all[i] || runs[i].count != all[i].elements) return false;
    return true;
  }
  for (size_t i = 0; i < all.size(); ++i)
    if (parts_for(arenas, i) != parts_[i]) return false;
  return true;
}

Cohorts Cohorts::cut(const Arenas& arenas) const {
  const std::vector<Arena>& all = arenas.all();
  Cohorts made;
  bool same = !parts_.empty();
  for (size_t i = 0; i < all.size(); ++i) {
    made.parts_.push_back(parts_for(arenas, i));
    same = same && made.parts_[i].size() == parts_[i].size();
  }
  made.place(arenas);
  if (same) {
    made.table_ = table_;
    return made;
  }
  std::vector<Cohort> table(size_t(made.of_group_.back()));
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = 0; k < made.parts_[i].size(); ++k) {
      Cohort& c = table[size_t(made.first_[i]) + k];
      c.end = end_of(all[i], made.parts_[i], k);
      const bool had = !parts_.empty() && !parts_[i].empty();
      c.source = had ? first_[i] + i64(part_at(all[i], parts_[i], c.end - 1)) : -1;
    }
  made.upload(table, arenas.device());
  return made;
}

Cohorts Cohorts::moved(const Arenas& arenas) const {
  Cohorts made;
  if (parts_.empty()) return made;
  made.parts_ = parts_;
  made.place(arenas);
  std::vector<Cohort> table(size_t(made.of_group_.back()));
  if (table_.defined())
    copy_bytes(table.data(), Device::cpu(), table_.impl()->data, table_.device(),
               i64(table.size()) * kCohort);
  const std::vector<Arena>& all = arenas.all();
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = 0; k < parts_[i].size(); ++k)
      table[size_t(made.first_[i]) + k].end = end_of(all[i], parts_[i], k);
  made.upload(table, arenas.device());
  return made;
}

Cohorts Cohorts::of_counts(const Arenas& arenas, const std::vector<std::vector<StepCount>>& counts,
                           const std::vector<StepCount>& all) {
  Cohorts made;
  std::vector<std::vector<StepCount>> of_parts;
  for (size_t i = 0; i < counts.size(); ++i) {
    const StepCount& usual = all[size_t(arenas.all()[i].group)];
    Parts parts;
    std::vector<StepCount> here;
    for (size_t s = 0; s < counts[i].size(); ++s)
      if (s == 0 || !(counts[i][s] == counts[i][s - 1])) {
        parts.push_back({s, !(counts[i][s] == usual)});
        here.push_back(counts[i][s]);
      }
    if (parts.size() == 1 && !parts[0].lags) parts.clear();
    made.parts_.push_back(std::move(parts));
    of_parts.push_back(std::move(here));
  }
  const bool none =
      std::all_of(made.parts_.begin(), made.parts_.end(), [](const Parts& p) { return p.empty(); });
  if (none) return {};
  made.place(arenas);
  std::vector<Cohort> table(size_t(made.of_group_.back()));
  for (size_t i = 0; i < counts.size(); ++i)
    for (size_t k = 0; k < made.parts_[i].size(); ++k) {
      Cohort& c = table[size_t(made.first_[i]) + k];
      c.end = end_of(arenas.all()[i], made.parts_[i], k);
      c.applied = of_parts[i][k].applied;
      c.mu_product = of_parts[i][k].mu_product;
    }
  made.upload(table, arenas.device());
  return made;
}

// --- the table: group by group, arena by arena ---

void Cohorts::place(const Arenas& arenas) {
  const std::vector<Arena>& all = arenas.all();
  int groups = 0;
  for (const Arena& a : all) groups = std::max(groups, a.group + 1);
  first_.assign(all.size(), 0);
  of_group_.assign(1, 0);
  i64 at = 0;
  for (int g = 0; g < groups; ++g) {
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].group == g) {
        first_[i] = at;
        at += i64(parts_[i].size());
      }
    of_group_.push_back(at);
  }
}

void Cohorts::upload(const std::vector<Cohort>& table, Device d) {
  table_ = Tensor();
  if (d.is_meta || table.empty()) return;
  const NoGrad no_grad;
  const CategoryScope scope(Category::optimizer);
  const i64 bytes = i64(table.size()) * kCohort;
  const Tensor host = empty({bytes}, {.dtype = DType::u8, .device = Device::cpu()});
  std::memcpy(host.impl()->data, table.data(), size_t(bytes));
  table_ = copy_async(host, d);
}

Cohort* Cohorts::table() const {
  return table_.defined() ? static_cast<Cohort*>(table_.impl()->data) : nullptr;
}

size_t Cohorts::part_at(const Arena& a, const Parts& parts, i64 element) const {
  const auto after =
      std::upper_bound(parts.begin(), parts.end(), element,
                       [&](i64 at, const Part& p) { return at < a.slots[p.slot].offset; });
  return size_t(after - parts.begin()) - 1;
}

void Cohorts::attach(const Arenas& arenas, Run& r) const {
  if (!table_.defined()) return;
  const size_t i = index_of(arenas, *r.arena);
  if (parts_[i].empty()) return;
  const size_t first = part_at(*r.arena, parts_[i], r.begin);
  r.n_cohorts = i64(part_at(*r.arena, parts_[i], r.begin + r.count - 1) + 1 - first);
  r.cohorts = table() + first_[i] + first;
}

void Cohorts::attach(StepAdvanceArgs& a, i64 group) const {
  if (!table_.defined() || size_t(group) + 1 >= of_group_.size()) return;
  const i64 begin = of_group_[size_t(group)];
  a.cohorts = table() + begin;
  a.n_cohorts = of_group_[size_t(group) + 1] - begin;
}

std::vector<CohortRange> Cohorts::stepped(const Arenas& arenas, i64 group) const {
  std::vector<CohortRange> ranges;
  if (!table_.defined()) return ranges;
  for (Run r : arenas.runs()) {
    if (r.arena->group != group) continue;
    attach(arenas, r);
    if (!r.cohorts) continue;
    const auto begin = i32(r.cohorts - table() - of_group_[size_t(group)]);
    const auto end = i32(begin + r.n_cohorts);
    if (!ranges.empty() && ranges.back().end == begin)
      ranges.back().end = end;
    else
      ranges.push_back({begin, end});
  }
  return ranges;
}

Tensor Cohorts::field(const Arenas& arenas, const Arena& a, const Slot& s, i64 at, DType t) const {
  if (!table_.defined()) return {};
  const size_t i = index_of(arenas, a);
  if (parts_[i].empty()) return {};
  const size_t k = part_at(a, parts_[i], s.offset);
  if (!parts_[i][k].lags) return {};
  return scalar_over(table_.impl()->storage, (first_[i] + i64(k)) * kCohort + at, t);
}

}  // namespace wt::optim::detail
