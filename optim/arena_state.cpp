#include "warptape/optim/arena_state.h"

#include <algorithm>

#include "warptape/core/copy_bytes.h"

namespace wt::optim::detail {

void copy_if_real(void* to, Device to_device, const void* from, Device from_device, i64 bytes) {
  if (!to_device.is_meta && !from_device.is_meta)
    copy_bytes(to, to_device, from, from_device, bytes);
}

// How large it is, and of which part the state is kept.
void lay_out_state(Arena& a, const Sharding* s) {
  if (!s) {
    a.pieces = {{0, a.elements, 0}};
    return;
  }
  const i64 multiple = s->multiple();
  a.elements = (a.elements + multiple - 1) / multiple * multiple;
  i64 state = 0;
  for (const Sharding::Piece& p : s->pieces(a.elements)) {
    a.pieces.push_back({p.begin, p.count, state});
    state += p.count;
  }
}

namespace {

// The elements that two pieces have in common: f(first of them, how many).
template <class F>
void for_common(i64 begin, i64 count, const Piece& p, const F& f) {
  const i64 from = std::max(begin, p.begin);
  const i64 n = std::min(begin + count, p.begin + p.count) - from;
  if (n > 0) f(from, n);
}

}  // namespace

void copy_state(const Arena& to, Device to_device, const Arena& from, Device from_device, int k) {
  const i64 size = item_size(to.dtype);
  for (const Piece& t : to.pieces)
    for (const Piece& f : from.pieces)
      for_common(t.begin, t.count, f, [&](i64 begin, i64 n) {
        copy_if_real(to.at(to.state[k], t.state + begin - t.begin), to_device,
                     from.at(from.state[k], f.state + begin - f.begin), from_device, n * size);
      });
}

void Arenas::cut_steps() {
  steps_.clear();
  for (const Run& r : runs_)
    for (const Piece& p : r.arena->pieces)
      for_common(r.begin, r.count, p, [&](i64 begin, i64 n) {
        steps_.push_back({r.arena, begin, n, p.state + begin - p.begin});
      });
}

void Arenas::shard(std::shared_ptr<Sharding> s) {
  std::vector<Entry> entries;
  for (const auto& [a, slot] : in_order()) entries.push_back(slot->entry);
  std::swap(sharding_, s);
  try {
    lay_out(std::move(entries), &arenas_);
  } catch (...) {
    std::swap(sharding_, s);
    throw;
  }
}

Tensor Arenas::flat(const Arena& a, Storage* memory, DType t) {
  Geometry g{};
  set_contiguous(g, &a.elements, 1, t);
  return tensor_over(memory, 0, g);
}

StorageRef Arenas::whole_state(const Arena& a, int k) const {
  const i64 size = item_size(a.dtype);
  StorageRef whole = zeroed(device_, a.elements * size, Category::optimizer);
  for (const Piece& p : a.pieces)
    copy_if_real(a.at(whole, p.begin), device_, a.at(a.state[k], p.state), device_, p.count * size);
  if (sharding_) sharding_->gather(flat(a, whole.get(), a.dtype));
  return whole;
}

void Arenas::take_state(const Arena& a, int k, const Storage& whole) {
  const i64 size = item_size(a.dtype);
  for (const Piece& p : a.pieces)
    copy_if_real(a.at(a.state[k], p.state), device_,
                 static_cast<const char*>(whole.data) + p.begin * size, device_, p.count * size);
}

}  // namespace wt::optim::detail
