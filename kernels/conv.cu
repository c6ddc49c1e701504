// Convolution on simt and cuda, forward and by input; conv_weight.cu has the gradient of the
// weight. The ladder:
//   naive     one thread an element, any shape and strides
//   channels  one thread eight channels of a pixel: an element of x is read once for eight products
//   tiled     64 channels of 64 pixels a block, through shared memory: device/conv_tiled.cuh
//   tensor_core  the same on mma.m16n8k16, for f16 and bf16: device/conv_mma.cuh
#include "warptape/kernels/conv.h"

#include "warptape/kernels/device/conv_mma.cuh"

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
  template <class F>
  void visit_pointers(F&& f) const {
    f(to.data), f(from.data), f(w.data), f(bias);
  }
};

template <class T>
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
  a.to.data[n * a.to.batch + o * a.to.channel + q[0] * a.to.at[0] + q[1] * a.to.at[1] +
            q[2] * a.to.at[2]] = T(sum);
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
  template <class F>
  void visit_pointers(F&& f) const {
    f(to.data), f(from.data), f(w.data), f(bias);
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

template <class T>
__device__ __forceinline__ void put_channels(const ConvChannels<T>& a, const float (&sum)[kEach],
                                             i32 n, i32 first, int count, const i32 (&at)[3]) {
  T* to = a.to.data + n * a.to.batch + first * a.to.channel + at[0] * a.to.at[0] +
          at[1] * a.to.at[1] + at[2] * a.to.at[2];
#pragma unroll
  for (int j = 0; j < kEach; ++j)
    if (j < count) to[j * a.to.channel] = T(a.bias ? sum[j] + float(a.bias[first + j]) : sum[j]);
}

template <class T>
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
  put_channels(a, sum, n, o, count, q);
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
  put_channels(a, sum, n, group * s.in_group + c, count, p);
}

// --- launch ---

template <class T>
ConvNaive<T> naive_of(const ConvShape& s, const ConvTensor& to, const ConvTensor& from,
                      const ConvTensor& w, const void* bias) {
  return {s, ConvPlanes<T, i64>(to), ConvPlanes<const T, i64>(from), ConvPlanes<const T, i64>(w),
          static_cast<const T*>(bias)};
}
void launch_naive(const ConvForwardArgs& a, const Launch& l) {
  with_float_or_double(a.shape.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<conv_naive<T>>(grid_of(l, ceil_div(a.shape.y_numel(), kConvThreads), kConvThreads),
                          naive_of<T>(a.shape, a.y, a.x, a.w, a.bias));
  });
}
void launch_naive(const ConvBackwardInputArgs& a, const Launch& l) {
  with_float_or_double(a.shape.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<conv_input_naive<T>>(grid_of(l, ceil_div(a.shape.x_numel(), kConvThreads), kConvThreads),
                                naive_of<T>(a.shape, a.x, a.y, a.w, a.bias));
  });
}

template <class T>
ConvChannels<T> channels_of(const ConvShape& s, const i64 (&pixels)[3], i64 channels,
                            const ConvTensor& to, const ConvTensor& from, const ConvTensor& w,
                            const void* bias) {
  const auto by = [&](int d) { return fast_divisor(u32(pixels[d] > 0 ? pixels[d] : 1)); };
  return {ConvShape32(s),
          {by(0), by(1), by(2)},
          int(ceil_div(channels, kEach)),
          ConvPlanes<T, i32>(to),
          ConvPlanes<const T, i32>(from),
          ConvPlanes<const T, i32>(w),
          static_cast<const T*>(bias)};
}
Config channels_grid(const Launch& l, i64 pixels, i64 blocks) {
  Config c = grid_of(l, ceil_div(pixels, kConvThreads), kConvThreads);
  c.grid.y = unsigned(pixels > 0 ? blocks : 0);
  return c;
}
void launch_channels(const ConvForwardArgs& a, const Launch& l) {
  const ConvShape& s = a.shape;
  with_float(s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = channels_of<T>(s, s.out, s.out_group(), a.y, a.x, a.w, a.bias);
    const i64 pixels = s.batch * s.out[0] * s.out[1] * s.out[2];
    launch<conv_channels<T>>(channels_grid(l, pixels, s.groups * k.blocks), k);
  });
}
void launch_channels(const ConvBackwardInputArgs& a, const Launch& l) {
  const ConvShape& s = a.shape;
  with_float(s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = channels_of<T>(s, s.in, s.in_group(), a.x, a.y, a.w, a.bias);
    const i64 pixels = s.batch * s.in[0] * s.in[1] * s.in[2];
    launch<conv_input_channels<T>>(channels_grid(l, pixels, s.groups * k.blocks), k);
  });
}

template <class Args>
const char* why_not_channels(const Args& a) {
  const ConvShape& s = a.shape;
  if (const char* why = why_not_32_bits(s, a.x, a.y, a.w)) return why;
  const i64 most = s.in_group() > s.out_group() ? s.in_group() : s.out_group();
  return s.groups * ceil_div(most, kEach) > 65535 ? "more than 65535 blocks of channels" : nullptr;
}

