// Pooling on the cpu, f32, along vectors: of channels where they lie side by side (any window), of
// pixels for windows of 2 x 2 in steps of 2 where rows have no gaps. The additions are those of the
// reference, in its order, for windows that do not overlap.
#include <algorithm>
#include <cstring>
#include <vector>

#include "warptape/core/device.h"
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/cpu/pool.h"
#include "warptape/kernels/cpu/threads.h"

namespace wt {
namespace {

// One window of every channel: element offsets of its taps, and their numbers.
struct PoolChannels {
  const float* x;
  float* y;
  u8* tap;  // or null
  const i64* offsets;
  const i32* taps;
  int n;
  i64 channels;
  float divisor;
};
struct PoolChannelsBack {
  float* gx;
  const float* gy;
  const u8* tap;
  const i64* offsets;
  const i32* taps;
  int n;
  i64 channels;
  float divisor;
  bool first;  // nothing has been written there: the old contents are not read
};
// A row of n windows of 2 x 2.
struct PoolRows {
  const float *top, *bottom;
  float* y;
  u8* tap;  // or null
  i64 n;
  float divisor;
};
struct PoolRowsBack {
  float *top, *bottom;
  const float* gy;
  const u8* tap;
  i64 n;
  float divisor;
};
struct PoolKernels {
  void (*max_channels)(const PoolChannels&);
  void (*max_channels_back)(const PoolChannelsBack&);
  void (*avg_channels)(const PoolChannels&);
  void (*avg_channels_back)(const PoolChannelsBack&);
  void (*max_rows)(const PoolRows&);
  void (*max_rows_back)(const PoolRowsBack&);
  void (*avg_rows)(const PoolRows&);
  void (*avg_rows_back)(const PoolRowsBack&);
};

}  // namespace
}  // namespace wt

#define WT_ISA_BODY "warptape/kernels/cpu/pool_rows.inc"
#include "warptape/kernels/cpu/vector_isa.inc"

