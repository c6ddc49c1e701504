// The cpu's fast reductions of floats. Blocks of at most 64 rows of vectors are reduced to one row
// of lanes in the elements' own type, and the lanes are merged into totals of f64: faster than one
// chain and far more exact.
#include "warptape/kernels/reduce_cpu.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "warptape/kernels/cpu_dtypes.h"
#include "warptape/kernels/cpu_isa.h"
#include "warptape/kernels/half_rows.h"

namespace wt {
namespace {

using detail::ReducePlan;

constexpr i64 kChain = 64;     // rows of a block
constexpr int kVectors = 4;    // vectors of a row: independent chains hide an operation's latency
constexpr i64 kBuffer = 1024;  // 16-bit elements that are converted at a time

// C = float or double, computed 32 bytes at a time (compilers split that where they have to).
template <class C>
struct Lanes {
  typedef C Vector __attribute__((vector_size(32)));
  static constexpr int kCount = 32 / sizeof(C);
  WT_HOT
  static void load(Vector& v, const C* p) { std::memcpy(&v, p, sizeof v); }
};

// Where lane l of a block's accumulator k lies among the reduced: first + row * step.
struct Where {
  i64 first, step;
};

// --- what the lanes of an entry do
// ----------------------------------------------------------------- Total: what outputs gather.
// Acc: a vector of lanes with first() and step() for the rows of a block; fold() merges a lane into
// a total, of blocks of `rows` rows; one() takes a single element. kJoins: join() merges two
// accumulators, whatever their places.
template <class V>
struct OneVector {
  V v;
};

struct Simple {
  static constexpr bool kJoins = true, kKept = false;
  static constexpr i64 kRows = 16;
  template <class V>
  using Acc = OneVector<V>;
};

struct SumLanes : Simple {
  template <class C>
  using Total = double;
  template <class V>
  WT_HOT static void first(Acc<V>& acc, const V& v) {
    acc.v = v;
  }
  template <class V>
  WT_HOT static void step(Acc<V>& acc, const V& v, i64) {
    acc.v += v;
  }
  template <class V>
  WT_HOT static void join(Acc<V>& a, const Acc<V>& b) {
    a.v += b.v;
  }
  template <class C, class V>
  WT_HOT static void fold(double& total, const Acc<V>& acc, int lane, i64, Where) {
    total += double(acc.v[lane]);
  }
  template <class C>
  WT_HOT static void one(double& total, C v, i64) {
    total += double(v);
  }
};

struct NormLanes : SumLanes {
  template <class V>
  WT_HOT static void first(Acc<V>& acc, const V& v) {
    acc.v = v * v;
  }
  template <class V>
  WT_HOT static void step(Acc<V>& acc, const V& v, i64) {
    acc.v += v * v;
  }
  template <class C>
  WT_HOT static void one(double& total, C v, i64) {
    total += double(v) * double(v);
  }
};

// The lanes are twice as wide as the elements: the product of 64 f32 may be far outside f32 though
// the whole product is not.
struct ProductLanes {
  static constexpr bool kJoins = true, kKept = true;
  static constexpr i64 kRows = 16;
  template <class C>
  using Total = double;
  typedef double Vector __attribute__((vector_size(64)));
  template <class V>
  using Acc = OneVector<Vector>;
  template <class A, class V>
  WT_HOT static void first(A& acc, const V& v) {
    acc.v = __builtin_convertvector(v, Vector);
  }
  template <class A, class V>
  WT_HOT static void step(A& acc, const V& v, i64) {
    acc.v *= __builtin_convertvector(v, Vector);
  }
  template <class A>
  WT_HOT static void join(A& a, const A& b) {
    a.v *= b.v;
  }
  template <class C, class A>
  WT_HOT static void fold(double& total, const A& acc, int lane, i64, Where) {
    total *= acc.v[lane];
  }
  template <class C>
  WT_HOT static void one(double& total, C v, i64) {
    total *= double(v);
  }
};

// Totals are keys as in the entry: negated when the least element is wanted.
template <bool Least>
struct ExtremeLanes : Simple {
  static constexpr bool kKept = true;
  template <class C>
  using Total = C;
  template <class V>
  WT_HOT static void first(Acc<V>& acc, const V& v) {
    acc.v = v;
  }
  // Once NaN, always NaN: no comparison with it holds.
  template <class V>
  WT_HOT static void step(Acc<V>& acc, const V& v, i64) {
    acc.v = ((Least ? v < acc.v : v > acc.v) | (v != v)) ? v : acc.v;
  }
  template <class V>
  WT_HOT static void join(Acc<V>& a, const Acc<V>& b) {
    step(a, b.v, 0);
  }
  template <class C, class V>
  WT_HOT static void fold(C& total, const Acc<V>& acc, int lane, i64, Where) {
    one(total, C(acc.v[lane]), 0);
  }
  template <class C>
  WT_HOT static void one(C& total, C v, i64) {
    v = red::turned(v, Least);
    if (v > total || v != v) total = v;
  }
};

template <bool Least>
struct PlaceLanes {
  static constexpr bool kJoins = false, kKept = true;
  static constexpr i64 kRows = 16;
  template <class C>
  using Total = red::Candidate<C>;
  template <class V>
  struct Acc {
    V v;
    decltype(V{} < V{}) row;
  };
  template <class V>
  WT_HOT static void first(Acc<V>& acc, const V& v) {
    acc.v = v;
    acc.row = v < v;  // zeros
    acc.row &= 0;
  }
  template <class V>
  WT_HOT static void step(Acc<V>& acc, const V& v, i64 row) {
    using Row = decltype(acc.row);
    const Row better = (Least ? v < acc.v : v > acc.v) | ((v != v) & (acc.v == acc.v));
    const Row now = Row{} + std::remove_reference_t<decltype(acc.row[0])>(row);
    acc.v = better ? v : acc.v;
    acc.row = better ? now : acc.row;
  }
  template <class C, class A>
  WT_HOT static void fold(red::Candidate<C>& total, const A& acc, int lane, i64, Where w) {
    one(total, C(acc.v[lane]), w.first + i64(acc.row[lane]) * w.step);
  }
  template <class C>
  WT_HOT static void one(red::Candidate<C>& total, C v, i64 place) {
    red::Place(Least).take<C>(total, v, place);
  }
};

// The squares are taken of the distances from the block's own mean, in a second pass over the block
// (it is in the cache), and what that mean lacks is put right afterwards.
struct MomentLanes {
  static constexpr bool kJoins = false, kKept = false;
  static constexpr i64 kRows = 16;
  template <class C>
  using Total = red::Spread<double>;
  template <class V>
  struct Acc {
    V mean, rest, squares;
  };
  // About the right mean; never below zero, and NaN stays.
  WT_HOT static double squares_of(double squares, double rest, double n) {
    squares -= rest * rest / n;
    return squares < 0 ? 0 : squares;
  }
  // Neighbouring outputs have seen as many elements: one division serves all.
  template <class C, int N, class A>
  WT_HOT static void fold_tile(red::Spread<double>* totals, const A (&acc)[N], i64 rows) {
    const double n = double(rows), before = totals[0].count, share = n / (before + n);
    for (int k = 0; k < N; ++k)
      for (int l = 0; l < Lanes<C>::kCount; ++l) {
        red::Spread<double>& t = totals[k * Lanes<C>::kCount + l];
        const double rest = double(acc[k].rest[l]), mean = double(acc[k].mean[l]) + rest / n;
        const double d = before > 0 ? mean - t.mean : 0;
        t.mean = before > 0 ? t.mean + d * share : mean;
        t.squares += squares_of(acc[k].squares[l], rest, n) + d * d * before * share;
        t.count = before + n;
      }
  }
  // All lanes at once: their counts are equal.
  template <class C, int N, class A>
  WT_HOT static void fold_all(red::Spread<double>& total, const A (&acc)[N], i64 rows) {
    constexpr int kCount = Lanes<C>::kCount;
    const double n = double(rows), lanes = double(N * kCount);
    double mean[N * kCount], sum = 0, squares = 0;
    for (int k = 0; k < N; ++k)
      for (int l = 0; l < kCount; ++l) {
        const double rest = double(acc[k].rest[l]);
        sum += mean[k * kCount + l] = double(acc[k].mean[l]) + rest / n;
        squares += squares_of(acc[k].squares[l], rest, n);
      }
    const double middle = sum / lanes;
    double between = 0;
    for (const double m : mean) between += (m - middle) * (m - middle);
    total = red::Moments::merge<double>(total, {n * lanes, middle, squares + n * between});
  }
  template <class C>
  WT_HOT static void one(red::Spread<double>& total, C v, i64) {
    red::Moments().take<double>(total, double(v), 0);
  }
};

template <class Op, class C>
using AccOf = typename Op::template Acc<typename Lanes<C>::Vector>;

// `rows` (at most kChain) rows of N vectors, `step` elements apart.
template <class Op, int N, class C>
WT_HOT void fill_block(AccOf<Op, C> (&acc)[N], const C* p, i64 rows, i64 step) {
  using L = Lanes<C>;
  typename L::Vector v;
  if constexpr (std::is_same_v<Op, MomentLanes>) {
    for (int k = 0; k < N; ++k) {
      L::load(acc[k].mean, p + k * L::kCount);
      acc[k].squares = acc[k].rest = acc[k].mean - acc[k].mean;
    }
    for (i64 r = 1; r < rows; ++r)
      for (int k = 0; k < N; ++k) {
        L::load(v, p + r * step + k * L::kCount);
        acc[k].rest += v - acc[k].mean;
      }
    for (int k = 0; k < N; ++k) {  // of equal elements the mean is the element, exactly
      acc[k].mean += acc[k].rest / C(rows);
      acc[k].rest = acc[k].squares;
    }
    for (i64 r = 0; r < rows; ++r)
      for (int k = 0; k < N; ++k) {
        L::load(v, p + r * step + k * L::kCount);
        v -= acc[k].mean;
        acc[k].rest += v;
        acc[k].squares += v * v;
      }
  } else {
    for (int k = 0; k < N; ++k) {
      L::load(v, p + k * L::kCount);
      Op::first(acc[k], v);
    }
    for (i64 r = 1; r < rows; ++r)
      for (int k = 0; k < N; ++k) {
        L::load(v, p + r * step + k * L::kCount);
        Op::step(acc[k], v, r);
      }
  }
}

// --- runs of consecutive elements into one total -------------------------------------------------
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
    Finished y = a.f.template finish<Finished>(total);
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

// --- consecutive outputs: rows are added to rows -------------------------------------------------
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
  if constexpr (std::is_same_v<Op, MomentLanes>) {
    Op::template fold_tile<C>(totals, acc, rows);
  } else {
    for (int k = 0; k < N; ++k)
      for (int l = 0; l < kCount; ++l)
        Op::template fold<C>(totals[k * kCount + l], acc[k], l, rows, Where{place, 1});
  }
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

constexpr i64 kColumns = 1024;  // whose totals are gathered at a time

// Lanes that lose nothing over many rows are kept from block to block and merged at the end.
template <class Op, class C>
struct KeptLanes {
  static constexpr i64 kCount = Lanes<C>::kCount, kMostRows = i64{1} << 30;
  AccOf<Op, C> acc[kColumns / kCount];
  i64 first_row = 0, rows = 0;  // what the lanes have seen

