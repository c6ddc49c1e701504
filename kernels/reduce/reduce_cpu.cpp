// The cpu's fast reductions of floats. Blocks of at most 64 rows of vectors are reduced to one row
// of lanes in the elements' own type, and the lanes are merged into totals of f64: faster than one
// chain and far more exact.
#include "warptape/kernels/reduce/reduce_cpu.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/cpu/half_rows.h"
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/cpu/unroll.h"
#include "warptape/kernels/reduce/reduce_lanes_cpu.h"

namespace wt {
namespace {

using detail::ReducePlan;
using namespace lanes;

constexpr i64 kChain = 64;     // rows of a block
constexpr int kVectors = 4;    // vectors of a row: independent chains hide an operation's latency
constexpr i64 kBuffer = 1024;  // 16-bit elements that are converted at a time

template <class Op, class C>
using AccOf = typename Op::template Acc<typename Lanes<C>::Vector>;

// `rows` (at most kChain) rows of N vectors, `step` elements apart.
template <class Op, int N, class C>
WT_HOT void fill_block(AccOf<Op, C> (&acc)[N], const C* p, i64 rows, i64 step) {
  using L = Lanes<C>;
  typename L::Vector v;
  if constexpr (std::is_same_v<Op, MomentLanes>) {
    const C each = C(1) / C(rows);
    WT_UNROLL
    for (int k = 0; k < N; ++k) {
      L::load(acc[k].mean, p + k * L::kCount);
      acc[k].squares = acc[k].rest = acc[k].mean - acc[k].mean;
    }
    for (i64 r = 1; r < rows; ++r) {
      WT_UNROLL
      for (int k = 0; k < N; ++k) {
        L::load(v, p + r * step + k * L::kCount);
        acc[k].rest += v - acc[k].mean;
      }
    }
    WT_UNROLL
    for (int k = 0; k < N; ++k) {  // of equal elements the mean is the element, exactly
      acc[k].mean += acc[k].rest * each;
      acc[k].rest = acc[k].squares;
    }
    for (i64 r = 0; r < rows; ++r) {
      WT_UNROLL
      for (int k = 0; k < N; ++k) {
        L::load(v, p + r * step + k * L::kCount);
        v -= acc[k].mean;
        acc[k].rest += v;
        acc[k].squares += v * v;
      }
    }
  } else {
    WT_UNROLL
    for (int k = 0; k < N; ++k) {
      L::load(v, p + k * L::kCount);
      Op::first(acc[k], v);
    }
    for (i64 r = 1; r < rows; ++r) {
      WT_UNROLL
      for (int k = 0; k < N; ++k) {
        L::load(v, p + r * step + k * L::kCount);
        Op::step(acc[k], v, r);
      }
    }
  }
}

// --- runs of consecutive elements into one total ---
template <class Op, int N, class C, class Total>
WT_HOT void reduce_block_of_run(Total& total, const C* p, i64 rows, i64 place) {
  using L = Lanes<C>;
  constexpr i64 kStep = N * L::kCount;
  AccOf<Op, C> acc[N];
  fill_block<Op, N>(acc, p, rows, kStep);
  if constexpr (std::is_same_v<Op, MomentLanes>) {
    Op::template fold_all<C>(total, acc, rows);
  } else {
    int left = N;
    if constexpr (Op::kJoins)
      for (; left > 1; left /= 2)
        for (int k = 0; k < left / 2; ++k) Op::join(acc[k], acc[k + left / 2]);
    for (int k = 0; k < left; ++k)
      for (int l = 0; l < L::kCount; ++l)
        Op::template fold<C>(total, acc[k], l, rows, Where{place + k * L::kCount + l, kStep});
  }
}

template <class Op, class C, class Total>
WT_HOT void reduce_run(Total& total, const C* p, i64 n, i64 place) {
  constexpr i64 kNarrow = Lanes<C>::kCount, kWide = kVectors * kNarrow;
  i64 at = 0;
  for (i64 rows; n - at >= kWide; at += rows * kWide) {
    rows = std::min((n - at) / kWide, kChain);
    reduce_block_of_run<Op, kVectors>(total, p + at, rows, place + at);
  }
  if (const i64 rows = (n - at) / kNarrow) {
    reduce_block_of_run<Op, 1>(total, p + at, rows, place + at);
    at += rows * kNarrow;
  }
  for (; at < n; ++at) Op::template one<C>(total, p[at], place + at);
}

template <class Op, class T, class Total>
WT_HOT void reduce_run_of(Total& total, const T* p, i64 n, i64 place) {
  if constexpr (std::is_same_v<T, ComputeType<T>>) {
    reduce_run<Op, T>(total, p, n, place);
  } else {
    float buffer[kBuffer];
    for (i64 i = 0; i < n; i += kBuffer) {
      const i64 m = std::min(n - i, kBuffer);
      detail::convert_row(buffer, p + i, m);
      reduce_run<Op, float>(total, buffer, m, place + i);
    }
  }
}

// What a total starts from is the entry's identity in its type.
template <class F, class Op, class C>
WT_HOT auto start_of() {
  using Total = typename Op::template Total<C>;
  if constexpr (std::is_same_v<Total, C> || std::is_same_v<Total, red::Candidate<C>>)
    return F::template identity<C>();
  else if constexpr (std::is_same_v<F, red::Norm>)
    return 0.0;  // squares of floats need no units in doubles
  else
    return F::template identity<double>();
}
template <class F, class T, class Total>
WT_HOT void store(const ReduceArgs<F>& a, i64 at, const Total& total) {
  using C = ComputeType<T>;
  if constexpr (F::kOutput == red::Output::place) {
    a.out.template as<i64>()[at] = total.place;
  } else {
    using Finished = std::conditional_t<std::is_same_v<Total, C>, C, double>;
    T& out = a.out.template as<T>()[at];
    Finished y;
    if constexpr (std::is_same_v<F, red::Norm>)
      y = a.f.finish_wide(total);
    else
      y = a.f.template finish<Finished>(total);
    if constexpr (F::kAccumulates)
      if (a.f.accumulate) y += Finished(C(out));
    out = T(C(y));
  }
}

// One output after the other, from whatever strides.
template <class Op, class T, class F>
WT_HOT void reduce_rows(const ReducePlan& plan, const ReduceArgs<F>& a) {
  using C = ComputeType<T>;
  const i64 outputs = plan.kept.inner(), length = plan.reduced.inner();
  const i64 step = plan.reduced.inner_stride(0);
  const T* in = a.in.template as<T>();
  for_each_row(plan.kept, [&](const i64(&at)[2]) WT_INLINE_LAMBDA {
    for (i64 o = 0; o < outputs; ++o) {
      auto total = start_of<F, Op, C>();
      const T* start = in + at[0] + o * plan.kept.inner_stride(0);
      i64 place = 0;
      for_each_row(plan.reduced, [&](const i64(&from)[1]) WT_INLINE_LAMBDA {
        const T* p = start + from[0];
        if (step == 1)
          reduce_run_of<Op, T>(total, p, length, place);
        else
          for (i64 i = 0; i < length; ++i) Op::template one<C>(total, C(p[i * step]), place + i);
        place += length;
      });
      store<F, T>(a, at[1] + o * plan.kept.inner_stride(1), total);
    }
  });
}

// --- consecutive outputs: rows are added to rows ---
// N vectors of lanes to as many totals.
template <class Op, int N, class C, class Total>
WT_HOT void fold_columns(Total* totals, const AccOf<Op, C>* acc, i64 rows, i64 place) {
  constexpr int kCount = Lanes<C>::kCount;
  if constexpr (requires { Op::template fold_tile<C, N>(totals, acc); })
    Op::template fold_tile<C, N>(totals, acc);
  else
    for (int k = 0; k < N; ++k)
      for (int l = 0; l < kCount; ++l)
        Op::template fold<C>(totals[k * kCount + l], acc[k], l, rows, Where{place, 1});
}

// A block of rows is walked from left to right, a tile of N vectors at a time, so that memory is
// read along the rows; few rows a block, so that the processor sees them as streams.
template <class Op, int N, class T, class Total>
WT_HOT void reduce_tile(const T* p, i64 rows, i64 step, i64 place, Total* totals) {
  using C = ComputeType<T>;
  constexpr int kCount = Lanes<C>::kCount;
  AccOf<Op, C> acc[N];
  if constexpr (std::is_same_v<T, C>) {
    fill_block<Op, N>(acc, p, rows, step);
  } else {
    constexpr i64 kWidth = N * kCount;
    C buffer[Op::kRows * kWidth];
    for (i64 k = 0; k < rows; ++k) detail::convert_row(buffer + k * kWidth, p + k * step, kWidth);
    fill_block<Op, N>(acc, static_cast<const C*>(buffer), rows, kWidth);
  }
  fold_columns<Op, N, C>(totals, acc, rows, place);
}

template <class Op, class T, class Total>
WT_HOT void reduce_rows_of_block(const T* p, i64 rows, i64 step, i64 columns, i64 place,
                                 Total* totals) {
  using C = ComputeType<T>;
  constexpr i64 kNarrow = Lanes<C>::kCount, kWide = kVectors * kNarrow;
  i64 c = 0;
  for (; c + kWide <= columns; c += kWide)
    reduce_tile<Op, kVectors>(p + c, rows, step, place, totals + c);
  for (; c + kNarrow <= columns; c += kNarrow)
    reduce_tile<Op, 1>(p + c, rows, step, place, totals + c);
  for (; c < columns; ++c)
    for (i64 r = 0; r < rows; ++r) Op::template one<C>(totals[c], C(p[c + r * step]), place + r);
}

// Columns whose totals are gathered at a time: each row of a block is then a stream of four pages,
// long enough for the processor to fetch ahead. At most 8 rows a block: rows that are a power of
// two apart share the sets of the first level cache.
constexpr i64 kColumns = 4096;

// Lanes are kept from block to block, and merged at the end or before they lose anything.
template <class Op, class C>
struct KeptLanes {
  static constexpr i64 kCount = Lanes<C>::kCount;
  AccOf<Op, C> acc[kColumns / kCount];
  i64 first_row = 0, rows = 0;  // what the lanes have seen

