// Cross-entropy on the cpu.
#include "warptape/kernels/cross_entropy.h"

#include <cmath>

#include "warptape/kernels/cpu_dtypes.h"
#include "warptape/kernels/cpu_stream.h"
#include "warptape/kernels/cpu_vector.h"
#include "warptape/kernels/rows.h"

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
  if (!cpu_has_avx2()) return "this processor has no AVX2 with FMA";
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

struct RowSums {
  float max, exponentials, total;
};
WT_TARGET_AVX2 RowSums row_sums(const float* x, i64 n, bool with_total) {
  const i64 whole = n & ~7ll, rest = n & 7;
  f32x8 maxima[4] = {splat8(-INFINITY), splat8(-INFINITY), splat8(-INFINITY), splat8(-INFINITY)};
  f32x8 sums = splat8(0), more = sums, totals = sums;
  i64 k = 0;
  for (; k + 32 <= n; k += 32)
    for (int j = 0; j < 4; ++j) maxima[j] = max8(maxima[j], load8(x + k + 8 * j));
  for (; k < whole; k += 8) maxima[0] = max8(maxima[0], load8(x + k));
  const f32x8 end = load_part8(x + whole, rest, -INFINITY);
  RowSums r{max_of8(max8(max8(max8(maxima[0], maxima[1]), max8(maxima[2], maxima[3])), end)), 0, 0};
  const f32x8 shift = splat8(r.max);
  for (k = 0; k + 16 <= n; k += 16) {
    sums += exp8(load8(x + k) - shift);
    more += exp8(load8(x + k + 8) - shift);
  }
  if (k < whole) sums += exp8(load8(x + k) - shift);
  if (rest) sums += exp8(end - shift);  // past the end: exp(-inf)
  r.exponentials = sum_of8(sums + more);
  if (!with_total) return r;
  for (i64 i = 0; i < whole; i += 8) totals += load8(x + i);
  r.total = sum_of8(totals);
  for (i64 i = whole; i < n; ++i) r.total += x[i];
  return r;
}

void forward_avx2(const CrossEntropyForwardArgs& a, const Launch&) {
  const auto rows = rows_along<2>(a.axis, {{a.logits}, {a.labels, false}});
  const float smoothing = float(a.smoothing);
  float* stats = a.stats.as<float>();
  double sum_of_losses = 0, weight = 0;
  for (i64 row = 0; row < rows.count; ++row) {
    const float* x = a.logits.as<const float>() + rows.start(0, row);
    const i64 label = label_of(a, row, a.labels.as<const i64>()[rows.start(1, row)], rows.length);
    if (label == kIgnored) continue;
    const RowSums r = row_sums(x, rows.length, smoothing != 0);
    const float log_sum = std::log(r.exponentials);
    stats[row] = r.max;
    stats[rows.count + row] = log_sum;
    sum_of_losses +=
        loss_of(x[label * rows.step[0]], r.max, log_sum, r.total / float(rows.length), smoothing);
    weight += 1;
  }
  *a.loss_sum.as<float>() = float(sum_of_losses);
  *a.weight.as<float>() = float(weight);
}

// gx = grad * (exp(x - max - log_sum) - every)
WT_TARGET_AVX2 void gradient_row(float* gx, const float* x, i64 n, float max, float log_sum,
                                 float grad, float every) {
  const i64 whole = n & ~7ll, rest = n & 7;
  const f32x8 shift = splat8(max), logarithm = splat8(log_sum), base = splat8(every);
  for (i64 i = 0; i < whole; i += 8)
    store8(gx + i, (exp8(load8(x + i) - shift - logarithm) - base) * grad);
  if (rest == 0) return;
  const f32x8 end = load_part8(x + whole, rest, max);
  store_part8(gx + whole, (exp8(end - shift - logarithm) - base) * grad, rest);
}

void backward_avx2(const CrossEntropyBackwardArgs& a, const Launch&) {
  const auto rows = rows_along<3>(a.axis, {{a.glogits}, {a.logits}, {a.labels, false}});
  const i64 n = rows.length;
  const float grad = *a.grad.as<const float>(), hit = float(1 - a.smoothing),
              every = float(a.smoothing) / float(n);
  const float* stats = a.stats.as<const float>();
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
    const float p_label = std::exp(x[label] - stats[row] - stats[rows.count + row]);
    in_pieces(gx, n, stream, [&](float* to, i64 i, i64 m) {
      gradient_row(to, x + i, m, stats[row], stats[rows.count + row], grad, every);
    });
    gx[label] = grad * (p_label - every - hit);
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
