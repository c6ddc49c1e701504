// The rung `tiled` of the gradient of a convolution's weight: a matrix product of y (a row a
// channel) with the patches of x (a column an input channel and tap), summed over the pixels of all
// images, 16 of them a step through shared memory. Against `taps` an element of y serves 64 columns
// and an element of a patch 64 rows.
//
// The product is small and the sum long: 64 x 147 weights of a first layer are three tiles, and a
// processor of 132 would do nothing with the rest. So the pixels are cut into parts that are blocks
// of their own; their sums go to the workspace, where a second kernel adds them in order.
#pragma once
#include "warptape/kernels/conv/conv_tiled.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// How a call's pixels are cut. It depends on the shape alone, and so does the order of the sums.
struct ConvParts {
  u32 each = 0;  // pixels of a part: whole steps
  i64 count = 0;
  i64 stride = 0;  // floats of a part: the weights' sums, then those of y
};
constexpr i64 kMostParts = 264;  // two a processor of an H100
// `blocks` of every part, which go `step` pixels at a time; `least`: pixels below which a block has
// more to do at its ends.
inline ConvParts conv_parts(const ConvShape& s, i64 blocks, i64 wanted, i64 least, i64 step) {
  const i64 pixels = s.batch * s.out[0] * s.out[1] * s.out[2];
  i64 count = blocks > 0 ? wanted / blocks : 1;
  if (count > kMostParts) count = kMostParts;
  if (count > pixels / least) count = pixels / least;
  if (count < 1) count = 1;
  const i64 each = ceil_div(ceil_div(pixels, count), step) * step;
  return {u32(each), each > 0 ? ceil_div(pixels, each) : 0, s.w_numel() + s.out_channels};
}

// What all rungs above naive have.
template <class T>
struct ConvWeightSum {
  ConvShape32 shape;
  FastDivisor by_out[3], by_columns, by_taps, by_in_group, by_kernel1, by_kernel2;
  u32 columns;  // weights of an output channel: input channels of a group, times taps
  bool by_tap;  // columns go by tap, then channel; else by channel, then tap
  ConvPlanes<T, i32> w;
  ConvPlanes<const T, i32> y, x;
  T* y_sum;
  float* partial;  // [parts][stride]
  u32 each;
  i64 parts, stride;
  bool accumulate, accumulate_y_sum;
  template <class F>
  void visit_pointers(F&& f) const {
    f(w.data), f(y.data), f(x.data), f(y_sum), f(partial);
  }
};

template <class T>
ConvWeightSum<T> weight_sum_of(const ConvBackwardWeightArgs& a, const ConvParts& parts, bool by_tap,
                               const Launch& l) {
  const ConvShape& s = a.shape;
  const auto by = [](i64 n) { return fast_divisor(u32(n)); };
  const i64 taps = s.kernel[0] * s.kernel[1] * s.kernel[2];
  return {ConvShape32(s),
          {by(s.out[0]), by(s.out[1]), by(s.out[2])},
          by(s.in_group() * taps),
          by(taps),
          by(s.in_group()),
          by(s.kernel[1]),
          by(s.kernel[2]),
          u32(s.in_group() * taps),
          by_tap,
          ConvPlanes<T, i32>(a.w),
          ConvPlanes<const T, i32>(a.y),
          ConvPlanes<const T, i32>(a.x),
          static_cast<T*>(a.y_sum),
          static_cast<float*>(l.workspace),
          parts.each,
          parts.count,
          parts.stride,
          a.accumulate,
          a.accumulate_y_sum};
}

