#include "warptape/optim/arena.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "warptape/autograd/backward.h"
#include "warptape/core/at_line.h"
#include "warptape/core/copy_bytes.h"
#include "warptape/core/error.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/optim/arena_state.h"

namespace wt::optim::detail {
namespace {

constinit std::atomic<u64> arena_ids{0};

// A block with a version cell for each slot: a parameter in an arena is a root of its own, and its
// cell must live as long as any tensor over the block.
struct CellBlock {
  Storage* block;
  std::unique_ptr<VersionCell[]> cells;
};
struct CellStorage {
  StorageRef storage;
  VersionCell* cells;
};
CellStorage zeroed_with_cells(Device d, i64 bytes, size_t n, Category c) {
  StorageRef block = zeroed(d, bytes, c);
  auto owner = std::make_unique<CellBlock>();
  owner->cells = std::make_unique<VersionCell[]>(n);
  owner->block = block.get();
  CellStorage made;
  made.cells = owner->cells.get();
  // The bytes are counted with the block, so none here.
  made.storage = StorageRef(adopt_memory(
      d, block->data, 0,
      [](void* p) {
        auto* b = static_cast<CellBlock*>(p);
        release(b->block);
        delete b;
      },
      owner.get()));
  owner.release();
  retain(block.get());  // the adopted storage holds it from here on
  return made;
}

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
    throw NotAvailable(str("[optimizer] parameter ", e.name, " is ", dtype_name(t),
                           "; parameters are f32 or f64 until mixed precision is there",
                           at_line()));
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

StorageRef zeroed(Device d, i64 bytes, Category c) {
  const CategoryScope scope(c);
  StorageRef s(allocate(d, bytes));
  if (!d.is_meta) fill_zero(s->data, d, bytes);
  return s;
}

Tensor tensor_over(Storage* s, i64 byte_offset, const Geometry& g) {
  TensorImpl* p = new_impl();
  p->key = tensor_key(g.dtype, s->device);
  p->flags = kArena;
  p->storage = s;
  retain(s);
  p->data = s->data ? static_cast<char*>(s->data) + byte_offset : nullptr;
  p->cell = &s->cell;
  p->geometry = g;
  return Tensor(p);
}

Tensor scalar_over(Storage* s, i64 byte_offset, DType t) {
  Geometry g{};
  set_contiguous(g, nullptr, 0, t);
  return tensor_over(s, byte_offset, g);
}

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
    CellStorage grad = zeroed_with_cells(d, bytes, n, Category::gradient);
    a.param = std::move(param.storage);
    a.grad = std::move(grad.storage);
    for (int k = 0; k < states_of(a); ++k)
      a.state[k] = zeroed(d, a.state_elements() * item_size(a.dtype), Category::optimizer);
    if (old && old->front().average) a.average = zeroed(d, bytes, Category::optimizer);
    cells.push_back(param.cells);
    for (size_t i = 0; i < n; ++i) {
      Slot& s = a.slots[i];
      const TensorImpl* p = s.entry.tensor.impl();
      s.grad = tensor_over(a.grad.get(), s.offset * item_size(a.dtype), p->geometry);
      s.grad.impl()->cell = &grad.cells[i];
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
      if (l && l->grad && l->written) wt::detail::copy_into(s.grad.impl(), l->grad);
    }
    if (!old) continue;
    const auto b = std::find_if(old->begin(), old->end(), [&](const Arena& x) {
      return x.dtype == a.dtype && x.group == a.group;
    });
    WT_INTERNAL_ASSERT(b != old->end());
    if (a.average)
      copy_if_real(a.average->data, d, b->average->data, device_,
                   std::min(a.elements, b->elements) * item_size(a.dtype));
    for (int k = 0; k < states_of(a); ++k) copy_state(a, d, *b, device_, k);
  }

