// Reductions on the cpu: the plan that all devices share, and the reference.
#include "warptape/kernels/reduce.h"

#include <type_traits>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/reduce/reduce_cpu.h"

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
using Wide = std::conditional_t<std::is_integral_v<T>, i64, double>;
template <class T>
Wide<T> widen(T v) {
  if constexpr (std::is_integral_v<T> || std::is_same_v<T, double>)
    return Wide<T>(v);
  else
    return double(float(v));
}
template <class T, class V>
T narrow(V v) {
  if constexpr (std::is_same_v<V, double> && !std::is_same_v<T, double>)
    return T(float(v));
  else
    return T(v);
}

// What elements of T are reduced to.
template <class F, class T>
struct OutOf {
  using type = std::conditional_t<F::kOutput == red::Output::wide && std::is_integral_v<T>, i64, T>;
};
template <class F, class T>
requires(F::kOutput == red::Output::place) struct OutOf<F, T> {
  using type = i64;
};
template <class F, class T>
requires(F::kOutput == red::Output::truth) struct OutOf<F, T> {
  using type = bool;
};

template <class F, class T>
void reduce_elements(const ReduceArgs<F>& a) {
  using C = Wide<T>;
  using Out = typename OutOf<F, T>::type;
  ReducePlan plan;
  detail::plan_reduction(plan, a);
  const T* in = a.in.template as<T>();
  Out* out = a.out.template as<Out>();
  for_each_output(plan, [&](i64 start, i64 o) {
    auto state = F::template identity<C>();
    const red::RelativeTo<F, C> f{a.f,
                                  F::kFromFirst && plan.reduced.numel ? widen(in[start]) : C(0)};
    for_each_element(plan, start, [&](i64 at, i64 place) { f.take(state, widen(in[at]), place); });
    auto y = a.f.template finish<C>(state);
    if constexpr (F::kAccumulates)
      if (a.f.accumulate) y = pw::plus(y, widen(out[o]));
    out[o] = narrow<Out>(y);
  });
}

template <class F>
void reduce_reference(const ReduceArgs<F>& a, const Launch&) {
  if constexpr (F::kIntegers)
    dispatch_compute(a.in.dtype(), [&]<class T>() { reduce_elements<F, T>(a); });
  else
    dispatch_floating(a.in.dtype(), [&]<class T>() { reduce_elements<F, T>(a); });
}

}  // namespace

#define WT_REDUCE_VARIANTS(contract, Entry)                       \
  WT_VARIANTS(cpu, contract, ReduceArgs<red::Entry>,              \
              {.name = "vectorized",                              \
               .rank = 10,                                        \
               .why_not = detail::vectorized_why_not<red::Entry>, \
               .launch = detail::reduce_vectorized<red::Entry>},  \
              {.name = "reference", .launch = reduce_reference<red::Entry>});
WT_REDUCTIONS(WT_REDUCE_VARIANTS)

}  // namespace wt
