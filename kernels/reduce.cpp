// Reductions on the cpu: the plan that all devices share, and the reference.
#include "warptape/kernels/reduce.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "warptape/kernels/cpu_dtypes.h"
#include "warptape/kernels/reduce_cpu.h"

namespace wt {

namespace {
// The axes of g whose bit in `mask` equals `reduced`.
Geometry axes_of(const Geometry& g, u32 mask, bool reduced) {
  Geometry part;
  part.ndim = 0;
  part.numel = 1;
  for (int i = 0; i < g.ndim; ++i) {
    if (bool(mask >> i & 1) != reduced) continue;
    part.shape[part.ndim] = g.shape[i];
    part.strides[part.ndim++] = g.strides[i];
    part.numel *= g.shape[i];
  }
  return part;
}

// `out` with the axes of `kept`: both agree once axes of size 1 are left out.
Geometry aligned_to(const Geometry& kept, const Geometry& out) {
  Geometry g = kept;
  int from = 0;
  for (int i = 0; i < kept.ndim; ++i) {
    g.strides[i] = 0;
    if (kept.shape[i] == 1) continue;
    while (out.shape[from] == 1) ++from;
    g.strides[i] = out.strides[from++];
  }
  return g;
}
}  // namespace

void detail::plan_reduction(ReducePlan& plan, const View& out, const View& in, u32 mask,
                            LoopOrder order) {
  const Geometry kept = axes_of(*in.geometry, mask, false);
  const Geometry reduced = axes_of(*in.geometry, mask, true);
  const Geometry target = aligned_to(kept, *out.geometry);
  plan.kept = loop_nest({View{nullptr, &kept}, View{nullptr, &target}}, LoopOrder::memory);
  plan.reduced = loop_nest({View{nullptr, &reduced}}, order);
}

namespace {

using detail::ReducePlan;

// Calls each(in, out) with the element numbers that one output starts from.
template <class Each>
void for_each_output(const ReducePlan& plan, Each each) {
  const i64 n = plan.kept.inner();
  const i64 step_in = plan.kept.inner_stride(0), step_out = plan.kept.inner_stride(1);
  for_each_row(plan.kept, [&](const i64(&at)[2]) {
    for (i64 i = 0; i < n; ++i) each(at[0] + i * step_in, at[1] + i * step_out);
  });
}
// Calls each(element, place) for what is reduced into one output.
template <class Each>
void for_each_element(const ReducePlan& plan, i64 start, Each each) {
  const i64 n = plan.reduced.inner(), step = plan.reduced.inner_stride(0);
  i64 place = 0;
  for_each_row(plan.reduced, [&](const i64(&at)[1]) {
    for (i64 i = 0; i < n; ++i) each(start + at[0] + i * step, place++);
  });
}

template <class T>
constexpr bool kFloating = !std::is_integral_v<T>;
template <class T>
using Wide = std::conditional_t<kFloating<T>, double, i64>;
template <class T>
Wide<T> widen(T v) {
  if constexpr (kFloating<T> && !std::is_same_v<T, double>)
    return double(float(v));
  else
    return Wide<T>(v);
}
template <class T>
T narrow(double v) {
  if constexpr (std::is_same_v<T, double>)
    return v;
  else
    return T(float(v));
}

void sum_reference(const SumArgs& a, const Launch&) {
  ReducePlan plan;
  detail::plan_reduction(plan, a.out, a.in, a.mask, LoopOrder::memory);
  dispatch_compute(a.in.dtype(), [&]<class T>() {
    const T* in = a.in.as<T>();
    for_each_output(plan, [&](i64 start, i64 o) {
      if constexpr (kFloating<T>) {
        double sum = 0;
        for_each_element(plan, start, [&](i64 at, i64) { sum += widen(in[at]); });
        T& out = a.out.as<T>()[o];
        sum /= double(a.divide_by);
        out = narrow<T>(a.accumulate ? widen(out) + sum : sum);
      } else {
        u64 sum = 0;  // unsigned: overflow wraps
        for_each_element(plan, start, [&](i64 at, i64) { sum += u64(in[at]); });
        u64& out = a.out.as<u64>()[o];
        out = a.accumulate ? out + sum : sum;
      }
    });
  });
}

// `v` takes the place of `best`.
template <class T>
bool beats(T v, T best) {
  return v > best || (v != v && best == best);
}

// Calls store(o, T value, i64 place) for each output.
template <class Args, class Store>
void largest(const Args& a, LoopOrder order, Store store) {
  ReducePlan plan;
  detail::plan_reduction(plan, a.out, a.in, a.mask, order);
  dispatch_compute(a.in.dtype(), [&]<class T>() {
    const T* in = a.in.template as<T>();
    for_each_output(plan, [&](i64 start, i64 o) {
      T element{};
      Wide<T> best{};
      i64 found = -1;
      for_each_element(plan, start, [&](i64 at, i64 place) {
        const Wide<T> v = widen(in[at]);
        if (found < 0 || beats(v, best)) best = v, element = in[at], found = place;
      });
      store(o, element, found);
    });
  });
}

void max_reference(const MaxArgs& a, const Launch&) {
  largest(a, LoopOrder::memory, [&](i64 o, auto v, i64) { a.out.as<decltype(v)>()[o] = v; });
}
void argmax_reference(const ArgmaxArgs& a, const Launch&) {
  largest(a, LoopOrder::logical, [&](i64 o, auto, i64 place) { a.out.as<i64>()[o] = place; });
}

const char* sum_vectorized_why_not(const SumArgs& a) {
  return is_floating(a.in.dtype()) ? nullptr : "it sums floats only";
}
const char* max_vectorized_why_not(const MaxArgs& a) {
  return is_floating(a.in.dtype()) ? nullptr : "it compares floats only";
}

}  // namespace

WT_VARIANTS(cpu, sum, SumArgs,
            {.name = "vectorized",
             .rank = 10,
             .why_not = sum_vectorized_why_not,
             .launch = detail::sum_vectorized},
            {.name = "reference", .launch = sum_reference});
WT_VARIANTS(cpu, max, MaxArgs,
            {.name = "vectorized",
             .rank = 10,
             .why_not = max_vectorized_why_not,
             .launch = detail::max_vectorized},
            {.name = "reference", .launch = max_reference});
WT_VARIANTS(cpu, argmax, ArgmaxArgs, {.name = "reference", .launch = argmax_reference});

}  // namespace wt
