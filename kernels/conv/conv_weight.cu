// The gradient of a convolution's weight on simt and cuda: a sum over all pixels of all images. The
// ladder:
//   naive  one block a weight, its threads the pixels
//   taps   one block an input and output channel: an element of y is read once for nine products
//   tiled  64 output channels by 64 pairs of input channel and tap a block, through shared memory
//   tensor_core  the same on mma.m16n8k16, for f16 and bf16: conv/conv_weight_mma.cuh
// Above naive the pixels are cut into parts, each of which has blocks of its own: a small weight of
// many pixels would else be a few blocks. conv/conv_weight_tiled.cuh has the stage that adds the
// parts, in order, and the rung `tiled`.
#include "warptape/kernels/conv.h"

#include "warptape/kernels/conv/conv_weight_mma.cuh"
#include "warptape/kernels/device/block_reduce.cuh"

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

constexpr int kMostTaps = 9;  // of a block: each has a sum in a register of every thread

// The sums of a block's taps, reduced together: two barriers for all of them.
struct TapSums {
  float v[kMostTaps];
};
__device__ __forceinline__ TapSums shuffle_xor(TapSums s, int lanes) {
#pragma unroll
  for (float& v : s.v) v = wt::shuffle_xor(v, lanes);
  return s;
}
struct PlusEach {
  __device__ __forceinline__ TapSums operator()(TapSums a, const TapSums& b) const {
#pragma unroll
    for (int t = 0; t < kMostTaps; ++t) a.v[t] += b.v[t];
    return a;
  }
};

// blockIdx.x: the pair of channels; y: which nine taps; z: the part.
template <class T>
__global__ void __launch_bounds__(kConvThreads, 2048 / kConvThreads)
    conv_weight_taps(const __grid_constant__ ConvWeightSum<T> a) {
  const ConvShape32& s = a.shape;
  const i32 c = i32(blockIdx.x) % s.in_group, o = i32(blockIdx.x) / s.in_group;
  const i32 channel = o / s.out_group * s.in_group + c;
  const i32 first = i32(blockIdx.y) * kMostTaps;
  const i32 taps = min(kMostTaps, i32(a.by_taps.divisor) - first);
  const ConvColumn start = column_at(a, 0, u32(first));
  const u32 pixels = u32(s.batch) * u32(s.out[0]) * u32(s.out[1]) * u32(s.out[2]);
  const u32 begin = blockIdx.z * a.each;
  const u32 end = pixels - begin < a.each ? pixels : begin + a.each;
  TapSums sum{};
  float y_sum = 0;
  for (u32 i = begin + threadIdx.x; i < end; i += kConvThreads) {
    const ConvPixel at = pixel_of(a, i);
    const float g = float(a.y.data[place_of(a.y, at) + o * a.y.channel]);
    y_sum += g;
    const T* x = a.x.data + at.n * a.x.batch + channel * a.x.channel;
    // One walk over the taps of any kernel: an array's index has to be a constant, or it lies in
    // memory.
    i32 k0 = start.k[0], k1 = start.k[1], k2 = start.k[2];
#pragma unroll
    for (int t = 0; t < kMostTaps; ++t) {
      if (t >= taps) break;
      const i32 p0 = at.q[0] * s.stride[0] - s.padding[0] + k0 * s.dilation[0];
      const i32 p1 = at.q[1] * s.stride[1] - s.padding[1] + k1 * s.dilation[1];
      const i32 p2 = at.q[2] * s.stride[2] - s.padding[2] + k2 * s.dilation[2];
      if (u32(p0) < u32(s.in[0]) && u32(p1) < u32(s.in[1]) && u32(p2) < u32(s.in[2]))
        sum.v[t] += g * float(x[p0 * a.x.at[0] + p1 * a.x.at[1] + p2 * a.x.at[2]]);
      if (++k2 == s.kernel[2]) {
        k2 = 0;
        if (++k1 == s.kernel[1]) k1 = 0, ++k0;
      }
    }
  }
  float* to = a.partial + i64(blockIdx.z) * a.stride;
  sum = block_reduce(sum, PlusEach());
  if (threadIdx.x == 0) {
#pragma unroll
    for (int t = 0; t < kMostTaps; ++t)
      if (t < taps) to[blockIdx.x * a.by_taps.divisor + u32(first + t)] = sum.v[t];
  }
  if (a.y_sum && c == 0 && first == 0) {  // the same for the block: there are barriers below
    const float all = block_reduce(y_sum, Plus());
    if (threadIdx.x == 0) to[a.stride - s.groups * s.out_group + o] = all;
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

#if defined(__CUDACC__)
void launch_cudnn(const ConvBackwardWeightArgs& a, const Launch& l) {
  conv_backward_weight_cudnn(a, l);
  launch_bias_gradient(a, l);
}
#endif

i64 taps_of(const ConvShape& s) { return s.kernel[0] * s.kernel[1] * s.kernel[2]; }
i64 parts_workspace(const ConvParts& p) { return p.count * p.stride * i64(sizeof(float)); }
template <class T>
void launch_sum(const ConvWeightSum<T>& k, const Launch& l) {
  const i64 sums = k.y_sum ? k.stride : k.stride - k.shape.groups * k.shape.out_group;
  launch<conv_weight_sum<T>>(grid_of(l, ceil_div(sums, 32), kSumWarps * 32), k);
}

// Four rounds of an H100's processors of four blocks each, if a thread has eight pixels to add.
ConvParts parts_of_taps(const ConvBackwardWeightArgs& a) {
  const ConvShape& s = a.shape;
  return conv_parts(s, s.out_channels * s.in_group() * ceil_div(taps_of(s), kMostTaps), 4 * 4 * 132,
                    8 * kConvThreads, kTileDepth);
}
i64 taps_workspace(const ConvBackwardWeightArgs& a) { return parts_workspace(parts_of_taps(a)); }
void launch_taps(const ConvBackwardWeightArgs& a, const Launch& l) {
  const ConvShape& s = a.shape;
  const ConvParts parts = parts_of_taps(a);
  with_float(s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ConvWeightSum<T> k = weight_sum_of<T>(a, parts, false, l);
    Config c = grid_of(l, s.out_channels * s.in_group(), kConvThreads);
    c.grid.y = unsigned(ceil_div(taps_of(s), kMostTaps));
    c.grid.z = unsigned(parts.count);
    launch<conv_weight_taps<T>>(c, k);
    launch_sum(k, l);
  });
}
const char* why_not_taps(const ConvBackwardWeightArgs& a) {
  const ConvShape& s = a.shape;
  if (s.w_numel() == 0 || s.y_numel() == 0) return "nothing to add: the naive rung writes zeros";
  if (const char* why = why_not_32_bits(s, a.x, a.y, a.w)) return why;
  return ceil_div(taps_of(s), kMostTaps) > 65535 ? "kernels of at most 589815 elements" : nullptr;
}

i64 row_tiles(const ConvShape& s) { return ceil_div(s.out_group(), kTileSide); }
i64 column_tiles(const ConvShape& s) { return ceil_div(s.in_group() * taps_of(s), kTileSide); }
// `step`: pixels that a block multiplies at a time.
ConvParts parts_of_tiles(const ConvBackwardWeightArgs& a, i64 step) {
  const ConvShape& s = a.shape;
  return conv_parts(s, row_tiles(s) * column_tiles(s) * s.groups, 4 * 132, 16 * step, step);
}
template <i64 Step>
i64 tiles_workspace(const ConvBackwardWeightArgs& a) {
  return parts_workspace(parts_of_tiles(a, Step));
}
void launch_tiled(const ConvBackwardWeightArgs& a, const Launch& l) {
  const ConvShape& s = a.shape;
  const ConvParts parts = parts_of_tiles(a, kTileDepth);
  with_float(s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ConvWeightSum<T> k = weight_sum_of<T>(a, parts, false, l);
    Config c = grid_of(l, row_tiles(s) * column_tiles(s) * s.groups, kTileThreads);
    c.grid.y = unsigned(parts.count);
    launch<conv_weight_tiled<T>>(c, k, u32(row_tiles(s)), u32(column_tiles(s)));
    launch_sum(k, l);
  });
}
const char* why_not_tiled(const ConvBackwardWeightArgs& a) {
  const ConvShape& s = a.shape;
  if (s.w_numel() == 0 || s.y_numel() == 0) return "nothing to add: the naive rung writes zeros";
  return why_not_32_bits(s, a.x, a.y, a.w);
}
// `taps` loads an element of x a product, a tile 8 elements for 256: it is several times faster
// when it is full, and slower with less than an eighth of its 64 x 64 weights there.
int tiled_rank(const ConvBackwardWeightArgs& a) {
  const ConvShape& s = a.shape;
  const i64 tile = i64(kTileSide) * kTileSide;
  const i64 there = s.out_group() * s.in_group() * taps_of(s);
  return there * 8 >= row_tiles(s) * column_tiles(s) * tile ? 30 : 15;
}

