#include "warptape/kernels/simt/simt.h"  // first

namespace wt {
inline namespace WT_DEVICE_NS {  // wt::simt under g++, wt::cuda under nvcc: everything goes in here

template <int Threads>
__global__ void __launch_bounds__(Threads) row_sum(float* out, const float* x, int columns) {
  WT_SHARED(float, part, [Threads / 32]);  // WT_SHARED(int, flag, ); for a scalar
  const float* row = x + size_t(blockIdx.x) * columns;
  float v = 0;
  for (int i = threadIdx.x * 4; i < columns; i += Threads * 4) {
    const float4 q = vload<float4>(row + i);
    v += (q.x + q.y) + (q.z + q.w);
  }
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xffffffffu, v, d);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = (part[0] + part[1]) + (part[2] + part[3]);
}

void row_sum_launch(float* out, const float* x, int rows, int columns, void* stream) {
  launch<row_sum<128>>({.grid = rows, .block = 128, .stream = stream, .op_name = "sum"}, out, x,
                       columns);
}

}  // namespace WT_DEVICE_NS
}  // namespace wt
