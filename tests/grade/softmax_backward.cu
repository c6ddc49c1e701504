// Right and wrong kernels for softmax_backward. "REJECT variant kind" as in softmax_bad.cu; the
// others have to pass.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/softmax.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

const char* plain_rows(const SoftmaxBackwardArgs& a) {
  if (a.log) return "log_softmax";
  if (a.y.ndim() != 2 || a.axis != 1) return "another axis than the last of two";
  return plain_f32(a.gx) && plain_f32(a.gy) && plain_f32(a.y) ? nullptr
                                                              : "anything but contiguous f32";
}
const char* takes_log(const SoftmaxBackwardArgs& a) {
  SoftmaxBackwardArgs plain = a;
  plain.log = false;
  return plain_rows(plain);
}

__device__ float dot(const float* g, const float* y, int n) {
  float s = 0;
  for (int i = 0; i < n; ++i) s += g[i] * y[i];
  return s;
}

__global__ void thread_a_row(float* gx, const float* gy, const float* y, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  const float s = dot(gy + r * n, y + r * n, n);
  for (int e = r * n; e < (r + 1) * n; ++e) gx[e] = y[e] * (gy[e] - s);
}
// Every product is kept in gx until the sum is known.
__global__ void products_first(float* gx, const float* gy, const float* y, int, int n) {
  WT_SHARED(float, part, [32]);
  const int lane = int(threadIdx.x), first = int(blockIdx.x) * n;
  float s = 0;
  for (int i = lane; i < n; i += 32) s += gx[first + i] = gy[first + i] * y[first + i];
  part[lane] = s;
  __syncthreads();
  s = 0;
  for (int k = 0; k < 32; ++k) s += part[k];
  for (int i = lane; i < n; i += 32) gx[first + i] -= s * y[first + i];
}

// REJECT without_sum values
__global__ void without_sum(float* gx, const float* gy, const float* y, int rows, int n) {
  const int e = int(blockIdx.x * blockDim.x + threadIdx.x);
  for (int k = e * n; e < rows && k < (e + 1) * n; ++k) gx[k] = y[k] * gy[k];
}
// REJECT sum_of_gy values
__global__ void sum_of_gy(float* gx, const float* gy, const float* y, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  float s = 0;
  for (int e = r * n; e < (r + 1) * n; ++e) s += gy[e];
  for (int e = r * n; e < (r + 1) * n; ++e) gx[e] = y[e] * (gy[e] - s);
}
// REJECT over_gy input
__global__ void over_gy(float*, float* gy, const float* y, int rows, int n) {
  const int r = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (r >= rows) return;
  const float s = dot(gy + r * n, y + r * n, n);
  for (int e = r * n; e < (r + 1) * n; ++e) gy[e] = y[e] * (gy[e] - s);
}
// REJECT nobody_waits race
__global__ void nobody_waits(float* gx, const float* gy, const float* y, int, int n) {
  WT_SHARED(float, sum, );
  const int lane = int(threadIdx.x), first = int(blockIdx.x) * n;
  if (lane == 0) sum = dot(gy + first, y + first, n);
  for (int e = first + lane; e < first + n; e += 32)
    gx[e] = y[e] * (gy[e] - sum);  // BUG nobody_waits
}

template <auto Kernel, int RowsPerBlock = 32>
void simply(const SoftmaxBackwardArgs& a, const Launch& l) {
  const int rows = int(a.y.size(0));
  launch<Kernel>(grid(l, blocks_for(rows, RowsPerBlock), 32), a.gx.as<float>(), a.gy.as<float>(),
                 a.y.as<const float>(), rows, int(a.y.size(1)));
}

}  // namespace
}  // namespace WT_DEVICE_NS

// REJECT forgets_log values
WT_VARIANTS(WT_DEVICE_NS, softmax_backward, SoftmaxBackwardArgs,
            {.name = "thread_a_row", .why_not = plain_rows, .launch = simply<thread_a_row>},
            {.name = "products_first", .why_not = plain_rows, .launch = simply<products_first, 1>},
            {.name = "without_sum", .why_not = plain_rows, .launch = simply<without_sum>},
            {.name = "sum_of_gy", .why_not = plain_rows, .launch = simply<sum_of_gy>},
            {.name = "over_gy", .why_not = plain_rows, .launch = simply<over_gy>},
            {.name = "nobody_waits", .why_not = plain_rows, .launch = simply<nobody_waits, 1>},
            {.name = "forgets_log", .why_not = takes_log, .launch = simply<thread_a_row>});

}  // namespace wt
