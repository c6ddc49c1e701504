// What the lanes of each reduction do in the cpu's fast loops (reduce/reduce_cpu.cpp).
#pragma once
#include <cstring>
#include <type_traits>

#include "warptape/kernels/cpu/unroll.h"
#include "warptape/kernels/reduce.h"

namespace wt::lanes {

// C = float or double, computed 32 bytes at a time (compilers split that where they have to).
template <class C>
struct Lanes {
  typedef C Vector __attribute__((vector_size(32)));
  static constexpr int kCount = 32 / sizeof(C);
  WT_HOT
  static void load(Vector& v, const C* p) { std::memcpy(&v, p, sizeof v); }
};

// Four doubles, and the halves of eight floats as such.
typedef double Doubles __attribute__((vector_size(32)));
template <int Half, class V>
WT_HOT void widen_half(Doubles& to, const V& v) {
  static_assert(sizeof v == 32 && sizeof v[0] == 4);
  constexpr int at = 4 * Half;
  // Not __builtin_convertvector: g++ 12 makes halves of it before it knows the target.
  to = Doubles{double(v[at]), double(v[at + 1]), double(v[at + 2]), double(v[at + 3])};
}

// Where lane l of a block's accumulator k lies among the reduced: first + row * step.
struct Where {
  i64 first, step;
};

// --- what the lanes of an entry do ---
// Total: what outputs gather. Acc: a vector of lanes with first() and step() for the rows of a
// block; fold() merges a lane into a total, of blocks of `rows` rows; fold_tile(), where it is,
// lanes into neighbouring totals; one() takes a single element. kJoins: join() merges two
// accumulators, whatever their places. kMostRows: a lane takes so many rows of a column.
constexpr i64 kEndless = i64{1} << 30;
template <class V>
struct OneVector {
  V v;
};

struct Simple {
  static constexpr bool kJoins = true;
  static constexpr i64 kRows = 8, kMostRows = kEndless;
  template <class V>
  using Acc = OneVector<V>;
};

struct SumLanes : Simple {
  static constexpr i64 kMostRows = 64;
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
  // Lanes to consecutive totals.
  template <class C, int N, class A>
  WT_HOT static void fold_tile(double* totals, const A* acc) {
    WT_UNROLL
    for (int k = 0; k < N; ++k) {
      Doubles sums[2], to[2];
      std::memcpy(to, totals + k * Lanes<C>::kCount, Lanes<C>::kCount * sizeof(double));
      if constexpr (sizeof(C) == 4) {
        widen_half<0>(sums[0], acc[k].v);
        widen_half<1>(sums[1], acc[k].v);
        to[1] += sums[1];
      } else {
        sums[0] = acc[k].v;
      }
      to[0] += sums[0];
      std::memcpy(totals + k * Lanes<C>::kCount, to, Lanes<C>::kCount * sizeof(double));
    }
  }
};

struct AbsoluteLanes : SumLanes {
  // |v|; of -0: 0; NaN stays.
  template <class V>
  WT_HOT static void first(Acc<V>& acc, const V& v) {
    const V n = V{} - v;
    acc.v = v > n ? v : n;
  }
  template <class V>
  WT_HOT static void step(Acc<V>& acc, const V& v, i64) {
    Acc<V> one;
    first(one, v);
    acc.v += one.v;
  }
  template <class C>
  WT_HOT static void one(double& total, C v, i64) {
    total += double(v > C(0) ? v : C(0) - v);
  }
};

// Lanes twice as wide as the elements. Self says what an element counts for (first) and what two
// make (join).
template <class Self>
struct WideLanes : Simple {
  template <class C>
  using Total = double;
  template <class V>
  struct Acc {
    Doubles low, high;
  };
  template <class A, class V>
  WT_HOT static void widen(A& acc, const V& v) {
    widen_half<0>(acc.low, v);
    widen_half<1>(acc.high, v);
  }
  template <class A, class V>
  WT_HOT static void step(A& acc, const V& v, i64) {
    A one;
    Self::first(one, v);
    Self::join(acc, one);
  }
  template <class A>
  WT_HOT static double lane_of(const A& acc, int lane) {
    return lane < 4 ? acc.low[lane & 3] : acc.high[lane & 3];
  }
};

// The product of 64 f32 may be far outside f32 though the whole product is not.
struct ProductLanes : WideLanes<ProductLanes> {
  template <class A, class V>
  WT_HOT static void first(A& acc, const V& v) {
    widen(acc, v);
  }
  template <class A>
  WT_HOT static void join(A& a, const A& b) {
    a.low *= b.low;
    a.high *= b.high;
  }
  template <class C, class A>
  WT_HOT static void fold(double& total, const A& acc, int lane, i64, Where) {
    total *= lane_of(acc, lane);
  }
  template <class C>
  WT_HOT static void one(double& total, C v, i64) {
    total *= double(v);
  }
};

// So may squares be though the root is not.
struct NormLanes : WideLanes<NormLanes> {
  template <class A, class V>
  WT_HOT static void first(A& acc, const V& v) {
    widen(acc, v);
    acc.low *= acc.low;
    acc.high *= acc.high;
  }
  template <class A>
  WT_HOT static void join(A& a, const A& b) {
    a.low += b.low;
    a.high += b.high;
  }
  template <class C, class A>
  WT_HOT static void fold(double& total, const A& acc, int lane, i64, Where) {
    total += lane_of(acc, lane);
  }
  template <class C>
  WT_HOT static void one(double& total, C v, i64) {
    total += double(v) * double(v);
  }
  template <class C, int N, class A>
  WT_HOT static void fold_tile(double* totals, const A* acc) {
    WT_UNROLL
    for (int k = 0; k < N; ++k) {
      Doubles to[2];
      std::memcpy(to, totals + k * Lanes<C>::kCount, sizeof to);
      to[0] += acc[k].low;
      to[1] += acc[k].high;
      std::memcpy(totals + k * Lanes<C>::kCount, to, sizeof to);
    }
  }
};

// Totals are keys as in the entry: negated when the least element is wanted.
template <bool Least>
struct ExtremeLanes : Simple {
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
  static constexpr bool kJoins = false;
  static constexpr i64 kRows = 8, kMostRows = kEndless;
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
  static constexpr bool kJoins = false;
  static constexpr i64 kRows = 8, kMostRows = kEndless;
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
  // All lanes at once: their counts are equal.
  template <class C, int N, class A>
  WT_HOT static void fold_all(red::Spread<double>& total, const A (&acc)[N], i64 rows) {
    constexpr int kCount = Lanes<C>::kCount;
    const double n = double(rows), lanes = double(N * kCount);
    double mean[N * kCount], sum = 0, squares = 0;
    WT_UNROLL
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

}  // namespace wt::lanes
