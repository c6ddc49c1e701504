// Root mean square normalisation on the cpu.
#include "warptape/kernels/rms_norm.h"

#include <cmath>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/norm/rms_norm_cpu.h"

namespace wt {
namespace {

void forward_reference(const RmsNormForwardArgs& a, const Launch&) {
  enum { Y, X };
  const auto rows = rows_along<2>(a.x.ndim() - 1, {{a.y}, {a.x}});
  const i64 n = rows.length;
  if (n == 0) return;
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const T* weight = a.weight.as<const T>();
    A* stats = a.stats.as<A>();
    for (i64 row = 0; row < rows.count; ++row) {
      const auto y = rows.row(Y, a.y.as<T>(), row);
      const auto x = rows.row(X, a.x.as<const T>(), row);
      double squares = 0;
      for (i64 i = 0; i < n; ++i) squares += double(A(x[i])) * double(A(x[i]));
      const A rstd = A(1 / std::sqrt(squares / double(n) + a.eps));
      for (i64 i = 0; i < n; ++i) y[i] = T(A(x[i]) * rstd * (weight ? A(weight[i]) : A(1)));
      if (stats) stats[row] = stats[rows.count + row] = 0, stats[2 * rows.count + row] = rstd;
    }
  });
}

void backward_input_reference(const RmsNormBackwardInputArgs& a, const Launch&) {
  enum { GX, GY, X };
  const auto rows = rows_along<3>(a.x.ndim() - 1, {{a.gx}, {a.gy}, {a.x}});
  const i64 n = rows.length;
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const T* weight = a.weight.as<const T>();
    for (i64 row = 0; row < rows.count; ++row) {
      const auto gx = rows.row(GX, a.gx.as<T>(), row);
      const auto gy = rows.row(GY, a.gy.as<const T>(), row);
      const auto x = rows.row(X, a.x.as<const T>(), row);
      const A rstd = a.stats.as<const A>()[2 * rows.count + row];
      const auto g = [&](i64 i) { return A(gy[i]) * (weight ? A(weight[i]) : A(1)); };
      double product = 0;
      for (i64 i = 0; i < n; ++i) product += double(g(i)) * double(A(x[i]) * rstd);
      const A mean = A(product / double(n));
      for (i64 i = 0; i < n; ++i) gx[i] = T(rstd * (g(i) - A(x[i]) * rstd * mean));
    }
  });
}

}  // namespace

WT_VARIANTS(cpu, rms_norm_forward, RmsNormForwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = norm_why_not<RmsNormForwardArgs>,
                        .launch = rms_norm_forward_avx2){
                .name = "reference", .rank = 10, .launch = forward_reference});
WT_VARIANTS(cpu, rms_norm_backward_input, RmsNormBackwardInputArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20,
                        .why_not = norm_why_not<RmsNormBackwardInputArgs>,
                        .launch = rms_norm_backward_input_avx2){
                .name = "reference", .rank = 10, .launch = backward_input_reference});

}  // namespace wt
