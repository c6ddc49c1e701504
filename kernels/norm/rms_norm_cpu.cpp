// Root mean square normalisation, with vectors.
#include "warptape/kernels/norm/rms_norm_cpu.h"

#include <cmath>

#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/norm/norm_rows_cpu.h"

namespace wt {
#if WT_X86
namespace {

Rows<2> rows_of(const RmsNormForwardArgs& a) {
  return rows_along<2>(a.x.ndim() - 1, {{a.y}, {a.x}});
}
Rows<3> rows_of(const RmsNormBackwardInputArgs& a) {
  return rows_along<3>(a.x.ndim() - 1, {{a.gx}, {a.gy}, {a.x}});
}

WT_AVX2_HOT f32x8 weighted(f32x8 v, const float* weight, i64 i, i64 n) {
  return weight ? v * eight(weight, i, n) : v;
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
WT_TARGET_AVX2 void rms_scale_row(float* y, const float* x, const float* weight, i64 n,
                                  float rstd) {
  for (i64 i = 0; i < n; i += 8) {
    if constexpr (Stream) expect8(x + n + i);  // the next row: else nothing is read meanwhile
    put_eight<Stream>(y, i, n, weighted(eight(x, i, n) * rstd, weight, i, n));
  }
}
WT_TARGET_AVX2 double rms_squares(const float* x, i64 n) {
  return sum_in_parts(n, [&](i64 i) WT_TARGET_AVX2 {
    const f32x8 v = eight(x, i, n);
    return v * v;
  });
}

template <bool Stream>
WT_TARGET_AVX2 void rms_backward_row(float* gx, const float* gy, const float* x,
                                     const float* weight, const float* gsum, i64 n, float rstd) {
  const double product = sum_in_parts(n, [&](i64 i) WT_TARGET_AVX2 {
    return weighted(eight(gy, i, n), weight, i, n) * eight(x, i, n);
  });
  const float slope = float(product * double(rstd) * double(rstd) / double(n));
  for (i64 i = 0; i < n; i += 8) {
    if constexpr (Stream) expect8(gy + n + i), expect8(x + n + i);
    const f32x8 g = weighted(eight(gy, i, n), weight, i, n);
    const f32x8 v = (g - eight(x, i, n) * slope) * rstd;
    put_eight<Stream>(gx, i, n, gsum ? v + eight(gsum, i, n) : v);
  }
}

}  // namespace

const char* rms_norm_forward_why_not(const RmsNormForwardArgs& a) {
  return norm_rows_why_not(a.x, rows_of(a));
}
const char* rms_norm_backward_input_why_not(const RmsNormBackwardInputArgs& a) {
  return norm_rows_why_not(a.x, rows_of(a));
}

void rms_norm_forward_rows(const RmsNormForwardArgs& a, i64 begin, i64 end) {
  enum { Y, X };  // the operands of `rows`
  const auto rows = rows_of(a);
  const i64 n = rows.length;
  const float* weight = a.weight.as<const float>();
  float* stats = a.stats.as<float>();
  if (n == 0) return;
  for (i64 row = begin; row < end; ++row) {
    float* y = rows.row(Y, a.y.as<float>(), row).data;
    const float* x = rows.row(X, a.x.as<const float>(), row).data;
    const float rstd = float(1 / std::sqrt(rms_squares(x, n) / double(n) + a.eps));
    (streams_row(a.y, y, n) ? rms_scale_row<true> : rms_scale_row<false>)(y, x, weight, n, rstd);
    if (stats) stats[row] = 0, stats[rows.count + row] = rstd;
  }
  _mm_sfence();
}

void rms_norm_backward_input_rows(const RmsNormBackwardInputArgs& a, const View& gsum, i64 begin,
                                  i64 end) {
  enum { GX, GY, X, GSum };  // the operands of `rows`
  const auto rows = rows_along<4>(a.x.ndim() - 1, {{a.gx}, {a.gy}, {a.x}, {gsum ? gsum : a.gy}});
  const float *weight = a.weight.as<const float>(), *stats = a.stats.as<const float>();
  for (i64 row = begin; row < end; ++row) {
    float* gx = rows.row(GX, a.gx.as<float>(), row).data;
    const float* gy = rows.row(GY, a.gy.as<const float>(), row).data;
    const float* x = rows.row(X, a.x.as<const float>(), row).data;
    const float* more = gsum ? rows.row(GSum, gsum.as<const float>(), row).data : nullptr;
    (streams_row(a.gx, gx, rows.length)
         ? rms_backward_row<true>
         : rms_backward_row<false>)(gx, gy, x, weight, more, rows.length, stats[rows.count + row]);
  }
  _mm_sfence();
}

void rms_norm_forward_avx2(const RmsNormForwardArgs& a, const Launch&) {
  rms_norm_forward_rows(a, 0, rows_of(a).count);
}
void rms_norm_backward_input_avx2(const RmsNormBackwardInputArgs& a, const Launch&) {
  rms_norm_backward_input_rows(a, {}, 0, rows_of(a).count);
}
#endif
}  // namespace wt
