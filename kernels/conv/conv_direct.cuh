// Convolution without shared memory, forward and by input: one thread an element, or eight channels
// of a pixel.
#pragma once
#include "warptape/kernels/conv/conv_finish.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// --- naive ---

// What both directions have: `to` is y going forward, x going back.
template <class T>
struct ConvNaive {
  ConvShape shape;
  ConvPlanes<T, i64> to;
  ConvPlanes<const T, i64> from, w;
  const T* bias;
  ConvEnd end;
  template <class F>
  void visit_pointers(F&& f) const {
    f(to.data), f(from.data), f(w.data), f(bias);
    end.visit_pointers(f);
  }
};

// Ends, here and below: with an epilogue. Kernels of their own, for what an epilogue keeps in
// registers makes a loop slower.
template <class T, bool Ends>
__global__ void __launch_bounds__(kConvThreads) conv_naive(ConvNaive<T> a) {
  using A = ComputeType<T>;
  const ConvShape& s = a.shape;
  const i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= s.batch * s.out_channels * s.out[0] * s.out[1] * s.out[2]) return;
  // Neighbouring threads have neighbouring pixels of one channel: their elements of x lie side by
  // side (at stride 1), and they all multiply by the same weight.
  i64 q[3], rest = i;
  q[2] = rest % s.out[2], rest /= s.out[2];
  q[1] = rest % s.out[1], rest /= s.out[1];
  q[0] = rest % s.out[0], rest /= s.out[0];
  const i64 o = rest % s.out_channels, n = rest / s.out_channels;
  const i64 first = o / s.out_group() * s.in_group();
  A sum = 0;
  for (i64 c = 0; c < s.in_group(); ++c) {
    const T* x = a.from.data + n * a.from.batch + (first + c) * a.from.channel;
    const T* w = a.w.data + o * a.w.batch + c * a.w.channel;
    // A product costs two loads here, and the address of either: the arithmetic units wait.
    for (i64 k0 = 0; k0 < s.kernel[0]; ++k0)
      for (i64 k1 = 0; k1 < s.kernel[1]; ++k1)
        for (i64 k2 = 0; k2 < s.kernel[2]; ++k2) {
          const i64 p0 = q[0] * s.stride[0] - s.padding[0] + k0 * s.dilation[0];
          const i64 p1 = q[1] * s.stride[1] - s.padding[1] + k1 * s.dilation[1];
          const i64 p2 = q[2] * s.stride[2] - s.padding[2] + k2 * s.dilation[2];
          if (p0 < 0 || p0 >= s.in[0] || p1 < 0 || p1 >= s.in[1] || p2 < 0 || p2 >= s.in[2])
            continue;
          sum += A(x[p0 * a.from.at[0] + p1 * a.from.at[1] + p2 * a.from.at[2]]) *
                 A(w[k0 * a.w.at[0] + k1 * a.w.at[1] + k2 * a.w.at[2]]);
        }
  }
  if (a.bias) sum += A(a.bias[o]);
  const i64 at[] = {n * a.to.batch + o * a.to.channel + q[0] * a.to.at[0] + q[1] * a.to.at[1] +
                    q[2] * a.to.at[2]};
  if constexpr (Ends) {
    A z[] = {sum};
    finish_at(a.end, a.to.data, at, z);
  } else {
    a.to.data[at[0]] = T(sum);
  }
}

