#include "warptape/optim/arena/arena_state.h"

#include <algorithm>

#include "warptape/core/memory/copy_bytes.h"

namespace wt::optim::detail {

void copy_if_real(void* to, Device to_device, const void* from, Device from_device, i64 bytes) {
  if (!to_device.is_meta && !from_device.is_meta)
    copy_bytes(to, to_device, from, from_device, bytes);
}

// How large it is, where its slots begin, and of which part the state is kept.
void lay_out_state(Arena& a, const Sharding* s) {
  if (!s) {
    a.pieces = whole(a);
    return;
  }
  std::vector<i64> sizes;
  for (const Slot& slot : a.slots) sizes.push_back(slot.padded);
  a.ranges = s->cut(sizes, item_size(a.dtype));
  a.parts_gradients = s->parts_gradients();
  i64 state = 0;
  for (const Sharding::Range& r : a.ranges) {
    i64 at = r.begin;
    for (size_t i = r.first_slot; i < r.first_slot + r.n_slots; ++i) {
      a.slots[i].offset = at;
      at += a.slots[i].padded;
    }
    a.elements = r.begin + r.count;
    a.slots[r.first_slot + r.n_slots - 1].padded += a.elements - at;
    const i64 piece = r.count / s->world();
    a.pieces.push_back({r.begin + piece * s->rank(), piece, state});
    state += piece;
  }
}

std::vector<Piece> whole(const Arena& a) { return {{0, a.elements, 0}}; }

namespace {

// The elements that two pieces have in common: f(first of them, how many).
template <class F>
void for_common(i64 begin, i64 count, const Piece& p, const F& f) {
  const i64 from = std::max(begin, p.begin);
  const i64 n = std::min(begin + count, p.begin + p.count) - from;
  if (n > 0) f(from, n);
}

}  // namespace

void copy_kept(const Kept& to, const Kept& from) {
  const i64 size = item_size(to.arena.dtype);
  for (const Slot& t : to.arena.slots) {
    const auto f = std::lower_bound(from.arena.slots.begin(), from.arena.slots.end(), t.order,
                                    [](const Slot& s, i64 order) { return s.order < order; });
    if (f == from.arena.slots.end() || f->order != t.order) continue;
    const i64 moved = f->offset - t.offset;
    for (const Piece& tp : to.pieces)
      for_common(t.offset, t.entry.tensor.numel(), tp, [&](i64 begin, i64 n) {
        for (const Piece& fp : from.pieces)
          for_common(begin + moved, n, fp, [&](i64 at, i64 count) {
            copy_if_real(to.arena.at(to.memory, tp.state + at - moved - tp.begin), to.device,
                         from.arena.at(from.memory, fp.state + at - fp.begin), from.device,
                         count * size);
          });
      });
  }
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
  return flat_over(memory, 0, a.elements, t);
}

// Range by range: the device needs room for one of them, and the host for all, where it is wanted.
StorageRef Arenas::gather_state(const Arena& a, int k, bool here) const {
  const i64 size = item_size(a.dtype);
  StorageRef all;
  if (here) all = zeroed(Device::cpu(), a.elements * size, Category::optimizer);
  i64 largest = 0;
  for (const Sharding::Range& r : a.ranges) largest = std::max(largest, r.count);
  const StorageRef room = zeroed(device_, largest * size, Category::optimizer);
  for (size_t i = 0; i < a.ranges.size(); ++i) {
    const Sharding::Range range{0, 0, 0, a.ranges[i].count};
    const Piece& p = a.pieces[i];
    copy_if_real(a.at(room, p.begin - a.ranges[i].begin), device_, a.at(a.state[k], p.state),
                 device_, p.count * size);
    sharding_->gather(flat_over(room.get(), 0, range.count, a.dtype), {&range, 1});
    if (here)
      copy_if_real(a.at(all, a.ranges[i].begin), Device::cpu(), room->data, device_,
                   range.count * size);
  }
  return all;
}

void Arenas::take_state(const Arena& a, int k, const Storage& whole) {
  const i64 size = item_size(a.dtype);
  for (const Piece& p : a.pieces)
    copy_if_real(a.at(a.state[k], p.state), device_,
                 static_cast<const char*>(whole.data) + p.begin * size, whole.device,
                 p.count * size);
}

}  // namespace wt::optim::detail
