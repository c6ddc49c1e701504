// Gradient norms and the step's decision on simt and cuda.
//   naive  a thread a chunk; one thread adds the partial sums
//   block  a block a chunk with loads that coalesce; one block adds the partial sums
#include "warptape/kernels/grad_norm.h"

#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/vector.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 256;

struct DecidePointers : StepDecideArgs {
  template <class F>
  void visit_pointers(F&& f) const {
    f(partials), f(norm), f(factor), f(step), f(mailbox), f(scaler), f(found);
  }
};
struct LossPointers : LossAddArgs {
  template <class F>
  void visit_pointers(F&& f) const {
    f(sum), f(weight), f(step);
  }
};

inline Config config(i64 blocks, unsigned threads, const Launch& l) {
  return {.grid = unsigned(blocks),
          .block = threads,
          .stream = l.stream,
          .op_name = l.op ? l.op->name : nullptr};
}
template <class Args>
const char* not_f32_or_f64(const Args& a) {
  return a.dtype == DType::f32 || a.dtype == DType::f64 ? nullptr : "gradients must be f32 or f64";
}

// --- partial sums ---
template <class T>
__global__ void __launch_bounds__(kThreads) norm_naive_kernel(const T* g, i64 n, double* partials) {
  const i64 chunk = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 begin = chunk * kNormChunk;
  // A thread walks a chunk of its own: lanes read a chunk apart, 32 sectors of 32 bytes a load for
  // 4 bytes each.
  if (begin >= n) return;
  const i64 end = begin + kNormChunk < n ? begin + kNormChunk : n;
  double s = 0;
  for (i64 i = begin; i < end; ++i) s += double(g[i]) * double(g[i]);
  partials[chunk] = s;
}

template <class T>
__global__ void __launch_bounds__(kThreads) norm_block_kernel(const T* g, i64 n, double* partials) {
  // Threads of a block read neighbouring 16 bytes, 512 a warp, 4 KiB a block and turn.
  constexpr int V = 16 / sizeof(T);
  const i64 begin = i64(blockIdx.x) * kNormChunk;
  const i64 end = begin + kNormChunk < n ? begin + kNormChunk : n;
  double s = 0;
  for (i64 i = begin + i64(threadIdx.x) * V; i < end; i += kThreads * V) {
    if (i + V <= end) {
      T v[V];
      load_vector(v, g + i);
      // In doubles: f32 squares overflow at 1e19, and the norm must be told from one that is really
      // infinite.
#pragma unroll
      for (int k = 0; k < V; ++k) s += double(v[k]) * double(v[k]);
    } else {
      for (i64 k = i; k < end; ++k) s += double(g[k]) * double(g[k]);
    }
  }
  s = block_reduce(s, Plus{});
  // A place a block instead of an atomic: the same gradients give the same norm, and so the same
  // clipped step, at every run. Chunks, not the grid, say which elements are added together.
  if (threadIdx.x == 0) partials[blockIdx.x] = s;
}

template <class T>
void launch_norm_naive(const GradNormArgs& a, const Launch& l) {
  const i64 chunks = norm_chunks(a.n);
  launch<norm_naive_kernel<T>>(config((chunks + kThreads - 1) / kThreads, kThreads, l),
                               static_cast<const T*>(a.grad), a.n, a.partials);
}
template <class T>
void launch_norm_block(const GradNormArgs& a, const Launch& l) {
  launch<norm_block_kernel<T>>(config(norm_chunks(a.n), kThreads, l), static_cast<const T*>(a.grad),
                               a.n, a.partials);
}
void norm_naive(const GradNormArgs& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_norm_naive<float>(a, l) : launch_norm_naive<double>(a, l);
}
void norm_block(const GradNormArgs& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_norm_block<float>(a, l) : launch_norm_block<double>(a, l);
}
const char* norm_unaligned(const GradNormArgs& a) {
  if (const char* why = not_f32_or_f64(a)) return why;
  return aligned_16(a.grad) ? nullptr : "gradients must be 16-byte aligned";
}

// --- the decision ---
__global__ void __launch_bounds__(1) decide_naive_kernel(DecidePointers a) {
  double s = 0;
  // One thread, one load after the other, each some hundreds of cycles: what the block rung is for.
  for (i64 i = 0; i < a.count; ++i) s += a.partials[i];
  detail::decide(a, a.partials ? sqrt(s) : double(NAN));
}
__global__ void __launch_bounds__(kThreads) decide_block_kernel(DecidePointers a) {
  double s = 0;
  // 256 loads under way at once; then warps in lane order and the eight warps in theirs.
  for (i64 i = threadIdx.x; i < a.count; i += kThreads) s += a.partials[i];
  s = block_reduce(s, Plus{});
  // The norm, the clip factor and whether the step is good stay here, in device memory: every later
  // kernel of the step reads them, and the host is asked for nothing.
  if (threadIdx.x == 0) detail::decide(a, a.partials ? sqrt(s) : double(NAN));
}
void decide_naive(const StepDecideArgs& a, const Launch& l) {
  launch<decide_naive_kernel>(config(1, 1, l), DecidePointers{a});
}
void decide_block(const StepDecideArgs& a, const Launch& l) {
  launch<decide_block_kernel>(config(1, kThreads, l), DecidePointers{a});
}

// --- the rest ---
template <class T>
__global__ void __launch_bounds__(kThreads) scale_kernel(T* x, i64 n, const double* factor) {
  const i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  // One address for all threads: a transaction a warp, from L1 after the first.
  if (i < n) x[i] *= T(*factor);
}
template <class T>
void launch_scale(const GradScaleArgs& a, const Launch& l) {
  launch<scale_kernel<T>>(config((a.n + kThreads - 1) / kThreads, kThreads, l),
                          static_cast<T*>(a.x), a.n, a.factor);
}
void scale_naive(const GradScaleArgs& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_scale<float>(a, l) : launch_scale<double>(a, l);
}

// Two additions, on the device because the loss is there: reading it on the host would drain the
// stream.
__global__ void __launch_bounds__(1) loss_add_kernel(LossPointers a) { detail::add_loss(a); }
void loss_add_one_thread(const LossAddArgs& a, const Launch& l) {
  launch<loss_add_kernel>(config(1, 1, l), LossPointers{a});
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, grad_norm, GradNormArgs,
            {.name = "block", .rank = 10, .why_not = norm_unaligned, .launch = norm_block},
            {.name = "naive", .why_not = not_f32_or_f64, .launch = norm_naive});
WT_VARIANTS(WT_DEVICE_NS, step_decide, StepDecideArgs,
            {.name = "block", .rank = 10, .launch = decide_block},
            {.name = "naive", .launch = decide_naive});
WT_VARIANTS(WT_DEVICE_NS, grad_scale, GradScaleArgs,
            {.name = "naive", .why_not = not_f32_or_f64, .launch = scale_naive});
WT_VARIANTS(WT_DEVICE_NS, loss_add, LossAddArgs, {.name = "naive", .launch = loss_add_one_thread});

}  // namespace wt
