// Pooling of 16-bit floats on the cpu: an image, or a few planes of it, at a time is widened to an
// f32 copy, which goes through the f32 variants and is rounded once. The copies stay in the cache.
#include <algorithm>

#include "warptape/kernels/cpu/image_copies.h"
#include "warptape/kernels/dispatch/run_inner.h"
#include "warptape/kernels/pool/pool_cpu.h"

namespace wt {

namespace {

// Of planes that are widened at a time. Copies of 128 KiB stay in a second-level cache; pieces as
// small as the first-level one cost more to begin than they save.
constexpr i64 kPieceElements = 1 << 15;

// What is read and what is written of a call.
struct Ends {
  ConvTensor *from, *to;
  bool from_x;  // else from y's side
};
Ends ends_of(MaxPoolForwardArgs& a) { return {&a.x, &a.y, true}; }
Ends ends_of(MaxPoolBackwardArgs& a) { return {&a.gy, &a.gx, false}; }
Ends ends_of(AvgPoolForwardArgs& a) { return {&a.x, &a.y, true}; }
Ends ends_of(AvgPoolBackwardArgs& a) { return {&a.gy, &a.gx, false}; }
ConvTensor* taps_of(MaxPoolForwardArgs& a) { return &a.taps; }
ConvTensor* taps_of(MaxPoolBackwardArgs& a) { return &a.taps; }
ConvTensor* taps_of(AvgPoolForwardArgs&) { return nullptr; }
ConvTensor* taps_of(AvgPoolBackwardArgs&) { return nullptr; }

const char* vector_why_not(const MaxPoolForwardArgs& a) { return max_pool_forward_why_not(a); }
const char* vector_why_not(const MaxPoolBackwardArgs& a) { return max_pool_backward_why_not(a); }
const char* vector_why_not(const AvgPoolForwardArgs& a) { return avg_pool_forward_why_not(a); }
const char* vector_why_not(const AvgPoolBackwardArgs& a) { return avg_pool_backward_why_not(a); }

ImageExtent extent(const PoolShape& s, bool x) {
  return x ? ImageExtent{s.channels, {s.in[0], s.in[1], s.in[2]}}
           : ImageExtent{s.channels, {s.out[0], s.out[1], s.out[2]}};
}
void move_to(ConvTensor& t, i64 elements, i64 item) {
  if (t.data) t.data = static_cast<char*>(t.data) + elements * item;
}
i64 tap_size(const PoolShape& s) { return s.taps() <= 256 ? 1 : 4; }

// Channels [c, c + n) of image `image`.
template <class Args>
Args piece_of(const Args& a, i64 image, i64 c, i64 n) {
  Args piece = a;
  piece.shape.batch = 1;
  piece.shape.channels = n;
  const auto place = [&](const ConvTensor& t) { return image * t.batch + c * t.channel; };
  const Ends ends = ends_of(piece);
  for (ConvTensor* t : {ends.from, ends.to}) move_to(*t, place(*t), 2);
  if (ConvTensor* taps = taps_of(piece)) move_to(*taps, place(*taps), tap_size(a.shape));
  return piece;
}
// The same on f32 copies at `room`; null for sizes alone.
template <class Args>
Args widened(const Args& a, float* room) {
  Args w = a;
  w.shape.dtype = DType::f32;
  const Ends ends = ends_of(w);
  const ImageExtent from = extent(a.shape, ends.from_x), to = extent(a.shape, !ends.from_x);
  *ends.from = image_copy(*ends.from, from, room);
  *ends.to = image_copy(*ends.to, to, room ? room + from.numel() : nullptr);
  return w;
}

// Channels of a piece: all where they lie side by side.
template <class Args>
i64 piece_channels(Args a) {
  const Ends ends = ends_of(a);
  if (ends.from->channel == 1 && ends.to->channel == 1) return a.shape.channels;
  const i64 plane = (a.shape.x_numel() + a.shape.y_numel()) / (a.shape.batch * a.shape.channels);
  return std::clamp<i64>(kPieceElements / std::max<i64>(plane, 1), 1, a.shape.channels);
}
// Bytes of a worker's copies, and of its piece's own workspace.
struct Room {
  i64 copies, inner;
};
template <class Args>
Room room_of(const Args& a) {
  const Args piece = widened(piece_of(a, 0, 0, piece_channels(a)), nullptr);
  const PoolShape& s = piece.shape;
  return {((s.x_numel() + s.y_numel()) * 4 + 63) / 64 * 64,
          (inner_workspace(piece) + 63) / 64 * 64};
}

template <class T, class Args>
void run_piece(Args piece, float* room, char* inner, const Launch& l) {
  Args w = widened(piece, room);
  const Ends narrow = ends_of(piece), wide = ends_of(w);
  convert_image<float, T>(*wide.from, *narrow.from, extent(piece.shape, narrow.from_x), 0);
  inner_run(w, l, inner);
  convert_image<T, float>(*narrow.to, *wide.to, extent(piece.shape, !narrow.from_x), 0);
}

}  // namespace

template <class Args>
const char* pool_widened_why_not(const Args& a) {
  if (a.shape.dtype != DType::f16 && a.shape.dtype != DType::bf16) return "takes f16 and bf16 only";
  return vector_why_not(widened(piece_of(a, 0, 0, a.shape.channels), nullptr));
}

template <class Args>
i64 pool_widened_workspace(const Args& a) {
  if (a.shape.x_numel() + a.shape.y_numel() == 0) return 0;
  const Room room = room_of(a);
  return pool_threads(a.shape) * (room.copies + room.inner);
}

template <class Args>
void pool_widened(const Args& a, const Launch& l) {
  if (a.shape.x_numel() + a.shape.y_numel() == 0) return;
  const Room room = room_of(a);
  const i64 step = piece_channels(a), pieces = (a.shape.channels + step - 1) / step;
  pool_tasks(a.shape, a.shape.batch * pieces, [&](i64 i, int worker) {
    const i64 c = i % pieces * step;
    const Args piece = piece_of(a, i / pieces, c, std::min(step, a.shape.channels - c));
    char* const own = static_cast<char*>(l.workspace) + worker * (room.copies + room.inner);
    char* const inner = own + room.copies;
    a.shape.dtype == DType::f16
        ? run_piece<Half>(piece, reinterpret_cast<float*>(own), inner, l)
        : run_piece<BFloat16>(piece, reinterpret_cast<float*>(own), inner, l);
  });
}

#define WT_POOL_WIDENED(Args)                             \
  template const char* pool_widened_why_not(const Args&); \
  template i64 pool_widened_workspace(const Args&);       \
  template void pool_widened(const Args&, const Launch&);
WT_POOL_WIDENED(MaxPoolForwardArgs)
WT_POOL_WIDENED(MaxPoolBackwardArgs)
WT_POOL_WIDENED(AvgPoolForwardArgs)
WT_POOL_WIDENED(AvgPoolBackwardArgs)
#undef WT_POOL_WIDENED

}  // namespace wt
