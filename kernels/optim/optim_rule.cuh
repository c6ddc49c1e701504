// What launches a rule of optim_rule.h on simt and cuda; optim_rule.cu and optim_rule_more.cu have
// the rules, as both take long to compile.
//   naive       a thread an element
//   vectorized  f32, 16-byte accesses, two of each array in flight where there are few arrays
// Kernels that also write the 16-bit copy are instances of their own, and so are those that look up
// an element's cohort: the others are as without.
#pragma once
#include "warptape/kernels/optim_rule.h"

#include "warptape/kernels/device/vector.cuh"
#include "warptape/kernels/optim/optim_rule_more.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 256;

struct RuleRoot {
  template <class T>
  __device__ __forceinline__ void operator()(const T& x, T& y) const {
    y = sqrt(x);
  }
};

// The pointers of a step, checked by the executor.
template <class Args>
struct RulePointers : Args {
  template <class F>
  void visit_pointers(F&& f) const {
    f(this->param), f(this->grad), f(this->block), f(this->grad_factor);
    for (int k = 0; k < kRuleStates; ++k) f(this->state[k]);
    for (int k = 0; k < 3; ++k) f(this->flags.flag[k]);
    f(this->half), f(this->cohorts);
  }
};

// In place of the 16-bit type: no copy is written.
struct NoHalf {};
template <class H>
constexpr bool kWritesHalf = true;
template <>
constexpr bool kWritesHalf<NoHalf> = false;

// As a few loads of 16 bytes that wait for nothing.
template <class T>
__device__ __forceinline__ RuleScalars<T> load_scalars(const RuleScalars<T>& there) {
  constexpr int kGroup = 16 / sizeof(T), kScalars = sizeof(RuleScalars<T>) / sizeof(T);
  static_assert(kScalars % kGroup == 0);
  RuleScalars<T> s;
  const T* const from = reinterpret_cast<const T*>(&there);
  T* const to = reinterpret_cast<T*>(&s);
#pragma unroll
  for (int k = 0; k < kScalars; k += kGroup) {
    const auto group = vload<Pack<T, kGroup>>(from + k);
#pragma unroll
    for (int j = 0; j < kGroup; ++j) to[k + j] = group.v[j];
  }
  return s;
}

// What stands above a branch stays there: a compiler moves loads below it where their values are
// needed behind it alone, and data would be asked for only when the branch's own load has come.
__device__ __forceinline__ void nothing_sinks() {
#if defined(__CUDA_ARCH__)
  asm volatile("" ::: "memory");
#endif
}

// Elements [i, i + V), V consecutive ones; a V of 1 needs no alignment. Grouped: scalars come as
// groups; the loop over the last elements asks for each that it needs.
template <class Rule, class T, class H, int V, bool Grouped = true>
__device__ __forceinline__ void rule_pack(const typename Rule::Args& a,
                                          const RuleScalars<T>& scalars, i64 i) {
  // Registers, as every index below is known at compile time. Unused states cost nothing: the
  // compiler sees that nobody reads them.
  T p[V], g[V], s[kRuleStates][V] = {};
  load_vector(p, static_cast<T*>(a.param) + i);
  // Four streams read and three written for adam, 28 bytes an element of f32: the kernel is as fast
  // as memory, whatever the formula.
  load_vector(g, static_cast<const T*>(a.grad) + i);
#pragma unroll
  for (int k = 0; k < Rule::kStates; ++k)
    // Optional ones are absent for the whole call: no lanes part ways, and nothing is read for
    // them.
    if (a.state[k]) load_vector(s[k], static_cast<T*>(a.state[k]) + i);
  // Learning rate and counts come from the device as well, so that a captured graph can be replayed
  // with another rate; they and the flags are asked for while the data are on their way. What a
  // rule does not take is not loaded.
  const Rule rule = Grouped ? Rule(a, load_scalars<T>(scalars)) : Rule(a, scalars);
  // The host does not know yet whether the step is bad (an overflow in f16, a raised mailbox). The
  // flags are a few bytes in device memory, read by all threads from the same address; one that is
  // set makes the launch a kernel that writes nothing.
  const bool skip = a.flags.skip();
#pragma unroll
  for (int j = 0; j < V; ++j) {
    T state[kRuleStates];
#pragma unroll
    for (int k = 0; k < kRuleStates; ++k) state[k] = s[k][j];
    // Element j needs no other element: V chains of arithmetic, sqrt and division among them,
    // overlap.
    rule.update(p[j], g[j], state, RuleRoot{});
#pragma unroll
    for (int k = 0; k < kRuleStates; ++k) s[k][j] = state[k];
  }
  nothing_sinks();
  if (skip) return;
  store_vector(static_cast<T*>(a.param) + i, p);
  if constexpr (kWritesHalf<H>) {
    // 2 bytes an element more, where a cast of its own would read 4 and write 2.
    H h[V];
#pragma unroll
    for (int j = 0; j < V; ++j) h[j] = H(p[j]);
    store_vector(static_cast<H*>(a.half) + i, h);
  }
#pragma unroll
  for (int k = 0; k < detail::written_states<Rule>(); ++k)
    if (a.state[k]) store_vector(static_cast<T*>(a.state[k]) + i, s[k]);
}