// Image and place of pixel i.
struct ConvPixel {
  i32 n, q[3];
};
template <class T>
__device__ __forceinline__ ConvPixel pixel_of(const ConvWeightSum<T>& a, u32 i) {
  ConvPixel at;
#pragma unroll
  for (int d = 2; d >= 0; --d) {
    const u32 rest = divide(i, a.by_out[d]);
    at.q[d] = i32(i - rest * a.by_out[d].divisor);
    i = rest;
  }
  at.n = i32(i);
  return at;
}
template <class T>
__device__ __forceinline__ i32 place_of(const ConvPlanes<const T, i32>& y, const ConvPixel& at) {
  return at.n * y.batch + at.q[0] * y.at[0] + at.q[1] * y.at[1] + at.q[2] * y.at[2];
}
// Input channel of a group and taps of a column.
struct ConvColumn {
  i32 c, k[3];
};
template <class T>
__device__ __forceinline__ ConvColumn column_at(const ConvWeightSum<T>& a, u32 c, u32 tap) {
  const u32 plane = divide(tap, a.by_kernel2), k0 = divide(plane, a.by_kernel1);
  return {
      i32(c),
      {i32(k0), i32(plane - k0 * a.by_kernel1.divisor), i32(tap - plane * a.by_kernel2.divisor)}};
}
template <class T>
__device__ __forceinline__ ConvColumn column_of(const ConvWeightSum<T>& a, u32 column) {
  const FastDivisor& by = a.by_tap ? a.by_in_group : a.by_taps;
  const u32 outer = divide(column, by), inner = column - outer * by.divisor;
  return a.by_tap ? column_at(a, inner, outer) : column_at(a, outer, inner);
}
// Where a column's elements of x are: `from` and a place along each axis, beside those of a pixel.
struct alignas(16) ConvReach {
  i32 from, p[3];
};
template <class T>
__device__ __forceinline__ ConvReach reach_of(const ConvWeightSum<T>& a, i32 group, u32 column) {
  const ConvShape32& s = a.shape;
  // A column that is not there lies outside of x at every pixel: the loop asks one question less.
  if (column >= a.columns) return {0, {-(1 << 30), 0, 0}};
  const ConvColumn at = column_of(a, column);
  return {(group * s.in_group + at.c) * a.x.channel,
          {at.k[0] * s.dilation[0] - s.padding[0], at.k[1] * s.dilation[1] - s.padding[1],
           at.k[2] * s.dilation[2] - s.padding[2]}};
}
// Whether the pixel's element of a column lies in x, and where in its image.
template <class T>
__device__ __forceinline__ bool taken(const ConvWeightSum<T>& a, const ConvPixel& at,
                                      const ConvReach& in_shared, i32& from) {
  const ConvShape32& s = a.shape;
  const ConvReach r = vload<ConvReach>(&in_shared);
  const i32 p0 = at.q[0] * s.stride[0] + r.p[0], p1 = at.q[1] * s.stride[1] + r.p[1],
            p2 = at.q[2] * s.stride[2] + r.p[2];
  // Unsigned, because outside of x it may wrap around.
  from = i32(u32(r.from) + u32(p0) * u32(a.x.at[0]) + u32(p1) * u32(a.x.at[1]) +
             u32(p2) * u32(a.x.at[2]));
  return u32(p0) < u32(s.in[0]) && u32(p1) < u32(s.in[1]) && u32(p2) < u32(s.in[2]);
}

