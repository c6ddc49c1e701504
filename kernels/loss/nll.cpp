// The negative log-likelihood on the cpu.
#include "warptape/kernels/nll.h"

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/labels.h"
#include "warptape/kernels/common/rows.h"

namespace wt {
namespace {

void forward_reference(const NllForwardArgs& a, const Launch&) {
  enum { LogProbs, Labels };
  const auto rows = rows_along<2>(a.axis, {{a.log_probs}, {a.labels, false}});
  dispatch_floating(a.log_probs.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const A* weights = a.class_weights.as<const A>();
    double loss_sum = 0, weight = 0;
    for (i64 row = 0; row < rows.count; ++row) {
      const i64 label = a.labels.as<const i64>()[rows.start(Labels, row)];
      if (label == a.ignore_index) continue;
      const i64 c = class_of_label(a, row, label, rows.length);
      const double w = weights ? double(weights[c * a.class_weights.stride(0)]) : 1;
      if (w == 0) continue;
      loss_sum -= w * double(A(rows.row(LogProbs, a.log_probs.as<const T>(), row)[c]));
      weight += w;
    }
    *a.loss_sum.as<A>() = A(loss_sum);
    *a.weight.as<A>() = A(weight);
  });
}

void backward_reference(const NllBackwardArgs& a, const Launch&) {
  enum { GX, Labels };
  const auto rows = rows_along<2>(a.axis, {{a.gx}, {a.labels, false}});
  dispatch_floating(a.gx.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const A* weights = a.class_weights.as<const A>();
    const A grad = *a.grad.as<const A>();
    for (i64 row = 0; row < rows.count; ++row) {
      const auto gx = rows.row(GX, a.gx.as<T>(), row);
      for (i64 c = 0; c < rows.length; ++c) gx[c] = T(A(0));
      const i64 label = a.labels.as<const i64>()[rows.start(Labels, row)];
      if (label == a.ignore_index) continue;
      const i64 c = label >= 0 && label < rows.length ? label : 0;
      gx[c] = T(-grad * (weights ? weights[c * a.class_weights.stride(0)] : A(1)));
    }
  });
}

}  // namespace

WT_VARIANTS(cpu, nll_forward, NllForwardArgs,
            {.name = "reference", .rank = 10, .launch = forward_reference});
WT_VARIANTS(cpu, nll_backward, NllBackwardArgs,
            {.name = "reference", .rank = 10, .launch = backward_reference});

}  // namespace wt