template <class T>
__global__ void __launch_bounds__(kConvThreads) conv_input_naive(ConvNaive<T> a) {
  using A = ComputeType<T>;
  const ConvShape& s = a.shape;
  const i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= s.batch * s.in_channels * s.in[0] * s.in[1] * s.in[2]) return;
  i64 p[3], rest = i;
  p[2] = rest % s.in[2], rest /= s.in[2];
  p[1] = rest % s.in[1], rest /= s.in[1];
  p[0] = rest % s.in[0], rest /= s.in[0];
  const i64 channel = rest % s.in_channels, n = rest / s.in_channels;
  const i64 c = channel % s.in_group(), first = channel / s.in_group() * s.out_group();
  A sum = 0;
  // An element of x gathers from the outputs that took it. The other way round, outputs adding to
  // their inputs, would be atomics, whose order differs from run to run.
  for (i64 o = first; o < first + s.out_group(); ++o) {
    const T* y = a.from.data + n * a.from.batch + o * a.from.channel;
    const T* w = a.w.data + o * a.w.batch + c * a.w.channel;
    for (i64 k0 = 0; k0 < s.kernel[0]; ++k0) {
      const i64 q0 = output_of(s, 0, p[0], k0);
      if (q0 < 0) continue;
      for (i64 k1 = 0; k1 < s.kernel[1]; ++k1) {
        const i64 q1 = output_of(s, 1, p[1], k1);
        if (q1 < 0) continue;
        for (i64 k2 = 0; k2 < s.kernel[2]; ++k2) {
          const i64 q2 = output_of(s, 2, p[2], k2);
          if (q2 < 0) continue;
          sum += A(y[q0 * a.from.at[0] + q1 * a.from.at[1] + q2 * a.from.at[2]]) *
                 A(w[k0 * a.w.at[0] + k1 * a.w.at[1] + k2 * a.w.at[2]]);
        }
      }
    }
  }
  if (a.bias) sum += A(a.bias[channel]);
  a.to.data[n * a.to.batch + channel * a.to.channel + p[0] * a.to.at[0] + p[1] * a.to.at[1] +
            p[2] * a.to.at[2]] = T(sum);
}

// --- channels ---

constexpr int kEach = 8;  // channels of a thread

template <class T>
struct ConvChannels {
  ConvShape32 shape;
  FastDivisor by[3];  // sizes of the pixels that are made
  int blocks;         // of kEach channels, in each group
  ConvPlanes<T, i32> to;
  ConvPlanes<const T, i32> from, w;
  const T* bias;
  ConvEnd end;
  template <class F>
  void visit_pointers(F&& f) const {
    f(to.data), f(from.data), f(w.data), f(bias);
    end.visit_pointers(f);
  }
};

// The pixel of a thread, and the image: blockIdx.y is the block of channels.
template <class T>
__device__ __forceinline__ void own_pixel(const ConvChannels<T>& a, const i32 (&size)[3], u32 i,
                                          i32 (&at)[3], i32& n) {
  u32 rest = divide(i, a.by[2]);
  at[2] = i32(i) - i32(rest) * size[2];
  const u32 plane = divide(rest, a.by[1]);
  at[1] = i32(rest) - i32(plane) * size[1];
  rest = divide(plane, a.by[0]);
  at[0] = i32(plane) - i32(rest) * size[0];
  n = i32(rest);
}

template <bool Ends, class T>
__device__ __forceinline__ void put_channels(const ConvChannels<T>& a, float (&sum)[kEach], i32 n,
                                             i32 first, int count, const i32 (&at)[3]) {
  T* to = a.to.data + n * a.to.batch + first * a.to.channel + at[0] * a.to.at[0] +
          at[1] * a.to.at[1] + at[2] * a.to.at[2];
  if constexpr (Ends) {
    i64 places[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      places[j] = j < count ? to - a.to.data + j * a.to.channel : -1;
      if (a.bias && j < count) sum[j] += float(a.bias[first + j]);
    }
    finish_at(a.end, a.to.data, places, sum);
  } else {
#pragma unroll
    for (int j = 0; j < kEach; ++j)
      if (j < count) to[j * a.to.channel] = T(a.bias ? sum[j] + float(a.bias[first + j]) : sum[j]);
  }
}

