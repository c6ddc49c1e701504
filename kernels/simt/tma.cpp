// TMA on the host: a load of a box is asked for by one thread and lands when nobody can go on
// without it.
#include <cstring>

#include "warptape/kernels/simt/async_units.h"

namespace wt {
namespace simt_runtime {
namespace {

size_t box_bytes(const TensorBox& b) {
  return size_t(b.box_inner) * size_t(b.box_outer) * size_t(b.item);
}

const char* destination_problem(Exec& x, const char* to, const TensorBox& b, size_t bytes) {
  if (!in_shared_array(x, to, bytes)) return "its destination is not in a shared array";
  if (reinterpret_cast<uintptr_t>(to) % 128)
    return "its destination is not at a multiple of 128 bytes";
  // Not a rule of TMA, but nothing that reads the tile by a descriptor could follow.
  if (b.swizzled && reinterpret_cast<uintptr_t>(to) % 1024)
    return "its destination, swizzled, is not at a multiple of 1024 bytes";
  return nullptr;
}

// The elements of the matrix that a box has along one side.
struct Span {
  int64_t first, last;
};
Span inside(int at, int size, int64_t limit) {
  const int64_t end = int64_t(at) + size;
  return {at < 0 ? 0 : at, end < limit ? end : limit};
}

void check_source(Exec& x, const TensorBox& b, int inner, int outer, Loc here) {
  const Span rows = inside(outer, b.box_outer, b.outer), in = inside(inner, b.box_inner, b.inner);
  if (rows.first >= rows.last || in.first >= in.last) return;
  const char* const data = static_cast<const char*>(b.data);
  AsyncCopies& copies = x.copies;
  for (int64_t r = rows.first; r < rows.last; ++r) {
    const char* from = data + r * b.stride_bytes + in.first * b.item;
    const size_t bytes = size_t(in.last - in.first) * size_t(b.item);
    if (from >= copies.live_begin && from + bytes <= copies.live_end) continue;
    if (!device_block(from, bytes, &copies.live_begin, &copies.live_end))
      WT_FAIL(x, "tma_load_2d at %s: run %lld of its matrix lies outside live device memory (%s)",
              at(here).c_str(), (long long)r, thread_text(x, x.cur).c_str());
  }
}

}  // namespace

const TmaLoad* load_under_way(const Exec& x, const char* p, size_t bytes) {
  for (const TmaLoad& l : x.units->loads)
    if (Bytes{l.to, l.to + l.bytes}.meets(p, bytes)) return &l;
  return nullptr;
}

void land(Exec& x, size_t which) {
  AsyncUnits& u = *x.units;
  const TmaLoad l = u.loads[which];
  u.loads.erase(u.loads.begin() + std::ptrdiff_t(which));
  const TensorBox& b = l.box;
  const Span in = inside(l.inner, b.box_inner, b.inner);
  const size_t row_bytes = size_t(b.box_inner) * size_t(b.item);
  char row[2048];  // of at most 256 elements of 8 bytes; an error below abandons this frame
  for (int i = 0; i < b.box_outer; ++i) {
    const int64_t r = int64_t(l.outer) + i;
    std::memset(row, 0, row_bytes);
    if (r >= 0 && r < b.outer && in.first < in.last)
      std::memcpy(row + (in.first - l.inner) * b.item,
                  static_cast<const char*>(b.data) + r * b.stride_bytes + in.first * b.item,
                  size_t(in.last - in.first) * size_t(b.item));
    char* const to = l.to + size_t(i) * row_bytes;
    for (size_t piece = 0; piece < row_bytes; piece += 16) {
      const size_t place =
          b.swizzled ? piece ^ (reinterpret_cast<uintptr_t>(to) >> 7 & 7) << 4 : piece;
      std::memcpy(to + place, row + piece, 16);
    }
  }
  std::erase_if(u.tiles, [&](const TmaTile& t) {
    return Bytes{t.to, t.to + t.bytes}.meets(l.to, l.bytes);
  });
  u.tiles.push_back({l.to, l.bytes, b.swizzled, l.at});
  MbarrierState& barrier = u.barriers[l.barrier];
  if (race_hooks) race_hooks->tma_end(l.barrier, l.to, l.bytes, l.at);
  barrier.bytes -= int64_t(l.bytes);
  x.spins = 0;
  barrier_advanced(x, barrier);
}

}  // namespace simt_runtime

inline namespace simt {

using namespace simt_runtime;

WT_API void exec_tma_load_2d(void* destination, const TensorBox& box, int inner, int outer,
                             void* landed, Loc here) {
  Exec& x = exec();
  AsyncUnits& u = async_units(x);
  char* const to = static_cast<char*>(destination);
  const size_t bytes = box_bytes(box);
  const char* problem = tensor_box_problem(box);
  if (!problem) problem = destination_problem(x, to, box, bytes);
  if (problem)
    WT_FAIL(x, "tma_load_2d at %s: %s (%s)", at(here).c_str(), problem,
            thread_text(x, x.cur).c_str());
  MbarrierState& b = find_barrier(x, landed, "tma_load_2d", here);
  if (race_hooks) race_hooks->mbarrier_touch(b.index, x.cur, b.place, false, here);
  if (!b.fenced)
    WT_FAIL(
        x,
        "tma_load_2d at %s: TMA may not see the mbarrier made at %s yet: no mbarrier_init_fence "
        "after it (%s)",
        at(here).c_str(), at(b.made).c_str(), thread_text(x, x.cur).c_str());
  if (const TmaLoad* l = load_under_way(x, to, bytes))
    WT_FAIL(x, "tma_load_2d at %s: the one at %s, to the same bytes, is under way (%s)",
            at(here).c_str(), at(l->at).c_str(), thread_text(x, x.cur).c_str());
  if (const Wgmma* m = reader_under_way(x, to, bytes))
    WT_FAIL(x,
            "tma_load_2d at %s: it writes a tile that the wgmma at %s still reads: not every warp "
            "has waited for that (%s)",
            at(here).c_str(), at(m->at).c_str(), thread_text(x, x.cur).c_str());
  check_source(x, box, inner, outer, here);
  if (race_hooks) race_hooks->copy_begin(x.cur, to, bytes, nullptr, 0, here);
  std::memset(to, 0xff, bytes);
  u.loads.push_back({to, bytes, box, inner, outer, b.index, b.phase, here});
}

}  // namespace simt
}  // namespace wt
