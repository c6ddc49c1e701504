// logsumexp of f32 on the cpu. Runs and blocks of rows are read twice, the second time from the
// cache: once for the largest element, then for the exponentials of the distances to it.
#include <algorithm>

#include "warptape/kernels/cpu/exp_rows.h"
#include "warptape/kernels/reduce/reduce_cpu.h"

namespace wt {
namespace {

using State = red::Scaled<double>;
using red::LogSumExp;

void take_run(State& s, const float* p, i64 n) {
  const ExpRows& with = exp_rows();
  for (i64 at = 0; at < n; at += kRunOfExps) {
    const i64 m = std::min(n - at, kRunOfExps);
    const float largest = with.largest(p + at, m);
    const auto sum_with = std::isfinite(largest) ? with.sum : with.shares;
    const float sum = sum_with(nullptr, p + at, m, largest, kRunOfExps);
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

constexpr i64 kRows = 8, kColumns = 4096;  // as in reduce/reduce_cpu.cpp

struct Columns {
  float largest[kColumns], sum[kColumns];
};

// Consecutive outputs: blocks of rows are walked from left to right.
void reduce_columns(const detail::ReducePlan& plan, const LogsumexpArgs& a) {
  const i64 all = plan.kept.inner(), rows = plan.reduced.inner();
  const i64 step = plan.reduced.inner_stride(0);
  const ExpRows& with = exp_rows();
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
          with.columns(s.largest, s.sum, p, block, step, n);
        }
      });
      float* out = a.out.as<float>() + at[1] + c * plan.kept.inner_stride(1);
      for (i64 i = 0; i < n; ++i)
        out[i * plan.kept.inner_stride(1)] = float(a.f.finish(State{s.largest[i], s.sum[i]}));
    }
  });
}

}  // namespace

template <>
void detail::reduce_vectorized(const LogsumexpArgs& a, const Launch&) {
  ReducePlan plan;
  plan_reduction(plan, a);
  if (plan.reduced.inner_stride(0) != 1 && plan.kept.inner_stride(0) == 1)
    reduce_columns(plan, a);
  else
    reduce_rows(plan, a);
}

}  // namespace wt