template <class T, bool Ends>
__global__ void __launch_bounds__(kConvThreads) conv_channels(ConvChannels<T> a) {
  const ConvShape32& s = a.shape;
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= u32(s.batch * s.out[0] * s.out[1] * s.out[2])) return;
  i32 q[3], n;
  own_pixel(a, s.out, i, q, n);
  // Channels [o, o + count) of one group. The same for all threads of a block: its weights are one
  // address for a warp, which one transaction serves.
  const i32 group = i32(blockIdx.y) / a.blocks, block = i32(blockIdx.y) % a.blocks;
  const i32 o = group * s.out_group + block * kEach;
  const int count = min(kEach, s.out_group - block * kEach);
  i32 p[3], begin[3], end[3];
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    p[d] = q[d] * s.stride[d] - s.padding[d];
    // Taps that lie inside: the loops below then ask nothing.
    begin[d] = p[d] < 0 ? (-p[d] + s.dilation[d] - 1) / s.dilation[d] : 0;
    end[d] = p[d] < s.in[d] ? (s.in[d] - p[d] + s.dilation[d] - 1) / s.dilation[d] : 0;
    end[d] = min(end[d], s.kernel[d]);
  }
  float sum[kEach] = {};
  for (i32 c = 0; c < s.in_group; ++c) {
    const T* x = a.from.data + n * a.from.batch + (group * s.in_group + c) * a.from.channel;
    const T* w = a.w.data + o * a.w.batch + c * a.w.channel;
    for (i32 k0 = begin[0]; k0 < end[0]; ++k0)
      for (i32 k1 = begin[1]; k1 < end[1]; ++k1) {
        const T* row = x + (p[0] + k0 * s.dilation[0]) * a.from.at[0] +
                       (p[1] + k1 * s.dilation[1]) * a.from.at[1];
        const T* weights = w + k0 * a.w.at[0] + k1 * a.w.at[1];
        for (i32 k2 = begin[2]; k2 < end[2]; ++k2) {
          const float v = float(row[(p[2] + k2 * s.dilation[2]) * a.from.at[2]]);
#pragma unroll
          for (int j = 0; j < kEach; ++j)
            if (j < count) sum[j] += v * float(weights[k2 * a.w.at[2] + j * a.w.batch]);
        }
      }
  }
  put_channels<Ends>(a, sum, n, o, count, q);
}

template <class T>
__global__ void __launch_bounds__(kConvThreads) conv_input_channels(ConvChannels<T> a) {
  const ConvShape32& s = a.shape;
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= u32(s.batch * s.in[0] * s.in[1] * s.in[2])) return;
  i32 p[3], n;
  own_pixel(a, s.in, i, p, n);
  const i32 group = i32(blockIdx.y) / a.blocks, block = i32(blockIdx.y) % a.blocks;
  const i32 c = block * kEach;  // of the group
  const int count = min(kEach, s.in_group - c);
  float sum[kEach] = {};
  for (i32 k0 = 0; k0 < s.kernel[0]; ++k0) {
    const i32 q0 = output_of(s, 0, p[0], k0);
    if (q0 < 0) continue;
    for (i32 k1 = 0; k1 < s.kernel[1]; ++k1) {
      const i32 q1 = output_of(s, 1, p[1], k1);
      if (q1 < 0) continue;
      for (i32 k2 = 0; k2 < s.kernel[2]; ++k2) {
        const i32 q2 = output_of(s, 2, p[2], k2);
        if (q2 < 0) continue;
        // The channels are the inner loop here: which taps reach the pixel costs divisions, and is
        // the same for all of them.
        const T* y = a.from.data + n * a.from.batch + group * s.out_group * a.from.channel +
                     q0 * a.from.at[0] + q1 * a.from.at[1] + q2 * a.from.at[2];
        const T* w = a.w.data + group * s.out_group * a.w.batch + c * a.w.channel + k0 * a.w.at[0] +
                     k1 * a.w.at[1] + k2 * a.w.at[2];
        for (i32 o = 0; o < s.out_group; ++o) {
          const float v = float(y[o * a.from.channel]);
#pragma unroll
          for (int j = 0; j < kEach; ++j)
            if (j < count) sum[j] += v * float(w[o * a.w.batch + j * a.w.channel]);
        }
      }
    }
  }
  put_channels<false>(a, sum, n, group * s.in_group + c, count, p);
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
