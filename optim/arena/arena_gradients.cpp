// Which gradients of the arenas were written, and what becomes of them.
#include <algorithm>
#include <cmath>
#include <utility>

#include "warptape/autograd/backward.h"
#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/optim/arena.h"

namespace wt::optim::detail {

const std::vector<Run>& Arenas::collect() {
  runs_.clear();
  Written w;  // a local: members would be stored for every slot
  u32 scaler = 0;
  for (const Arena& a : arenas_) {
    Run* open = nullptr;
    for (const Slot& s : a.slots) {
      const Leaf* l = leaf_of(s.entry.tensor.impl());
      if (!l || !l->written) {
        open = nullptr;
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
      w.fresh |= s.cell->version != s.stepped;
      w.backwards = std::max(w.backwards, l->backwards - s.backwards);
      if (open)
        open->count += s.padded;
      else
        open = &runs_.emplace_back(Run{&a, s.offset, s.padded, s.offset});
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
  for (const Arena& a : arenas_) {
    if (a.parts_gradients && !device_.is_meta)
      fill_zero(a.grad->data, device_, a.state_elements() * item_size(a.dtype));
    for (const Slot& s : a.slots) {
      Leaf* l = leaf_of(s.entry.tensor.impl());
      if (!l || !l->written || !(l->grad || a.parts_gradients)) continue;
      if (!a.parts_gradients && !device_of(l->grad).is_meta)
        fill_zero(l->grad->data, device_of(l->grad),
                  l->grad->geometry.numel * item_size(l->grad->geometry.dtype));
      s.cell->wrote(mode.frame);
      l->invalid = l->from_f16 = false;
      l->scaler = kAnyScaler;
    }
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
      s.cell->wrote(mode.frame);
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
      s.cell->wrote(mode.frame);
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
      s.stepped = s.cell->version;
      s.backwards = l->backwards;
      // The update wrote the copy too, or neither.
      if (!had_half) continue;
      l->half->cell->wrote(mode.frame);
      l->half_version = p->cell->version;
    }
}

void Arenas::zero_unwritten() {
  if (parts_gradients()) return;
  for (const Arena& a : arenas_)
    for (const Slot& s : a.slots) {
      const Leaf* l = leaf_of(s.entry.tensor.impl());
      if (!device_.is_meta && !(l && l->written))
        fill_zero(a.at(a.grad, s.offset), device_, s.padded * item_size(a.dtype));
    }
}

// --- gradients in parts ---

void Arenas::lend_gradient(const Slot& s, Storage* memory, i64 byte_offset) {
  const TensorImpl* p = s.entry.tensor.impl();
  Leaf* l = leaf_of(p);
  WT_INTERNAL_ASSERT(l && !l->grad);
  auto& grad = const_cast<Tensor&>(s.grad);
  grad = tensor_over(memory, byte_offset, p->geometry);
  grad.impl()->cell = s.cell;
  l->grad = wt::detail::retained(grad.impl());
}

void Arenas::take_back_gradient(const Slot& s) noexcept {
  if (!s.grad.defined()) return;
  Leaf* l = leaf_of(s.entry.tensor.impl());
  if (l && l->grad == s.grad.impl()) release(std::exchange(l->grad, nullptr));
  const_cast<Tensor&>(s.grad) = Tensor();
}

std::string Arenas::first_non_finite() const {
  const auto is_finite = [](const Tensor& t) {
    const std::vector<double> values = t.to_vector<double>();
    return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
  };
  for (const auto& [a, s] : in_order()) {
    const Leaf* l = leaf_of(s->entry.tensor.impl());
    if (!l || !l->written) continue;
    for (const Piece& p : a->pieces) {
      const i64 from = std::max(s->offset, p.begin);
      const i64 n = std::min(s->offset + s->entry.tensor.numel(), p.begin + p.count) - from;
      if (n <= 0) continue;
      const i64 at = a->parts_gradients ? p.state + from - p.begin : from;
      if (!is_finite(flat_over(a->grad.get(), at * item_size(a->dtype), n, a->dtype)))
        return s->entry.name;
    }
  }
  return "";
}

}  // namespace wt::optim::detail
