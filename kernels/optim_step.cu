// Optimizer steps on simt and cuda.
//   naive       a thread an element
//   vectorized  16-byte accesses, several of them in flight a thread
#include "warptape/kernels/optim_step.h"

#include "warptape/kernels/device/vector.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 256;

struct SquareRoot {
  template <class T>
  __device__ __forceinline__ void operator()(const T& x, T& y) const {
    // The function of the device, to formulas that cpu, simt and cuda share (optim_step.h).
    y = sqrt(x);
  }
};

// The pointers of a step, checked by the executor.
struct SgdPointers : SgdStepArgs {
  template <class F>
  void visit_pointers(F&& f) const {
    f(param), f(grad), f(momentum), f(block), f(grad_factor);
    f(flags.flag[0]), f(flags.flag[1]), f(flags.flag[2]);
  }
};
struct AdamwPointers : AdamwStepArgs {
  template <class F>
  void visit_pointers(F&& f) const {
    f(param), f(grad), f(m), f(v), f(block), f(grad_factor);
    f(flags.flag[0]), f(flags.flag[1]), f(flags.flag[2]);
  }
};
struct AdvancePointers : StepAdvanceArgs {
  template <class F>
  void visit_pointers(F&& f) const {
    f(block), f(step), f(flags.flag[0]), f(flags.flag[1]), f(flags.flag[2]);
  }
};
struct RestorePointers : StepRestoreArgs {
  template <class F>
  void visit_pointers(F&& f) const {
    f(to), f(from), f(flags.flag[0]), f(flags.flag[1]), f(flags.flag[2]);
  }
};

__device__ __forceinline__ i64 global_thread() {
  return i64(blockIdx.x) * blockDim.x + threadIdx.x;
}
inline Config threads_for(i64 n, const Launch& l) {
  return {.grid = unsigned((n + kThreads - 1) / kThreads),
          .block = kThreads,
          .stream = l.stream,
          .op_name = l.op ? l.op->name : nullptr};
}
template <class Args>
const char* not_f32_or_f64(const Args& a) {
  return a.dtype == DType::f32 || a.dtype == DType::f64 ? nullptr : "parameters must be f32 or f64";
}

// --- sgd ---
// Elements [i, i + V), V consecutive ones; a V of 1 needs no alignment.
template <class T, int V>
__device__ __forceinline__ void sgd_pack(const SgdPointers& a, const detail::SgdScalars<T>& s,
                                         i64 i) {
  T p[V], g[V], m[V] = {};  // (read only with a buffer, which g++ cannot see under its checkers)
  T* const buffer = static_cast<T*>(a.momentum);
  // All loads before the first use: 3 x 32 bytes a thread are under way together (f32, V = 8).
  load_vector(p, static_cast<T*>(a.param) + i);
  load_vector(g, static_cast<const T*>(a.grad) + i);
  if (buffer) load_vector(m, buffer + i);
#pragma unroll
  for (int k = 0; k < V; ++k)
    // The same for all threads; without momentum two of five accesses are not made.
    if (buffer)
      detail::sgd_update(p[k], g[k], m[k], s);
    else
      detail::sgd_update(p[k], g[k], s);
  store_vector(static_cast<T*>(a.param) + i, p);
  if (buffer) store_vector(buffer + i, m);
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads) sgd_kernel(SgdPointers a) {
  const i64 i = global_thread() * V;
  // `skip` is the device's own decision (overflow, raised mailbox, stop): three flags, read from
  // the same addresses by all threads. A skipped step is this launch, writing nothing; the host
  // need not wait to find out.
  if (i >= a.n || a.flags.skip()) return;
  // Rate, factors and counts are in device memory too, so a captured step can be replayed with new
  // ones.
  const detail::SgdScalars<T> s(a);
  if (i + V <= a.n) return sgd_pack<T, V>(a, s, i);
  // Arena slots are padded, but n counts the elements: the last thread takes them singly.
  for (i64 k = i; k < a.n; ++k) sgd_pack<T, 1>(a, s, k);
}

template <class T, int V>
void launch_sgd(const SgdStepArgs& a, const Launch& l) {
  launch<sgd_kernel<T, V>>(threads_for((a.n + V - 1) / V, l), SgdPointers{a});
}
void sgd_naive(const SgdStepArgs& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_sgd<float, 1>(a, l) : launch_sgd<double, 1>(a, l);
}
void sgd_vectorized(const SgdStepArgs& a, const Launch& l) {
  // 32 bytes of each operand a thread, as two accesses: sgd has little arithmetic to hide its loads
  // behind.
  a.dtype == DType::f32 ? launch_sgd<float, 8>(a, l) : launch_sgd<double, 4>(a, l);
}
const char* sgd_unaligned(const SgdStepArgs& a) {
  if (const char* why = not_f32_or_f64(a)) return why;
  return aligned_16(a.param) && aligned_16(a.grad) && aligned_16(a.momentum)
             ? nullptr
             : "pointers must be 16-byte aligned";
}

