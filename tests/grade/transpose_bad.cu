// Wrong kernels for transpose. "REJECT variant kind" as in softmax_bad.cu.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/copy.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

const char* a_matrix(const CopyArgs& a) {
  if (a.out.ndim() != 2 || a.in.ndim() != 2 || a.out.dtype() != DType::f32 ||
      a.in.dtype() != DType::f32)
    return "anything but matrices of f32";
  const bool swapped = a.in.stride(0) == 1 && a.in.stride(1) == a.in.size(0);
  return a.out.dense() && swapped ? nullptr : "another layout than a transposed one";
}

// REJECT straight values
__global__ void straight(float* out, const float* in, int rows, int columns) {
  const int e = (int(blockIdx.y) * int(gridDim.x) + int(blockIdx.x)) * 256 + int(threadIdx.y) * 32 +
                int(threadIdx.x);
  for (int i = e; i < rows * columns; i += int(gridDim.x * gridDim.y) * 256) out[i] = in[i];
}
// REJECT full_tiles outside
__global__ void full_tiles(float* out, const float* in, int rows, int columns) {
  WT_SHARED(float, tile, [32][33]);
  const int r0 = int(blockIdx.y) * 32, c0 = int(blockIdx.x) * 32, tx = int(threadIdx.x);
  for (int k = int(threadIdx.y); k < 32; k += 8)
    tile[k][tx] = in[(c0 + k) * rows + r0 + tx];  // BUG full_tiles
  __syncthreads();
  for (int k = int(threadIdx.y); k < 32; k += 8)
    if (r0 + k < rows && c0 + tx < columns) out[(r0 + k) * columns + c0 + tx] = tile[tx][k];
}
// REJECT no_barrier race
__global__ void no_barrier(float* out, const float* in, int rows, int columns) {
  WT_SHARED(float, tile, [32][33]);
  const int r0 = int(blockIdx.y) * 32, c0 = int(blockIdx.x) * 32, tx = int(threadIdx.x);
  for (int k = int(threadIdx.y); k < 32; k += 8)
    if (c0 + k < columns && r0 + tx < rows)
      tile[k][tx] = in[(c0 + k) * rows + r0 + tx];  // BUG no_barrier
  for (int k = int(threadIdx.y); k < 32; k += 8)
    if (r0 + k < rows && c0 + tx < columns) out[(r0 + k) * columns + c0 + tx] = tile[tx][k];
}
// The test of the reads is that of the writes.
// REJECT one_test values
__global__ void one_test(float* out, const float* in, int rows, int columns) {
  WT_SHARED(float, tile, [32][33]);
  const int r0 = int(blockIdx.y) * 32, c0 = int(blockIdx.x) * 32, tx = int(threadIdx.x);
  for (int k = int(threadIdx.y); k < 32; k += 8) {
    tile[k][tx] = 0;
    if (r0 + k < rows && c0 + tx < columns && c0 + k < columns && r0 + tx < rows)
      tile[k][tx] = in[(c0 + k) * rows + r0 + tx];
  }
  __syncthreads();
  for (int k = int(threadIdx.y); k < 32; k += 8)
    if (r0 + k < rows && c0 + tx < columns) out[(r0 + k) * columns + c0 + tx] = tile[tx][k];
}

template <auto Kernel>
void tiles(const CopyArgs& a, const Launch& l) {
  Config c = grid(l, 0, 32);
  c.grid = dim3(blocks_for(a.out.size(1), 32), blocks_for(a.out.size(0), 32));
  c.block = dim3(32, 8);
  launch<Kernel>(c, a.out.as<float>(), a.in.as<const float>(), int(a.out.size(0)),
                 int(a.out.size(1)));
}

}  // namespace
}  // namespace WT_DEVICE_NS

#define WT_ROW(kernel) \
  { .name = #kernel, .why_not = a_matrix, .launch = tiles<kernel> }
WT_VARIANTS(WT_DEVICE_NS, copy, CopyArgs, WT_ROW(straight), WT_ROW(full_tiles), WT_ROW(no_barrier),
            WT_ROW(one_test));

}  // namespace wt
