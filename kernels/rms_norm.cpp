// Root mean square normalisation on the cpu.
#include "warptape/kernels/rms_norm.h"

#include <cmath>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt {
namespace {

Rows<2> rows_of(const RmsNormForwardArgs& a) {
  return rows_along<2>(a.x.ndim() - 1, {{a.y}, {a.x}});
}
Rows<3> rows_of(const RmsNormBackwardInputArgs& a) {
  return rows_along<3>(a.x.ndim() - 1, {{a.gx}, {a.gy}, {a.x}});
}

void forward_reference(const RmsNormForwardArgs& a, const Launch&) {
  const auto rows = rows_of(a);
  const i64 n = rows.length, ys = rows.step[0], xs = rows.step[1];
  if (n == 0) return;
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const T* weight = a.weight.as<const T>();
    A* stats = a.stats.as<A>();
    for (i64 row = 0; row < rows.count; ++row) {
      T* y = a.y.as<T>() + rows.start(0, row);
      const T* x = a.x.as<const T>() + rows.start(1, row);
      double squares = 0;
      for (i64 i = 0; i < n; ++i) squares += double(A(x[i * xs])) * double(A(x[i * xs]));
      const A rstd = A(1 / std::sqrt(squares / double(n) + a.eps));
      for (i64 i = 0; i < n; ++i)
        y[i * ys] = T(A(x[i * xs]) * rstd * (weight ? A(weight[i]) : A(1)));
      if (stats) stats[row] = 0, stats[rows.count + row] = rstd;
    }
  });
}

void backward_input_reference(const RmsNormBackwardInputArgs& a, const Launch&) {
  const auto rows = rows_of(a);
  const i64 n = rows.length, *step = rows.step;
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const T* weight = a.weight.as<const T>();
    for (i64 row = 0; row < rows.count; ++row) {
      T* gx = a.gx.as<T>() + rows.start(0, row);
      const T* gy = a.gy.as<const T>() + rows.start(1, row);
      const T* x = a.x.as<const T>() + rows.start(2, row);
      const A rstd = a.stats.as<const A>()[rows.count + row];
      const auto g = [&](i64 i) { return A(gy[i * step[1]]) * (weight ? A(weight[i]) : A(1)); };
      double product = 0;
      for (i64 i = 0; i < n; ++i) product += double(g(i)) * double(A(x[i * step[2]]) * rstd);
      const A mean = A(product / double(n));
      for (i64 i = 0; i < n; ++i)
        gx[i * step[0]] = T(rstd * (g(i) - A(x[i * step[2]]) * rstd * mean));
    }
  });
}

#if WT_X86
template <class Args>
const char* why_not_avx2(const Args& a) {
  if (cpu_isa() < kAvx2) return kNoAvx2;
  if (a.x.dtype() != DType::f32) return "f32 only";
  const auto rows = rows_of(a);
  for (i64 step : rows.step)
    if (step != 1 && rows.length > 1) return "the elements of a row must be neighbours";
  return nullptr;
}

// Elements [i, i + 8) of a row of n, 0 past its end.
WT_AVX2_HOT f32x8 eight_of(const float* p, i64 i, i64 n) {
  return i + 8 <= n ? load8(p + i) : load_part8(p + i, n - i, 0);
}
WT_AVX2_HOT f32x8 weighted(f32x8 v, const float* weight, i64 i, i64 n) {
  return weight ? v * eight_of(weight, i, n) : v;
}
template <bool Stream>
WT_AVX2_HOT void put_eight(float* p, i64 i, i64 n, f32x8 v) {
  if (i + 8 <= n)
    put8<Stream>(p + i, v);
  else
    store_part8(p + i, v, n - i);
}
// Rows so long that their loads and stores take turns, of a tensor beyond the caches.
bool streams(const View& out, const float* row, i64 n) {
  return n >= 1024 && out.bytes() >= (i64(64) << 20) && reinterpret_cast<uintptr_t>(row) % 32 == 0;
}