  // From here on nothing throws.
  for (size_t k = 0; k < made.size(); ++k) {
    Arena& a = made[k];
    for (size_t i = 0; i < a.slots.size(); ++i) {
      Slot& s = a.slots[i];
      Tensor& t = s.entry.tensor;
      t.rebind(a.param.get(), s.offset * item_size(a.dtype), &cells[k][i]);
      if (Leaf* l = leaf_of(t.impl())) {
        if (l->grad) release(l->grad);
        l->grad = s.grad.impl();
        retain(l->grad);
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

const std::vector<Run>& Arenas::collect() {
  runs_.clear();
  Written w;  // a local: members would be stored for every slot
  u32 scaler = 0;
  for (const Arena& a : arenas_) {
    bool open = false;
    for (const Slot& s : a.slots) {
      const Leaf* l = leaf_of(s.entry.tensor.impl());
      if (!l || !l->written) {
        open = false;
        continue;
      }
      if (l->invalid) [[unlikely]]
        throw NumericError(str("[optimizer] the gradient of ", s.entry.name,
                               " is invalid after a backward that threw", at_line(),
                               "\n  Try zero_grad()"));
      if (!w.first) {
        w.first = &s;
        scaler = l->scaler;
      }
      if (l->scaler != scaler) w.other = &s;
      if (l->from_f16) w.from_f16 = &s;
      w.fresh |= l->grad->cell->version != s.stepped;
      w.backwards = std::max(w.backwards, l->backwards - s.backwards);
      if (open)
        runs_.back().count += s.padded;
      else
        runs_.push_back({&a, s.offset, s.padded, s.offset});
      open = true;
    }
  }
  written_ = w;
  if (sharding_) [[unlikely]]
    cut_steps();
  return runs_;
}

void Arenas::zero_grad() noexcept {
  for (Arena& a : arenas_)
    for (Slot& s : a.slots) {
      s.entry.tensor.zero_grad();
      if (const Leaf* l = leaf_of(s.entry.tensor.impl())) s.backwards = l->backwards;
    }
}

u32 Arenas::pending_backwards() const {
  u32 n = 0;
  for (const Arena& a : arenas_)
    for (const Slot& s : a.slots)
      if (const Leaf* l = leaf_of(s.entry.tensor.impl()); l && l->written)
        n = std::max(n, l->backwards - s.backwards);
  return n;
}

void Arenas::fill_grad_zero() {
  for (const Arena& a : arenas_)
    for (const Slot& s : a.slots) {
      Leaf* l = leaf_of(s.entry.tensor.impl());
      if (!l || !l->written || !l->grad) continue;
      const Geometry& g = l->grad->geometry;
      if (!device_of(l->grad).is_meta)
        fill_zero(l->grad->data, device_of(l->grad), g.numel * item_size(g.dtype));
      l->grad->cell->wrote(mode.frame);
      l->invalid = l->from_f16 = false;
      l->scaler = kAnyScaler;
    }
}

void Arenas::mark_unscaled() noexcept {
  for (const Arena& a : arenas_)
    for (const Slot& s : a.slots)
      if (Leaf* l = leaf_of(s.entry.tensor.impl()); l && l->written) l->scaler |= kUnscaledBit;
}

void Arenas::add_average() {
  std::vector<StorageRef> made;
  for (const Arena& a : arenas_)
    made.push_back(zeroed(device_, a.elements * item_size(a.dtype), Category::optimizer));
  for (size_t i = 0; i < made.size(); ++i) {
    Arena& a = arenas_[i];
    copy_if_real(made[i]->data, device_, a.param->data, device_, a.elements * item_size(a.dtype));
    a.average = std::move(made[i]);
  }
  ++generation_;
}

std::vector<char> Arenas::written_slots() const {
  std::vector<char> slots;
  for (const Arena& a : arenas_)
    for (const Slot& s : a.slots) {
      const Leaf* l = leaf_of(s.entry.tensor.impl());
      slots.push_back(l && l->written);
    }
  return slots;
}

void Arenas::wrote_slots(const std::vector<char>& slots, u32 scaler) noexcept {
  size_t i = 0;
  for (const Arena& a : arenas_)
    for (const Slot& s : a.slots) {
      Leaf* l = leaf_of(s.entry.tensor.impl());
      if (!slots[i++] || !l) continue;
      l->written = true;
      l->scaler = scaler;
      ++l->backwards;
      l->grad->cell->wrote(mode.frame);
    }
}

void Arenas::also_reached(std::span<const char> reached) noexcept {
  size_t i = 0;
  for (const Arena& a : arenas_)
    for (const Slot& s : a.slots) {
      Leaf* l = leaf_of(s.entry.tensor.impl());
      if (!reached[i++] || !l || l->written) continue;
      l->written = true;
      l->scaler = kAnyScaler;
      ++l->backwards;
      l->grad->cell->wrote(mode.frame);
    }
}

void Arenas::attach_half(Arena& a, StorageRef memory, VersionCell* cells, DType t) noexcept {
  a.half = std::move(memory);
  a.half_dtype = t;
  for (size_t i = 0; i < a.slots.size(); ++i) {
    Slot& s = a.slots[i];
    Geometry g = s.entry.tensor.impl()->geometry;
    g.dtype = t;
    s.half = tensor_over(a.half.get(), s.offset * item_size(t), g);
    s.half.impl()->cell = &cells[i];
  }
}

void Arenas::keep_half(DType t) {
  struct Made {
    Arena* arena;
    CellStorage memory;
  };
  std::vector<Made> made;
  for (Arena& a : arenas_)
    if (a.dtype == DType::f32 && !(a.half && a.half_dtype == t))
      made.push_back({&a, zeroed_with_cells(device_, a.elements * item_size(t), a.slots.size(),
                                            Category::parameter)});
  for (Made& m : made) attach_half(*m.arena, std::move(m.memory.storage), m.memory.cells, t);
  generation_ += !made.empty();
  for (const Arena& a : arenas_) {
    if (!a.half) continue;
    for (const Slot& s : a.slots) {
      const TensorImpl* p = s.entry.tensor.impl();
      Leaf* l = leaf_of(p);
      if (!l || (l->half == s.half.impl() && l->half_version == p->cell->version)) continue;
      wt::detail::copy_into(s.half.impl(), p);
      if (l->half != s.half.impl()) {
        if (l->half) release(l->half);
        l->half = wt::detail::retained(s.half.impl());
      }
      l->half_version = p->cell->version;
    }
  }
}

void Arenas::bump_versions() noexcept {
  for (Arena& a : arenas_)
    for (Slot& s : a.slots) {
      TensorImpl* p = s.entry.tensor.impl();
      Leaf* l = leaf_of(p);
      if (!l || !l->written) continue;
      const bool had_half = l->half && l->half_version == p->cell->version;
      p->cell->wrote(mode.frame);
      s.stepped = l->grad->cell->version;
      s.backwards = l->backwards;
      // The update wrote the copy too, or neither.
      if (!had_half) continue;
      l->half->cell->wrote(mode.frame);
      l->half_version = p->cell->version;
    }
}

i64 Arenas::partials() const {
  i64 n = 0;
  for (const Arena& a : arenas_)
    n += norm_chunks(a.state_elements()) + i64(a.slots.size() + a.pieces.size());
  return n;
}

void Arenas::zero_unwritten() {
  for (const Arena& a : arenas_)
    for (const Slot& s : a.slots) {
      const Leaf* l = leaf_of(s.entry.tensor.impl());
      if (!device_.is_meta && !(l && l->written))
        fill_zero(a.at(a.grad, s.offset), device_, s.padded * item_size(a.dtype));
    }
}

}  // namespace wt::optim::detail
