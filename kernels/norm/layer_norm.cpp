// Layer normalisation on the cpu.
#include "warptape/kernels/layer_norm.h"

#include <cmath>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/norm/layer_norm_cpu.h"
#include "warptape/kernels/norm/norm_operands.h"

namespace wt {
namespace {

void forward_reference(const LayerNormForwardArgs& a, const Launch&) {
  enum { Y, X };
  const auto rows = rows_along<2>(a.x.ndim() - 1, {{a.y}, {a.x}});
  const i64 n = rows.length;
  if (n == 0) return;
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const T *weight = a.weight.as<const T>(), *bias = a.bias.as<const T>();
    A* stats = a.stats.as<A>();
    for (i64 row = 0; row < rows.count; ++row) {
      const auto y = rows.row(Y, a.y.as<T>(), row);
      const auto x = rows.row(X, a.x.as<const T>(), row);
      A mean = 0, rest = 0, squares = 0;
      for (i64 i = 0; i < n; ++i) mean += A(x[i]) - A(x[0]);
      mean = A(x[0]) + mean / A(n);
      for (i64 i = 0; i < n; ++i) {
        const A d = A(x[i]) - mean;
        rest += d;
        squares += d * d;
      }
      rest /= A(n);
      const A rstd = 1 / std::sqrt(squares / A(n) - rest * rest + A(a.eps));
      for (i64 i = 0; i < n; ++i) {
        const A h = (A(x[i]) - mean - rest) * rstd;
        y[i] = T(h * (weight ? A(weight[i]) : A(1)) + (bias ? A(bias[i]) : A(0)));
      }
      if (!stats) continue;
      stats[row] = mean + rest;
      stats[rows.count + row] = left_of_sum(mean, rest, stats[row]);
      stats[2 * rows.count + row] = rstd;
    }
  });
}

void backward_input_reference(const LayerNormBackwardInputArgs& a, const Launch&) {
  enum { GX, GY, X };
  const auto rows = rows_along<3>(a.x.ndim() - 1, {{a.gx}, {a.gy}, {a.x}});
  const i64 n = rows.length;
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const T* weight = a.weight.as<const T>();
    const A* stats = a.stats.as<const A>();
    for (i64 row = 0; row < rows.count; ++row) {
      const auto gx = rows.row(GX, a.gx.as<T>(), row);
      const auto gy = rows.row(GY, a.gy.as<const T>(), row);
      const auto x = rows.row(X, a.x.as<const T>(), row);
      const A mean = stats[row], rest = stats[rows.count + row];
      const A rstd = stats[2 * rows.count + row];
      const auto g = [&](i64 i) { return A(gy[i]) * (weight ? A(weight[i]) : A(1)); };
      const auto h = [&](i64 i) { return (A(x[i]) - mean - rest) * rstd; };
      A sum = 0, product = 0;
      for (i64 i = 0; i < n; ++i) {
        sum += g(i);
        product += g(i) * h(i);
      }
      for (i64 i = 0; i < n; ++i) gx[i] = T(rstd * (g(i) - sum / A(n) - h(i) * (product / A(n))));
    }
  });
}

void backward_params_reference(const LayerNormBackwardParamsArgs& a, const Launch&) {
  enum { GY, X };
  const auto rows = rows_along<2>(a.x.ndim() - 1, {{a.gy}, {a.x}});
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const A* stats = a.stats.as<const A>();
    T *gweight = a.gweight.as<T>(), *gbias = a.gbias.as<T>();
    for (i64 i = 0; i < rows.length; ++i) {
      double weight_sum = 0, bias_sum = 0;
      for (i64 row = 0; row < rows.count; ++row) {
        const A gy = A(rows.row(GY, a.gy.as<const T>(), row)[i]);
        const A x = A(rows.row(X, a.x.as<const T>(), row)[i]);
        const A distance = x - stats[row] - stats[rows.count + row];
        weight_sum += double(gy * (distance * stats[2 * rows.count + row]));
        bias_sum += double(gy);
      }
      if (gweight) gweight[i] = T(A(weight_sum) + (a.accumulate_weight ? A(gweight[i]) : A(0)));
      if (gbias) gbias[i] = T(A(bias_sum) + (a.accumulate_bias ? A(gbias[i]) : A(0)));
    }
  });
}

}  // namespace

WT_VARIANTS(cpu, layer_norm_forward, LayerNormForwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = norm_why_not<LayerNormForwardArgs>,
                        .launch = layer_norm_forward_avx2){
                .name = "reference", .rank = 10, .launch = forward_reference});
WT_VARIANTS(cpu, layer_norm_backward_input, LayerNormBackwardInputArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20,
                        .why_not = norm_why_not<LayerNormBackwardInputArgs>,
                        .launch = layer_norm_backward_input_avx2){
                .name = "reference", .rank = 10, .launch = backward_input_reference});
WT_VARIANTS(cpu, layer_norm_backward_params, LayerNormBackwardParamsArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20,
                        .why_not = norm_why_not<LayerNormBackwardParamsArgs>,
                        .workspace = layer_norm_backward_params_workspace,
                        .launch = layer_norm_backward_params_avx2){
                .name = "reference", .rank = 10, .launch = backward_params_reference});

}  // namespace wt
