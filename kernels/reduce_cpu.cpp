// The cpu's fast reductions of floats. Additions form short chains in f32 lanes (at most 64 deep)
// whose sums are added up in f64: faster than one chain and far more exact.
#include "warptape/kernels/reduce_cpu.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "warptape/kernels/cpu_dtypes.h"
#include "warptape/kernels/cpu_isa.h"
#include "warptape/kernels/half_rows.h"

namespace wt {
namespace {

using detail::ReducePlan;

constexpr i64 kChain = 64;     // vector additions before lanes are folded into the total
constexpr int kVectors = 4;    // independent chains, to hide the latency of an addition
constexpr i64 kBuffer = 1024;  // 16-bit elements that are converted at a time

// C = float or double, computed 32 bytes at a time (compilers split that where they have to).
template <class C>
struct Lanes {
  typedef C Vector __attribute__((vector_size(32)));
  static constexpr int kCount = 32 / sizeof(C);
  WT_HOT
  static void load(Vector& v, const C* p) { std::memcpy(&v, p, sizeof v); }
};

struct SumOp {
  template <class C>
  using Total = double;
  template <class C>
  static constexpr double kStart = 0;
  template <class V>
  WT_HOT static void step(V& acc, const V& v) {
    acc += v;
  }
  template <class C>
  WT_HOT static void fold(double& total, C v) {
    total += double(v);
  }
  template <class T>
  WT_HOT static void store(const SumArgs& a, T& out, double total) {
    total /= double(a.divide_by);
    if (a.accumulate) total += double(ComputeType<T>(out));
    out = T(ComputeType<T>(total));
  }
};

struct MaxOp {
  template <class C>
  using Total = C;
  template <class C>
  static constexpr C kStart = -std::numeric_limits<C>::infinity();
  // Once NaN, always NaN: no comparison with it holds.
  template <class V>
  WT_HOT static void step(V& acc, const V& v) {
    acc = ((v > acc) | (v != v)) ? v : acc;
  }
  template <class C>
  WT_HOT static void fold(C& total, C v) {
    if (v > total || v != v) total = v;
  }
  template <class T>
  WT_HOT static void store(const MaxArgs&, T& out, ComputeType<T> total) {
    out = T(total);
  }
};

template <class Op, class V, class C>
WT_HOT void step_at(V& acc, const C* p) {
  V v;
  Lanes<C>::load(v, p);
  Op::step(acc, v);
}

// --- runs of consecutive elements into one total -------------------------------------------------
template <class Op, class C>
WT_HOT void fold_lanes(typename Op::template Total<C>& total, const typename Lanes<C>::Vector& v) {
  for (int l = 0; l < Lanes<C>::kCount; ++l) Op::fold(total, C(v[l]));
}

template <class Op, class C>
WT_HOT void reduce_run(typename Op::template Total<C>& total, const C* p, i64 n) {
  using L = Lanes<C>;
  constexpr i64 kStep = kVectors * L::kCount;
  while (n >= kStep) {
    const i64 steps = std::min(n / kStep, kChain);
    typename L::Vector acc[kVectors];
    for (int k = 0; k < kVectors; ++k) L::load(acc[k], p + k * L::kCount);
    for (i64 s = 1; s < steps; ++s)
      for (int k = 0; k < kVectors; ++k) step_at<Op>(acc[k], p + s * kStep + k * L::kCount);
    Op::step(acc[0], acc[1]);
    Op::step(acc[2], acc[3]);
    Op::step(acc[0], acc[2]);
    fold_lanes<Op, C>(total, acc[0]);
    p += steps * kStep;
    n -= steps * kStep;
  }
  if (n >= L::kCount) {
    typename L::Vector acc;
    L::load(acc, p);
    for (p += L::kCount, n -= L::kCount; n >= L::kCount; p += L::kCount, n -= L::kCount)
      step_at<Op>(acc, p);
    fold_lanes<Op, C>(total, acc);
  }
  for (i64 i = 0; i < n; ++i) Op::fold(total, p[i]);
}

template <class Op, class T, class Total>
WT_HOT void reduce_run_of(Total& total, const T* p, i64 n) {
  if constexpr (std::is_same_v<T, ComputeType<T>>) {
    reduce_run<Op, T>(total, p, n);
  } else {
    float buffer[kBuffer];
    for (i64 i = 0; i < n; i += kBuffer) {
      const i64 m = std::min(n - i, kBuffer);
      detail::convert_row(buffer, p + i, m);
      reduce_run<Op, float>(total, buffer, m);
    }
  }
}

// One output after the other, from whatever strides.
template <class Op, class T, class Args>
WT_HOT void reduce_rows(const ReducePlan& plan, const Args& a) {
  using C = ComputeType<T>;
  const i64 outputs = plan.kept.inner(), length = plan.reduced.inner();
  const i64 step = plan.reduced.inner_stride(0);
  const T* in = a.in.template as<T>();
  T* out = a.out.template as<T>();
  for_each_row(plan.kept, [&](const i64(&at)[2]) WT_INLINE_LAMBDA {
    for (i64 o = 0; o < outputs; ++o) {
      typename Op::template Total<C> total = Op::template kStart<C>;
      const T* start = in + at[0] + o * plan.kept.inner_stride(0);
      for_each_row(plan.reduced, [&](const i64(&from)[1]) WT_INLINE_LAMBDA {
        const T* p = start + from[0];
        if (step == 1)
          reduce_run_of<Op, T>(total, p, length);
        else
          for (i64 i = 0; i < length; ++i) Op::fold(total, C(p[i * step]));
      });
      Op::store(a, out[at[1] + o * plan.kept.inner_stride(1)], total);
    }
  });
}

// --- consecutive outputs: rows are added to rows, a tile of columns at a time
// ---------------------- `rows` (at most kChain) rows of N vectors.
template <class Op, int N, class C>
WT_HOT void reduce_block(const C* p, i64 rows, i64 step, typename Op::template Total<C>* totals) {
  using L = Lanes<C>;
  typename L::Vector acc[N];
  for (int k = 0; k < N; ++k) L::load(acc[k], p + k * L::kCount);
  for (i64 r = 1; r < rows; ++r) {
    p += step;
    for (int k = 0; k < N; ++k) step_at<Op>(acc[k], p + k * L::kCount);
  }
  for (int k = 0; k < N; ++k)
    for (int l = 0; l < L::kCount; ++l) Op::fold(totals[k * L::kCount + l], C(acc[k][l]));
}

// Totals of N vectors of columns from `base`.
template <class Op, int N, class T, class Total>
WT_HOT void reduce_tile(const ReducePlan& plan, const T* base, Total* totals) {
  using C = ComputeType<T>;
  constexpr i64 kWidth = N * Lanes<C>::kCount;
  const i64 rows = plan.reduced.inner(), step = plan.reduced.inner_stride(0);
  for_each_row(plan.reduced, [&](const i64(&from)[1]) WT_INLINE_LAMBDA {
    for (i64 r = 0; r < rows; r += kChain) {
      const T* p = base + from[0] + r * step;
      const i64 m = std::min(rows - r, kChain);
      if constexpr (std::is_same_v<T, C>) {
        reduce_block<Op, N>(p, m, step, totals);
      } else {
        C buffer[kChain * kWidth];
        for (i64 k = 0; k < m; ++k) detail::convert_row(buffer + k * kWidth, p + k * step, kWidth);
        reduce_block<Op, N>(static_cast<const C*>(buffer), m, kWidth, totals);
      }
    }
  });
}

template <class Op, class T, class Total>
WT_HOT void reduce_column(const ReducePlan& plan, const T* base, Total& total) {
  const i64 rows = plan.reduced.inner(), step = plan.reduced.inner_stride(0);
  for_each_row(plan.reduced, [&](const i64(&from)[1]) WT_INLINE_LAMBDA {
    const T* p = base + from[0];
    for (i64 r = 0; r < rows; ++r) Op::fold(total, ComputeType<T>(p[r * step]));
  });
}

template <class Op, class T, class Args>
WT_HOT void reduce_columns(const ReducePlan& plan, const Args& a) {
  using C = ComputeType<T>;
  constexpr i64 kNarrow = Lanes<C>::kCount, kWide = kVectors * kNarrow;
  const i64 columns = plan.kept.inner(), step_out = plan.kept.inner_stride(1);
  for_each_row(plan.kept, [&](const i64(&at)[2]) WT_INLINE_LAMBDA {
    const T* in = a.in.template as<T>() + at[0];
    T* out = a.out.template as<T>() + at[1];
    for (i64 c = 0, width; c < columns; c += width) {
      const i64 left = columns - c;
      width = left >= kWide ? kWide : left >= kNarrow ? kNarrow : 1;
      typename Op::template Total<C> totals[kWide];
      std::fill_n(totals, width, Op::template kStart<C>);
      if (width == kWide)
        reduce_tile<Op, kVectors>(plan, in + c, totals);
      else if (width == kNarrow)
        reduce_tile<Op, 1>(plan, in + c, totals);
      else
        reduce_column<Op>(plan, in + c, totals[0]);
      for (i64 i = 0; i < width; ++i) Op::store(a, out[(c + i) * step_out], totals[i]);
    }
  });
}

// --- one body, compiled for each instruction set
// ---------------------------------------------------
template <class Op, class T, class Args>
WT_HOT void reduce(const ReducePlan& plan, const Args& a) {
  if (plan.reduced.inner_stride(0) != 1 && plan.kept.inner_stride(0) == 1)
    reduce_columns<Op, T>(plan, a);
  else
    reduce_rows<Op, T>(plan, a);
}
template <class Op, class T, class Args>
WT_TARGET_AVX2 void reduce_avx2(const ReducePlan& plan, const Args& a) {
  reduce<Op, T>(plan, a);
}
template <class Op, class T, class Args>
void reduce_plain(const ReducePlan& plan, const Args& a) {
  reduce<Op, T>(plan, a);
}

template <class Op, class Args>
void reduce_any(const Args& a) {
  ReducePlan plan;
  detail::plan_reduction(plan, a.out, a.in, a.mask, LoopOrder::memory);
  dispatch_floating(a.in.dtype(), [&]<class T>() {
    if (cpu_has_avx2())
      reduce_avx2<Op, T>(plan, a);
    else
      reduce_plain<Op, T>(plan, a);
  });
}
}  // namespace

void detail::sum_vectorized(const SumArgs& a, const Launch&) { reduce_any<SumOp>(a); }
void detail::max_vectorized(const MaxArgs& a, const Launch&) { reduce_any<MaxOp>(a); }

}  // namespace wt
