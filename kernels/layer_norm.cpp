// Layer normalisation on the cpu.
#include "warptape/kernels/layer_norm.h"

#include <cmath>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/cpu/moments.h"
#include "warptape/kernels/cpu/pieces.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt {
namespace {

Rows<2> rows_of(const LayerNormForwardArgs& a) {
  return rows_along<2>(a.x.ndim() - 1, {{a.y}, {a.x}});
}
Rows<3> rows_of(const LayerNormBackwardInputArgs& a) {
  return rows_along<3>(a.x.ndim() - 1, {{a.gx}, {a.gy}, {a.x}});
}
Rows<2> rows_of(const LayerNormBackwardParamsArgs& a) {
  return rows_along<2>(a.x.ndim() - 1, {{a.gy}, {a.x}});
}

// --- reference ---

void forward_reference(const LayerNormForwardArgs& a, const Launch&) {
  const auto rows = rows_of(a);
  const i64 n = rows.length, ys = rows.step[0], xs = rows.step[1];
  if (n == 0) return;
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const T *weight = a.weight.as<const T>(), *bias = a.bias.as<const T>();
    A* stats = a.stats.as<A>();
    for (i64 row = 0; row < rows.count; ++row) {
      T* y = a.y.as<T>() + rows.start(0, row);
      const T* x = a.x.as<const T>() + rows.start(1, row);
      A mean = 0, rest = 0, squares = 0;
      for (i64 i = 0; i < n; ++i) mean += A(x[i * xs]) - A(x[0]);
      mean = A(x[0]) + mean / A(n);
      for (i64 i = 0; i < n; ++i) {
        const A d = A(x[i * xs]) - mean;
        rest += d;
        squares += d * d;
      }
      rest /= A(n);
      const A rstd = 1 / std::sqrt(squares / A(n) - rest * rest + A(a.eps));
      for (i64 i = 0; i < n; ++i) {
        const A h = (A(x[i * xs]) - mean - rest) * rstd;
        y[i * ys] = T(h * (weight ? A(weight[i]) : A(1)) + (bias ? A(bias[i]) : A(0)));
      }
      if (stats) stats[row] = mean + rest, stats[rows.count + row] = rstd;
    }
  });
}

void backward_input_reference(const LayerNormBackwardInputArgs& a, const Launch&) {
  const auto rows = rows_of(a);
  const i64 n = rows.length, *step = rows.step;
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const T* weight = a.weight.as<const T>();
    const A* stats = a.stats.as<const A>();
    for (i64 row = 0; row < rows.count; ++row) {
      T* gx = a.gx.as<T>() + rows.start(0, row);
      const T* gy = a.gy.as<const T>() + rows.start(1, row);
      const T* x = a.x.as<const T>() + rows.start(2, row);
      const A mean = stats[row], rstd = stats[rows.count + row];
      const auto g = [&](i64 i) { return A(gy[i * step[1]]) * (weight ? A(weight[i]) : A(1)); };
      const auto h = [&](i64 i) { return (A(x[i * step[2]]) - mean) * rstd; };
      A sum = 0, product = 0;
      for (i64 i = 0; i < n; ++i) {
        sum += g(i);
        product += g(i) * h(i);
      }
      for (i64 i = 0; i < n; ++i)
        gx[i * step[0]] = T(rstd * (g(i) - sum / A(n) - h(i) * (product / A(n))));
    }
  });
}

void backward_params_reference(const LayerNormBackwardParamsArgs& a, const Launch&) {
  const auto rows = rows_of(a);
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const A* stats = a.stats.as<const A>();
    T *gweight = a.gweight.as<T>(), *gbias = a.gbias.as<T>();
    for (i64 i = 0; i < rows.length; ++i) {
      double weight_sum = 0, bias_sum = 0;
      for (i64 row = 0; row < rows.count; ++row) {
        const A gy = A(a.gy.as<const T>()[rows.start(0, row) + i * rows.step[0]]);
        const A x = A(a.x.as<const T>()[rows.start(1, row) + i * rows.step[1]]);
        weight_sum += double(gy * ((x - stats[row]) * stats[rows.count + row]));
        bias_sum += double(gy);
      }
      if (gweight) gweight[i] = T(A(weight_sum) + (a.accumulate_weight ? A(gweight[i]) : A(0)));
      if (gbias) gbias[i] = T(A(bias_sum) + (a.accumulate_bias ? A(gbias[i]) : A(0)));
    }
  });
}

