// Reductions over any axes: THE LIST, and what each of them computes.
//
// An entry is a struct that says what a state starts from, how it takes an element, how two states
// merge and what is made of the last one. It is written once; reference
// (kernels/reduce/reduce.cpp), fast loops (reduce/reduce_cpu.cpp) and the kernels of simt and cuda
// (reduce/reduce.cuh) follow. No STL: device code includes this.
//
// `mask` has bit i set where axis i of `in` is reduced. `out` has the axes of `in` that are left,
// in order; axes of size 1 may be there or missing (keep_dim, or the shape of a broadcast operand).
// Any strides, expanded inputs included; out and in do not overlap. The order of the operations
// depends on shapes and strides alone: equal calls give equal bits.
#pragma once
#include "warptape/kernels/common/strided.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/pointwise_math.h"

namespace wt {

namespace red {

// What `out` holds beside elements of in's dtype: wide has integers and bool as i64.
enum class Output : u8 { same, wide, place, truth };

// The facts of an entry beside its four functions. C is what a dtype computes in: float, double, or
// i64 for integers and bool. take() gets an element's place among the reduced ones in C order, if
// kPlaces is set, else anything.
template <Output O, bool Integers>
struct Kind {
  static constexpr Output kOutput = O;
  static constexpr bool kIntegers = Integers;  // takes integers and bool too
  static constexpr bool kPlaces = false;
  static constexpr bool kAccumulates = false;  // has a flag `accumulate`: out += the result
  static constexpr bool kLongF64 = false;      // f64 has the faster kernels on simt and cuda too
  // An offset does not matter: elements are taken less the output's first one, see RelativeTo.
  static constexpr bool kFromFirst = false;
};

// The sum, divided by divide_by (1 for integers, which wrap); 16-bit floats add in f32 or better.
// The sum of nothing is 0; divided by 0 it is NaN.
struct Sum : Kind<Output::wide, true> {
  static constexpr bool kAccumulates = true, kLongF64 = true;
  i64 divide_by = 1;
  bool accumulate = false;
  constexpr Sum(i64 divisor = 1, bool add = false) : divide_by(divisor), accumulate(add) {}

  template <class C>
  using State = C;
  template <class C>
  WT_FORMULA static C identity() {
    return C(0);
  }
  template <class C>
  WT_FORMULA void take(C& s, C v, i64) const {
    s = pw::plus(s, v);
  }
  template <class C>
  WT_FORMULA static C merge(C a, C b) {
    return pw::plus(a, b);
  }
  template <class C>
  WT_FORMULA C finish(C s) const {
    if constexpr (pw::Floating<C>) s /= C(divide_by);
    return s;
  }
};

// The product; that of nothing is 1.
struct Product : Kind<Output::wide, true> {
  template <class C>
  using State = C;
  template <class C>
  WT_FORMULA static C identity() {
    return C(1);
  }
  template <class C>
  WT_FORMULA void take(C& s, C v, i64) const {
    s = pw::times(s, v);
  }
  template <class C>
  WT_FORMULA static C merge(C a, C b) {
    return pw::times(a, b);
  }
  template <class C>
  WT_FORMULA C finish(C s) const {
    return s;
  }
};

template <class C>
WT_FORMULA C lowest() {
  if constexpr (pw::Floating<C>)
    return -C(INFINITY);
  else
    return C(u64(1) << 63);
}
// v takes the place of best. NaN beats every number.
template <class C>
WT_FORMULA bool beats(C v, C best) {
  return v > best || (v != v && best == best);
}
// Turns the order round, and back: the least element is the largest of these.
template <class C>
WT_FORMULA C turned(C v, bool turn) {
  if constexpr (pw::Floating<C>)
    return turn ? -v : v;
  else
    return turn ? ~v : v;
}

// The largest or the least element; NaN if there is one. An output has at least one element.
struct Extreme : Kind<Output::same, true> {
  static constexpr bool kLongF64 = true;
  bool least = false;
  constexpr Extreme(bool smallest = false) : least(smallest) {}

  template <class C>
  using State = C;
  template <class C>
  WT_FORMULA static C identity() {
    return lowest<C>();
  }
  template <class C>
  WT_FORMULA void take(C& s, C v, i64) const {
    v = turned(v, least);
    if (beats(v, s)) s = v;
  }
  template <class C>
  WT_FORMULA static C merge(C a, C b) {
    return beats(b, a) ? b : a;
  }
  template <class C>
  WT_FORMULA C finish(C s) const {
    return turned(s, least);
  }
};

// The place of the largest or the least element: the first of equal ones, the first NaN if there is
// one. An output has at least one element.
template <class C>
struct Candidate {
  C value;
  i64 place;
};
struct Place : Kind<Output::place, true> {
  static constexpr bool kPlaces = true, kLongF64 = true;
  bool least = false;
  constexpr Place(bool smallest = false) : least(smallest) {}

