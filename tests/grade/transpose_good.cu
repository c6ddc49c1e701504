// Right kernels for transpose, in styles that differ as students' do.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/copy.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// `out` is dense, `in` has its axes swapped.
const char* a_matrix(const CopyArgs& a) {
  if (a.out.ndim() != 2 || a.in.ndim() != 2 || a.out.dtype() != DType::f32 ||
      a.in.dtype() != DType::f32)
    return "anything but matrices of f32";
  const bool swapped = a.in.stride(0) == 1 && a.in.stride(1) == a.in.size(0);
  return a.out.dense() && swapped ? nullptr : "another layout than a transposed one";
}

__global__ void element(float* out, const float* in, int rows, int columns) {
  const int e = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (e < rows * columns) out[e] = in[e % columns * rows + e / columns];
}
// The other way round: reads are neighbours, writes are not.
__global__ void by_reads(float* out, const float* in, int rows, int columns) {
  const int e = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (e < rows * columns) out[e % rows * columns + e / rows] = in[e];
}
template <int Width>
__global__ void tiled(float* out, const float* in, int rows, int columns) {
  WT_SHARED(float, tile, [32][Width]);
  const int r0 = int(blockIdx.y) * 32, c0 = int(blockIdx.x) * 32;
  const int tx = int(threadIdx.x), ty = int(threadIdx.y);
  for (int k = ty; k < 32; k += int(blockDim.y))
    if (c0 + k < columns && r0 + tx < rows) tile[k][tx] = in[(c0 + k) * rows + r0 + tx];
  __syncthreads();
  for (int k = ty; k < 32; k += int(blockDim.y))
    if (r0 + k < rows && c0 + tx < columns) out[(r0 + k) * columns + c0 + tx] = tile[tx][k];
}
// Banks by turning the columns instead of padding.
__global__ void turned(float* out, const float* in, int rows, int columns) {
  WT_SHARED(float, tile, [32][32]);
  const int r0 = int(blockIdx.y) * 32, c0 = int(blockIdx.x) * 32;
  const int tx = int(threadIdx.x);
  for (int k = int(threadIdx.y); k < 32; k += int(blockDim.y))
    if (c0 + k < columns && r0 + tx < rows) tile[k][(tx + k) % 32] = in[(c0 + k) * rows + r0 + tx];
  __syncthreads();
  for (int k = int(threadIdx.y); k < 32; k += int(blockDim.y))
    if (r0 + k < rows && c0 + tx < columns)
      out[(r0 + k) * columns + c0 + tx] = tile[tx][(k + tx) % 32];
}

template <auto Kernel>
void flat(const CopyArgs& a, const Launch& l) {
  launch<Kernel>(grid(l, blocks_for(a.out.numel(), 64), 64), a.out.as<float>(),
                 a.in.as<const float>(), int(a.out.size(0)), int(a.out.size(1)));
}
template <auto Kernel, int Rows>
void tiles(const CopyArgs& a, const Launch& l) {
  Config c = grid(l, 0, 32);
  c.grid = dim3(blocks_for(a.out.size(1), 32), blocks_for(a.out.size(0), 32));
  c.block = dim3(32, Rows);
  launch<Kernel>(c, a.out.as<float>(), a.in.as<const float>(), int(a.out.size(0)),
                 int(a.out.size(1)));
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, copy, CopyArgs,
            {.name = "element", .why_not = a_matrix, .launch = flat<element>},
            {.name = "by_reads", .why_not = a_matrix, .launch = flat<by_reads>},
            {.name = "padded", .why_not = a_matrix, .launch = tiles<tiled<33>, 8>},
            {.name = "with_conflicts", .why_not = a_matrix, .launch = tiles<tiled<32>, 4>},
            {.name = "thread_an_element", .why_not = a_matrix, .launch = tiles<tiled<33>, 32>},
            {.name = "turned", .why_not = a_matrix, .launch = tiles<turned, 2>});

}  // namespace wt