  template <int N>
  WT_HOT void take_tile(i64 at, const C* p, i64 n, i64 step) {
    AccOf<Op, C> local[N];
    typename Lanes<C>::Vector v;
    for (int k = 0; k < N; ++k) {
      local[k] = acc[at + k];
      if (rows > 0) continue;
      Lanes<C>::load(v, p + k * kCount);
      Op::first(local[k], v);
    }
    for (i64 r = rows > 0 ? 0 : 1; r < n; ++r)
      for (int k = 0; k < N; ++k) {
        Lanes<C>::load(v, p + r * step + k * kCount);
        Op::step(local[k], v, rows + r);
      }
    for (int k = 0; k < N; ++k) acc[at + k] = local[k];
  }
  template <class Total>
  WT_HOT void take(const C* p, i64 n, i64 step, i64 columns, i64 place, Total* totals) {
    if (rows + n > kMostRows) merge(columns, totals);
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
      for (int l = 0; l < kCount; ++l)
        Op::template fold<C>(totals[k * kCount + l], acc[k], l, rows, Where{first_row, 1});
    rows = 0;
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
      constexpr bool kKept = Op::kKept && std::is_same_v<T, C>;
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

// --- one body, compiled for each instruction set -------------------------------------------------
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
    if (cpu_has_avx2())
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
WT_VECTORIZED(Norm2) { reduce_f32<NormLanes>(a); }
#undef WT_VECTORIZED

template <class F>
const char* vectorized_why_not(const ReduceArgs<F>& a) {
  bool every = std::is_same_v<F, red::Sum>;
  if constexpr (std::is_same_v<F, red::Extreme>) every = !a.f.least;
  if constexpr (std::is_same_v<F, red::Truth>) return nullptr;
  if (every) return is_floating(a.in.dtype()) ? nullptr : "it takes floats only";
  if (a.in.dtype() != DType::f32) return "it takes f32 only";
  return cpu_has_avx2() ? nullptr : "it needs a processor with AVX2";
}
#define WT_WHY_NOT(contract, Entry) \
  template const char* vectorized_why_not(const ReduceArgs<red::Entry>& a);
WT_REDUCTIONS(WT_WHY_NOT)

}  // namespace detail

}  // namespace wt