  template <class C>
  using State = Candidate<C>;
  template <class C>
  WT_FORMULA static State<C> identity() {
    return {lowest<C>(), INT64_MAX};
  }
  template <class C>
  WT_FORMULA void take(State<C>& s, C v, i64 place) const {
    s = merge(s, {turned(v, least), place});
  }
  template <class C>
  WT_FORMULA static Candidate<C> merge(Candidate<C> a, Candidate<C> b) {
    if (beats(b.value, a.value)) return b;
    return !beats(a.value, b.value) && b.place < a.place ? b : a;
  }
  template <class C>
  WT_FORMULA i64 finish(State<C> s) const {
    return s.place;
  }
};

// Is any element not zero (NaN is not)? Or are all? Nothing: false, and true.
struct Truth : Kind<Output::truth, true> {
  bool all = false;
  constexpr Truth(bool every = false) : all(every) {}

  template <class C>
  using State = i32;
  template <class C>
  WT_FORMULA static i32 identity() {
    return 0;
  }
  template <class C>
  WT_FORMULA void take(i32& s, C v, i64) const {
    s |= (v != C(0)) != all;
  }
  template <class C>
  WT_FORMULA static i32 merge(i32 a, i32 b) {
    return a | b;
  }
  template <class C>
  WT_FORMULA bool finish(i32 s) const {
    return (s != 0) != all;
  }
};

// The sum of the squares of x - mean, divided by max(0, n - correction), or the root of that.
// Welford's update and the merge of Chan, Golub and LeVeque (1983), of the distances from the first
// element, as a mean that is large beside them would be rounded at every update: large offsets do
// not cancel.
template <class C>
struct Spread {
  C count, mean, squares;
};
struct Moments : Kind<Output::same, false> {
  static constexpr bool kFromFirst = true;
  double correction = 1;
  bool root = false;
  constexpr Moments(double c = 1, bool r = false) : correction(c), root(r) {}

  template <class C>
  using State = Spread<C>;
  template <class C>
  WT_FORMULA static Spread<C> identity() {
    return {C(0), C(0), C(0)};
  }
  template <class C>
  WT_FORMULA void take(Spread<C>& s, C v, i64) const {
    s.count += C(1);
    const C d = v - s.mean;
    s.mean += d / s.count;
    s.squares += d * (v - s.mean);
  }
  template <class C>
  WT_FORMULA static Spread<C> merge(Spread<C> a, Spread<C> b) {
    if (a.count == C(0)) return b;
    if (b.count == C(0)) return a;
    const C n = a.count + b.count, d = b.mean - a.mean, share = b.count / n;
    return {n, a.mean + d * share, a.squares + b.squares + d * d * a.count * share};
  }
  template <class C>
  WT_FORMULA C finish(Spread<C> s) const {
    const C freedom = s.count - C(correction);
    const C v = s.squares / (freedom > C(0) ? freedom : C(0));
    return root ? pw::sqrt(v) : v;
  }
};

// The root of the sum of squares, or the sum of absolute values. No square overflows or vanishes
// (Blue 1978, doi:10.1145/355769.355771): elements beyond `kLarge`, and those below 1 / kLarge, are
// added up apart, in units in which their squares lie about 1. Of each 2^37 elements have room.
template <class C>
struct SquareSums {
  static constexpr C kLarge = C(sizeof(C) == 4 ? 0x1p45 : 0x1p480);
  static constexpr C kUnit = C(sizeof(C) == 4 ? 0x1p90 : 0x1p600);
  C usual, large, small;
};
struct Norm : Kind<Output::same, false> {
  bool absolute = false;
  constexpr Norm(bool of_absolutes = false) : absolute(of_absolutes) {}

