// Layer normalisation, with vectors; rows are divided among the threads.
#include "warptape/kernels/norm/layer_norm_cpu.h"

#include <cmath>

#include "warptape/kernels/norm/moments_cpu.h"
#include "warptape/kernels/norm/norm_rows_cpu.h"

namespace wt {
#if WT_X86
namespace {

struct Scale {
  float first, mean, rstd;  // the row's mean is first + mean
};
WT_AVX2_HOT f32x8 normalised(f32x8 x, const Scale& s) { return (x - s.first - s.mean) * s.rstd; }

template <bool Stream>
WT_TARGET_AVX2 void forward_row(float* y, const float* x, const float* weight, const float* bias,
                                i64 n, const Scale& s) {
  const i64 whole = n & ~7ll, count = n & 7;
  for (i64 i = 0; i < whole; i += 8) {
    if constexpr (Stream) expect8(x + n + i);  // the next row: else nothing is read meanwhile
    const f32x8 h = normalised(load8(x + i), s);
    put8<Stream>(
        y + i, h * (weight ? load8(weight + i) : splat8(1)) + (bias ? load8(bias + i) : splat8(0)));
  }
  const f32x8 h = normalised(load_part8(x + whole, count, 0), s);
  const f32x8 w = weight ? load_part8(weight + whole, count, 0) : splat8(1);
  store_part8(y + whole, h * w + (bias ? load_part8(bias + whole, count, 0) : splat8(0)), count);
}

template <bool Stream>
WT_TARGET_AVX2 void backward_input_row(float* gx, const float* gy, const float* x,
                                       const float* weight, const float* gsum, i64 n,
                                       const SavedStats& s) {
  f32x8 s0 = splat8(0), s1 = s0, p0 = s0, p1 = s0;
  i64 i = 0;
  for (; i + 16 <= n; i += 16) {
    const f32x8 g = load8(gy + i) * eight_or_ones(weight, i, n);
    const f32x8 k = load8(gy + i + 8) * eight_or_ones(weight, i + 8, n);
    s0 += g, s1 += k;
    p0 += g * s.distance(load8(x + i)), p1 += k * s.distance(load8(x + i + 8));
  }
  for (; i < n; i += 8) {
    const f32x8 g = eight(gy, i, n) * eight_or_ones(weight, i, n);
    s0 += g, p0 += g * s.distance(eight(x, i, n));
  }
  const float sum = sum_of8(s0 + s1) / float(n), product = sum_of8(p0 + p1) * s.rstd / float(n);
  for (i = 0; i < n; i += 8) {
    if constexpr (Stream) expect8(gy + n + i), expect8(x + n + i);
    const f32x8 g = eight(gy, i, n) * eight_or_ones(weight, i, n);
    const f32x8 h = s.distance(eight(x, i, n)) * s.rstd, v = s.rstd * (g - sum - h * product);
    put_eight<Stream>(gx, i, n, gsum ? v + eight(gsum, i, n) : v);
  }
}

// Rows are added to the sums of a block of rows, those to the totals: few roundings follow each
// other. Long ones four at a time: the sums are read and written once for them.
constexpr int kRowsAtOnce = 4;
constexpr i64 kShortRow = 1024;  // its sums stay in the first level cache
constexpr i64 kBlockRows = 128;

struct ParamRow {
  const float *gy, *x;
  SavedStats stats;
};
template <int Count>
WT_TARGET_AVX2 void add_rows(float* weight_sum, float* bias_sum, const ParamRow* at, i64 n) {
  ParamRow rows[Count];
  for (int k = 0; k < Count; ++k) rows[k] = at[k];
  i64 i = 0;
  for (; i + 8 <= n; i += 8) {
    f32x8 w = load8(weight_sum + i), b = load8(bias_sum + i);
#pragma GCC unroll 4
    for (int k = 0; k < Count; ++k) {
      const f32x8 gy = load8(rows[k].gy + i);
      w += gy * (rows[k].stats.distance(load8(rows[k].x + i)) * rows[k].stats.rstd);
      b += gy;
    }
    store8(weight_sum + i, w);
    store8(bias_sum + i, b);
  }
  for (; i < n; ++i)
    for (int k = 0; k < Count; ++k) {
      const SavedStats& s = rows[k].stats;
      weight_sum[i] += rows[k].gy[i] * ((rows[k].x[i] - s.mean - s.rest) * s.rstd);
      bias_sum[i] += rows[k].gy[i];
    }
}

}  // namespace

void layer_norm_forward_rows(const LayerNormForwardArgs& a, i64 begin, i64 end) {
  const float *weight = a.weight.as<const float>(), *bias = a.bias.as<const float>();
  normalise_rows(a, begin, end, [&](float* y, const float* x, i64 n, bool streams) {
    const Moments m = moments_of(x, n);
    const Scale s{x[0], m.mean, 1 / std::sqrt(m.squares / float(n) + float(a.eps))};
    (streams ? forward_row<true> : forward_row<false>)(y, x, weight, bias, n, s);
    const float mean = s.first + s.mean;
    return SavedStats{mean, left_of_sum(s.first, s.mean, mean), s.rstd};
  });
}
void layer_norm_backward_input_rows(const LayerNormBackwardInputArgs& a, const View& gsum,
                                    i64 begin, i64 end) {
  norm_gradient_rows(a, gsum, begin, end, backward_input_row<false>, backward_input_row<true>);
}

void layer_norm_forward_avx2(const LayerNormForwardArgs& a, const Launch&) {
  in_norm_pieces(a, [&](i64 b, i64 e) { layer_norm_forward_rows(a, b, e); });
}
void layer_norm_backward_input_avx2(const LayerNormBackwardInputArgs& a, const Launch&) {
  in_norm_pieces(a, [&](i64 b, i64 e) { layer_norm_backward_input_rows(a, {}, b, e); });
}

i64 layer_norm_backward_params_workspace(const LayerNormBackwardParamsArgs& a) {
  return 4 * norm_rows(a).length * i64(sizeof(float));
}

void layer_norm_backward_params_avx2(const LayerNormBackwardParamsArgs& a, const Launch& l) {
  enum { GY, X };  // the operands of `rows`
  const auto rows = norm_rows(a);
  const i64 n = rows.length, width = 2 * n;
  float *totals = static_cast<float*>(l.workspace), *sums = totals + width;
  for (i64 i = 0; i < 2 * width; ++i) totals[i] = 0;
  for (i64 row = 0; row < rows.count;) {
    const i64 end = row + kBlockRows < rows.count ? row + kBlockRows : rows.count;
    const auto next = [&] {
      const ParamRow r{rows.row(GY, a.gy.as<const float>(), row).data,
                       rows.row(X, a.x.as<const float>(), row).data,
                       SavedStats::of(a.stats, rows.count, row)};
      ++row;
      return r;
    };
    while (n > kShortRow && end - row >= kRowsAtOnce) {
      const ParamRow four[kRowsAtOnce] = {next(), next(), next(), next()};
      add_rows<kRowsAtOnce>(sums, sums + width / 2, four, n);
    }
    while (row < end) {
      const ParamRow one = next();
      add_rows<1>(sums, sums + width / 2, &one, n);
    }
    for (i64 i = 0; i < width; ++i) totals[i] += sums[i], sums[i] = 0;
  }
  float *gweight = a.gweight.as<float>(), *gbias = a.gbias.as<float>();
  for (i64 i = 0; gweight && i < n; ++i)
    gweight[i] = totals[i] + (a.accumulate_weight ? gweight[i] : 0);
  for (i64 i = 0; gbias && i < n; ++i)
    gbias[i] = totals[width / 2 + i] + (a.accumulate_bias ? gbias[i] : 0);
}
#endif
}  // namespace wt
