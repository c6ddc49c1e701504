// softmax and log_softmax, with vectors.
#include "warptape/kernels/softmax/softmax_cpu.h"

#include <algorithm>
#include <cmath>

#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/cpu/exp_rows.h"
#include "warptape/kernels/cpu/stream.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt {
#if WT_X86
namespace {

template <int K>
const char* rows_why_not(const Rows<K>& rows, DType t) {
  if (cpu_isa() < kAvx2) return kNoAvx2;
  if (t != DType::f32) return "f32 only";
  for (int k = 0; k < K; ++k)
    if (!rows.unit_step(k)) return "the elements of a row must be neighbours";
  return nullptr;
}

WT_TARGET_AVX2 void shifted(float* y, const float* x, i64 n, float shift, float logarithm) {
  i64 i = 0;
  for (; i + 8 <= n; i += 8) store8(y + i, load8(x + i) - shift - logarithm);
  store_part8(y + i, load_part8(x + i, n - i, 0) - shift - logarithm, n - i);
}

// Where the exponentials of a streamed row wait for their sum; of longer rows in the workspace.
constexpr i64 kKept = 8192;
constexpr i64 runs_of(i64 n) { return (n + kRunOfExps - 1) / kRunOfExps; }

void log_softmax_row(float* y, const float* x, i64 n, bool stream) {
  RunningExps row{exp_rows()};
  for (i64 i = 0; i < n; i += kRunOfExps) row.take(nullptr, x + i, std::min(n - i, kRunOfExps), n);
  const float shift = row.largest, logarithm = std::log(row.sum);
  in_pieces(y, n, stream,
            [&](float* to, i64 i, i64 m) { shifted(to, x + i, m, shift, logarithm); });
}

// The exponentials go to e, which may be y; largest has a place for each run.
void softmax_row(float* y, const float* x, float* e, float* largest, i64 n, bool stream) {
  RunningExps row{exp_rows()};
  for (i64 i = 0; i < n; i += kRunOfExps) {
    row.take(e + i, x + i, std::min(n - i, kRunOfExps), n);
    largest[i / kRunOfExps] = row.largest;
  }
  for (i64 r = 0; r < runs_of(n); ++r) {
    const i64 i = r * kRunOfExps;
    const float by = RunningExps::factor(largest[r], row.largest) / row.sum;
    row.with.scale(y + i, e + i, std::min(n - i, kRunOfExps), by, stream);
  }
}

WT_TARGET_AVX2 float gradient_sum(const float* a, const float* b, i64 n) {  // of a, or of a * b
  f32x8 s[4] = {};
  i64 i = 0;
  if (b) {
    for (; i + 32 <= n; i += 32)
      for (int k = 0; k < 4; ++k) s[k] += load8(a + i + 8 * k) * load8(b + i + 8 * k);
    for (; i < n; i += 8) {
      const i64 left = n - i < 8 ? n - i : 8;
      s[0] += load_part8(a + i, left, 0) * load_part8(b + i, left, 0);
    }
  } else {
    for (; i + 32 <= n; i += 32)
      for (int k = 0; k < 4; ++k) s[k] += load8(a + i + 8 * k);
    for (; i < n; i += 8) s[0] += load_part8(a + i, n - i < 8 ? n - i : 8, 0);
  }
  return sum_of8((s[0] + s[1]) + (s[2] + s[3]));
}
WT_TARGET_AVX2 void softmax_gradients(float* gx, const float* gy, const float* y, i64 n, float sum,
                                      bool log) {
  i64 i = 0;
  if (log) {
    for (; i + 8 <= n; i += 8) store8(gx + i, load8(gy + i) - exp8(load8(y + i)) * sum);
    if (i == n) return;
    const f32x8 end = load_part8(gy + i, n - i, 0) - exp8(load_part8(y + i, n - i, 0)) * sum;
    store_part8(gx + i, end, n - i);
  } else {
    for (; i + 8 <= n; i += 8) store8(gx + i, load8(y + i) * (load8(gy + i) - sum));
    store_part8(gx + i, load_part8(y + i, n - i, 0) * (load_part8(gy + i, n - i, 0) - sum), n - i);
  }
}

}  // namespace

const char* softmax_forward_why_not(const SoftmaxForwardArgs& a) {
  return rows_why_not(rows_along<2>(a.axis, {{a.y}, {a.x}}), a.x.dtype());
}

const char* softmax_backward_why_not(const SoftmaxBackwardArgs& a) {
  return rows_why_not(rows_along<3>(a.axis, {{a.gx}, {a.gy}, {a.y}}), a.y.dtype());
}

// Of longer rows the exponentials and every run's largest element so far.
i64 softmax_forward_workspace(const SoftmaxForwardArgs& a) {
  const i64 n = rows_along<2>(a.axis, {{a.y}, {a.x}}).length;
  return a.log || n <= kKept ? 0 : (n + runs_of(n)) * i64(sizeof(float));
}

void softmax_forward_avx2(const SoftmaxForwardArgs& a, const Launch& l) {
  enum { Y, X };  // the operands of `rows`
  const auto rows = rows_along<2>(a.axis, {{a.y}, {a.x}});
  const i64 n = rows.length;
  if (n == 0) return;
  const bool stream = streams(a.y, a.x);
  float kept[kKept], few[runs_of(kKept)];
  float* const space = n <= kKept ? kept : static_cast<float*>(l.workspace);
  float* const largest = n <= kKept ? few : space + n;
  for (i64 row = 0; row < rows.count; ++row) {
    float* y = rows.row(Y, a.y.as<float>(), row).data;
    const float* x = rows.row(X, a.x.as<const float>(), row).data;
    if (a.log)
      log_softmax_row(y, x, n, stream);
    else
      softmax_row(y, x, stream ? space : y, largest, n, stream);
  }
  if (stream) end_stream();
}

void softmax_backward_avx2(const SoftmaxBackwardArgs& a, const Launch&) {
  enum { GX, GY, Y };  // the operands of `rows`
  const auto rows = rows_along<3>(a.axis, {{a.gx}, {a.gy}, {a.y}});
  const i64 n = rows.length;
  const bool stream = streams(a.gx, a.gy) && streams(a.gx, a.y);
  for (i64 row = 0; row < rows.count; ++row) {
    float* gx = rows.row(GX, a.gx.as<float>(), row).data;
    const float* gy = rows.row(GY, a.gy.as<const float>(), row).data;
    const float* y = rows.row(Y, a.y.as<const float>(), row).data;
    const float sum = gradient_sum(gy, a.log ? nullptr : y, n);
    in_pieces(gx, n, stream, [&](float* to, i64 i, i64 m) {
      softmax_gradients(to, gy + i, y + i, m, sum, a.log);
    });
  }
  if (stream) end_stream();
}
#endif
}  // namespace wt