// --- eight floats at a time ---
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

struct Scale {
  float first, mean, rstd;  // the row's mean is first + mean
};
WT_AVX2_HOT f32x8 normalised(f32x8 x, const Scale& s) { return (x - s.first - s.mean) * s.rstd; }

// Past the caches, where what is written is not read first: rows of a tensor beyond them that are
// so long that their loads and stores take turns.
bool streams(const View& out, const float* row, i64 n) {
  return n >= 1024 && out.bytes() >= (i64(64) << 20) && reinterpret_cast<uintptr_t>(row) % 32 == 0;
}
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

WT_TARGET_AVX2 void forward_rows(const LayerNormForwardArgs& a, i64 begin, i64 end) {
  const auto rows = rows_of(a);
  const float *weight = a.weight.as<const float>(), *bias = a.bias.as<const float>();
  float* stats = a.stats.as<float>();
  if (rows.length == 0) return;
  for (i64 row = begin; row < end; ++row) {
    const float* x = a.x.as<const float>() + rows.start(1, row);
    const Moments m = moments_of(x, rows.length);
    const Scale s{x[0], m.mean, 1 / std::sqrt(m.squares / float(rows.length) + float(a.eps))};
    float* y = a.y.as<float>() + rows.start(0, row);
    (streams(a.y, y, rows.length) ? forward_row<true> : forward_row<false>)(y, x, weight, bias,
                                                                            rows.length, s);
    if (stats) stats[row] = s.first + s.mean, stats[rows.count + row] = s.rstd;
  }
  _mm_sfence();  // what went past the caches is there before anything that follows
}
void forward_avx2(const LayerNormForwardArgs& a, const Launch&) {
  const auto rows = rows_of(a);
  in_row_pieces(rows.count, rows.length, [&](i64 b, i64 e) { forward_rows(a, b, e); });
}

// Elements [i, i + 8) of a row of n, 0 past its end; a missing operand reads as 1.
WT_AVX2_HOT f32x8 eight_of(const float* p, i64 i, i64 n) {
  if (!p) return splat8(1);
  return i + 8 <= n ? load8(p + i) : load_part8(p + i, n - i, 0);
}

template <bool Stream>
WT_TARGET_AVX2 void backward_input_row(float* gx, const float* gy, const float* x,
                                       const float* weight, i64 n, float mean, float rstd) {
  f32x8 s0 = splat8(0), s1 = s0, p0 = s0, p1 = s0;
  i64 i = 0;
  for (; i + 16 <= n; i += 16) {
    const f32x8 g = load8(gy + i) * eight_of(weight, i, n);
    const f32x8 k = load8(gy + i + 8) * eight_of(weight, i + 8, n);
    s0 += g, s1 += k;
    p0 += g * (load8(x + i) - mean), p1 += k * (load8(x + i + 8) - mean);
  }
  for (; i < n; i += 8) {
    const f32x8 g = eight_of(gy, i, n) * eight_of(weight, i, n);
    s0 += g, p0 += g * (eight_of(x, i, n) - mean);
  }
  const float sum = sum_of8(s0 + s1) / float(n), product = sum_of8(p0 + p1) * rstd / float(n);
  for (i = 0; i < n; i += 8) {
    if constexpr (Stream) expect8(gy + n + i), expect8(x + n + i);
    const f32x8 g = eight_of(gy, i, n) * eight_of(weight, i, n);
    const f32x8 h = (eight_of(x, i, n) - mean) * rstd, v = rstd * (g - sum - h * product);
    if (i + 8 <= n)
      put8<Stream>(gx + i, v);
    else
      store_part8(gx + i, v, n - i);
  }
}