// --- adamw ---
template <class T, int V>
__device__ __forceinline__ void adamw_pack(const AdamwPointers& a, const detail::AdamwScalars<T>& s,
                                           i64 i) {
  T p[V], g[V], m[V], v[V];
  load_vector(p, static_cast<T*>(a.param) + i);
  load_vector(g, static_cast<const T*>(a.grad) + i);
  load_vector(m, static_cast<T*>(a.m) + i);
  // 16 bytes read and 12 written an element of f32: at 3 TB/s some 100 billion elements a second,
  // however cleverly the formula is written.
  load_vector(v, static_cast<T*>(a.v) + i);
  // A square root and a division each, V of them independent of each other.
#pragma unroll
  for (int k = 0; k < V; ++k) detail::adamw_update(p[k], g[k], m[k], v[k], s, SquareRoot{});
  store_vector(static_cast<T*>(a.param) + i, p);
  store_vector(static_cast<T*>(a.m) + i, m);
  store_vector(static_cast<T*>(a.v) + i, v);
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads) adamw_kernel(AdamwPointers a) {
  const i64 i = global_thread() * V;
  if (i >= a.n || a.flags.skip()) return;
  const detail::AdamwScalars<T> s(a);
  if (i + V <= a.n) return adamw_pack<T, V>(a, s, i);
  for (i64 k = i; k < a.n; ++k) adamw_pack<T, 1>(a, s, k);
}

template <class T, int V>
void launch_adamw(const AdamwStepArgs& a, const Launch& l) {
  launch<adamw_kernel<T, V>>(threads_for((a.n + V - 1) / V, l), AdamwPointers{a});
}
void adamw_naive(const AdamwStepArgs& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_adamw<float, 1>(a, l) : launch_adamw<double, 1>(a, l);
}
void adamw_vectorized(const AdamwStepArgs& a, const Launch& l) {
  // Four operands of 16 bytes already are as many loads under way as sgd has; twice would be
  // registers.
  a.dtype == DType::f32 ? launch_adamw<float, 4>(a, l) : launch_adamw<double, 2>(a, l);
}
const char* adamw_unaligned(const AdamwStepArgs& a) {
  if (const char* why = not_f32_or_f64(a)) return why;
  return aligned_16(a.param) && aligned_16(a.grad) && aligned_16(a.m) && aligned_16(a.v)
             ? nullptr
             : "pointers must be 16-byte aligned";
}

// --- the rest of a step ---

// One thread: a handful of numbers that depend on each other. It is a launch because the host must
// not wait for the count; in a captured graph it is one node more.
__global__ void advance_kernel(AdvancePointers a) { detail::advance(a, SquareRoot{}); }
void advance_one_thread(const StepAdvanceArgs& a, const Launch& l) {
  launch<advance_kernel>(
      {.grid = 1, .block = 1, .stream = l.stream, .op_name = l.op ? l.op->name : nullptr},
      AdvancePointers{a});
}

// Words of W; the last thread of the words also copies the bytes after them.
template <class W>
__global__ void __launch_bounds__(kThreads) restore_kernel(RestorePointers a) {
  // The usual way out: a good step restores nothing.
  if (!a.flags.skip()) return;
  const i64 words = a.size / i64(sizeof(W)), i = global_thread();
  if (i < words) vstore(static_cast<W*>(a.to) + i, vload<W>(static_cast<const W*>(a.from) + i));
  // Fewer bytes than a word, by one thread, after its own word.
  if (i != 0) return;
  for (i64 k = words * i64(sizeof(W)); k < a.size; ++k)
    static_cast<char*>(a.to)[k] = static_cast<const char*>(a.from)[k];
}
__global__ void __launch_bounds__(kThreads) restore_bytes_kernel(RestorePointers a) {
  const i64 i = global_thread();
  if (i < a.size && a.flags.skip())
    static_cast<char*>(a.to)[i] = static_cast<const char*>(a.from)[i];
}
void restore_naive(const StepRestoreArgs& a, const Launch& l) {
  launch<restore_bytes_kernel>(threads_for(a.size, l), RestorePointers{a});
}
void restore_vectorized(const StepRestoreArgs& a, const Launch& l) {
  launch<restore_kernel<Pack<float, 4>>>(threads_for((a.size + 15) / 16, l), RestorePointers{a});
}
const char* restore_unaligned(const StepRestoreArgs& a) {
  return aligned_16(a.to) && aligned_16(a.from) ? nullptr : "pointers must be 16-byte aligned";
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, sgd_step, SgdStepArgs,
            {.name = "vectorized", .rank = 10, .why_not = sgd_unaligned, .launch = sgd_vectorized},
            {.name = "naive", .why_not = not_f32_or_f64, .launch = sgd_naive});
WT_VARIANTS(
    WT_DEVICE_NS, adamw_step, AdamwStepArgs,
    {.name = "vectorized", .rank = 10, .why_not = adamw_unaligned, .launch = adamw_vectorized},
    {.name = "naive", .why_not = not_f32_or_f64, .launch = adamw_naive});
WT_VARIANTS(WT_DEVICE_NS, step_advance, StepAdvanceArgs,
            {.name = "naive", .launch = advance_one_thread});
WT_VARIANTS(
    WT_DEVICE_NS, step_restore, StepRestoreArgs,
    {.name = "vectorized", .rank = 10, .why_not = restore_unaligned, .launch = restore_vectorized},
    {.name = "naive", .launch = restore_naive});

}  // namespace wt
