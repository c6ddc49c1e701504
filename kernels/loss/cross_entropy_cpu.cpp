// Cross-entropy, with vectors.
#include "warptape/kernels/loss/cross_entropy_cpu.h"

#include <algorithm>
#include <cmath>

#include "warptape/kernels/common/labels.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/cpu/exp_rows.h"
#include "warptape/kernels/cpu/stream.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt {
#if WT_X86
namespace {

const char* classes_why_not(const View& logits, bool neighbours) {
  if (cpu_isa() < kAvx2) return kNoAvx2;
  if (logits.dtype() != DType::f32) return "f32 only";
  return neighbours ? nullptr : "the classes must be the innermost axis";
}

WT_TARGET_AVX2 float sum_of_run(const float* x, i64 n) {
  f32x8 sums[2] = {};
  i64 i = 0;
  for (; i + 16 <= n; i += 16)
    for (int k = 0; k < 2; ++k) sums[k] += load8(x + i + 8 * k);
  for (; i < n; i += 8) sums[0] += load_part8(x + i, n - i < 8 ? n - i : 8, 0);
  return sum_of8(sums[0] + sums[1]);
}

}  // namespace

const char* cross_entropy_forward_why_not(const CrossEntropyForwardArgs& a) {
  enum { Logits };  // the operand of `rows`
  const auto rows = rows_along<1>(a.axis, {{a.logits}});
  return classes_why_not(a.logits, rows.unit_step(Logits));
}

const char* cross_entropy_backward_why_not(const CrossEntropyBackwardArgs& a) {
  enum { GLogits, Logits };  // the operands of `rows`
  const auto rows = rows_along<2>(a.axis, {{a.glogits}, {a.logits}});
  return classes_why_not(a.logits, rows.unit_step(GLogits) && rows.unit_step(Logits));
}

void cross_entropy_forward_avx2(const CrossEntropyForwardArgs& a, const Launch&) {
  enum { Logits, Labels };  // the operands of `rows`
  const auto rows = rows_along<2>(a.axis, {{a.logits}, {a.labels, false}});
  const float smoothing = float(a.smoothing);
  const i64 n = rows.length;
  float* stats = a.stats.as<float>();
  double sum_of_losses = 0, weight = 0;
  for (i64 row = 0; row < rows.count; ++row) {
    const float* x = rows.row(Logits, a.logits.as<const float>(), row).data;
    const i64 stored = a.labels.as<const i64>()[rows.start(Labels, row)];
    if (stored == a.ignore_index) continue;
    const i64 label = class_of_label(a, row, stored, n);
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
    const float hit = log_sum + (r.largest - x[label]);
    const float every = log_sum + (r.largest - total / float(n));
    sum_of_losses += smoothing == 0 ? hit : (1 - smoothing) * hit + smoothing * every;
    weight += 1;
  }
  *a.loss_sum.as<float>() = float(sum_of_losses);
  *a.weight.as<float>() = float(weight);
}

void cross_entropy_backward_avx2(const CrossEntropyBackwardArgs& a, const Launch&) {
  enum { GLogits, Logits, Labels };  // the operands of `rows`
  const auto rows = rows_along<3>(a.axis, {{a.glogits}, {a.logits}, {a.labels, false}});
  const i64 n = rows.length;
  const float grad = *a.grad.as<const float>(), hit = float(1 - a.smoothing),
              every = float(a.smoothing) / float(n);
  const float* stats = a.stats.as<const float>();
  const ExpRows& with = exp_rows();
  const bool stream = streams(a.glogits, a.logits);
  for (i64 row = 0; row < rows.count; ++row) {
    float* gx = rows.row(GLogits, a.glogits.as<float>(), row).data;
    const float* x = rows.row(Logits, a.logits.as<const float>(), row).data;
    i64 label = a.labels.as<const i64>()[rows.start(Labels, row)];
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
}  // namespace wt
