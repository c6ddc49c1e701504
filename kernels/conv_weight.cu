// The gradient of a convolution's weight on simt and cuda: a sum over all pixels of all images. The
// ladder:
//   naive  one block a weight, its threads the pixels
//   taps   one block an input and output channel: an element of y is read once for nine products
#include "warptape/kernels/conv.h"

#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/conv.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct ConvWeight {
  ConvShape shape;
  ConvPlanes<T, i64> w;
  ConvPlanes<const T, i64> y, x;
  T* y_sum;
  bool accumulate, accumulate_y_sum;
  template <class F>
  void visit_pointers(F&& f) const {
    f(w.data), f(y.data), f(x.data), f(y_sum);
  }
};

// Pixel i of all images: n and q.
__device__ __forceinline__ i64 pixel_at(const ConvShape& s, i64 i, i64 (&q)[3]) {
  q[2] = i % s.out[2], i /= s.out[2];
  q[1] = i % s.out[1], i /= s.out[1];
  q[0] = i % s.out[0];
  return i / s.out[0];
}

// --- naive ---

template <class T>
__global__ void __launch_bounds__(kConvThreads) conv_weight_naive(ConvWeight<T> a) {
  using A = ComputeType<T>;
  const ConvShape& s = a.shape;
  i64 rest = blockIdx.x;  // of a weight: the same for the block
  const i64 k2 = rest % s.kernel[2];
  rest /= s.kernel[2];
  const i64 k1 = rest % s.kernel[1];
  rest /= s.kernel[1];
  const i64 k0 = rest % s.kernel[0];
  rest /= s.kernel[0];
  const i64 c = rest % s.in_group(), o = rest / s.in_group();
  const i64 channel = o / s.out_group() * s.in_group() + c;
  const i64 pixels = s.batch * s.out[0] * s.out[1] * s.out[2];
  // Which pixel goes to which thread is fixed, and so is the order in which their sums are added.
  A sum = 0;
  for (i64 i = threadIdx.x; i < pixels; i += kConvThreads) {
    i64 q[3];
    const i64 n = pixel_at(s, i, q);
    const i64 p0 = q[0] * s.stride[0] - s.padding[0] + k0 * s.dilation[0];
    const i64 p1 = q[1] * s.stride[1] - s.padding[1] + k1 * s.dilation[1];
    const i64 p2 = q[2] * s.stride[2] - s.padding[2] + k2 * s.dilation[2];
    if (p0 < 0 || p0 >= s.in[0] || p1 < 0 || p1 >= s.in[1] || p2 < 0 || p2 >= s.in[2]) continue;
    sum += A(a.y.data[n * a.y.batch + o * a.y.channel + q[0] * a.y.at[0] + q[1] * a.y.at[1] +
                      q[2] * a.y.at[2]]) *
           A(a.x.data[n * a.x.batch + channel * a.x.channel + p0 * a.x.at[0] + p1 * a.x.at[1] +
                      p2 * a.x.at[2]]);
  }
  sum = block_reduce(sum, Plus());
  if (threadIdx.x != 0) return;
  T& w =
      a.w.data[o * a.w.batch + c * a.w.channel + k0 * a.w.at[0] + k1 * a.w.at[1] + k2 * a.w.at[2]];
  w = T(a.accumulate ? A(w) + sum : sum);
}

// The sum of y over a channel: a block each.
template <class T>
__global__ void __launch_bounds__(kConvThreads) conv_bias_gradient(ConvWeight<T> a) {
  using A = ComputeType<T>;
  const ConvShape& s = a.shape;
  const i64 o = blockIdx.x, pixels = s.batch * s.out[0] * s.out[1] * s.out[2];
  A sum = 0;
  for (i64 i = threadIdx.x; i < pixels; i += kConvThreads) {
    i64 q[3];
    const i64 n = pixel_at(s, i, q);
    sum += A(a.y.data[n * a.y.batch + o * a.y.channel + q[0] * a.y.at[0] + q[1] * a.y.at[1] +
                      q[2] * a.y.at[2]]);
  }
  sum = block_reduce(sum, Plus());
  if (threadIdx.x == 0) a.y_sum[o] = T(a.accumulate_y_sum ? A(a.y_sum[o]) + sum : sum);
}

// --- taps ---

constexpr int kMostTaps = 9;

template <class T>
struct ConvTaps {
  ConvShape32 shape;
  FastDivisor by[3];  // of out
  ConvPlanes<T, i32> w;
  ConvPlanes<const T, i32> y, x;
  bool accumulate;
  template <class F>
  void visit_pointers(F&& f) const {
    f(w.data), f(y.data), f(x.data);
  }
};

