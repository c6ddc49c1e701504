// Right and wrong kernels for gelu. "REJECT variant kind" as in softmax_bad.cu; the others have to
// pass.
#include "warptape/tests/grade/kernels.h"
//
#include "warptape/kernels/pointwise.h"

namespace wt {
using Args = PointwiseArgs<pw::Gelu>;
inline namespace WT_DEVICE_NS {
namespace {

const char* flat(const Args& a) {
  if (!a.in[0]) return "a number";
  return plain_f32(a.out) && plain_f32(a.in[0]) ? nullptr : "anything but contiguous f32";
}

__device__ float gelu_of(float v) { return 0.5f * v * erfcf(-0.70710678f * v); }

__global__ void by_erfc(float* y, const float* x, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = gelu_of(x[i]);
}
// A thread has two elements, half of all apart.
__global__ void two_halves(float* y, const float* x, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x), half = (n + 1) / 2;
  if (i >= half) return;
  y[i] = x[i] * (1 + erff(x[i] * 0.70710678f)) / 2;
  if (i + half < n) y[i + half] = gelu_of(x[i + half]);
}

// REJECT by_tanh values
__global__ void by_tanh(float* y, const float* x, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const float v = x[i];
  y[i] = 0.5f * v * (1 + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
}
// REJECT a_relu values
__global__ void a_relu(float* y, const float* x, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
// REJECT whole_blocks_alone tail
__global__ void whole_blocks_alone(float* y, const float* x, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (int((blockIdx.x + 1) * blockDim.x) <= n) y[i] = gelu_of(x[i]);
}
// REJECT in_place input
__global__ void in_place(float* y, float* x, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = x[i] = gelu_of(x[i]);
}
// REJECT no_test outside
__global__ void no_test(float* y, const float* x, int) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  y[i] = gelu_of(x[i]);  // BUG no_test
}

template <auto Kernel>
void simply(const Args& a, const Launch& l) {
  launch<Kernel>(grid(l, blocks_for(a.out.numel(), 64), 64), a.out.as<float>(), a.in[0].as<float>(),
                 int(a.out.numel()));
}

}  // namespace
}  // namespace WT_DEVICE_NS

#define WT_ROW(kernel) \
  { .name = #kernel, .why_not = flat, .launch = simply<kernel> }
WT_VARIANTS(WT_DEVICE_NS, gelu, Args, WT_ROW(by_erfc), WT_ROW(two_halves), WT_ROW(by_tanh),
            WT_ROW(a_relu), WT_ROW(whole_blocks_alone), WT_ROW(in_place), WT_ROW(no_test));

}  // namespace wt
