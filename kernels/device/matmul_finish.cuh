// What was summed goes to memory: the end that the rungs of the matrix product share.
#pragma once
#include "warptape/kernels/device/matmul.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
__device__ __forceinline__ void finish(T& to, typename MatmulSum<T>::type sum, bool accumulate) {
  using Sum = typename MatmulSum<T>::type;
  to = T(accumulate ? sum + Sum(to) : sum);
}

template <class T>
__device__ __forceinline__ void finish_pair(const MatmulArgs& g, T* out, i64 i, i64 j, float first,
                                            float second, bool pairs) {
  if (i >= g.m || j >= g.n) return;
  const T* bias = static_cast<const T*>(g.bias);
  T* at = out + i * g.out_row + j;
  const bool both = j + 1 < g.n;
  if (bias) {
    first += float(bias[j]);
    if (both) second += float(bias[j + 1]);
  }
  if (g.accumulate) {
    first += float(at[0]);
    if (both) second += float(at[1]);
  }
  if (both && pairs) {
    // 4 bytes a lane: the four lanes of a row write 16 bytes of it, half a sector. The next tile to
    // the right is the other half; L2 joins the two before anything goes to memory.
    vstore(at, Pack<T, 2>{T(first), T(second)});
  } else {
    at[0] = T(first);
    if (both) at[1] = T(second);
  }
}

// Two neighbours of out can be written at once, wherever a row begins.
inline bool pairs_aligned(const MatmulArgs& g) {
  bool pairs = reinterpret_cast<uintptr_t>(g.out) % uintptr_t(2 * item_size(g.dtype)) == 0 &&
               g.out_row % 2 == 0;
  for (int d = 0; d < g.batch_ndim; ++d) pairs &= g.batch[d].out % 2 == 0;
  return pairs;
}

// k in parts, each with blocks of its own (blockIdx.y), which leave their sums in a workspace;
// matmul_split.cuh has the stage that adds them. Of a product that is not split there is one part,
// and `sums` is null.
struct KParts {
  i64 each;  // terms of a part; the last may have fewer
  int count = 1;
  i64 pitch = 0;              // of `sums`: from a row to the next, a multiple of 4
  float* sums = nullptr;      // [batches, count, m, pitch]; behind n there are zeros
  float* row_sums = nullptr;  // [count, m]
  template <class F>
  void visit_pointers(F&& f) const {
    f(sums), f(row_sums);
  }
  // The block's terms: the first, and how many.
  __device__ __forceinline__ i64 first() const { return i64(blockIdx.y) * each; }
  __device__ __forceinline__ i64 terms(i64 k) const { return min(k - first(), each); }
  // Where the block's part of matrix z goes; null where it is the whole.
  __device__ __forceinline__ float* at(const MatmulArgs& g, i64 z) const {
    return sums ? sums + (z * count + i64(blockIdx.y)) * g.m * pitch : nullptr;
  }
};

// Row i's sum of the block's terms.
template <class T>
__device__ __forceinline__ void finish_row_sum(const MatmulArgs& g, const KParts& parts, i64 i,
                                               float sum) {
  if (i >= g.m) return;
  if (parts.sums)
    parts.row_sums[i64(blockIdx.y) * g.m + i] = sum;
  else
    finish(static_cast<T*>(g.row_sum)[i], sum, g.row_sum_accumulate);
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
