// softmax and log_softmax on the cpu.
#include "warptape/kernels/softmax.h"

#include <cmath>

#include "warptape/kernels/cpu_dtypes.h"
#include "warptape/kernels/cpu_stream.h"
#include "warptape/kernels/cpu_vector.h"
#include "warptape/kernels/rows.h"

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

#if WT_X86
template <int K>
const char* why_not_avx2(const Rows<K>& rows, DType t) {
  if (!cpu_has_avx2()) return "this processor has no AVX2 with FMA";
  if (t != DType::f32) return "f32 only";
  for (int k = 0; k < K; ++k)
    if (!rows.unit_step(k)) return "the elements of a row must be neighbours";
  return nullptr;
}
const char* forward_why_not(const SoftmaxForwardArgs& a) {
  return why_not_avx2(rows_along<2>(a.axis, {{a.y}, {a.x}}), a.x.dtype());
}
const char* backward_why_not(const SoftmaxBackwardArgs& a) {
  return why_not_avx2(rows_along<3>(a.axis, {{a.gx}, {a.gy}, {a.y}}), a.y.dtype());
}

// What lies past the end of a row reads as -inf: it never is the maximum and adds nothing.
WT_TARGET_AVX2 float row_max(const float* x, i64 n) {
  f32x8 m[4] = {splat8(-INFINITY), splat8(-INFINITY), splat8(-INFINITY), splat8(-INFINITY)};
  i64 i = 0;
  for (; i + 32 <= n; i += 32)
    for (int k = 0; k < 4; ++k) m[k] = max8(m[k], load8(x + i + 8 * k));
  for (; i + 8 <= n; i += 8) m[0] = max8(m[0], load8(x + i));
  m[1] = max8(m[1], load_part8(x + i, n - i, -INFINITY));
  return max_of8(max8(max8(m[0], m[1]), max8(m[2], m[3])));
}
// The sum of e^(x - shift), which also goes to `to` unless that is null.
WT_TARGET_AVX2 float exponentials(float* to, const float* x, i64 n, float shift) {
  f32x8 sums = splat8(0), more = sums;
  i64 i = 0;
  for (; i + 16 <= n; i += 16) {
    const f32x8 e = exp8(load8(x + i) - shift), f = exp8(load8(x + i + 8) - shift);
    sums += e;
    more += f;
    if (!to) continue;
    store8(to + i, e);
    store8(to + i + 8, f);
  }
  for (; i < n; i += 8) {
    const i64 left = n - i < 8 ? n - i : 8;
    const f32x8 e = exp8(load_part8(x + i, left, -INFINITY) - shift);
    sums += e;
    if (to) store_part8(to + i, e, left);
  }
  return sum_of8(sums + more);
}
WT_TARGET_AVX2 void scaled(float* y, const float* e, i64 n, float scale) {
  i64 i = 0;
  for (; i + 8 <= n; i += 8) store8(y + i, load8(e + i) * scale);
  store_part8(y + i, load_part8(e + i, n - i, 0) * scale, n - i);
}
WT_TARGET_AVX2 void scaled_exponentials(float* y, const float* x, i64 n, float shift, float scale) {
  i64 i = 0;
  for (; i + 8 <= n; i += 8) store8(y + i, exp8(load8(x + i) - shift) * scale);
  if (i < n) store_part8(y + i, exp8(load_part8(x + i, n - i, shift) - shift) * scale, n - i);
}
WT_TARGET_AVX2 void shifted(float* y, const float* x, i64 n, float shift, float logarithm) {
  i64 i = 0;
  for (; i + 8 <= n; i += 8) store8(y + i, load8(x + i) - shift - logarithm);
  store_part8(y + i, load_part8(x + i, n - i, 0) - shift - logarithm, n - i);
}

constexpr i64 kKept = 8192;  // exponentials of a row that are kept while it is streamed

void softmax_row(float* y, const float* x, i64 n, bool log, bool stream) {
  const float shift = row_max(x, n);
  if (log) {
    const float logarithm = std::log(exponentials(nullptr, x, n, shift));
    return in_pieces(y, n, stream,
                     [&](float* to, i64 i, i64 m) { shifted(to, x + i, m, shift, logarithm); });
  }
  if (stream && n > kKept) {
    const float scale = 1.0f / exponentials(nullptr, x, n, shift);
    return in_pieces(y, n, stream, [&](float* to, i64 i, i64 m) {
      scaled_exponentials(to, x + i, m, shift, scale);
    });
  }
  float kept[kKept];
  float* e = stream ? kept : y;
  const float scale = 1.0f / exponentials(e, x, n, shift);
  in_pieces(y, n, stream, [&](float* to, i64 i, i64 m) { scaled(to, e + i, m, scale); });
}

WT_TARGET_AVX2 float row_sum(const float* a, const float* b, i64 n) {  // of a, or of a * b
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
WT_TARGET_AVX2 void gradients(float* gx, const float* gy, const float* y, i64 n, float sum,
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

void forward_avx2(const SoftmaxForwardArgs& a, const Launch&) {
  const auto rows = rows_along<2>(a.axis, {{a.y}, {a.x}});
  if (rows.length == 0) return;
  const bool stream = streams(a.y, a.x);
  for (i64 row = 0; row < rows.count; ++row)
    softmax_row(a.y.as<float>() + rows.start(0, row), a.x.as<float>() + rows.start(1, row),
                rows.length, a.log, stream);
  if (stream) end_stream();
}
void backward_avx2(const SoftmaxBackwardArgs& a, const Launch&) {
  const auto rows = rows_along<3>(a.axis, {{a.gx}, {a.gy}, {a.y}});
  const i64 n = rows.length;
  const bool stream = streams(a.gx, a.gy) && streams(a.gx, a.y);
  for (i64 row = 0; row < rows.count; ++row) {
    const float* gy = a.gy.as<float>() + rows.start(1, row);
    const float* y = a.y.as<float>() + rows.start(2, row);
    const float sum = row_sum(gy, a.log ? nullptr : y, n);
    in_pieces(a.gx.as<float>() + rows.start(0, row), n, stream,
              [&](float* to, i64 i, i64 m) { gradients(to, gy + i, y + i, m, sum, a.log); });
  }
  if (stream) end_stream();
}
#endif

}  // namespace

WT_VARIANTS(cpu, softmax_forward, SoftmaxForwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = forward_why_not,
                        .launch = forward_avx2){
                .name = "reference", .rank = 10, .launch = forward_reference});
WT_VARIANTS(cpu, softmax_backward, SoftmaxBackwardArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = backward_why_not,
                        .launch = backward_avx2){
                .name = "reference", .rank = 10, .launch = backward_reference});

}  // namespace wt
