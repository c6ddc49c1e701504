// Cross-entropy on the cpu.
#include "warptape/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/cpu/exp_rows.h"
#include "warptape/kernels/cpu/stream.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt {
namespace {

constexpr i64 kIgnored = -1;

// The class of a row, kIgnored, or 0 for a bad one.
i64 label_of(const CrossEntropyForwardArgs& a, i64 row, i64 label, i64 classes) {
  if (label == a.ignore_index) return kIgnored;
  if (label >= 0 && label < classes) return label;
  if (a.mailbox && a.mailbox->raised == 0)
    *a.mailbox = {i32(MailboxCode::label_out_of_range), a.op_id, row, label, classes};
  return 0;
}

// The row's loss from its maximum, log(sum(exp(x - max))) and, with smoothing, mean(x).
template <class A>
A loss_of(A x_label, A max, A log_sum, A mean, A smoothing) {
  const A nll = log_sum + (max - x_label);
  return smoothing == 0 ? nll : (1 - smoothing) * nll + smoothing * (log_sum + (max - mean));
}

void forward_reference(const CrossEntropyForwardArgs& a, const Launch&) {
  const auto rows = rows_along<2>(a.axis, {{a.logits}, {a.labels, false}});
  const i64 n = rows.length, step = rows.step[0];
  dispatch_floating(a.logits.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    double sum_of_losses = 0, weight = 0;
    for (i64 row = 0; row < rows.count; ++row) {
      const T* x = a.logits.as<const T>() + rows.start(0, row);
      const i64 label = label_of(a, row, a.labels.as<const i64>()[rows.start(1, row)], rows.length);
      if (label == kIgnored) continue;
      A max = -INFINITY, sum = 0, total = 0;
      for (i64 i = 0; i < n; ++i) max = A(x[i * step]) > max ? A(x[i * step]) : max;
      for (i64 i = 0; i < n; ++i) sum += std::exp(A(x[i * step]) - max);
      for (i64 i = 0; i < n; ++i) total += A(x[i * step]);
      const A log_sum = std::log(sum);
      a.stats.as<A>()[row] = max;
      a.stats.as<A>()[rows.count + row] = log_sum;
      sum_of_losses += loss_of(A(x[label * step]), max, log_sum, total / A(n), A(a.smoothing));
      weight += 1;
    }
    *a.loss_sum.as<A>() = A(sum_of_losses);
    *a.weight.as<A>() = A(weight);
  });
}

void backward_reference(const CrossEntropyBackwardArgs& a, const Launch&) {
  const auto rows = rows_along<3>(a.axis, {{a.glogits}, {a.logits}, {a.labels, false}});
  const i64 n = rows.length;
  dispatch_floating(a.logits.dtype(), [&]<class T>() {
    using A = ComputeType<T>;
    const A grad = *a.grad.as<const A>(), hit = A(1 - a.smoothing), every = A(a.smoothing) / A(n);
    for (i64 row = 0; row < rows.count; ++row) {
      T* gx = a.glogits.as<T>() + rows.start(0, row);
      const T* x = a.logits.as<const T>() + rows.start(1, row);
      i64 label = a.labels.as<const i64>()[rows.start(2, row)];
      if (label == a.ignore_index) {
        for (i64 i = 0; i < n; ++i) gx[i * rows.step[0]] = T(A(0));
        continue;
      }
      if (label < 0 || label >= n) label = 0;
      const A max = a.stats.as<const A>()[row], log_sum = a.stats.as<const A>()[rows.count + row];
      for (i64 i = 0; i < n; ++i) {
        const A p = std::exp(A(x[i * rows.step[1]]) - max - log_sum);
        gx[i * rows.step[0]] = T(grad * (p - every - (i == label ? hit : 0)));
      }
    }
  });
}

