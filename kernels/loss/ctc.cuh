// Connectionist temporal classification on simt and cuda: the recursion over a sample's steps that
// forward and backward share.
#pragma once
#include "warptape/kernels/ctc.h"
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/loss/ctc_common.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kNaiveThreads = 32;  // few samples to hand out: small blocks, more processors
constexpr int kMostThreads = 1024, kOwned = 2, kMostStates = kOwned * kMostThreads;

template <class T>
using CtcInputs = CtcOperands<T, ComputeType<T>>;

// Labels of the samples before n, by all threads of a block.
template <class T>
__device__ i64 labels_before_by_block(const CtcInputs<T>& from, i64 n) {
  if (from.row_labels >= 0) return 0;  // for the whole block
  i64 sum = 0;
  for (i64 k = threadIdx.x; k < n; k += blockDim.x) sum += from.target_lengths[k];
  return block_reduce(sum, Plus());
}

// One row of a recursion, in shared memory: two cells of -inf, then the states.
using CtcRow = float[kMostStates + 2];

// The recursion of one sample by one block, a thread two states at most. Forward, `out` is alpha:
// row t of `width` states. Backward it is beta, and what is carried along is on[t][s] = beta[t][s]
// + y[t][s], which follows the rule of alpha with steps and states counted from the end: so both
// directions are one function. Returns the row that was carried last, state 0 (backward the last
// state) in cell 2; all threads have passed a barrier since it was written, if there are steps.
template <class T>
__device__ __forceinline__ const float* ctc_walk(const CtcSample<T, float>& x, bool backward,
                                                 float* out, i64 width, CtcRow (&rows)[2]) {
  constexpr float none = -INFINITY;
  constexpr int kAhead = 4;
  const int states = int(x.states()), threads = int(blockDim.x), me = int(threadIdx.x);
  const i64 last = x.steps - 1;
  const i64 step = backward ? -x.step : x.step;
  // What a thread wants to know of its states does not change from step to step: where their
  // log-probabilities lie, and whether a path may skip to them. The labels are read once.
  const T* y[kOwned];
  float* to[kOwned];
  bool skips[kOwned];
#pragma unroll
  for (int i = 0; i < kOwned; ++i) {
    const int p = me + i * threads;  // in the direction of the walk
    const int s = p >= states ? 0 : backward ? states - 1 - p : p;
    y[i] = x.y + x.class_of(s) * x.class_step + (backward ? last * x.step : 0);
    to[i] = out + s + (backward ? last * width : 0);
    skips[i] = p < states && p >= 2 && x.skips(backward ? s + 2 : s);
  }
  const i64 out_step = backward ? -width : width;
  // States before the first: with them no state is special.
  if (me < 2) rows[0][me] = rows[1][me] = none;

  // The next step needs the sums of this one, but not to know where it reads: log-probabilities are
  // asked for four steps ahead, so that a step waits for exp, log and a barrier and not for memory.
  T next[kAhead][kOwned];
  const auto load = [&](i64 first) WT_INLINE_LAMBDA {
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
#pragma unroll
      for (int i = 0; i < kOwned; ++i)
        next[j][i] = first + j <= last && me + i * threads < states ? y[i][j * step] : T(0.0f);
  };
  load(0);
  float own[kOwned] = {};
  for (i64 first = 0; first <= last; first += kAhead) {
    float now[kAhead][kOwned];
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
#pragma unroll
      for (int i = 0; i < kOwned; ++i) now[j][i] = float(next[j][i]);
#pragma unroll
    for (int i = 0; i < kOwned; ++i) y[i] += kAhead * step;
    load(first + kAhead);
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (first + j > last) break;  // for all threads
      // Two rows take turns, so that one barrier a step is enough: nobody writes this step's row
      // before all have read it, as the row of two steps ago, in front of the barrier of the last
      // step.
      float* const after = rows[j % 2];
      const float* const before = rows[1 - j % 2];
      const bool begins = first + j == 0;
#pragma unroll
      for (int i = 0; i < kOwned; ++i) {
        const int p = me + i * threads;
        if (p >= states) continue;
        float sum = p < 2 ? 0 : none;
        if (!begins) sum = log_sum(own[i], before[p + 1], skips[i] ? before[p] : none);
        own[i] = begins && p >= 2 ? none : sum + now[j][i];
        *to[i] = backward ? sum : own[i];
        to[i] += out_step;
        after[p + 2] = own[i];
      }
      __syncthreads();
    }
  }
  return rows[x.steps % 2 == 0 ? 1 : 0];
}

// --- choice ---

template <class Args>
const char* why_not_block(const Args& a) {
  if (a.log_probs.dtype() == DType::f64) return "f64 has the naive rung only";
  if (a.alpha.size(2) > kMostStates) return "targets of more than 1023 labels";
  return a.log_probs.size(1) > 0x7fffffff || a.log_probs.size(2) > 0x7fffffff
             ? "more than 2^31 - 1 samples or classes"
             : nullptr;
}
template <class Args>
Config block_a_sample(const Args& a, const Launch& l) {
  const i64 wanted = 32 * ceil_div(a.alpha.size(2), 32);
  return grid_of(l, a.log_probs.size(1), wanted < kMostThreads ? wanted : kMostThreads);
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