WT_TARGET_AVX2 void backward_input_rows(const LayerNormBackwardInputArgs& a, i64 begin, i64 end) {
  const auto rows = rows_of(a);
  const float *gy = a.gy.as<const float>(), *x = a.x.as<const float>();
  const float *weight = a.weight.as<const float>(), *stats = a.stats.as<const float>();
  for (i64 row = begin; row < end; ++row) {
    float* gx = a.gx.as<float>() + rows.start(0, row);
    (streams(a.gx, gx, rows.length)
         ? backward_input_row<true>
         : backward_input_row<false>)(gx, gy + rows.start(1, row), x + rows.start(2, row), weight,
                                      rows.length, stats[row], stats[rows.count + row]);
  }
  _mm_sfence();
}
void backward_input_avx2(const LayerNormBackwardInputArgs& a, const Launch&) {
  const auto rows = rows_of(a);
  in_row_pieces(rows.count, rows.length, [&](i64 b, i64 e) { backward_input_rows(a, b, e); });
}

// Rows are added to the sums of a block of rows, those to the totals: few roundings follow each
// other. Long ones four at a time: the sums are read and written once for them.
constexpr int kRowsAtOnce = 4;
constexpr i64 kShortRow = 1024;  // its sums stay in the first level cache
constexpr i64 kBlockRows = 128;

struct ParamRow {
  const float *gy, *x;
  float mean, rstd;
};
template <int Count>
WT_TARGET_AVX2 void add_rows(float* weight_sum, float* bias_sum, const ParamRow* at, i64 n) {
  ParamRow rows[Count];
  f32x8 mean[Count], rstd[Count];
  for (int k = 0; k < Count; ++k)
    rows[k] = at[k], mean[k] = splat8(at[k].mean), rstd[k] = splat8(at[k].rstd);
  i64 i = 0;
  for (; i + 8 <= n; i += 8) {
    f32x8 w = load8(weight_sum + i), b = load8(bias_sum + i);
#pragma GCC unroll 4
    for (int k = 0; k < Count; ++k) {
      const f32x8 gy = load8(rows[k].gy + i);
      w += gy * ((load8(rows[k].x + i) - mean[k]) * rstd[k]);
      b += gy;
    }
    store8(weight_sum + i, w);
    store8(bias_sum + i, b);
  }
  for (; i < n; ++i)
    for (int k = 0; k < Count; ++k) {
      weight_sum[i] += rows[k].gy[i] * ((rows[k].x[i] - rows[k].mean) * rows[k].rstd);
      bias_sum[i] += rows[k].gy[i];
    }
}

i64 params_workspace(const LayerNormBackwardParamsArgs& a) {
  return 4 * rows_of(a).length * i64(sizeof(float));
}
void backward_params_avx2(const LayerNormBackwardParamsArgs& a, const Launch& l) {
  const auto rows = rows_of(a);
  const i64 n = rows.length, width = 2 * n;
  const float* stats = a.stats.as<const float>();
  float *totals = static_cast<float*>(l.workspace), *sums = totals + width;
  for (i64 i = 0; i < 2 * width; ++i) totals[i] = 0;
  for (i64 row = 0; row < rows.count;) {
    const i64 end = row + kBlockRows < rows.count ? row + kBlockRows : rows.count;
    const auto next = [&] {
      const ParamRow r{a.gy.as<const float>() + rows.start(0, row),
                       a.x.as<const float>() + rows.start(1, row), stats[row],
                       stats[rows.count + row]};
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

}  // namespace

WT_VARIANTS(cpu, layer_norm_forward, LayerNormForwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = why_not_avx2<LayerNormForwardArgs>,
                        .launch = forward_avx2){
                .name = "reference", .rank = 10, .launch = forward_reference});
WT_VARIANTS(cpu, layer_norm_backward_input, LayerNormBackwardInputArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20,
                        .why_not = why_not_avx2<LayerNormBackwardInputArgs>,
                        .launch = backward_input_avx2){
                .name = "reference", .rank = 10, .launch = backward_input_reference});
WT_VARIANTS(cpu, layer_norm_backward_params, LayerNormBackwardParamsArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20,
                        .why_not = why_not_avx2<LayerNormBackwardParamsArgs>,
                        .workspace = params_workspace, .launch = backward_params_avx2){
                .name = "reference", .rank = 10, .launch = backward_params_reference});

}  // namespace wt