// What the two directions say in their own words: channels of a group that are made and that are
// summed over, tensors that are written and gathered.
ConvTensor written(const ConvForwardArgs& a) { return a.y; }
ConvTensor written(const ConvBackwardInputArgs& a) { return a.x; }
ConvTensor gathered(const ConvForwardArgs& a) { return a.x; }
ConvTensor gathered(const ConvBackwardInputArgs& a) { return a.y; }
i64 made(const ConvForwardArgs& a) { return a.shape.out_group(); }
i64 made(const ConvBackwardInputArgs& a) { return a.shape.in_group(); }
i64 summed(const ConvForwardArgs& a) { return a.shape.in_group(); }
i64 summed(const ConvBackwardInputArgs& a) { return a.shape.out_group(); }
constexpr bool goes_forward(const ConvForwardArgs&) { return true; }
constexpr bool goes_forward(const ConvBackwardInputArgs&) { return false; }

ConvTileAxis tile_axis(const ConvShape& s, int d, bool forward) {
  if (forward)
    return {.size = i32(s.out[d]),
            .from_size = i32(s.in[d]),
            .kernel = i32(s.kernel[d]),
            .period = 1,
            .phases = 1,
            .shift = i32(-s.padding[d]),
            .dilation = i32(-s.dilation[d]),
            .stride = i32(s.stride[d]),
            .tap_step = 1,
            .reach = i32(s.dilation[d])};
  i64 common = s.stride[d];  // greatest divisor of stride and dilation
  for (i64 rest = s.dilation[d]; rest != 0;) {
    const i64 next = common % rest;
    common = rest, rest = next;
  }
  return {.size = i32(s.in[d]),
          .from_size = i32(s.out[d]),
          .kernel = i32(s.kernel[d]),
          .period = i32(s.stride[d]),
          .phases = i32(s.stride[d] < s.in[d] ? s.stride[d] : s.in[d]),
          .shift = i32(s.padding[d]),
          .dilation = i32(s.dilation[d]),
          .stride = 1,
          .tap_step = i32(s.stride[d] / common),
          .reach = i32(-s.dilation[d] / common)};
}

// Weights in the workspace: rows of as many as there are, or of whole packs of eight.
template <class Args>
i64 packed_numel(const Args& a, i64 unit) {
  const ConvShape& s = a.shape;
  return s.groups * summed(a) * s.kernel[0] * s.kernel[1] * s.kernel[2] *
         (ceil_div(made(a), unit) * unit);
}
template <class Args, i64 Unit>
i64 packed_workspace(const Args& a) {
  return packed_numel(a, Unit) * item_size(a.shape.dtype);
}
template <class T, class Args>
ConvTiles<T> tiles_of(const Args& a, i64 unit, const Launch& l) {
  const ConvShape& s = a.shape;
  const bool forward = goes_forward(a);
  const ConvTensor to = written(a), from = gathered(a);
  ConvTensor w = a.w;
  if (!forward) w.batch = a.w.channel, w.channel = a.w.batch;
  const auto by = [](i64 n) { return fast_divisor(u32(n > 0 ? n : 1)); };
  const ConvTileAxis x0 = tile_axis(s, 0, forward), x1 = tile_axis(s, 1, forward),
                     x2 = tile_axis(s, 2, forward);
  const bool packs = aligned_16(from.data) && from.channel == 1 && summed(a) % 8 == 0 &&
                     from.batch % 8 == 0 && from.at[0] % 8 == 0 && from.at[1] % 8 == 0 &&
                     from.at[2] % 8 == 0;
  return {{x0, x1, x2},
          i32(s.batch),
          i32(made(a)),
          i32(summed(a)),
          x0.phases * x1.phases * x2.phases,
          ConvPlanes<T, i32>(to),
          ConvPlanes<const T, i32>(from),
          ConvPlanes<const T, i32>(w),
          i32(s.out_group() * a.w.batch),
          static_cast<T*>(l.workspace),
          static_cast<const T*>(a.bias),
          packs,
          by(ceil_div(made(a), unit) * unit),
          by(summed(a)),
          by(s.kernel[0] * s.kernel[1] * s.kernel[2]),
          by(s.kernel[1]),
          by(s.kernel[2])};
}
// Packs the weights, and says of which grid the tiles are.
template <class T, class Args>
Config pack_weights(const ConvTiles<T>& k, const Args& a, i64 unit, int threads, const Launch& l) {
  const i64 count = packed_numel(a, unit);
  launch<conv_pack_weights<T>>(grid_of(l, ceil_div(count, kTileThreads), kTileThreads), k,
                               u32(count));
  i64 pixels = k.batch;  // of the first phase, which has the most
  for (const ConvTileAxis& x : k.axis) pixels *= ceil_div(x.size, x.period);
  Config c = grid_of(l, ceil_div(pixels, kTileSide), threads);
  c.grid.y = unsigned(ceil_div(made(a), kTileSide));
  c.grid.z = unsigned(a.shape.groups * k.phases);
  return c;
}
template <class Args>
void launch_tiled(const Args& a, const Launch& l) {
  with_float(a.shape.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ConvTiles<T> k = tiles_of<T>(a, 1, l);
    launch<conv_tiled<T>>(pack_weights(k, a, 1, kTileThreads, l), k);
  });
}
template <class T, class Args>
void launch_mma(const Args& a, const Launch& l) {
  const ConvTiles<T> k = tiles_of<T>(a, 8, l);
  launch<conv_mma<T>>(pack_weights(k, a, 8, kConvMmaThreads, l), k);
}
template <class Args>
void launch_tensor_core(const Args& a, const Launch& l) {
  if (a.shape.dtype == DType::f16)
    launch_mma<__half>(a, l);
  else
    launch_mma<__nv_bfloat16>(a, l);
}

