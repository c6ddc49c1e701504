// softmax and log_softmax on the cpu.
#include "warptape/kernels/softmax.h"

#include <cmath>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/cpu/softmax.h"

namespace wt {
namespace {

void forward_reference(const SoftmaxForwardArgs& a, const Launch&) {
  const auto rows = rows_along<2>(a.axis, {{a.y}, {a.x}});
  const i64 n = rows.length, ys = rows.step[0], xs = rows.step[1];
  if (n == 0) return;
  dispatch_floating(a.x.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    for (i64 row = 0; row < rows.count; ++row) {
      T* y = a.y.as<T>() + rows.start(0, row);
      const T* x = a.x.as<const T>() + rows.start(1, row);
      A max = -INFINITY, sum = 0;
      for (i64 i = 0; i < n; ++i) max = A(x[i * xs]) > max ? A(x[i * xs]) : max;
      for (i64 i = 0; i < n; ++i) sum += std::exp(A(x[i * xs]) - max);
      if (a.log)
        for (i64 i = 0; i < n; ++i) y[i * ys] = T(A(x[i * xs]) - max - std::log(sum));
      else
        for (i64 i = 0; i < n; ++i) y[i * ys] = T(std::exp(A(x[i * xs]) - max) / sum);
    }
  });
}

void backward_reference(const SoftmaxBackwardArgs& a, const Launch&) {
  const auto rows = rows_along<3>(a.axis, {{a.gx}, {a.gy}, {a.y}});
  const i64 n = rows.length, xs = rows.step[0], gs = rows.step[1], ys = rows.step[2];
  dispatch_floating(a.y.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    for (i64 row = 0; row < rows.count; ++row) {
      T* gx = a.gx.as<T>() + rows.start(0, row);
      const T* gy = a.gy.as<const T>() + rows.start(1, row);
      const T* y = a.y.as<const T>() + rows.start(2, row);
      A sum = 0;
      for (i64 i = 0; i < n; ++i) sum += a.log ? A(gy[i * gs]) : A(gy[i * gs]) * A(y[i * ys]);
      for (i64 i = 0; i < n; ++i) {
        const A g = A(gy[i * gs]), v = A(y[i * ys]);
        gx[i * xs] = T(a.log ? g - std::exp(v) * sum : v * (g - sum));
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
