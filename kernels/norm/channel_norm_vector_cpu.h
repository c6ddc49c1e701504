// What the vector variants of the normalisation by channels are made of. Internal to
// kernels/cpu/. Either each channel of a sample lies in one piece (a plane; NCHW), or
// neighbouring elements are the channels (a row of them for each place; NHWC). Every sum has one
// order, whatever the number of threads.
#pragma once
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu/threads.h"
#include "warptape/kernels/norm/channel_norm_cpu.h"
#include "warptape/kernels/norm/channels.h"
#include "warptape/kernels/norm/norm_rows_cpu.h"

namespace wt {
#if WT_X86
namespace channel_vector {

// --- layouts ---

enum class Layout : u8 { planes, rows, other };

inline Layout layout_of(std::initializer_list<View> operands) {
  bool planes = true, rows = true;
  for (const View& v : operands) {
    planes &= v.size(2) > 1 && v.stride(2) == 1;
    rows &= v.stride(1) == 1 || v.size(1) == 1;
  }
  return planes ? Layout::planes : rows ? Layout::rows : Layout::other;
}
inline const char* why_not(const View& x, Layout layout) {
  if (cpu_isa() < kAvx2) return kNoAvx2;
  if (x.dtype() != DType::f32) return "f32 only";
  if (x.numel() == 0) return "there is no element";
  return layout == Layout::other ? "channels or what is in them must be neighbours" : nullptr;
}

inline int threads_for(const ChannelShape& s) {
  constexpr i64 kWorkAThread = 1 << 16;
  const i64 worth = s.samples * s.channels * s.size / kWorkAThread + 1;
  return int(std::min(i64(num_threads()), worth));
}
// f(begin, end) for parts of [0, n), whose results must not depend on where the parts begin.
template <class F>
void in_parts(const ChannelShape& s, i64 n, const F& f) {
  const int threads = threads_for(s), parts = int(std::min(n, i64(threads) * 4));
  parallel(threads, parts, [&](int part, int) { f(n * part / parts, n * (part + 1) / parts); });
}

// Past the caches, where what is written is not read first (put8).
inline bool streams(const View& out, i64 run) {
  return run >= 8 && run % 8 == 0 && out.bytes() >= (i64(64) << 20) &&
         reinterpret_cast<uintptr_t>(out.data) % 32 == 0 && out.stride(0) % 8 == 0 &&
         (out.stride(1) == 1 || out.stride(1) % 8 == 0) &&
         (out.stride(2) == 1 || out.stride(2) % 8 == 0);
}

// Of rows of channels: pieces of rows, whose sums are kept apart and then added in order. Of a
// batch a piece is some rows whatever their samples; else it is a sample.
inline constexpr i64 kPieceRows = 512, kMostPieces = 64;
inline constexpr i64 kColumns =
    512;  // channels at a time: their sums stay in the first level cache
struct Pieces {
  const ChannelShape& s;
  i64 rows, count;  // of a piece; pieces
  explicit Pieces(const ChannelShape& shape) : s(shape) {
    const i64 all = s.samples * s.size;
    rows = s.batch() ? std::max(kPieceRows, (all + kMostPieces - 1) / kMostPieces) : s.size;
    count = s.batch() ? (all + rows - 1) / rows : s.samples;
  }
  i64 begin(i64 piece) const { return piece * rows; }
  i64 end(i64 piece) const { return std::min((piece + 1) * rows, s.samples * s.size); }
  i64 sample(i64 piece) const { return s.batch() ? 0 : piece; }
  // A row's channels from `column` on.
  template <class T>
  T* row(const Cells<T>& x, i64 r, i64 column) const {
    if (x.sample == s.size * x.step) return x.data + r * x.step + column;
    return x.data + r / s.size * x.sample + r % s.size * x.step + column;
  }
};

inline constexpr i64 kAhead = 2048;  // floats, by which memory is asked for before it is read

inline i64 pieces_workspace(const ChannelShape& s) {
  return 2 * Pieces(s).count * s.channels * i64(sizeof(float));
}

}  // namespace channel_vector
#endif
}  // namespace wt
