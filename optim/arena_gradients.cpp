// Which gradients of the arenas were written, and what becomes of them.
#include <algorithm>

#include "warptape/core/at_line.h"
#include "warptape/core/copy_bytes.h"
#include "warptape/core/error.h"
#include "warptape/optim/arena.h"

namespace wt::optim::detail {

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

void Arenas::zero_unwritten() {
  for (const Arena& a : arenas_)
    for (const Slot& s : a.slots) {
      const Leaf* l = leaf_of(s.entry.tensor.impl());
      if (!device_.is_meta && !(l && l->written))
        fill_zero(a.at(a.grad, s.offset), device_, s.padded * item_size(a.dtype));
    }
}

}  // namespace wt::optim::detail
