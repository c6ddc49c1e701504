// Copies of the weights beside the arenas: their average, and their values in 16 bits.
#include "warptape/autograd/backward.h"
#include "warptape/optim/arena/arena_memory.h"
#include "warptape/optim/arena/arena_state.h"

namespace wt::optim::detail {

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

}  // namespace wt::optim::detail
