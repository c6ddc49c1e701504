// softmax and log_softmax on the cpu.
#include "warptape/kernels/softmax.h"

#include <cmath>

#include "warptape/kernels/cpu_dtypes.h"
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
WT_TARGET_AVX2 void softmax_row(float* y, const float* x, i64 n, bool log) {
  const i64 whole = n & ~7ll, rest = n & 7;
  f32x8 maxima = splat8(-INFINITY), sums = splat8(0);
  for (i64 i = 0; i < whole; i += 8) maxima = max8(maxima, load8(x + i));
  const f32x8 end = load_part8(x + whole, rest, -INFINITY);
  const f32x8 shift = splat8(max_of8(max8(maxima, end)));
  for (i64 i = 0; i < whole; i += 8) {
    const f32x8 e = exp8(load8(x + i) - shift);
    sums += e;
    if (!log) store8(y + i, e);
  }
  const f32x8 end_exp = rest ? exp8(end - shift) : splat8(0);
  const float sum = sum_of8(sums + end_exp);
  if (log) {
    const f32x8 logarithm = splat8(std::log(sum));
    for (i64 i = 0; i < whole; i += 8) store8(y + i, load8(x + i) - shift - logarithm);
    store_part8(y + whole, end - shift - logarithm, rest);
  } else {
    const f32x8 scale = splat8(1.0f / sum);
    for (i64 i = 0; i < whole; i += 8) store8(y + i, load8(y + i) * scale);
    store_part8(y + whole, end_exp * scale, rest);
  }
}

WT_TARGET_AVX2 void softmax_backward_row(float* gx, const float* gy, const float* y, i64 n,
                                         bool log) {
  const i64 whole = n & ~7ll, rest = n & 7;
  f32x8 sums = splat8(0);
  const f32x8 gy_end = load_part8(gy + whole, rest, 0), y_end = load_part8(y + whole, rest, 0);
  if (log) {
    for (i64 i = 0; i < whole; i += 8) sums += load8(gy + i);
    const f32x8 sum = splat8(sum_of8(sums + gy_end));
    for (i64 i = 0; i < whole; i += 8) store8(gx + i, load8(gy + i) - exp8(load8(y + i)) * sum);
    store_part8(gx + whole, gy_end - exp8(y_end) * sum, rest);
  } else {
    for (i64 i = 0; i < whole; i += 8) sums += load8(gy + i) * load8(y + i);
    const f32x8 sum = splat8(sum_of8(sums + gy_end * y_end));
    for (i64 i = 0; i < whole; i += 8) store8(gx + i, load8(y + i) * (load8(gy + i) - sum));
    store_part8(gx + whole, y_end * (gy_end - sum), rest);
  }
}

void forward_avx2(const SoftmaxForwardArgs& a, const Launch&) {
  const auto rows = rows_along<2>(a.axis, {{a.y}, {a.x}});
  if (rows.length == 0) return;
  for (i64 row = 0; row < rows.count; ++row)
    softmax_row(a.y.as<float>() + rows.start(0, row), a.x.as<float>() + rows.start(1, row),
                rows.length, a.log);
}
void backward_avx2(const SoftmaxBackwardArgs& a, const Launch&) {
  const auto rows = rows_along<3>(a.axis, {{a.gx}, {a.gy}, {a.y}});
  for (i64 row = 0; row < rows.count; ++row)
    softmax_backward_row(a.gx.as<float>() + rows.start(0, row),
                         a.gy.as<float>() + rows.start(1, row),
                         a.y.as<float>() + rows.start(2, row), rows.length, a.log);
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
