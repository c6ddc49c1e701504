// Root mean square normalisation, with vectors; rows are divided among the threads.
#include "warptape/kernels/norm/rms_norm_cpu.h"

#include <cmath>

#include "warptape/kernels/norm/norm_rows_cpu.h"

namespace wt {
#if WT_X86
namespace {

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
                                     const float* weight, const float* gsum, i64 n,
                                     const SavedStats& s) {
  const float rstd = s.rstd;
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

void rms_norm_forward_rows(const RmsNormForwardArgs& a, i64 begin, i64 end) {
  const float* weight = a.weight.as<const float>();
  normalise_rows(a, begin, end, [&](float* y, const float* x, i64 n, bool streams) {
    const float rstd = float(1 / std::sqrt(rms_squares(x, n) / double(n) + a.eps));
    (streams ? rms_scale_row<true> : rms_scale_row<false>)(y, x, weight, n, rstd);
    return SavedStats{0, 0, rstd};
  });
}
void rms_norm_backward_input_rows(const RmsNormBackwardInputArgs& a, const View& gsum, i64 begin,
                                  i64 end) {
  norm_gradient_rows(a, gsum, begin, end, rms_backward_row<false>, rms_backward_row<true>);
}

void rms_norm_forward_avx2(const RmsNormForwardArgs& a, const Launch&) {
  in_norm_pieces(a, [&](i64 b, i64 e) { rms_norm_forward_rows(a, b, e); });
}
void rms_norm_backward_input_avx2(const RmsNormBackwardInputArgs& a, const Launch&) {
  in_norm_pieces(a, [&](i64 b, i64 e) { rms_norm_backward_input_rows(a, {}, b, e); });
}
#endif
}  // namespace wt