namespace wt {

namespace {

const PoolKernels& pool_kernels() {
  static constexpr PoolKernels kTables[3] = {
      baseline::pool_kernel_table(), avx2::pool_kernel_table(), avx512::pool_kernel_table()};
  return kTables[cpu_isa()];
}

constexpr i64 kWorkAThread = 1 << 16;  // elements that are worth waking a thread

template <class F>
void for_tasks(const PoolShape& s, i64 n, F&& f) {
  const i64 work = s.x_numel() + s.y_numel(), tasks = std::min<i64>(n, 1 << 12);
  parallel(int(std::min<i64>(num_threads(), work / kWorkAThread + 1)), int(tasks),
           [&](int task, int) {
             for (i64 i = n * task / tasks; i < n * (task + 1) / tasks; ++i) f(i);
           });
}

float* at(const ConvTensor& t, i64 n, i64 c, i64 z, i64 y, i64 x) {
  return static_cast<float*>(t.data) + n * t.batch + c * t.channel + z * t.at[0] + y * t.at[1] +
         x * t.at[2];
}
u8* tap_at(const ConvTensor& t, i64 n, i64 c, i64 z, i64 y, i64 x) {
  return t.data ? static_cast<u8*>(t.data) + n * t.batch + c * t.channel + z * t.at[0] +
                      y * t.at[1] + x * t.at[2]
                : nullptr;
}

// --- which way ---

bool channels_apart_by_one(const ConvTensor& t) { return t.channel == 1 || !t.data; }

// Windows of 2 x 2 that tile the plane, along rows without gaps.
bool in_pairs(const PoolShape& s, const ConvTensor& x, const ConvTensor& y,
              const ConvTensor& taps) {
  for (int d = 0; d < 3; ++d) {
    const i64 size = d == 0 ? 1 : 2;
    if (s.adaptive || s.kernel[d] != size || s.padding[d] != 0 ||
        (s.dilation[d] != 1 && size != 1) || s.stride[d] != size || s.out[d] > s.in[d] / size)
      return false;
  }
  return s.divisor == 0 && x.at[2] == 1 && y.at[2] == 1 && (!taps.data || taps.at[2] == 1);
}
const char* why_not(const PoolShape& s, const ConvTensor& x, const ConvTensor& y,
                    const ConvTensor& taps) {
  if (s.dtype != DType::f32) return "takes f32 only";
  if (s.taps() > 256) return "takes windows of at most 256 elements";
  const bool channels = s.channels > 1 && channels_apart_by_one(x) && channels_apart_by_one(y) &&
                        channels_apart_by_one(taps);
  return channels || in_pairs(s, x, y, taps)
             ? nullptr
             : "takes channels side by side, or windows of 2 x 2 in steps of 2";
}

// --- channels ---

// The taps of window q that lie inside, as offsets from an image.
struct Taps {
  i64 offsets[256];
  i32 taps[256];
  int n = 0;
  Taps(const PoolShape& s, const ConvTensor& x, const i64* q) {
    PoolWindow w[3];
    i64 step[3];
    for (int d = 0; d < 3; ++d) {
      w[d] = pool_window(s, d, q[d]);
      step[d] = s.adaptive ? 1 : s.dilation[d];
    }
    for (i64 a = w[0].begin; a < w[0].end; ++a)
      for (i64 b = w[1].begin; b < w[1].end; ++b)
        for (i64 c = w[2].begin; c < w[2].end; ++c) {
          offsets[n] = (w[0].start + a * step[0]) * x.at[0] + (w[1].start + b * step[1]) * x.at[1] +
                       (w[2].start + c * step[2]) * x.at[2];
          taps[n++] = i32((a * s.kernel[1] + b) * s.kernel[2] + c);
        }
  }
};

template <bool Max>
void channels_forward(const PoolShape& s, const ConvTensor& x, const ConvTensor& y,
                      const ConvTensor& taps) {
  const auto call = Max ? pool_kernels().max_channels : pool_kernels().avg_channels;
  for_tasks(s, s.batch * s.out[0] * s.out[1], [&](i64 i) {
    i64 q[3] = {i / s.out[1] % s.out[0], i % s.out[1], 0};
    const i64 n = i / s.out[1] / s.out[0];
    for (; q[2] < s.out[2]; ++q[2]) {
      const Taps window(s, x, q);
      float* const to = at(y, n, 0, q[0], q[1], q[2]);
      u8* const tap = tap_at(taps, n, 0, q[0], q[1], q[2]);
      if (window.n == 0) {
        std::fill_n(to, s.channels, -__builtin_inff());
        if (tap) std::fill_n(tap, s.channels, u8(0));
        continue;
      }
      call({at(x, n, 0, 0, 0, 0), to, tap, window.offsets, window.taps, window.n, s.channels,
            Max ? 1 : float(pool_divisor(s, q))});
    }
  });
}

// Windows in order, added into zeros; `first`: they do not overlap and leave no gap.
template <bool Max>
void channels_backward(const PoolShape& s, const ConvTensor& gx, const ConvTensor& gy,
                       const ConvTensor& taps) {
  const auto call = Max ? pool_kernels().max_channels_back : pool_kernels().avg_channels_back;
  bool tiled = !s.adaptive;
  for (int d = 0; d < 3; ++d)
    tiled &= s.kernel[d] == s.stride[d] && s.dilation[d] == 1 && s.padding[d] == 0 &&
             s.out[d] * s.stride[d] == s.in[d];
  for_tasks(s, s.batch, [&](i64 n) {
    i64 q[3];
    if (!tiled)
      for (q[0] = 0; q[0] < s.in[0]; ++q[0])
        for (q[1] = 0; q[1] < s.in[1]; ++q[1])
          for (q[2] = 0; q[2] < s.in[2]; ++q[2])
            std::fill_n(at(gx, n, 0, q[0], q[1], q[2]), s.channels, 0.0f);
    for (q[0] = 0; q[0] < s.out[0]; ++q[0])
      for (q[1] = 0; q[1] < s.out[1]; ++q[1])
        for (q[2] = 0; q[2] < s.out[2]; ++q[2]) {
          const Taps window(s, gx, q);
          call({at(gx, n, 0, 0, 0, 0), at(gy, n, 0, q[0], q[1], q[2]),
                tap_at(taps, n, 0, q[0], q[1], q[2]), window.offsets, window.taps, window.n,
                s.channels, Max ? 1 : float(pool_divisor(s, q)), tiled});
        }
  });
}

// --- rows ---

// f(n, c, z) for every plane.
template <class F>
void for_planes(const PoolShape& s, F&& f) {
  for_tasks(s, s.batch * s.channels * s.in[0],
            [&](i64 i) { f(i / s.in[0] / s.channels, i / s.in[0] % s.channels, i % s.in[0]); });
}

template <bool Max>
void rows_forward(const PoolShape& s, const ConvTensor& x, const ConvTensor& y,
                  const ConvTensor& taps) {
  const auto call = Max ? pool_kernels().max_rows : pool_kernels().avg_rows;
  for_planes(s, [&](i64 n, i64 c, i64 z) {
    for (i64 i = 0; i < s.out[1]; ++i)
      call({at(x, n, c, z, 2 * i, 0), at(x, n, c, z, 2 * i + 1, 0), at(y, n, c, z, i, 0),
            tap_at(taps, n, c, z, i, 0), s.out[2], 4});
  });
}

template <bool Max>
void rows_backward(const PoolShape& s, const ConvTensor& gx, const ConvTensor& gy,
                   const ConvTensor& taps) {
  const auto call = Max ? pool_kernels().max_rows_back : pool_kernels().avg_rows_back;
  for_planes(s, [&](i64 n, i64 c, i64 z) {
    for (i64 i = 0; i < s.out[1]; ++i) {
      float *const top = at(gx, n, c, z, 2 * i, 0), *const bottom = at(gx, n, c, z, 2 * i + 1, 0);
      call({top, bottom, at(gy, n, c, z, i, 0), tap_at(taps, n, c, z, i, 0), s.out[2], 4});
      std::fill(top + 2 * s.out[2], top + s.in[2], 0.0f);
      std::fill(bottom + 2 * s.out[2], bottom + s.in[2], 0.0f);
    }
    for (i64 row = 2 * s.out[1]; row < s.in[1]; ++row)
      std::fill_n(at(gx, n, c, z, row, 0), s.in[2], 0.0f);
  });
}

}  // namespace

const char* max_pool_forward_why_not(const MaxPoolForwardArgs& a) {
  if (a.indices.data) return "makes no indices";
  return why_not(a.shape, a.x, a.y, a.taps);
}
void max_pool_forward_vector(const MaxPoolForwardArgs& a, const Launch&) {
  (in_pairs(a.shape, a.x, a.y, a.taps) ? rows_forward<true> : channels_forward<true>)(a.shape, a.x,
                                                                                      a.y, a.taps);
}

const char* max_pool_backward_why_not(const MaxPoolBackwardArgs& a) {
  return why_not(a.shape, a.gx, a.gy, a.taps);
}
void max_pool_backward_vector(const MaxPoolBackwardArgs& a, const Launch&) {
  (in_pairs(a.shape, a.gx, a.gy, a.taps) ? rows_backward<true>
                                         : channels_backward<true>)(a.shape, a.gx, a.gy, a.taps);
}

const char* avg_pool_forward_why_not(const AvgPoolForwardArgs& a) {
  return why_not(a.shape, a.x, a.y, {});
}
void avg_pool_forward_vector(const AvgPoolForwardArgs& a, const Launch&) {
  (in_pairs(a.shape, a.x, a.y, {}) ? rows_forward<false> : channels_forward<false>)(a.shape, a.x,
                                                                                    a.y, {});
}

const char* avg_pool_backward_why_not(const AvgPoolBackwardArgs& a) {
  return why_not(a.shape, a.gx, a.gy, {});
}
void avg_pool_backward_vector(const AvgPoolBackwardArgs& a, const Launch&) {
  (in_pairs(a.shape, a.gx, a.gy, {}) ? rows_backward<false>
                                     : channels_backward<false>)(a.shape, a.gx, a.gy, {});
}

}  // namespace wt
