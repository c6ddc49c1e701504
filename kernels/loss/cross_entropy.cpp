// Cross-entropy on the cpu.
#include "warptape/kernels/cross_entropy.h"

#include <cmath>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/labels.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/loss/cross_entropy_cpu.h"

namespace wt {
namespace {

void forward_reference(const CrossEntropyForwardArgs& a, const Launch&) {
  enum { Logits, Labels };
  const auto rows = rows_along<2>(a.axis, {{a.logits}, {a.labels, false}});
  const i64 n = rows.length;
  dispatch_floating(a.logits.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    double sum_of_losses = 0, weight = 0;
    for (i64 row = 0; row < rows.count; ++row) {
      const auto x = rows.row(Logits, a.logits.as<const T>(), row);
      const i64 stored = a.labels.as<const i64>()[rows.start(Labels, row)];
      if (stored == a.ignore_index) continue;
      const i64 label = class_of_label(a, row, stored, n);
      A max = -INFINITY, sum = 0, total = 0;
      for (i64 i = 0; i < n; ++i) max = A(x[i]) > max ? A(x[i]) : max;
      for (i64 i = 0; i < n; ++i) sum += std::exp(A(x[i]) - max);
      for (i64 i = 0; i < n; ++i) total += A(x[i]);
      const A log_sum = std::log(sum);
      a.stats.as<A>()[row] = max;
      a.stats.as<A>()[rows.count + row] = log_sum;
      const A hit = log_sum + (max - A(x[label]));     // -log(softmax(x)[label])
      const A every = log_sum + (max - total / A(n));  // the mean of those of all classes
      sum_of_losses += a.smoothing == 0 ? hit : A(1 - a.smoothing) * hit + A(a.smoothing) * every;
      weight += 1;
    }
    *a.loss_sum.as<A>() = A(sum_of_losses);
    *a.weight.as<A>() = A(weight);
  });
}

void backward_reference(const CrossEntropyBackwardArgs& a, const Launch&) {
  enum { GLogits, Logits, Labels };
  const auto rows = rows_along<3>(a.axis, {{a.glogits}, {a.logits}, {a.labels, false}});
  const i64 n = rows.length;
  dispatch_floating(a.logits.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const A grad = *a.grad.as<const A>(), hit = A(1 - a.smoothing), every = A(a.smoothing) / A(n);
    for (i64 row = 0; row < rows.count; ++row) {
      const auto gx = rows.row(GLogits, a.glogits.as<T>(), row);
      const auto x = rows.row(Logits, a.logits.as<const T>(), row);
      i64 label = a.labels.as<const i64>()[rows.start(Labels, row)];
      if (label == a.ignore_index) {
        for (i64 i = 0; i < n; ++i) gx[i] = T(A(0));
        continue;
      }
      if (label < 0 || label >= n) label = 0;
      const A max = a.stats.as<const A>()[row], log_sum = a.stats.as<const A>()[rows.count + row];
      for (i64 i = 0; i < n; ++i) {
        const A p = std::exp(A(x[i]) - max - log_sum);
        gx[i] = T(grad * (p - every - (i == label ? hit : 0)));
      }
    }
  });
}

}  // namespace

WT_VARIANTS(cpu, cross_entropy_forward, CrossEntropyForwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = cross_entropy_forward_why_not,
                        .launch = cross_entropy_forward_avx2)  //
            {.name = "reference", .rank = 10, .launch = forward_reference});
WT_VARIANTS(cpu, cross_entropy_backward, CrossEntropyBackwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = cross_entropy_backward_why_not,
                        .launch = cross_entropy_backward_avx2)  //
            {.name = "reference", .rank = 10, .launch = backward_reference});

}  // namespace wt