template <class T>
__global__ void __launch_bounds__(kConvThreads) conv_weight_taps(ConvTaps<T> a) {
  const ConvShape32& s = a.shape;
  const i32 c = i32(blockIdx.x) % s.in_group, o = i32(blockIdx.x) / s.in_group;
  const i32 channel = o / s.out_group * s.in_group + c;
  const i32 taps = s.kernel[0] * s.kernel[1] * s.kernel[2];
  const u32 pixels = u32(s.batch * s.out[0] * s.out[1] * s.out[2]);
  float sum[kMostTaps] = {};
  for (u32 i = threadIdx.x; i < pixels; i += kConvThreads) {
    u32 rest = divide(i, a.by[2]);
    const i32 q2 = i32(i - rest * u32(s.out[2]));
    const u32 plane = divide(rest, a.by[1]);
    const i32 q1 = i32(rest - plane * u32(s.out[1]));
    rest = divide(plane, a.by[0]);
    const i32 q0 = i32(plane - rest * u32(s.out[0])), n = i32(rest);
    const float g = float(a.y.data[n * a.y.batch + o * a.y.channel + q0 * a.y.at[0] +
                                   q1 * a.y.at[1] + q2 * a.y.at[2]]);
    const T* x = a.x.data + n * a.x.batch + channel * a.x.channel;
    // One walk over the taps of any kernel: an array's index has to be a constant, or it lies in
    // memory.
    i32 k0 = 0, k1 = 0, k2 = 0;
#pragma unroll
    for (int t = 0; t < kMostTaps; ++t) {
      if (t >= taps) break;
      const i32 p0 = q0 * s.stride[0] - s.padding[0] + k0 * s.dilation[0];
      const i32 p1 = q1 * s.stride[1] - s.padding[1] + k1 * s.dilation[1];
      const i32 p2 = q2 * s.stride[2] - s.padding[2] + k2 * s.dilation[2];
      if (u32(p0) < u32(s.in[0]) && u32(p1) < u32(s.in[1]) && u32(p2) < u32(s.in[2]))
        sum[t] += g * float(x[p0 * a.x.at[0] + p1 * a.x.at[1] + p2 * a.x.at[2]]);
      if (++k2 == s.kernel[2]) {
        k2 = 0;
        if (++k1 == s.kernel[1]) k1 = 0, ++k0;
      }
    }
  }
  i32 k0 = 0, k1 = 0, k2 = 0;
#pragma unroll
  for (int t = 0; t < kMostTaps; ++t) {
    if (t >= taps) break;  // the same for the block: there are barriers below
    const float all = block_reduce(sum[t], Plus());
    if (threadIdx.x == 0) {
      T& w = a.w.data[o * a.w.batch + c * a.w.channel + k0 * a.w.at[0] + k1 * a.w.at[1] +
                      k2 * a.w.at[2]];
      w = T(a.accumulate ? float(w) + all : all);
    }
    if (++k2 == s.kernel[2]) {
      k2 = 0;
      if (++k1 == s.kernel[1]) k1 = 0, ++k0;
    }
  }
}

// --- launch ---

template <class T>
ConvWeight<T> weight_of(const ConvBackwardWeightArgs& a) {
  return {a.shape,
          ConvPlanes<T, i64>(a.w),
          ConvPlanes<const T, i64>(a.y),
          ConvPlanes<const T, i64>(a.x),
          static_cast<T*>(a.y_sum),
          a.accumulate,
          a.accumulate_y_sum};
}
void launch_bias_gradient(const ConvBackwardWeightArgs& a, const Launch& l) {
  if (!a.y_sum) return;
  with_float_or_double(a.shape.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<conv_bias_gradient<T>>(grid_of(l, a.shape.out_channels, kConvThreads), weight_of<T>(a));
  });
}
void launch_naive(const ConvBackwardWeightArgs& a, const Launch& l) {
  with_float_or_double(a.shape.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<conv_weight_naive<T>>(grid_of(l, a.shape.w_numel(), kConvThreads), weight_of<T>(a));
  });
  launch_bias_gradient(a, l);
}
void launch_taps(const ConvBackwardWeightArgs& a, const Launch& l) {
  const ConvShape& s = a.shape;
  with_float(s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ConvTaps<T> k{
        ConvShape32(s),
        {fast_divisor(u32(s.out[0])), fast_divisor(u32(s.out[1])), fast_divisor(u32(s.out[2]))},
        ConvPlanes<T, i32>(a.w),
        ConvPlanes<const T, i32>(a.y),
        ConvPlanes<const T, i32>(a.x),
        a.accumulate};
    launch<conv_weight_taps<T>>(grid_of(l, s.out_channels * s.in_group(), kConvThreads), k);
  });
  launch_bias_gradient(a, l);
}

const char* why_not_taps(const ConvBackwardWeightArgs& a) {
  const ConvShape& s = a.shape;
  if (s.kernel[0] * s.kernel[1] * s.kernel[2] > kMostTaps) return "kernels of at most 9 elements";
  if (s.w_numel() == 0 || s.y_numel() == 0) return "nothing to add: the naive rung writes zeros";
  return why_not_32_bits(s, a.x, a.y, a.w);
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, conv_backward_weight, ConvBackwardWeightArgs,
            {.name = "taps", .rank = 20, .why_not = why_not_taps, .launch = launch_taps},
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
