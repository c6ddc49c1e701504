// An optimizer's state by name.
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>

#include "warptape/core/at_line.h"
#include "warptape/kernels/copy.h"
#include "warptape/kernels/run.h"
#include "warptape/optim/kind.h"
#include "warptape/optim/optimizer_memory.h"

namespace wt::optim {

using detail::Arena;
using detail::kBlock;
using detail::kMarkAt;
using detail::StorageRef;

namespace {

// Where a field lies in a block.
size_t offset_of(double OptimBlock::*field) {
  const OptimBlock b;
  return size_t(reinterpret_cast<const char*>(&(b.*field)) - reinterpret_cast<const char*>(&b));
}

constexpr const char *kStepPrefix = "optim.step.", *kProductPrefix = "optim.mu_product.";

template <class Scalars>
bool has_product(const Scalars& scalars) {
  return std::any_of(scalars.begin(), scalars.end(),
                     [](const auto& s) { return s.second == &OptimBlock::mu_product; });
}

// The counts of single parameters among loaded values.
class LoadedCounts {
 public:
  LoadedCounts(const detail::Arenas& arenas, bool products) : arenas_(arenas), products_(products) {
    for (const auto& at : arenas.in_order()) {
      names_.insert(kStepPrefix + at.second->entry.name);
      if (products) names_.insert(kProductPrefix + at.second->entry.name);
    }
  }
  // Takes them out of a list.
  std::vector<nn::NamedTensor> take(std::vector<nn::NamedTensor>& from) const {
    std::vector<nn::NamedTensor> counts;
    const auto rest = std::stable_partition(
        from.begin(), from.end(), [&](const auto& t) { return !names_.contains(t.name); });
    std::move(rest, from.end(), std::back_inserter(counts));
    from.erase(rest, from.end());
    return counts;
  }
  // Of every arena's slots; `all`: of each group, what is not said.
  std::vector<std::vector<detail::StepCount>> of_slots(
      const std::vector<nn::NamedTensor>& counts, const std::vector<detail::StepCount>& all) const {
    std::vector<std::vector<detail::StepCount>> of;
    for (const Arena& a : arenas_.all()) {
      of.emplace_back();
      for (const detail::Slot& s : a.slots)
        of.back().push_back(of_one(counts, s.entry.name, all[size_t(a.group)]));
    }
    return of;
  }

 private:
  detail::StepCount of_one(const std::vector<nn::NamedTensor>& counts, const std::string& parameter,
                           detail::StepCount count) const {
    const auto find = [&](const std::string& name) {
      return std::find_if(counts.begin(), counts.end(),
                          [&](const auto& t) { return t.name == name; });
    };
    if (find(kStepPrefix + parameter) == counts.end()) return count;
    const i64 applied = detail::count_of(counts, kStepPrefix + parameter);
    if (applied > count.applied)
      throw UsageError(str("[load_state] ", kStepPrefix, parameter, " is ", applied, " of ",
                           count.applied, " applied steps", at_line()));
    count.applied = applied;
    if (!products_) return count;
    const auto product = find(kProductPrefix + parameter);
    count.mu_product = product == counts.end() || product->tensor.numel() != 1
                           ? -1
                           : product->tensor.to(DType::f64).item();
    if (!(count.mu_product >= 0 && count.mu_product <= 1))
      throw UsageError(str("[load_state] the state has no product in [0, 1] as ", kProductPrefix,
                           parameter, at_line()));
    return count;
  }

