// Residual and normalisation on the cpu.
#include "warptape/kernels/add_norm.h"

#include <cmath>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/norm/add_norm_cpu.h"
#include "warptape/kernels/norm/norm_operands.h"

namespace wt {
namespace {

// The mean of f(0), ..., f(n - 1), from the first one on: of a long row a sum would lose an offset.
template <class F>
double mean_of(i64 n, const F& f) {
  double rest = 0;
  for (i64 i = 0; i < n; ++i) rest += double(f(i)) - double(f(0));
  return double(f(0)) + rest / double(n);
}

// Centred: layer norm, else the root mean square norm.
template <bool Centred, class Args>
void forward(const Args& a, const View& bias_or_none) {
  enum { Y, X, Residual, Sum };
  const auto rows = rows_along<4>(a.x.ndim() - 1, {{a.y}, {a.x}, {a.residual}, {a.sum}});
  const i64 n = rows.length;
  if (n == 0) return;
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const T *weight = a.weight.template as<const T>(), *bias = bias_or_none.as<const T>();
    A* stats = a.stats.template as<A>();
    for (i64 row = 0; row < rows.count; ++row) {
      const auto y = rows.row(Y, a.y.template as<T>(), row);
      const auto sum = rows.row(Sum, a.sum.template as<T>(), row);
      const auto x = rows.row(X, a.x.template as<const T>(), row);
      const auto residual = rows.row(Residual, a.residual.template as<const T>(), row);
      for (i64 i = 0; i < n; ++i) sum[i] = T(A(x[i]) + A(residual[i]));
      const double mean = Centred ? mean_of(n, [&](i64 i) { return A(sum[i]); }) : 0;
      const auto near = [&](i64 i) { return double(A(sum[i])) - mean; };
      const double rest = Centred ? mean_of(n, near) : 0;
      const double variance =
          mean_of(n, [&](i64 i) { return (near(i) - rest) * (near(i) - rest); });
      const double rstd = 1 / std::sqrt(variance + a.eps);
      for (i64 i = 0; i < n; ++i) {
        const A h = A((near(i) - rest) * rstd);
        y[i] = T(h * (weight ? A(weight[i]) : A(1)) + (bias ? A(bias[i]) : A(0)));
      }
      if (!stats) continue;
      stats[row] = A(mean + rest);
      stats[rows.count + row] = A(left_of_sum(mean, rest, double(stats[row])));
      stats[2 * rows.count + row] = A(rstd);
    }
  });
}

template <bool Centred, class Args>
void backward_input(const Args& a) {
  enum { GX, GY, GSum, X };
  const auto rows = rows_along<4>(a.x.ndim() - 1, {{a.gx}, {a.gy}, {a.gsum}, {a.x}});
  const i64 n = rows.length;
  if (n == 0) return;
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const T* weight = a.weight.template as<const T>();
    const A* stats = a.stats.template as<const A>();
    for (i64 row = 0; row < rows.count; ++row) {
      const auto gx = rows.row(GX, a.gx.template as<T>(), row);
      const auto gy = rows.row(GY, a.gy.template as<const T>(), row);
      const auto gsum = rows.row(GSum, a.gsum.template as<const T>(), row);
      const auto x = rows.row(X, a.x.template as<const T>(), row);
      const A mean = stats[row], rest = stats[rows.count + row];
      const A rstd = stats[2 * rows.count + row];
      const auto g = [&](i64 i) { return A(gy[i]) * (weight ? A(weight[i]) : A(1)); };
      const auto h = [&](i64 i) { return (A(x[i]) - mean - rest) * rstd; };
      const A sum = Centred ? A(mean_of(n, g)) : A(0);
      const A product = A(mean_of(n, [&](i64 i) { return g(i) * h(i); }));
      for (i64 i = 0; i < n; ++i) gx[i] = T(rstd * (g(i) - sum - h(i) * product) + A(gsum[i]));
    }
  });
}

void add_layer_norm_forward_reference(const AddLayerNormForwardArgs& a, const Launch&) {
  forward<true>(a, a.bias);
}
void add_layer_norm_backward_input_reference(const AddLayerNormBackwardInputArgs& a,
                                             const Launch&) {
  backward_input<true>(a);
}
void add_rms_norm_forward_reference(const AddRmsNormForwardArgs& a, const Launch&) {
  forward<false>(a, {});
}
void add_rms_norm_backward_input_reference(const AddRmsNormBackwardInputArgs& a, const Launch&) {
  backward_input<false>(a);
}

}  // namespace

#define WT_ADD_NORM_VARIANTS(contract, Args)                                         \
  WT_VARIANTS(cpu, contract, Args,                                                   \
              WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = norm_why_not<Args>, \
                          .launch = contract##_avx2){                                \
                  .name = "reference", .rank = 10, .launch = contract##_reference})
WT_ADD_NORM_VARIANTS(add_layer_norm_forward, AddLayerNormForwardArgs);
WT_ADD_NORM_VARIANTS(add_layer_norm_backward_input, AddLayerNormBackwardInputArgs);
WT_ADD_NORM_VARIANTS(add_rms_norm_forward, AddRmsNormForwardArgs);
WT_ADD_NORM_VARIANTS(add_rms_norm_backward_input, AddRmsNormBackwardInputArgs);
#undef WT_ADD_NORM_VARIANTS

}  // namespace wt