void launch_tensor_core(const ConvBackwardWeightArgs& a, const Launch& l) {
  const ConvShape& s = a.shape;
  const ConvParts parts = parts_of_tiles(a, kMmaDepth);
  with_half(s.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ConvWeightMma<T> k{weight_sum_of<T>(a, parts, true, l), u32(row_tiles(s)),
                             u32(column_tiles(s))};
    Config c = grid_of(l, row_tiles(s) * column_tiles(s) * s.groups, kConvMmaThreads);
    c.grid.y = unsigned(parts.count);
    if (packs_of_channels(a.y, s.out_group()) && packs_of_channels(a.x, s.in_group()))
      launch<conv_weight_mma<T, true>>(c, k);
    else
      launch<conv_weight_mma<T, false>>(c, k);
    launch_sum(k.sum, l);
  });
}
const char* why_not_tensor_core(const ConvBackwardWeightArgs& a) {
  if (!is_half(a.shape.dtype)) return "takes f16 and bf16 only";
  return why_not_tiled(a);
}
int mma_rank(const ConvBackwardWeightArgs& a) { return tiled_rank(a) == 30 ? 40 : 16; }

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, conv_backward_weight, ConvBackwardWeightArgs,
            {.name = "tensor_core",
             .rank = 40,
             .why_not = why_not_tensor_core,
             .why_not_on = why_not_tensor_core_on<ConvBackwardWeightArgs>,
             .rank_of = mma_rank,
             .workspace = tiles_workspace<kMmaDepth>,
             .launch = launch_tensor_core},
            {.name = "tiled",
             .rank = 30,
             .why_not = why_not_tiled,
             .rank_of = tiled_rank,
             .workspace = tiles_workspace<kTileDepth>,
             .launch = launch_tiled},
            {.name = "taps",
             .rank = 20,
             .why_not = why_not_taps,
             .workspace = taps_workspace,
             .launch = launch_taps},
            {.name = "naive", .rank = 10, .launch = launch_naive}
#if defined(__CUDACC__)  // last: see conv.cu
            ,
            {.name = "cudnn",
             .rank = 5,
             .why_not = conv_backward_weight_cudnn_why_not,
             .launch = launch_cudnn}
#endif
);

}  // namespace wt