  const detail::Arenas& arenas_;
  bool products_;
  std::set<std::string> names_;
};

// The name of an option of a group in state(), after "optim.".
std::string scalar_name(const char* name, i64 group) {
  return group == 0 ? name : str("group", group, ".", name);
}

}  // namespace

std::vector<nn::NamedTensor> Optimizer::parameters() const {
  std::vector<nn::NamedTensor> all;
  for (const auto& [a, s] : arenas_->in_order()) all.push_back({s->entry.name, s->entry.tensor});
  return all;
}

// memory(arena, k) for each of them, where the arenas have parts alone.
template <class F>
Optimizer::States Optimizer::states_of(const F& memory) const {
  States all;
  if (!arenas_->sharding()) return all;
  for (const Arena& a : arenas_->all()) {
    std::vector<StorageRef>& states = all.emplace_back();
    for (size_t k = 0; k < kind_->slots_of(a.group).size(); ++k)
      states.push_back(memory(a, int(k)));
  }
  return all;
}

std::vector<nn::NamedTensor> Optimizer::state() const { return state(true); }
std::vector<nn::NamedTensor> Optimizer::state(bool here) const {
  return state_over(
      states_of([&](const Arena& a, int k) { return arenas_->gather_state(a, k, here); }));
}

std::vector<Optimizer::StatePiece> Optimizer::state_pieces() const {
  std::vector<StatePiece> all;
  const detail::Piece nothing{0, 0, 0};
  for (const auto& at : arenas_->in_order()) {
    const Arena* const a = at.first;
    const detail::Slot* const s = at.second;
    const Tensor& t = s->entry.tensor;
    if (!t.is_contiguous())
      throw NotAvailable(str("[state_pieces] ", s->entry.name, " is not contiguous: the ranges of ",
                             "its elements that ranks keep are none of its rows", at_line()));
    const auto add = [&](const detail::Piece& p, i64 from, i64 n) {
      for (size_t k = 0; k < kind_->slots_of(a->group).size(); ++k)
        all.push_back(
            {str("optim.", kind_->slots_of(a->group)[k], ".", s->entry.name),
             detail::flat_over(a->state[k].get(), (p.state + from - p.begin) * item_size(a->dtype),
                               n, a->dtype),
             n == 0 ? 0 : from - s->offset});
    };
    for (const detail::Piece& p : a->pieces) {
      const i64 from = std::max(s->offset, p.begin);
      const i64 n = std::min(s->offset + t.numel(), p.begin + p.count) - from;
      if (n > 0) add(p, from, n);
    }
    const Sharding* const shards = arenas_->sharding();
    if (t.numel() == 0 && (!shards || shards->rank() == 0)) add(nothing, 0, 0);
  }
  return all;
}

std::vector<std::pair<std::string, Shape>> Optimizer::state_shapes() const {
  std::vector<std::pair<std::string, Shape>> all;
  for (const auto& [a, s] : arenas_->in_order())
    for (const char* slot : kind_->slots_of(a->group))
      all.emplace_back(str("optim.", slot, ".", s->entry.name), s->entry.tensor.shape());
  return all;
}

std::vector<nn::NamedTensor> Optimizer::state_over(const States& elsewhere) const {
  std::vector<nn::NamedTensor> all;
  for (const auto& [a, s] : arenas_->in_order())
    for (size_t k = 0; k < kind_->slots_of(a->group).size(); ++k) {
      const StorageRef& memory =
          elsewhere.empty() ? a->state[k] : elsewhere[size_t(a - arenas_->all().data())][k];
      if (!memory) continue;
      all.push_back({str("optim.", kind_->slots_of(a->group)[k], ".", s->entry.name),
                     detail::tensor_over(memory.get(), s->offset * item_size(a->dtype),
                                         s->entry.tensor.impl()->geometry)});
    }
  for (nn::NamedTensor& t : shared_state()) all.push_back(std::move(t));
  return all;
}

std::vector<nn::NamedTensor> Optimizer::shared_state() const {
  std::vector<nn::NamedTensor> all;
  for (nn::NamedTensor& t : ema()) all.push_back({"ema." + t.name, std::move(t.tensor)});
  Storage* block = memory_->block.get();
  const auto scalar = [&](const std::string& name, i64 at, DType t) {
    all.push_back({"optim." + name, detail::scalar_over(block, at, t)});
  };
  for (i64 g = 0; g < group_count(); ++g)
    for (const auto& [name, field] : kind_->scalars)
      scalar(scalar_name(name, g), g * kBlock + i64(offset_of(field)), DType::f64);
  if (has_ema()) scalar("ema_decay", i64(offset_of(&OptimBlock::ema_decay)), DType::f64);
  scalar(str("kind.", kind_->name), memory_->tail(kMarkAt), DType::i64);
  scalar("applied", offsetof(OptimBlock, applied), DType::i64);
  scalar("attempted", offsetof(OptimBlock, attempted), DType::i64);
  for (nn::NamedTensor& t : count_state()) all.push_back(std::move(t));
  return all;
}

// Of the parameters that have missed steps.
std::vector<nn::NamedTensor> Optimizer::count_state() const {
  std::vector<nn::NamedTensor> all;
  const auto add = [&](const std::string& prefix, const auto& at, i64 offset, DType t) {
    Tensor own = memory_->cohorts.field(*arenas_, *at.first, *at.second, offset, t);
    if (own.defined()) all.push_back({prefix + at.second->entry.name, std::move(own)});
  };
  for (const auto& at : arenas_->in_order()) {
    add(kStepPrefix, at, offsetof(Cohort, applied), DType::i64);
    if (has_product(kind_->scalars))
      add(kProductPrefix, at, offsetof(Cohort, mu_product), DType::f64);
  }
  return all;
}

void Optimizer::load_state(const std::vector<nn::NamedTensor>& loaded_values, Frame at) {
  const FrameScope frame(at);
  prepare();
  const LoadedCounts of_parameters(*arenas_, has_product(kind_->scalars));
  std::vector<nn::NamedTensor> values = loaded_values;
  const std::vector<nn::NamedTensor> counts = of_parameters.take(values);
  // Sharded, it goes by the host's memory, of which each rank takes its part.
  const States whole = states_of([](const Arena& a, int) {
    return detail::zeroed(Device::cpu(), a.elements * item_size(a.dtype), Category::optimizer);
  });
  std::vector<nn::NamedTensor> mine = state_over(whole);
  of_parameters.take(mine);
  detail::check_state(kind_->name, mine, values);
  const auto find = [&](const std::string& name) {
    return std::find_if(values.begin(), values.end(),
                        [&](const auto& t) { return t.name == name; });
  };
  std::vector<detail::StepCount> of_groups;
  for (i64 g = 0; g < group_count(); ++g) {
    OptimBlock loaded = hyper(g);
    for (const auto& [name, field] : kind_->scalars)
      loaded.*field = find("optim." + scalar_name(name, g))->tensor.item();
    check(*kind_, loaded);
    of_groups.push_back({0, loaded.mu_product});
  }
  if (has_ema()) check_decay(find("optim.ema_decay")->tensor.item());
  const i64 applied = detail::count_of(values, "optim.applied");
  const i64 attempted = detail::count_of(values, "optim.attempted");
  if (applied > attempted)
    throw UsageError(
        str("[load_state] ", applied, " of ", attempted, " steps were applied", at_line()));
  for (detail::StepCount& c : of_groups) c.applied = applied;

  const NoGrad no_grad;
  detail::Cohorts cohorts =
      detail::Cohorts::of_counts(*arenas_, of_parameters.of_slots(counts, of_groups), of_groups);
  std::vector<Tensor> converted;  // all allocations before the first write
  for (const nn::NamedTensor& m : mine)
    converted.push_back(find(m.name)->tensor.to(m.tensor.dtype()).to(m.tensor.device()));
  for (size_t i = 0; i < mine.size(); ++i)
    wt::run(CopyArgs{view_of(mine[i].tensor.impl()), view_of(converted[i].impl())},
            mine[i].tensor.device() == memory_->device
                ? memory_->launch()
                : Launch{&info::step, nullptr, nullptr, mine[i].tensor.device()});
  for (size_t i = 0; i < whole.size(); ++i)
    for (size_t k = 0; k < whole[i].size(); ++k)
      arenas_->take_state(arenas_->all()[i], int(k), *whole[i][k].get());
  Blocks blocks = read_blocks();
  memory_->cohorts = std::move(cohorts);
  ++layouts_;
  for (OptimBlock& b : blocks) {  // the counts are group 0's
    // The average that is loaded has begun, unless nothing has.
    if (b.ema_copies_at != kEmaNeverCopies) b.ema_copies_at = applied > 0 ? kEmaHasCopied : 0;
    b.applied = blocks[0].applied;
    b.attempted = blocks[0].attempted;
    b.ema_decay = blocks[0].ema_decay;
  }
  write_blocks(blocks);
}

}  // namespace wt::optim