template <class T>
__global__ void __launch_bounds__(kTileThreads)
    conv_weight_tiled(const __grid_constant__ ConvWeightSum<T> a, u32 row_tiles, u32 column_tiles) {
  WT_SHARED(TileRows, channels, [2]);
  WT_SHARED(TileRows, patches, [2]);
  WT_SHARED(ConvReach, reach, [kTileSide]);
  const ConvShape32& s = a.shape;
  const int t = int(threadIdx.x);
  const u32 tile = blockIdx.x / column_tiles;
  const i32 column0 = i32(blockIdx.x % column_tiles) * kTileSide;
  const i32 row0 = i32(tile % row_tiles) * kTileSide, group = i32(tile / row_tiles);
  if (t < kTileSide) reach[t] = reach_of(a, group, u32(column0 + t));
  __syncthreads();

  // A thread gathers one pixel of a step for four channels and four columns: the divisions that
  // find it are shared, and 16 lanes read neighbours. They store down a column of the tile: rows
  // that are 68 floats long meet 8 banks 4 apart, two columns fill in between, so two lanes meet
  // in a bank where rows of 64 would have made it sixteen.
  const int own = t % kTileDepth, slice = t / kTileDepth;
  const u32 pixels = u32(s.batch) * u32(s.out[0]) * u32(s.out[1]) * u32(s.out[2]);
  const u32 begin = blockIdx.y * a.each;
  const u32 end = pixels - begin < a.each ? pixels : begin + a.each;
  float v[kTileTerms], u[kTileTerms];
  const auto load = [&](u32 i) WT_INLINE_LAMBDA {
    const bool real = i < end;
    const ConvPixel at = pixel_of(a, real ? i : begin);
    const T* y = a.y.data + place_of(a.y, at);
    const T* x = a.x.data + at.n * a.x.batch;
#pragma unroll
    for (int j = 0; j < kTileTerms; ++j) {
      const i32 row = row0 + slice + 16 * j;
      u[j] = real && row < s.out_group ? float(y[(group * s.out_group + row) * a.y.channel]) : 0.0f;
      i32 from;
      v[j] = taken(a, at, reach[slice + 16 * j], from) && real ? float(x[from]) : 0.0f;
    }
  };
  float sum[4][4] = {}, y_sum = 0;
  const bool sums_y = a.y_sum && column0 == 0 && t < kTileSide;
  load(begin + u32(own));
  int buffer = 0;
  for (u32 i = begin; i < end; i += kTileDepth, buffer ^= 1) {
#pragma unroll
    for (int j = 0; j < kTileTerms; ++j) {
      channels[buffer][own][slice + 16 * j] = u[j];
      patches[buffer][own][slice + 16 * j] = v[j];
    }
    // One a step is enough: see conv_tiled.
    __syncthreads();
    if (i + kTileDepth < end) load(i + kTileDepth + u32(own));
    multiply_tile(sum, channels[buffer], patches[buffer]);
    // The tile is here anyway: y is not read again for the bias.
    if (sums_y)
      for (int p = 0; p < kTileDepth; ++p) y_sum += channels[buffer][p][t];
  }
  float* to = a.partial + i64(blockIdx.y) * a.stride;
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const i32 row = row0 + t / 16 * 4 + r;
    if (row >= s.out_group) continue;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const u32 column = u32(column0 + t % 16 * 4 + c);
      if (column < a.columns) to[u32(group * s.out_group + row) * a.columns + column] = sum[r][c];
    }
  }
  if (sums_y && row0 + t < s.out_group)
    to[a.stride - s.groups * s.out_group + group * s.out_group + row0 + t] = y_sum;
}

// The second stage: a lane a weight (or a channel's sum of y), the warps every eighth part. One
// thread for all parts of a weight would wait for hundreds of loads one after the other.
constexpr int kSumWarps = 8;
template <class T>
__global__ void __launch_bounds__(kSumWarps * 32)
    conv_weight_sum(const __grid_constant__ ConvWeightSum<T> a) {
  WT_SHARED(float, sums, [kSumWarps][32]);
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const i64 i = i64(blockIdx.x) * 32 + lane, channels = a.shape.groups * a.shape.out_group;
  const i64 weights = a.stride - channels;
  const bool real = i < (a.y_sum ? a.stride : weights);
  float sum = 0;
  if (real)
#pragma unroll 4
    for (i64 part = warp; part < a.parts; part += kSumWarps) sum += a.partial[part * a.stride + i];
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || !real) return;
  for (int w = 1; w < kSumWarps; ++w) sum += sums[w][lane];
  if (i >= weights) {
    T& to = a.y_sum[i - weights];
    to = T(a.accumulate_y_sum ? float(to) + sum : sum);
    return;
  }
  const u32 o = divide(u32(i), a.by_columns);
  const ConvColumn at = column_of(a, u32(i) - o * a.columns);
  T& to = a.w.data[i32(o) * a.w.batch + at.c * a.w.channel + at.k[0] * a.w.at[0] +
                   at.k[1] * a.w.at[1] + at.k[2] * a.w.at[2]];
  to = T(a.accumulate ? float(to) + sum : sum);
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
