// logsumexp of f32 on the cpu. Runs and blocks of rows are read twice, the second time from the
// cache: once for the largest element, then for the exponentials of the distances to it.
#include <algorithm>

#include "warptape/kernels/cpu_exponentials.h"
#include "warptape/kernels/reduce_cpu.h"

namespace wt {
namespace {

#if WT_X86
using State = red::Scaled<double>;
using red::LogSumExp;

void take_run(State& s, const float* p, i64 n) {
  for (i64 at = 0; at < n; at += kRunOfExps) {
    const i64 m = std::min(n - at, kRunOfExps);
    const float largest = largest_of(p + at, m);
    const float sum = exponentials<Exps::shares>(nullptr, p + at, m, largest, kRunOfExps);
    s = LogSumExp::merge<double>(s, {largest, sum});
  }
}

// One output after the other, from whatever strides.
void reduce_rows(const detail::ReducePlan& plan, const LogsumexpArgs& a) {
  const i64 length = plan.reduced.inner(), step = plan.reduced.inner_stride(0);
  for_each_row(plan.kept, [&](const i64(&at)[2]) {
    for (i64 o = 0; o < plan.kept.inner(); ++o) {
      const float* start = a.in.as<float>() + at[0] + o * plan.kept.inner_stride(0);
      State s = LogSumExp::identity<double>();
      for_each_row(plan.reduced, [&](const i64(&from)[1]) {
        const float* p = start + from[0];
        if (step == 1) return take_run(s, p, length);
        for (i64 i = 0; i < length; ++i) a.f.take<double>(s, p[i * step], i);
      });
      a.out.as<float>()[at[1] + o * plan.kept.inner_stride(1)] = float(a.f.finish(s));
    }
  });
}

constexpr i64 kRows = 16, kColumns = 1024;  // a block of rows; columns at a time

struct Columns {
  float largest[kColumns], sum[kColumns];
};

// `rows` rows of N vectors; past `last` elements of the last vector they read as -inf.
template <int N>
WT_TARGET_AVX2 void take_tile(float* largest, float* sum, const float* p, i64 rows, i64 step,
                              i64 last) {
  f32x8 m[N], s[N];
  const auto load = [&](i64 r, int k) WT_TARGET_AVX2 __attribute__((always_inline)) {
    const float* from = p + r * step + 8 * k;
    return last == 8 ? load8(from) : load_part8(from, last, -INFINITY);
  };
  for (int k = 0; k < N; ++k) m[k] = load8(largest + 8 * k);
  for (i64 r = 0; r < rows; ++r)
    for (int k = 0; k < N; ++k) m[k] = max8(m[k], load(r, k));
  for (int k = 0; k < N; ++k) {
    const f32x8 before = load8(largest + 8 * k);
    s[k] = load8(sum + 8 * k) * (before == m[k] ? splat8(1) : exp8(before - m[k]));
  }
  for (i64 r = 0; r < rows; ++r)
    for (int k = 0; k < N; ++k) {
      const f32x8 v = load(r, k);
      s[k] += v == m[k] ? splat8(1) : exp8(v - m[k]);
    }
  for (int k = 0; k < N; ++k) {
    store8(largest + 8 * k, m[k]);
    store8(sum + 8 * k, s[k]);
  }
}

// Consecutive outputs: blocks of rows are walked from left to right.
void reduce_columns(const detail::ReducePlan& plan, const LogsumexpArgs& a) {
  const i64 all = plan.kept.inner(), rows = plan.reduced.inner();
  const i64 step = plan.reduced.inner_stride(0);
  Columns s;
  for_each_row(plan.kept, [&](const i64(&at)[2]) {
    for (i64 c = 0; c < all; c += kColumns) {
      const i64 n = std::min(all - c, kColumns);
      std::fill_n(s.largest, kColumns, -INFINITY);
      std::fill_n(s.sum, kColumns, 0.0f);
      for_each_row(plan.reduced, [&](const i64(&from)[1]) {
        for (i64 r = 0; r < rows; r += kRows) {
          const float* p = a.in.as<float>() + at[0] + c + from[0] + r * step;
          const i64 block = std::min(rows - r, kRows);
          i64 i = 0;
          for (; i + 32 <= n; i += 32)
            take_tile<4>(s.largest + i, s.sum + i, p + i, block, step, 8);
          for (; i < n; i += 8)
            take_tile<1>(s.largest + i, s.sum + i, p + i, block, step, std::min(n - i, i64{8}));
        }
      });
      float* out = a.out.as<float>() + at[1] + c * plan.kept.inner_stride(1);
      for (i64 i = 0; i < n; ++i)
        out[i * plan.kept.inner_stride(1)] = float(a.f.finish(State{s.largest[i], s.sum[i]}));
    }
  });
}
#endif

}  // namespace

template <>
void detail::reduce_vectorized(const LogsumexpArgs& a, const Launch&) {
#if WT_X86
  ReducePlan plan;
  plan_reduction(plan, a);
  if (plan.reduced.inner_stride(0) != 1 && plan.kept.inner_stride(0) == 1)
    reduce_columns(plan, a);
  else
    reduce_rows(plan, a);
#else
  (void)a;  // vectorized_why_not
#endif
}

}  // namespace wt
