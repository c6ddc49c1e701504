// The rung `tensor_core` of the gradient of a convolution's weight: the tiles and parts of
// conv_weight_tiled.cuh for 16-bit floats, 32 pixels a step, multiplied by mma.m16n8k16. A step is
// 16 instructions a warp, and what counts is how its elements come: of channels-last tensors as
// packs of eight channels, of others one by one, where a warp reads neighbouring pixels of a
// channel. Columns go by tap, then channel, so that eight of them are neighbours in x.
#pragma once
#include "warptape/kernels/conv/conv_mma.cuh"
#include "warptape/kernels/conv/conv_weight_tiled.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct ConvWeightMma {
  ConvWeightSum<T> sum;
  u32 row_tiles, column_tiles;
  template <class F>
  void visit_pointers(F&& f) const {
    sum.visit_pointers(f);
  }
};

// Packs: of y and of x. No question of the loop's: see load_or_zero.
template <class T, bool Packs>
__global__ void __launch_bounds__(kConvMmaThreads, 4)
    conv_weight_mma(const __grid_constant__ ConvWeightMma<T> m) {
  using Tile = MmaTile<T, kTileSide, false>;  // rows of a pixel's channels, or columns
  WT_SHARED(Tile, channels, [2]);
  WT_SHARED(Tile, patches, [2]);
  WT_SHARED(ConvReach, reach, [kTileSide]);
  const ConvWeightSum<T>& a = m.sum;
  const ConvShape32& s = a.shape;
  const int t = int(threadIdx.x), lane = t % 32;
  const u32 tile = blockIdx.x / m.column_tiles;
  const u32 column0 = blockIdx.x % m.column_tiles * kTileSide;
  const i32 row0 = i32(tile % m.row_tiles) * kTileSide, group = i32(tile / m.row_tiles);
  if (t < kTileSide) reach[t] = reach_of(a, group, column0 + u32(t));
  __syncthreads();

  // A lane has a pixel of the step, a warp 16 channels of y and 16 columns: two packs each, which
  // it stores to rows of 144 bytes, so that eight lanes begin in different banks.
  const int slice = t / 32 * 16;
  const u32 pixels = u32(s.batch) * u32(s.out[0]) * u32(s.out[1]) * u32(s.out[2]);
  const u32 begin = blockIdx.y * a.each;
  const u32 end = pixels - begin < a.each ? pixels : begin + a.each;
  const i32 rows_left = s.out_group - row0 - slice;
  std::conditional_t<Packs, PackWords, Pack<T, 8>> u[2], v[2];
  const auto load = [&](u32 i) WT_INLINE_LAMBDA {
    const bool real = i < end;
    const ConvPixel at = pixel_of(a, real ? i : begin);
    const T* y = a.y.data + place_of(a.y, at) + (group * s.out_group + row0 + slice) * a.y.channel;
    const T* x = a.x.data + at.n * a.x.batch;
    i32 from[2];
    if constexpr (Packs) {
      const bool first = taken(a, at, reach[slice], from[0]) && real;
      const bool second = taken(a, at, reach[slice + 8], from[1]) && real;
      u[0] = load_or_zero(y, real && rows_left > 0);
      u[1] = load_or_zero(y + 8, real && rows_left > 8);
      v[0] = load_or_zero(x + from[0], first);
      v[1] = load_or_zero(x + from[1], second);
    } else {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        u[i / 8].v[i % 8] = real && i < rows_left ? y[i * a.y.channel] : T(0.0f);
        const bool there = taken(a, at, reach[slice + i], from[0]) && real;
        v[i / 8].v[i % 8] = there ? x[from[0]] : T(0.0f);
      }
    }
  };
  const int warp_row = t / 64 * 32, warp_column = t / 32 % 2 * 32;
  float sum[2][4][4] = {}, y_sum = 0;
  const bool sums_y = a.y_sum && column0 == 0 && t < kTileSide;
  load(begin + u32(lane));
  int buffer = 0;
  for (u32 i = begin; i < end; i += kMmaDepth, buffer ^= 1) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      vstore(&channels[buffer].v[lane][slice + 8 * h], u[h]);
      vstore(&patches[buffer].v[lane][slice + 8 * h], v[h]);
    }
    // One a step is enough: see conv_tiled.
    __syncthreads();
    if (i + kMmaDepth < end) load(i + kMmaDepth + u32(lane));
    multiply_mma<T>(sum, channels[buffer], warp_row, patches[buffer], warp_column);
    // The tile is here anyway: y is not read again for the bias.
    if (sums_y)
      for (int p = 0; p < kMmaDepth; ++p) y_sum += channels[buffer].at(t, p);
  }
  // Where the sums of a tile are: see conv_mma.
  float* to = a.partial + i64(blockIdx.y) * a.stride;
#pragma unroll
  for (int c = 0; c < 4; ++c)
#pragma unroll
    for (int second = 0; second < 2; ++second) {
      const u32 column = column0 + u32(warp_column + 8 * c + lane % 4 * 2 + second);
      if (column >= a.columns) continue;
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const i32 row = row0 + warp_row + 8 * r + lane / 4;
        if (row < s.out_group)
          to[u32(group * s.out_group + row) * a.columns + column] =
              sum[r / 2][c][r % 2 * 2 + second];
      }
    }
  if (sums_y && row0 + t < s.out_group)
    to[a.stride - s.groups * s.out_group + group * s.out_group + row0 + t] = y_sum;
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
