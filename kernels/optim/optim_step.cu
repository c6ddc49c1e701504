// What moves a training step's scalars on, on simt and cuda.
//   naive       a thread (step_restore: a byte; step_advance: a cohort)
//   vectorized  step_restore: 16-byte accesses
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
struct AdvancePointers : StepAdvanceArgs {
  template <class F>
  void visit_pointers(F&& f) const {
    f(block), f(step), f(scaler), f(flags.flag[0]), f(flags.flag[1]), f(flags.flag[2]);
    f(cohorts), f(earlier);
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
// One thread: a handful of numbers that depend on each other. It is a launch because the host must
// not wait for the count; in a captured graph it is one node more.
__global__ void __launch_bounds__(1) advance_kernel(AdvancePointers a) {
  detail::advance(a, SquareRoot{});
}
// Where parameters have missed steps: thread 0 does the same, and then each has cohorts to follow
// the block, whose powers are of its own count.
__global__ void __launch_bounds__(kThreads) advance_cohorts_kernel(AdvancePointers a) {
  if (threadIdx.x == 0 && !a.cohorts_alone) detail::advance(a, SquareRoot{});
  __syncthreads();
  for (i64 k = threadIdx.x; k < a.n_cohorts; k += blockDim.x)
    detail::advance_cohort(a, k, SquareRoot{});
}
void advance_one_block(const StepAdvanceArgs& a, const Launch& l) {
  const auto config = [&](unsigned block) {
    return Config{
        .grid = 1, .block = block, .stream = l.stream, .op_name = l.op ? l.op->name : nullptr};
  };
  if (a.n_cohorts == 0)
    launch<advance_kernel>(config(1), AdvancePointers{a});
  else
    launch<advance_cohorts_kernel>(config(kThreads), AdvancePointers{a});
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

WT_VARIANTS(WT_DEVICE_NS, step_advance, StepAdvanceArgs,
            {.name = "naive", .launch = advance_one_block});
WT_VARIANTS(
    WT_DEVICE_NS, step_restore, StepRestoreArgs,
    {.name = "vectorized", .rank = 10, .why_not = restore_unaligned, .launch = restore_vectorized},
    {.name = "naive", .launch = restore_naive});

}  // namespace wt