  template <int N>
  WT_HOT void take_tile(i64 at, const C* p, i64 n, i64 step) {
    AccOf<Op, C> local[N];
    typename Lanes<C>::Vector v;
    WT_UNROLL
    for (int k = 0; k < N; ++k) {
      local[k] = acc[at + k];
      if (rows > 0) continue;
      Lanes<C>::load(v, p + k * kCount);
      Op::first(local[k], v);
    }
    for (i64 r = rows > 0 ? 0 : 1; r < n; ++r) {
      WT_UNROLL
      for (int k = 0; k < N; ++k) {
        Lanes<C>::load(v, p + r * step + k * kCount);
        Op::step(local[k], v, rows + r);
      }
    }
    WT_UNROLL
    for (int k = 0; k < N; ++k) acc[at + k] = local[k];
  }
  template <class Total>
  WT_HOT void take(const C* p, i64 n, i64 step, i64 columns, i64 place, Total* totals) {
    if (rows + n > Op::kMostRows) merge(columns, totals);
    if (rows == 0) first_row = place;
    const i64 vectors = columns / kCount;
    i64 k = 0;
    for (; k + kVectors <= vectors; k += kVectors) take_tile<kVectors>(k, p + k * kCount, n, step);
    for (; k < vectors; ++k) take_tile<1>(k, p + k * kCount, n, step);
    for (i64 c = vectors * kCount; c < columns; ++c)
      for (i64 r = 0; r < n; ++r) Op::template one<C>(totals[c], C(p[c + r * step]), place + r);
    rows += n;
  }
  template <class Total>
  WT_HOT void merge(i64 columns, Total* totals) {
    for (i64 k = 0; rows > 0 && k < columns / kCount; ++k)
      fold_columns<Op, 1, C>(totals + k * kCount, acc + k, rows, first_row);
    rows = 0;
  }
};

// Moments of columns. All have seen as many rows: one division serves a block.
template <>
struct KeptLanes<MomentLanes, float> {
  double mean[kColumns], squares[kColumns];
  i64 rows = 0;