#if WT_X86
const char* why_not_avx2(const View& logits, bool neighbours) {
  if (cpu_isa() < kAvx2) return kNoAvx2;
  if (logits.dtype() != DType::f32) return "f32 only";
  return neighbours ? nullptr : "the classes must be the innermost axis";
}
const char* forward_why_not(const CrossEntropyForwardArgs& a) {
  const auto rows = rows_along<1>(a.axis, {{a.logits}});
  return why_not_avx2(a.logits, rows.unit_step(0));
}
const char* backward_why_not(const CrossEntropyBackwardArgs& a) {
  const auto rows = rows_along<2>(a.axis, {{a.glogits}, {a.logits}});
  return why_not_avx2(a.logits, rows.unit_step(0) && rows.unit_step(1));
}

WT_TARGET_AVX2 float sum_of_run(const float* x, i64 n) {
  f32x8 sums[2] = {};
  i64 i = 0;
  for (; i + 16 <= n; i += 16)
    for (int k = 0; k < 2; ++k) sums[k] += load8(x + i + 8 * k);
  for (; i < n; i += 8) sums[0] += load_part8(x + i, n - i < 8 ? n - i : 8, 0);
  return sum_of8(sums[0] + sums[1]);
}

void forward_avx2(const CrossEntropyForwardArgs& a, const Launch&) {
  const auto rows = rows_along<2>(a.axis, {{a.logits}, {a.labels, false}});
  const float smoothing = float(a.smoothing);
  const i64 n = rows.length;
  float* stats = a.stats.as<float>();
  double sum_of_losses = 0, weight = 0;
  for (i64 row = 0; row < rows.count; ++row) {
    const float* x = a.logits.as<const float>() + rows.start(0, row);
    const i64 label = label_of(a, row, a.labels.as<const i64>()[rows.start(1, row)], rows.length);
    if (label == kIgnored) continue;
    RunningExps r{exp_rows()};
    float total = 0;
    for (i64 i = 0; i < n; i += kRunOfExps) {
      const i64 m = std::min(n - i, kRunOfExps);
      r.take(nullptr, x + i, m, n);
      if (smoothing != 0) total += sum_of_run(x + i, m);
    }
    const float log_sum = std::log(r.sum);
    stats[row] = r.largest;
    stats[rows.count + row] = log_sum;
    sum_of_losses +=
        loss_of(x[label * rows.step[0]], r.largest, log_sum, total / float(n), smoothing);
    weight += 1;
  }
  *a.loss_sum.as<float>() = float(sum_of_losses);
  *a.weight.as<float>() = float(weight);
}

void backward_avx2(const CrossEntropyBackwardArgs& a, const Launch&) {
  const auto rows = rows_along<3>(a.axis, {{a.glogits}, {a.logits}, {a.labels, false}});
  const i64 n = rows.length;
  const float grad = *a.grad.as<const float>(), hit = float(1 - a.smoothing),
              every = float(a.smoothing) / float(n);
  const float* stats = a.stats.as<const float>();
  const ExpRows& with = exp_rows();
  const bool stream = streams(a.glogits, a.logits);
  for (i64 row = 0; row < rows.count; ++row) {
    float* gx = a.glogits.as<float>() + rows.start(0, row);
    const float* x = a.logits.as<const float>() + rows.start(1, row);
    i64 label = a.labels.as<const i64>()[rows.start(2, row)];
    if (label == a.ignore_index) {
      for (i64 i = 0; i < n; ++i) gx[i] = 0;
      continue;
    }
    if (label < 0 || label >= n) label = 0;
    in_pieces(gx, n, stream, [&](float* to, i64 i, i64 m) {
      const bool here = i <= label && label < i + m;
      const float p = here ? std::exp(x[label] - stats[row] - stats[rows.count + row]) : 0;
      with.gradient(to, x + i, m, stats[row], stats[rows.count + row], every, grad, kPiece);
      if (here) to[label - i] = grad * (p - every - hit);
    });
  }
  if (stream) end_stream();
}
#endif

}  // namespace

WT_VARIANTS(cpu, cross_entropy_forward, CrossEntropyForwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = forward_why_not,
                        .launch = forward_avx2)  //
            {.name = "reference", .rank = 10, .launch = forward_reference});
WT_VARIANTS(cpu, cross_entropy_backward, CrossEntropyBackwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = backward_why_not,
                        .launch = backward_avx2)  //
            {.name = "reference", .rank = 10, .launch = backward_reference});

}  // namespace wt
