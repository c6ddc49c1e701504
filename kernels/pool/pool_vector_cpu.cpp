// Pooling on the cpu, f32 and f64, along vectors: of channels where they lie side by side (any
// window), of pixels for windows of 2 x 2 in steps of 2 where rows have no gaps; other windows over
// such rows are pool/pool_planes_cpu.cpp's. The additions are those of the reference, in its order,
// for windows that do not overlap.
#include "warptape/kernels/pool/pool_cpu.h"
#include "warptape/kernels/pool/pool_windows.h"

namespace wt {
namespace {

// --- which way ---

bool in_channels(const PoolShape& s, const ConvTensor& x, const ConvTensor& y,
                 const ConvTensor& taps) {
  return s.channels > 1 && s.taps() <= 256 && x.channel == 1 && y.channel == 1 &&
         (taps.channel == 1 || !taps.data);
}
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
bool takes(DType t) { return t == DType::f32 || t == DType::f64; }

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

template <class T, bool Max>
void channels_forward(const PoolShape& s, const ConvTensor& x, const ConvTensor& y,
                      const ConvTensor& taps) {
  const auto call = Max ? pool_kernels<T>().max_channels : pool_kernels<T>().avg_channels;
  pool_tasks(s, s.batch * s.out[0] * s.out[1], [&](i64 i, int) {
    i64 q[3] = {i / s.out[1] % s.out[0], i % s.out[1], 0};
    const i64 n = i / s.out[1] / s.out[0];
    for (; q[2] < s.out[2]; ++q[2]) {
      const Taps window(s, x, q);
      T* const to = pool_at<T>(y, n, 0, q[0], q[1], q[2]);
      u8* const tap = pool_tap_at(taps, n, 0, q[0], q[1], q[2]);
      if (window.n == 0) {
        std::fill_n(to, s.channels, T(-__builtin_inf()));
        if (tap) std::fill_n(tap, s.channels, u8(0));
        continue;
      }
      call({pool_at<T>(x, n, 0, 0, 0, 0), to, tap, window.offsets, window.taps, window.n,
            s.channels, Max ? 1 : T(pool_divisor(s, q))});
    }
  });
}

// Windows in order, added into zeros; `first`: they do not overlap and leave no gap.
template <class T, bool Max>
void channels_backward(const PoolShape& s, const ConvTensor& gx, const ConvTensor& gy,
                       const ConvTensor& taps) {
  const auto call = Max ? pool_kernels<T>().max_channels_back : pool_kernels<T>().avg_channels_back;
  bool tiled = !s.adaptive;
  for (int d = 0; d < 3; ++d)
    tiled &= s.kernel[d] == s.stride[d] && s.dilation[d] == 1 && s.padding[d] == 0 &&
             s.out[d] * s.stride[d] == s.in[d];
  pool_tasks(s, s.batch, [&](i64 n, int) {
    i64 q[3];
    if (!tiled)
      for (q[0] = 0; q[0] < s.in[0]; ++q[0])
        for (q[1] = 0; q[1] < s.in[1]; ++q[1])
          for (q[2] = 0; q[2] < s.in[2]; ++q[2])
            std::fill_n(pool_at<T>(gx, n, 0, q[0], q[1], q[2]), s.channels, T(0));
    for (q[0] = 0; q[0] < s.out[0]; ++q[0])
      for (q[1] = 0; q[1] < s.out[1]; ++q[1])
        for (q[2] = 0; q[2] < s.out[2]; ++q[2]) {
          const Taps window(s, gx, q);
          call({pool_at<T>(gx, n, 0, 0, 0, 0), pool_at<T>(gy, n, 0, q[0], q[1], q[2]),
                pool_tap_at(taps, n, 0, q[0], q[1], q[2]), window.offsets, window.taps, window.n,
                s.channels, Max ? 1 : T(pool_divisor(s, q)), tiled});
        }
  });
}

// --- rows ---

// f(n, c, z) for every plane.
template <class F>
void for_planes(const PoolShape& s, F&& f) {
  pool_tasks(s, s.batch * s.channels * s.in[0], [&](i64 i, int) {
    f(i / s.in[0] / s.channels, i / s.in[0] % s.channels, i % s.in[0]);
  });
}

template <class T, bool Max>
void rows_forward(const PoolShape& s, const ConvTensor& x, const ConvTensor& y,
                  const ConvTensor& taps) {
  const auto call = Max ? pool_kernels<T>().max_rows : pool_kernels<T>().avg_rows;
  for_planes(s, [&](i64 n, i64 c, i64 z) {
    const T* const top = pool_at<T>(x, n, c, z, 0, 0);
    call({top, top + x.at[1], pool_at<T>(y, n, c, z, 0, 0), pool_tap_at(taps, n, c, z, 0, 0),
          s.out[2], s.out[1], 2 * x.at[1], y.at[1], taps.at[1]});
  });
}

template <class T, bool Max>
void rows_backward(const PoolShape& s, const ConvTensor& gx, const ConvTensor& gy,
                   const ConvTensor& taps) {
  const auto call = Max ? pool_kernels<T>().max_rows_back : pool_kernels<T>().avg_rows_back;
  for_planes(s, [&](i64 n, i64 c, i64 z) {
    T* const top = pool_at<T>(gx, n, c, z, 0, 0);
    call({top, top + gx.at[1], pool_at<T>(gy, n, c, z, 0, 0), pool_tap_at(taps, n, c, z, 0, 0),
          s.out[2], s.out[1], 2 * gx.at[1], gy.at[1], taps.at[1]});
    for (i64 row = 0; row < 2 * s.out[1] && 2 * s.out[2] < s.in[2]; ++row) {
      T* const from = pool_at<T>(gx, n, c, z, row, 0);
      std::fill(from + 2 * s.out[2], from + s.in[2], T(0));
    }
    for (i64 row = 2 * s.out[1]; row < s.in[1]; ++row)
      std::fill_n(pool_at<T>(gx, n, c, z, row, 0), s.in[2], T(0));
  });
}

// f.template operator()<T>()
template <class F>
void dispatch(const PoolShape& s, F&& f) {
  s.dtype == DType::f32 ? f.template operator()<float>() : f.template operator()<double>();
}
constexpr const char* kDtypes = "takes f32 and f64 only";

const char* forward_why_not(const PoolShape& s, bool max, const ConvTensor& x, const ConvTensor& y,
                            const ConvTensor& taps) {
  if (!takes(s.dtype)) return kDtypes;
  if (in_channels(s, x, y, taps) || in_pairs(s, x, y, taps)) return nullptr;
  return pool_planes_forward_why_not(s, max, x, y, taps);
}
const char* backward_why_not(const PoolShape& s, const ConvTensor& gx, const ConvTensor& gy,
                             const ConvTensor& taps) {
  if (!takes(s.dtype)) return kDtypes;
  if (in_channels(s, gx, gy, taps) || in_pairs(s, gx, gy, taps)) return nullptr;
  return pool_planes_backward_why_not(s, gx, gy, taps);
}
bool by_planes(const PoolShape& s, const ConvTensor& x, const ConvTensor& y,
               const ConvTensor& taps) {
  return !in_channels(s, x, y, taps) && !in_pairs(s, x, y, taps);
}

template <bool Max>
void forward(const PoolShape& s, const ConvTensor& x, const ConvTensor& y, const ConvTensor& taps,
             void* workspace) {
  dispatch(s, [&]<class T>() {
    if (in_pairs(s, x, y, taps)) return rows_forward<T, Max>(s, x, y, taps);
    if (in_channels(s, x, y, taps)) return channels_forward<T, Max>(s, x, y, taps);
    pool_planes_forward<T, Max>(s, x, y, taps, workspace);
  });
}
template <bool Max>
void backward(const PoolShape& s, const ConvTensor& gx, const ConvTensor& gy,
              const ConvTensor& taps, void* workspace) {
  dispatch(s, [&]<class T>() {
    if (in_pairs(s, gx, gy, taps)) return rows_backward<T, Max>(s, gx, gy, taps);
    if (in_channels(s, gx, gy, taps)) return channels_backward<T, Max>(s, gx, gy, taps);
    pool_planes_backward<T, Max>(s, gx, gy, taps, workspace);
  });
}

}  // namespace

const char* max_pool_forward_why_not(const MaxPoolForwardArgs& a) {
  return a.indices.data ? "makes no indices" : forward_why_not(a.shape, true, a.x, a.y, a.taps);
}
i64 max_pool_forward_workspace(const MaxPoolForwardArgs& a) {
  return by_planes(a.shape, a.x, a.y, a.taps) ? pool_planes_forward_workspace(a.shape) : 0;
}
void max_pool_forward_vector(const MaxPoolForwardArgs& a, const Launch& l) {
  forward<true>(a.shape, a.x, a.y, a.taps, l.workspace);
}

const char* max_pool_backward_why_not(const MaxPoolBackwardArgs& a) {
  return backward_why_not(a.shape, a.gx, a.gy, a.taps);
}
void max_pool_backward_vector(const MaxPoolBackwardArgs& a, const Launch&) {
  backward<true>(a.shape, a.gx, a.gy, a.taps, nullptr);
}

const char* avg_pool_forward_why_not(const AvgPoolForwardArgs& a) {
  return forward_why_not(a.shape, false, a.x, a.y, {});
}
i64 avg_pool_forward_workspace(const AvgPoolForwardArgs& a) {
  return by_planes(a.shape, a.x, a.y, {}) ? pool_planes_forward_workspace(a.shape) : 0;
}
void avg_pool_forward_vector(const AvgPoolForwardArgs& a, const Launch& l) {
  forward<false>(a.shape, a.x, a.y, {}, l.workspace);
}

const char* avg_pool_backward_why_not(const AvgPoolBackwardArgs& a) {
  return backward_why_not(a.shape, a.gx, a.gy, {});
}
i64 avg_pool_backward_workspace(const AvgPoolBackwardArgs& a) {
  return by_planes(a.shape, a.gx, a.gy, {}) ? pool_planes_backward_workspace(a.shape) : 0;
}
void avg_pool_backward_vector(const AvgPoolBackwardArgs& a, const Launch& l) {
  backward<false>(a.shape, a.gx, a.gy, {}, l.workspace);
}

}  // namespace wt
