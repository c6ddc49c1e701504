#include "warptape/optim/arena.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "warptape/autograd/backward.h"
#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/nn/module_state.h"
#include "warptape/optim/arena/arena_memory.h"
#include "warptape/optim/arena/arena_state.h"

namespace wt::optim::detail {
namespace {

constinit std::atomic<u64> arena_ids{0};

// All elements lie side by side, in whatever order.
bool fills_its_memory(const Geometry& g) {
  if (g.dense) return true;
  i64 last = 0;
  for (int i = 0; i < g.ndim; ++i) {
    if (g.strides[i] <= 0) return false;
    last += (g.shape[i] - 1) * g.strides[i];
  }
  return last + 1 == g.numel;
}

void check_entry(const Entry& e, Device device) {
  const TensorImpl* p = e.tensor.impl();
  const DType t = dtype_of(p);
  if (t != DType::f32 && t != DType::f64)
    throw DtypeError(str("[optimizer] parameter ", e.name, " is ", dtype_name(t),
                         ", of an optimizer it is f32 or f64", at_line(),
                         "\n  Try net.to(f32) and TrainStep's {.precision = ",
                         t == DType::f16 ? "f16" : "bf16", "}, which computes in 16 bits"));
  if (device_of(p) != device)
    throw UsageError(str("[optimizer] parameters lie on several devices: ", e.name, " on ",
                         to_string(device_of(p)), ", others on ", to_string(device), at_line(),
                         "\n  Try net.to(device)"));
  if (p->cell->views.load(std::memory_order_relaxed) != 0 || (p->flags & kIsView))
    throw InplaceError(str("[optimizer] parameter ", e.name,
                           " has live views and cannot move into an arena\n  a view was made at ",
                           describe_frame(p->cell->view_frame), at_line()));
  if (!fills_its_memory(p->geometry))
    throw UsageError(
        str("[optimizer] parameter ", e.name, " has gaps between its elements", at_line()));
}

i64 padded_elements(i64 numel, DType t) {
  const i64 bytes = std::max<i64>(numel, 1) * item_size(t);
  return (bytes + kSlotBytes - 1) / kSlotBytes * kSlotBytes / item_size(t);
}

}  // namespace

std::vector<Entry> trainable(const nn::ModuleBase& m) {
  std::vector<Entry> entries;
  std::map<const TensorImpl*, size_t> seen;
  const auto visit = [&](const auto& self, const nn::detail::ModuleState& s,
                         const std::string& prefix) -> void {
    for (const auto& slot : s.slots) {
      if (slot->is_buffer || !slot->tensor.defined() || !leaf_of(slot->tensor.impl())) continue;
      const auto [at, added] = seen.try_emplace(slot->tensor.impl(), entries.size());
      if (added) entries.push_back({prefix + slot->name, slot->tensor});
      entries[at->second].seats.push_back(slot);
    }
    for (const auto& [name, child] : s.children) self(self, *child, prefix + name + ".");
  };
  visit(visit, *m.state(), "");
  return entries;
}

Arenas::Arenas(std::vector<Entry> entries, std::vector<int> n_states)
    : id_(++arena_ids), n_states_(std::move(n_states)) {
  if (entries.empty())
    throw UsageError(str("[optimizer] the module has no parameter that requires grad", at_line()));
  lay_out(std::move(entries), nullptr);
}

Arenas::~Arenas() {
  for (Arena& a : arenas_)
    for (Slot& s : a.slots) {
      const TensorImpl* p = s.entry.tensor.impl();
      Leaf* l = leaf_of(p);
      // Frozen since, or frozen and free again: the leaf that knew its holder is gone.
      const bool forgotten = (!l || l->holder == 0) && p->storage == a.param.get();
      if (!forgotten && (!l || l->holder != id_)) continue;
      if (l) {
        if (l->half) release(std::exchange(l->half, nullptr));
        l->holder = 0;
        l->in_arena = false;  // the gradient stays, but zero_grad() may give it back now
      }
      for (const auto& seat : s.entry.seats) seat->held = false;
    }
}

void Arenas::lay_out(std::vector<Entry> entries, const std::vector<Arena>* old) {
  const Device d = entries.front().tensor.device();
  for (const Entry& e : entries) check_entry(e, d);
  check_gradients(entries);

  // Everything that can throw comes first: nothing has changed when it does.
  std::vector<Arena> made;
  for (size_t i = 0; i < entries.size(); ++i) {
    const TensorImpl* p = entries[i].tensor.impl();
    auto a = std::find_if(made.begin(), made.end(), [&](const Arena& x) {
      return x.dtype == dtype_of(p) && x.group == entries[i].group;
    });
    if (a == made.end()) {
      a = made.emplace(made.end());
      a->dtype = dtype_of(p);
      a->group = entries[i].group;
    }
    const i64 padded = padded_elements(p->geometry.numel, a->dtype);
    a->slots.push_back({std::move(entries[i]), {}, a->elements, padded, i64(i)});
    a->elements += padded;
  }
  std::vector<VersionCell*> cells;
  size_t n_runs = 0, n_pieces = 0;
  for (Arena& a : made) {
    lay_out_state(a, sharding_.get());
    n_pieces += a.pieces.size();
    const i64 bytes = a.elements * item_size(a.dtype);
    const size_t n = a.slots.size();
    CellStorage param = zeroed_with_cells(d, bytes, n, Category::parameter);
    const i64 kept = a.parts_gradients ? a.state_elements() : a.elements;
    CellStorage grad = zeroed_with_cells(d, kept * item_size(a.dtype), n, Category::gradient);
    a.param = std::move(param.storage);
    a.grad = std::move(grad.storage);
    for (int k = 0; k < states_of(a); ++k)
      a.state[k] = zeroed(d, a.state_elements() * item_size(a.dtype), Category::optimizer);
    if (old && old->front().average) a.average = zeroed(d, bytes, Category::optimizer);
    cells.push_back(param.cells);
    for (size_t i = 0; i < n; ++i) {
      Slot& s = a.slots[i];
      const TensorImpl* p = s.entry.tensor.impl();
      s.cell = &grad.cells[i];
      if (a.parts_gradients) continue;
      s.grad = tensor_over(a.grad.get(), s.offset * item_size(a.dtype), p->geometry);
      s.grad.impl()->cell = s.cell;
    }
    n_runs += n;
  }
  std::vector<Run> runs, steps;
  runs.reserve(n_runs);
  if (sharding_) steps.reserve(n_runs + n_pieces);

  // Values.
  for (Arena& a : made) {
    for (Slot& s : a.slots) {
      const TensorImpl* p = s.entry.tensor.impl();
      const i64 bytes = p->geometry.numel * item_size(a.dtype);
      copy_if_real(a.at(a.param, s.offset), d, p->data, d, bytes);
      const Leaf* l = leaf_of(p);
      if (l && l->grad && l->written && s.grad.defined())
        wt::detail::copy_into(s.grad.impl(), l->grad);
    }
    if (!old) continue;
    const auto b = std::find_if(old->begin(), old->end(), [&](const Arena& x) {
      return x.dtype == a.dtype && x.group == a.group;
    });
    WT_INTERNAL_ASSERT(b != old->end());
    if (a.average) copy_kept({a, a.average, whole(a), d}, {*b, b->average, whole(*b), device_});
    for (int k = 0; k < states_of(a); ++k)
      copy_kept({a, a.state[k], a.pieces, d}, {*b, b->state[k], b->pieces, device_});
    if (a.parts_gradients && b->parts_gradients)
      copy_kept({a, a.grad, a.pieces, d}, {*b, b->grad, b->pieces, device_});
  }

  // From here on nothing throws.
  for (size_t k = 0; k < made.size(); ++k) {
    Arena& a = made[k];
    for (size_t i = 0; i < a.slots.size(); ++i) {
      Slot& s = a.slots[i];
      Tensor& t = s.entry.tensor;
      t.rebind(a.param.get(), s.offset * item_size(a.dtype), &cells[k][i]);
      if (Leaf* l = leaf_of(t.impl())) {
        if (!l->grad && s.grad.defined()) l->written = false;  // there were pieces alone
        if (l->grad) release(l->grad);
        l->grad = s.grad.impl();
        if (l->grad) retain(l->grad);
        l->in_arena = true;
        l->holder = id_;
      }
      for (const auto& seat : s.entry.seats) seat->held = true;
    }
  }
  device_ = d;
  ++generation_;
  arenas_ = std::move(made);
  runs_ = std::move(runs);
  steps_ = std::move(steps);
}

// Where they are to be kept in parts, all that is there must be sums of all ranks already.
void Arenas::check_gradients(const std::vector<Entry>& entries) const {
  if (!sharding_ || !sharding_->parts_gradients()) return;
  for (const Entry& e : entries)
    if (const Leaf* l = leaf_of(e.tensor.impl()); l && l->grad && l->written)
      throw UsageError(str("[optimizer] parameter ", e.name, " has a gradient of this rank alone, ",
                           "and gradients are kept in parts of all ranks' sums", at_line(),
                           "\n  Try zero_grad(), and the DataParallel's backward()"));
}

bool Arenas::rebuild() {
  std::vector<Entry> entries;
  for (const auto& [a, s] : in_order()) {
    const Leaf* l = leaf_of(s->entry.tensor.impl());
    if (l && l->holder != 0 && l->holder != id_)
      throw UsageError(str("[optimizer] parameter ", s->entry.name,
                           " was taken over by another optimizer: this one cannot step any more",
                           at_line()));
    entries.push_back(s->entry);
  }
  lay_out(std::move(entries), &arenas_);
  return true;
}

std::vector<std::pair<const Arena*, const Slot*>> Arenas::in_order() const {
  std::vector<std::pair<const Arena*, const Slot*>> all;
  for (const Arena& a : arenas_)
    for (const Slot& s : a.slots) all.emplace_back(&a, &s);
  std::sort(all.begin(), all.end(),
            [](const auto& x, const auto& y) { return x.second->order < y.second->order; });
  return all;
}

i64 Arenas::partials() const {
  i64 n = 0;
  for (const Arena& a : arenas_)
    n += norm_chunks(a.state_elements()) + i64(a.slots.size() + a.pieces.size());
  return n;
}

}  // namespace wt::optim::detail
