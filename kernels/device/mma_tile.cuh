// A tile of 16-bit floats in shared memory for mma.m16n8k16: for the tensor-core rungs
// of the matrix product and of convolution.
#pragma once
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/simt/simt.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// f(TypeTag<T>) for the types that mma multiplies.
template <class F>
void with_half(DType t, F&& f) {
  if (t == DType::f16)
    f(TypeTag<__half>{});
  else
    f(TypeTag<__nv_bfloat16>{});
}

// Two mma steps of 16 between barriers: rows of 64 bytes, which four threads fetch as two 32-byte
// sectors with nothing wasted. Twice the depth would halve the barriers and double shared memory.
constexpr int kMmaDepth = 32;

// X lines of the matrix (rows of a, columns of b) by kMmaDepth of p. Along: contiguous along p.
template <class T, int X, bool Along>
struct MmaTile {
  static constexpr int kOuter = Along ? X : kMmaDepth, kInner = Along ? kMmaDepth : X;
  static constexpr int kPieces = kOuter * kInner / 8;
  // The 8 elements more: along p a row is 80 bytes, so 8 rows begin at banks 0, 20, 8, 28, 16, 4,
  // 24 and 12, four banks each, and an 8 x 8 matrix is read at once. Rows of 64 bytes would begin
  // at banks 0 and 16 only, four reads for one; across p rows are 16 bytes more than a multiple of
  // 128, without the 8 all of them would begin at bank 0.
  alignas(16) T v[kOuter][kInner + 8];

  // Four 8 x 8 matrices: lines x .. x+15 by p .. p+15. `p_second`: the second matrix is further
  // along p (b's order), else it is further along x (a's order).
  __device__ __forceinline__ void fragments(uint32_t (&r)[4], int x, int p, bool p_second) const {
    const int lane = int(threadIdx.x) % 32, eight = lane % 8;
    // Lane l names row l % 8 of matrix l / 8; it receives two neighbours of row l / 4, whoever
    // named that row. One instruction so moves 512 bytes, and the warp's threads exchange data
    // without a shuffle.
    const int second = lane / 8 % 2 * 8, third = lane / 16 * 8;
    const int dx = p_second ? third : second, dp = p_second ? second : third;
    if constexpr (Along)
      ldmatrix<4, false>(r, &v[x + dx + eight][p + dp]);
    else
      // mma wants neighbours along p in one register; here memory has neighbours along x. `trans`
      // turns each 8 x 8 matrix on the way, at no cost.
      ldmatrix<4, true>(r, &v[p + dp + eight][x + dx]);
  }
  __device__ __forceinline__ float at(int x, int p) const {
    return Along ? float(v[x][p]) : float(v[p][x]);
  }
};

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
