// softmax and log_softmax on the cpu.
#include "warptape/kernels/softmax.h"

#include <cmath>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/softmax/softmax_cpu.h"

namespace wt {
namespace {

void forward_reference(const SoftmaxForwardArgs& a, const Launch&) {
  enum { Y, X };
  const auto rows = rows_along<2>(a.axis, {{a.y}, {a.x}});
  const i64 n = rows.length;
  if (n == 0) return;
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    for (i64 row = 0; row < rows.count; ++row) {
      const auto y = rows.row(Y, a.y.as<T>(), row);
      const auto x = rows.row(X, a.x.as<const T>(), row);
      A max = -INFINITY, sum = 0;
      for (i64 i = 0; i < n; ++i) max = A(x[i]) > max ? A(x[i]) : max;
      for (i64 i = 0; i < n; ++i) sum += std::exp(A(x[i]) - max);
      if (a.log)
        for (i64 i = 0; i < n; ++i) y[i] = T(A(x[i]) - max - std::log(sum));
      else
        for (i64 i = 0; i < n; ++i) y[i] = T(std::exp(A(x[i]) - max) / sum);
    }
  });
}

void backward_reference(const SoftmaxBackwardArgs& a, const Launch&) {
  enum { GX, GY, Y };
  const auto rows = rows_along<3>(a.axis, {{a.gx}, {a.gy}, {a.y}});
  const i64 n = rows.length;
  dispatch_floating(a.y.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    for (i64 row = 0; row < rows.count; ++row) {
      const auto gx = rows.row(GX, a.gx.as<T>(), row);
      const auto gy = rows.row(GY, a.gy.as<const T>(), row);
      const auto y = rows.row(Y, a.y.as<const T>(), row);
      A sum = 0;
      for (i64 i = 0; i < n; ++i) sum += a.log ? A(gy[i]) : A(gy[i]) * A(y[i]);
      for (i64 i = 0; i < n; ++i) {
        const A g = A(gy[i]), v = A(y[i]);
        gx[i] = T(a.log ? g - std::exp(v) * sum : v * (g - sum));
      }
    }
  });
}

}  // namespace

WT_VARIANTS(cpu, softmax_forward, SoftmaxForwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = softmax_forward_why_not,
                        .workspace = softmax_forward_workspace, .launch = softmax_forward_avx2){
                .name = "reference", .rank = 10, .launch = forward_reference});
WT_VARIANTS(cpu, softmax_backward, SoftmaxBackwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = softmax_backward_why_not,
                        .launch = softmax_backward_avx2){
                .name = "reference", .rank = 10, .launch = backward_reference});

}  // namespace wt
