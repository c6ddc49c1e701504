// What tensor cores have summed goes to memory: the end that all rungs on them share.
#pragma once
#include "warptape/kernels/device/matmul.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

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

// Two neighbours of out are 4 aligned bytes, wherever a row begins.
inline bool pairs_aligned(const MatmulArgs& g) {
  bool pairs = reinterpret_cast<uintptr_t>(g.out) % 4 == 0 && g.out_row % 2 == 0;
  for (int d = 0; d < g.batch_ndim; ++d) pairs &= g.batch[d].out % 2 == 0;
  return pairs;
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
