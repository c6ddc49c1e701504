// Bias and GELU over the product, a bit an element kept; the gradient from the result and the bit.
#include "warptape/kernels/simt/simt.h"
//
#include "bias_gelu.h"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 256;

__device__ float gelu_of(float z) { return 0.5f * z * (1 + erff(0.70710678f * z)); }
// gelu'(z): the normal distribution at z, and z times its density.
__device__ float gelu_slope(float z) {
  return 0.5f * (1 + erff(0.70710678f * z)) + 0.39894228f * z * expf(-0.5f * z * z);
}

// --- forward ---

// A thread has an element; the 32 bits of a warp are one vote, which its first lanes write.
__global__ void __launch_bounds__(kThreads)
    forward(float* x, u8* bits, const float* bias, int n, int columns) {
  const int i = int(blockIdx.x) * kThreads + int(threadIdx.x), lane = int(threadIdx.x) % 32;
  bool above = false;
  if (i < n) {
    const float z = x[i] + bias[i % columns];
    x[i] = gelu_of(z);
    above = z > kGeluTurn;
  }
  // All lanes come here, those behind the last element too: their bits are 0.
  const unsigned vote = __ballot_sync(0xffffffffu, above);
  const int byte = i / 32 * 4 + lane;
  if (lane < 4 && byte < (n + 7) / 8) bits[byte] = u8(vote >> (8 * lane));
}

void bias_gelu_over_x(const BiasGeluArgs& a, const Launch& l) {
  const int n = int(a.x.numel());
  launch<forward>(grid_of(l, ceil_div(n, kThreads), kThreads), a.x.as<float>(), a.bits.as<u8>(),
                  a.bias.as<const float>(), n, int(a.bias.numel()));
}
const char* why_not_forward(const BiasGeluArgs& a) {
  return a.x.dtype() == DType::f32 && a.x.dense() && a.x.numel() < 1 << 30
             ? nullptr
             : "anything but contiguous f32";
}

// --- backward ---

// z of gelu(z) = y, on the side that `above` says: halved until no float lies between the bounds.
__device__ float z_of(float y, bool above) {
  // gelu(z) is z - 0.17 at least, and z at most where z is positive; below -15 it is no number.
  float low = above ? kGeluTurn : -15, high = above ? fmaxf(y, 0) + 0.2f : kGeluTurn;
  for (int k = 0; k < 40; ++k) {
    const float middle = 0.5f * (low + high), value = gelu_of(middle);
    // To the right of the turn gelu rises, to the left it falls.
    if (above ? value < y : value > y)
      low = middle;
    else
      high = middle;
  }
  return 0.5f * (low + high);
}

__global__ void __launch_bounds__(kThreads)
    backward(float* g, const float* y, const u8* bits, int n) {
  const int i = int(blockIdx.x) * kThreads + int(threadIdx.x);
  if (i >= n) return;
  const bool above = bits[i / 8] >> (i % 8) & 1;
  g[i] *= gelu_slope(z_of(y[i], above));
}

void gradient_over_g(const BiasGeluBackwardArgs& a, const Launch& l) {
  const int n = int(a.g.numel());
  launch<backward>(grid_of(l, ceil_div(n, kThreads), kThreads), a.g.as<float>(),
                   a.y.as<const float>(), a.bits.as<const u8>(), n);
}
const char* why_not_backward(const BiasGeluBackwardArgs& a) {
  return a.g.dtype() == DType::f32 && a.g.dense() && a.y.dense() && a.g.numel() < 1 << 30
             ? nullptr
             : "anything but contiguous f32";
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, bias_gelu, BiasGeluArgs,
            {.name = "mine", .why_not = why_not_forward, .launch = bias_gelu_over_x});
WT_VARIANTS(WT_DEVICE_NS, bias_gelu_backward, BiasGeluBackwardArgs,
            {.name = "mine", .why_not = why_not_backward, .launch = gradient_over_g});

}  // namespace wt