// The sum of f(i), eight lanes at a time, in parts whose sums are added in double.
template <class F>
WT_AVX2_HOT double sum_in_parts(i64 n, const F& f) {
  constexpr i64 kPart = 4096;
  double total = 0;
  for (i64 begin = 0; begin < n; begin += kPart) {
    const i64 end = begin + kPart < n ? begin + kPart : n;
    f32x8 s0 = splat8(0), s1 = s0;
    i64 i = begin;
    for (; i + 16 <= end; i += 16) s0 += f(i), s1 += f(i + 8);
    for (; i < end; i += 8) s0 += f(i);
    total += double(sum_of8(s0 + s1));
  }
  return total;
}

template <bool Stream>
WT_TARGET_AVX2 void scale_row(float* y, const float* x, const float* weight, i64 n, float rstd) {
  for (i64 i = 0; i < n; i += 8) {
    if constexpr (Stream) expect8(x + n + i);  // the next row: else nothing is read meanwhile
    put_eight<Stream>(y, i, n, weighted(eight_of(x, i, n) * rstd, weight, i, n));
  }
}
WT_TARGET_AVX2 double squares_of(const float* x, i64 n) {
  return sum_in_parts(n, [&](i64 i) WT_TARGET_AVX2 {
    const f32x8 v = eight_of(x, i, n);
    return v * v;
  });
}
void forward_avx2(const RmsNormForwardArgs& a, const Launch&) {
  const auto rows = rows_of(a);
  const i64 n = rows.length;
  const float* weight = a.weight.as<const float>();
  float* stats = a.stats.as<float>();
  if (n == 0) return;
  for (i64 row = 0; row < rows.count; ++row) {
    float* y = a.y.as<float>() + rows.start(0, row);
    const float* x = a.x.as<const float>() + rows.start(1, row);
    const float rstd = float(1 / std::sqrt(squares_of(x, n) / double(n) + a.eps));
    (streams(a.y, y, n) ? scale_row<true> : scale_row<false>)(y, x, weight, n, rstd);
    if (stats) stats[row] = 0, stats[rows.count + row] = rstd;
  }
  _mm_sfence();
}

template <bool Stream>
WT_TARGET_AVX2 void backward_row(float* gx, const float* gy, const float* x, const float* weight,
                                 i64 n, float rstd) {
  const double product = sum_in_parts(n, [&](i64 i) WT_TARGET_AVX2 {
    return weighted(eight_of(gy, i, n), weight, i, n) * eight_of(x, i, n);
  });
  const float slope = float(product * double(rstd) * double(rstd) / double(n));
  for (i64 i = 0; i < n; i += 8) {
    if constexpr (Stream) expect8(gy + n + i), expect8(x + n + i);
    const f32x8 g = weighted(eight_of(gy, i, n), weight, i, n);
    put_eight<Stream>(gx, i, n, (g - eight_of(x, i, n) * slope) * rstd);
  }
}
void backward_input_avx2(const RmsNormBackwardInputArgs& a, const Launch&) {
  const auto rows = rows_of(a);
  const float *gy = a.gy.as<const float>(), *x = a.x.as<const float>();
  const float *weight = a.weight.as<const float>(), *stats = a.stats.as<const float>();
  for (i64 row = 0; row < rows.count; ++row) {
    float* gx = a.gx.as<float>() + rows.start(0, row);
    (streams(a.gx, gx, rows.length) ? backward_row<true>
                                    : backward_row<false>)(gx, gy + rows.start(1, row),
                                                           x + rows.start(2, row), weight,
                                                           rows.length, stats[rows.count + row]);
  }
  _mm_sfence();
}
#endif

}  // namespace

WT_VARIANTS(cpu, rms_norm_forward, RmsNormForwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = why_not_avx2<RmsNormForwardArgs>,
                        .launch = forward_avx2){
                .name = "reference", .rank = 10, .launch = forward_reference});
WT_VARIANTS(cpu, rms_norm_backward_input, RmsNormBackwardInputArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20,
                        .why_not = why_not_avx2<RmsNormBackwardInputArgs>,
                        .launch = backward_input_avx2){
                .name = "reference", .rank = 10, .launch = backward_input_reference});

}  // namespace wt