template <template <class> class Rule, class T, class H, int V>
__global__ void __launch_bounds__(kThreads) rule_kernel(RulePointers<typename Rule<T>::Args> a) {
  const i64 i = (i64(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  if (i + V <= a.n) return rule_pack<Rule<T>, T, H, V>(a, detail::scalars_of<T>(*a.block), i);
  // The last thread, where V does not divide n.
  for (i64 k = i; k < a.n; ++k)
    rule_pack<Rule<T>, T, H, 1, false>(a, detail::scalars_of<T>(*a.block), k);
}
// Where parameters have missed steps. A pack lies within one parameter, so in one cohort; finding
// it takes a few loads that wait for each other, of a table that all threads read.
template <template <class> class Rule, class T, class H, int V>
__global__ void __launch_bounds__(kThreads)
    rule_cohorts_kernel(RulePointers<typename Rule<T>::Args> a) {
  const i64 i = (i64(blockIdx.x) * blockDim.x + threadIdx.x) * V;
  if (i >= a.n) return;
  const RuleScalars<T>& scalars = detail::scalars_of<T>(a.cohorts[detail::cohort_of(a, i)]);
  if (i + V <= a.n) return rule_pack<Rule<T>, T, H, V>(a, scalars, i);
  for (i64 k = i; k < a.n; ++k) rule_pack<Rule<T>, T, H, 1, false>(a, scalars, k);
}

template <template <class> class Rule, class T, class H, int V>
void launch_rule(const typename Rule<T>::Args& a, const Launch& l) {
  const i64 threads = (a.n + V - 1) / V;
  const Config config{.grid = unsigned((threads + kThreads - 1) / kThreads),
                      .block = kThreads,
                      .stream = l.stream,
                      .op_name = l.op ? l.op->name : nullptr};
  const RulePointers<typename Rule<T>::Args> args{a};
  if (a.cohorts)
    launch<rule_cohorts_kernel<Rule, T, H, V>>(config, args);
  else
    launch<rule_kernel<Rule, T, H, V>>(config, args);
}
template <template <class> class Rule, int V>
void launch_f32(const typename Rule<float>::Args& a, const Launch& l) {
  if (!a.half) return launch_rule<Rule, float, NoHalf, V>(a, l);
  if (a.half_dtype == DType::f16) return launch_rule<Rule, float, __half, V>(a, l);
  launch_rule<Rule, float, __nv_bfloat16, V>(a, l);
}
template <template <class> class Rule>
void naive(const typename Rule<float>::Args& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_f32<Rule, 1>(a, l) : launch_rule<Rule, double, NoHalf, 1>(a, l);
}
template <template <class> class Rule>
void vectorized(const typename Rule<float>::Args& a, const Launch& l) {
  // Adam's four operands of 16 bytes are enough loads under way; sgd has fewer and little
  // arithmetic to hide them behind, so its threads take 32 bytes of each.
  launch_f32<Rule, Rule<float>::kPack>(a, l);
}

template <class Args>
const char* not_f32_or_f64(const Args& a) {
  if (a.half && a.dtype != DType::f32) return "a 16-bit copy is written of f32 parameters only";
  return a.dtype == DType::f32 || a.dtype == DType::f64 ? nullptr : "parameters must be f32 or f64";
}
template <class Args>
const char* not_packs(const Args& a) {
  if (a.dtype != DType::f32) return "parameters must be f32";
  return aligned_16(a.param) && aligned_16(a.grad) && aligned_16(a.half) &&
                 aligned_16(a.state[0]) && aligned_16(a.state[1]) && aligned_16(a.state[2])
             ? nullptr
             : "pointers must be 16-byte aligned";
}

}  // namespace
}  // namespace WT_DEVICE_NS

// A contract's variants, of the formula detail::Name##Rule.
#define WT_RULE_VARIANTS(contract, Name)                  \
  WT_VARIANTS(WT_DEVICE_NS, contract, Name##StepArgs,     \
              {.name = "vectorized",                      \
               .rank = 10,                                \
               .why_not = not_packs,                      \
               .launch = vectorized<detail::Name##Rule>}, \
              {.name = "naive", .why_not = not_f32_or_f64, .launch = naive<detail::Name##Rule>})

}  // namespace wt