template <class Args>
const char* why_not_tiled(const Args& a) {
  const ConvShape& s = a.shape;
  if (const char* why = why_not_32_bits(s, a.x, a.y, a.w)) return why;
  i64 blocks = s.groups;  // of one tile, in all phases
  for (int d = 0; d < 3 && !goes_forward(a) && blocks <= 65535; ++d)
    blocks *= s.stride[d] < s.in[d] ? s.stride[d] : s.in[d];
  if (blocks > 65535) return "takes up to 65535 groups times strides";
  return ceil_div(made(a), kTileSide) > 65535 ? "takes up to 4194240 channels" : nullptr;
}
// A tile of 64 channels of which 16 are there computes a quarter of the time, which is what
// `channels` computes with its eight; and with a sum of a few terms nothing but memory counts.
template <class Args>
int tiled_rank(const Args& a) {
  const ConvShape& s = a.shape;
  return made(a) > 16 && summed(a) * s.kernel[0] * s.kernel[1] * s.kernel[2] >= 16 ? 30 : 15;
}

template <class Args>
const char* why_not_tensor_core(const Args& a) {
  if (!is_half(a.shape.dtype)) return "takes f16 and bf16 only";
  if (const char* why = why_not_tiled(a)) return why;
  return packed_numel(a, 8) >= i64(1) << 31 ? "weights of 2^31 elements" : nullptr;
}
template <class Args>
const char* why_not_tensor_core_on(const Args&, const DeviceLimits& d) {
  return d.major >= 8 ? nullptr : "mma.m16n8k16 needs compute capability 8.0";
}
template <class Args>
int tensor_core_rank(const Args& a) {
  return tiled_rank(a) == 30 ? 40 : 16;
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, conv_forward, ConvForwardArgs,
            {.name = "tensor_core",
             .rank = 40,
             .why_not = why_not_tensor_core<ConvForwardArgs>,
             .why_not_on = why_not_tensor_core_on<ConvForwardArgs>,
             .rank_of = tensor_core_rank<ConvForwardArgs>,
             .workspace = packed_workspace<ConvForwardArgs, 8>,
             .launch = launch_tensor_core<ConvForwardArgs>},
            {.name = "tiled",
             .rank = 30,
             .why_not = why_not_tiled<ConvForwardArgs>,
             .rank_of = tiled_rank<ConvForwardArgs>,
             .workspace = packed_workspace<ConvForwardArgs, 1>,
             .launch = launch_tiled<ConvForwardArgs>},
            {.name = "channels",
             .rank = 20,
             .why_not = why_not_channels<ConvForwardArgs>,
             .launch = launch_channels},
            {.name = "naive", .rank = 10, .launch = launch_naive}
// cuDNN comes last: no GPU has shown yet where it is right and the faster one, so it is chosen by
// name, or by `wt tune` on a GPU where it is.
#if defined(__CUDACC__)
            ,
            {.name = "cudnn",
             .rank = 5,
             .why_not = conv_forward_cudnn_why_not,
             .launch = conv_forward_cudnn}
#endif
);
WT_VARIANTS(WT_DEVICE_NS, conv_backward_input, ConvBackwardInputArgs,
            {.name = "tensor_core",
             .rank = 40,
             .why_not = why_not_tensor_core<ConvBackwardInputArgs>,
             .why_not_on = why_not_tensor_core_on<ConvBackwardInputArgs>,
             .rank_of = tensor_core_rank<ConvBackwardInputArgs>,
             .workspace = packed_workspace<ConvBackwardInputArgs, 8>,
             .launch = launch_tensor_core<ConvBackwardInputArgs>},
            {.name = "tiled",
             .rank = 30,
             .why_not = why_not_tiled<ConvBackwardInputArgs>,
             .rank_of = tiled_rank<ConvBackwardInputArgs>,
             .workspace = packed_workspace<ConvBackwardInputArgs, 1>,
             .launch = launch_tiled<ConvBackwardInputArgs>},
            {.name = "channels",
             .rank = 20,
             .why_not = why_not_channels<ConvBackwardInputArgs>,
             .launch = launch_channels},
            {.name = "naive", .rank = 10, .launch = launch_naive}
#if defined(__CUDACC__)
            ,
            {.name = "cudnn",
             .rank = 5,
             .why_not = conv_backward_input_cudnn_why_not,
             .launch = conv_backward_input_cudnn}
#endif
);

}  // namespace wt