  // Of a block of n rows after `before`: 1 / n, n / (before + n), before n / (before + n).
  struct Block {
    double each, share, weight;
    bool first;
  };

  template <int Half>
  WT_HOT void add(i64 at, const AccOf<MomentLanes, float>& acc, const Block& b) {
    Doubles rest, m, s, d, to_mean, to_squares;
    widen_half<Half>(rest, acc.rest);
    widen_half<Half>(m, acc.mean);
    widen_half<Half>(s, acc.squares);
    m += rest * b.each;
    s -= rest * rest * b.each;
    s = s < 0 ? Doubles{} : s;  // NaN stays
    if (!b.first) {
      std::memcpy(&to_mean, mean + at, sizeof to_mean);
      std::memcpy(&to_squares, squares + at, sizeof to_squares);
      d = m - to_mean;
      s = to_squares + (s + d * d * b.weight);
      m = to_mean + d * b.share;
    }
    std::memcpy(mean + at, &m, sizeof m);
    std::memcpy(squares + at, &s, sizeof s);
  }
  template <int N>
  WT_HOT void take_tile(i64 at, const float* p, i64 n, i64 step, const Block& b) {
    AccOf<MomentLanes, float> acc[N];
    fill_block<MomentLanes, N>(acc, p, n, step);
    WT_UNROLL
    for (int k = 0; k < N; ++k) {
      add<0>(at + 8 * k, acc[k], b);
      add<1>(at + 8 * k + 4, acc[k], b);
    }
  }
  template <class Total>
  WT_HOT void take(const float* p, i64 n, i64 step, i64 columns, i64 place, Total* totals) {
    const double share = double(n) / double(rows + n);
    const Block b{1 / double(n), share, double(rows) * share, rows == 0};
    i64 c = 0;
    for (; c + 32 <= columns; c += 32) take_tile<4>(c, p + c, n, step, b);
    for (; c + 8 <= columns; c += 8) take_tile<1>(c, p + c, n, step, b);
    for (; c < columns; ++c)
      for (i64 r = 0; r < n; ++r) MomentLanes::one<float>(totals[c], p[c + r * step], place + r);
    rows += n;
  }
  template <class Total>
  WT_HOT void merge(i64 columns, Total* totals) {
    for (i64 c = 0; rows > 0 && c < columns / 8 * 8; ++c)
      totals[c] = {double(rows), mean[c], squares[c]};
  }
};

template <class Op, class T, class F>
WT_HOT void reduce_columns(const ReducePlan& plan, const ReduceArgs<F>& a) {
  using C = ComputeType<T>;
  const i64 all = plan.kept.inner(), rows = plan.reduced.inner();
  const i64 step = plan.reduced.inner_stride(0);
  for_each_row(plan.kept, [&](const i64(&at)[2]) WT_INLINE_LAMBDA {
    for (i64 c = 0; c < all; c += kColumns) {
      const i64 columns = std::min(all - c, kColumns);
      const T* in = a.in.template as<T>() + at[0] + c;
      typename Op::template Total<C> totals[kColumns];
      std::fill_n(totals, columns, start_of<F, Op, C>());
      constexpr bool kKept = std::is_same_v<T, C>;  // 16-bit rows are converted first
      [[maybe_unused]] std::conditional_t<kKept, KeptLanes<Op, C>, i64> lanes;
      if constexpr (kKept) lanes.rows = 0;
      i64 place = 0;
      for_each_row(plan.reduced, [&](const i64(&from)[1]) WT_INLINE_LAMBDA {
        for (i64 r = 0; r < rows; r += Op::kRows) {
          const T* p = in + from[0] + r * step;
          const i64 n = std::min(rows - r, Op::kRows);
          if constexpr (kKept)
            lanes.take(p, n, step, columns, place + r, totals);
          else
            reduce_rows_of_block<Op>(p, n, step, columns, place + r, totals);
        }
        place += rows;
      });
      if constexpr (kKept) lanes.merge(columns, totals);
      for (i64 i = 0; i < columns; ++i)
        store<F, T>(a, at[1] + (c + i) * plan.kept.inner_stride(1), totals[i]);
    }
  });
}

// --- one body, compiled for each instruction set ---
template <class Op, class T, class F>
WT_HOT void reduce(const ReducePlan& plan, const ReduceArgs<F>& a) {
  if (plan.reduced.inner_stride(0) != 1 && plan.kept.inner_stride(0) == 1)
    reduce_columns<Op, T>(plan, a);
  else
    reduce_rows<Op, T>(plan, a);
}
template <class Op, class T, class F>
WT_TARGET_AVX2 void reduce_avx2(const ReducePlan& plan, const ReduceArgs<F>& a) {
  reduce<Op, T>(plan, a);
}
template <class Op, class T, class F>
void reduce_plain(const ReducePlan& plan, const ReduceArgs<F>& a) {
  reduce<Op, T>(plan, a);
}

template <class Op, class F>
void reduce_floats(const ReduceArgs<F>& a) {
  ReducePlan plan;
  detail::plan_reduction(plan, a);
  dispatch_floating(a.in.dtype(), [&]<class T>() {
    if (cpu_isa() >= kAvx2)
      reduce_avx2<Op, T>(plan, a);
    else
      reduce_plain<Op, T>(plan, a);
  });
}
// Of f32, with AVX2: compile time is dear.
template <class Op, class F>
void reduce_f32(const ReduceArgs<F>& a) {
  ReducePlan plan;
  detail::plan_reduction(plan, a);
  reduce_avx2<Op, float>(plan, a);
}

}  // namespace

namespace detail {

#define WT_VECTORIZED(Entry) \
  template <>                \
  void reduce_vectorized(const ReduceArgs<red::Entry>& a, const Launch&)
WT_VECTORIZED(Sum) { reduce_floats<SumLanes>(a); }
WT_VECTORIZED(Extreme) {
  if (a.f.least)
    reduce_f32<ExtremeLanes<true>>(a);
  else
    reduce_floats<ExtremeLanes<false>>(a);
}
WT_VECTORIZED(Place) {
  if (a.f.least)
    reduce_f32<PlaceLanes<true>>(a);
  else
    reduce_f32<PlaceLanes<false>>(a);
}
WT_VECTORIZED(Product) { reduce_f32<ProductLanes>(a); }
WT_VECTORIZED(Moments) { reduce_f32<MomentLanes>(a); }
WT_VECTORIZED(Norm) {
  if (a.f.absolute)
    reduce_f32<AbsoluteLanes>(a);
  else
    reduce_f32<NormLanes>(a);
}
#undef WT_VECTORIZED

template <class F>
const char* vectorized_why_not(const ReduceArgs<F>& a) {
  bool every = std::is_same_v<F, red::Sum>;
  if constexpr (std::is_same_v<F, red::Extreme>) every = !a.f.least;
  if constexpr (std::is_same_v<F, red::Truth>) return nullptr;
  if (every) return is_floating(a.in.dtype()) ? nullptr : "it takes floats only";
  if (a.in.dtype() != DType::f32) return "it takes f32 only";
  return cpu_isa() < kAvx2 ? kNoAvx2 : nullptr;
}
#define WT_WHY_NOT(contract, Entry) \
  template const char* vectorized_why_not(const ReduceArgs<red::Entry>& a);
WT_REDUCTIONS(WT_WHY_NOT)

}  // namespace detail

}  // namespace wt