  template <class C>
  using State = SquareSums<C>;
  template <class C>
  WT_FORMULA static SquareSums<C> identity() {
    return {C(0), C(0), C(0)};
  }
  template <class C>
  WT_FORMULA void take(SquareSums<C>& s, C v, i64) const {
    using S = SquareSums<C>;
    const C size = v > C(0) ? v : C(0) - v;
    if (absolute) {
      s.usual += size;
      return;
    }
    if (size <= S::kLarge && size >= C(1) / S::kLarge) {  // nearly always
      s.usual += size * size;
    } else if (size > S::kLarge) {
      s.large += (size / S::kUnit) * (size / S::kUnit);
    } else if (size < C(1) / S::kLarge) {
      s.small += (size * S::kUnit) * (size * S::kUnit);
    } else {
      s.usual += size;  // NaN
    }
  }
  template <class C>
  WT_FORMULA static SquareSums<C> merge(SquareSums<C> a, SquareSums<C> b) {
    return {a.usual + b.usual, a.large + b.large, a.small + b.small};
  }
  template <class C>
  WT_FORMULA C finish(SquareSums<C> s) const {
    constexpr C unit = SquareSums<C>::kUnit;
    if (absolute) return s.usual;
    if (s.large != C(0)) return pw::sqrt(s.large + s.usual / unit / unit) * unit;
    if (s.usual != C(0)) return pw::sqrt(s.usual + s.small / unit / unit);
    return pw::sqrt(s.small) / unit;
  }
  // Of a sum in doubles, where the elements are floats.
  WT_FORMULA double finish_wide(double sum) const { return absolute ? sum : pw::sqrt(sum); }
};

// log(sum(exp(x))): the largest element so far and the sum of exp(x - largest). Equal elements add
// exp(0), whatever they are: so rows of -inf give log(n) - inf = -inf, a +inf gives +inf. NaN goes
// into the sum and stays there. Nothing gives -inf.
template <class C>
struct Scaled {
  C largest, sum;
};
struct LogSumExp : Kind<Output::same, false> {
  template <class C>
  using State = Scaled<C>;
  template <class C>
  WT_FORMULA static Scaled<C> identity() {
    return {lowest<C>(), C(0)};
  }
  template <class C>
  WT_FORMULA static C share(C v, C largest) {
    return v == largest ? C(1) : pw::exp(v - largest);
  }
  template <class C>
  WT_FORMULA void take(Scaled<C>& s, C v, i64) const {
    const bool more = v > s.largest;
    const C e = more ? share(s.largest, v) : share(v, s.largest);
    s.sum = more ? s.sum * e + C(1) : s.sum + e;
    s.largest = more ? v : s.largest;
  }
  template <class C>
  WT_FORMULA static Scaled<C> merge(Scaled<C> a, Scaled<C> b) {
    const C largest = b.largest > a.largest ? b.largest : a.largest;
    return {largest, a.sum * share(a.largest, largest) + b.sum * share(b.largest, largest)};
  }
  template <class C>
  WT_FORMULA C finish(Scaled<C> s) const {
    return pw::log(s.sum) + s.largest;
  }
};

// How an output takes its elements: `first`, of which it is made, is the element that the output
// starts from.
template <class F, class C>
struct RelativeTo {
  const F& f;
  C first;
  WT_FORMULA void take(typename F::template State<C>& s, C v, i64 place) const {
    if constexpr (F::kFromFirst)
      f.template take<C>(s, v - first, place);
    else
      f.template take<C>(s, v, place);
  }
};

}  // namespace red

// Floats f64, f32, f16, bf16, and integers i64, i32, u8 and bool where the entry takes them.
template <class F>
struct ReduceArgs {
  static constexpr int kSliceViews = 2;  // kernels/dispatch/run_slices.h
  static constexpr bool kSliceBroadcast = false;
  void shift_axes(int n) { mask <<= n; }
  View out, in;
  u32 mask = 0;
  F f{};

  bool accumulates() const {
    if constexpr (F::kAccumulates)
      return f.accumulate;
    else
      return false;
  }
  i64 bytes() const { return in.bytes() + out.bytes() * (accumulates() ? 2 : 1); }
  i64 flops() const { return in.numel(); }
};

// --- THE LIST: X(contract, entry) ---
// clang-format off
#define WT_REDUCTIONS_OF_VALUES(X) \
  X(any, Truth)                    \
  X(max, Extreme)                  \
  X(prod, Product)                 \
  X(sum, Sum)
// Of values with something beside them; a .cu of their own, for the compiler's sake.
#define WT_REDUCTIONS_OF_STATES(X) \
  X(argmax, Place)                 \
  X(logsumexp, LogSumExp)          \
  X(norm, Norm)                    \
  X(variance, Moments)
#define WT_REDUCTIONS(X)     \
  WT_REDUCTIONS_OF_VALUES(X) \
  WT_REDUCTIONS_OF_STATES(X)
// clang-format on

#define WT_REDUCE_DECLARE(contract, Entry) WT_CONTRACT(contract, ReduceArgs<red::Entry>);
WT_REDUCTIONS(WT_REDUCE_DECLARE)
#undef WT_REDUCE_DECLARE

using AnyArgs = ReduceArgs<red::Truth>;
using ArgmaxArgs = ReduceArgs<red::Place>;
using LogsumexpArgs = ReduceArgs<red::LogSumExp>;
using MaxArgs = ReduceArgs<red::Extreme>;
using NormArgs = ReduceArgs<red::Norm>;
using ProdArgs = ReduceArgs<red::Product>;
using SumArgs = ReduceArgs<red::Sum>;
using VarianceArgs = ReduceArgs<red::Moments>;

namespace detail {
// The two loops of a reduction.
struct ReducePlan {
  LoopNest<2> kept;     // operand 0: in, operand 1: out; numel outputs
  LoopNest<1> reduced;  // in; numel elements for each output
};
// `order` of the reduced axes: memory unless their places matter.
void plan_reduction(ReducePlan& plan, const View& out, const View& in, u32 mask, LoopOrder order);
template <class F>
void plan_reduction(ReducePlan& plan, const ReduceArgs<F>& a) {
  plan_reduction(plan, a.out, a.in, a.mask, F::kPlaces ? LoopOrder::logical : LoopOrder::memory);
}
}  // namespace detail

}  // namespace wt
