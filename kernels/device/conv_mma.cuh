// The rung `tensor_core` of the convolution's forward pass and of the gradient of its input: the
// tiles of conv_tiled.cuh for 16-bit floats, multiplied by mma.m16n8k16. There the arithmetic units
// are the limit; here a step of 32 terms is 16 instructions a warp, and what counts is how the
// tiles come: weights as 16-byte pieces of a packed copy, patches of a channels-last tensor as
// 16-byte packs of eight channels, of others one element at a time, 16 of them on their way.
#pragma once
#include "warptape/kernels/device/conv_tiled.cuh"
#include "warptape/kernels/device/mma_tile.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kConvMmaThreads = 128;  // 2 x 2 warps, each 32 channels by 32 pixels

template <class T>
__global__ void __launch_bounds__(kConvMmaThreads, 4)
    conv_mma(const __grid_constant__ ConvTiles<T> a) {
  using Weights = MmaTile<T, kTileSide, false>;  // rows of neighbouring channels, as packed
  using Patches = MmaTile<T, kTileSide, true>;   // rows of a pixel's terms, as gathered
  WT_SHARED(Weights, weights, [2]);
  WT_SHARED(Patches, patches, [2]);
  WT_SHARED(i32, pixel_to, [kTileSide]);
  const int t = int(threadIdx.x), lane = t % 32;
  const ConvBlock b = conv_block(a);
  const i32 row0 = i32(blockIdx.y) * kTileSide;

  // A thread gathers 16 terms of a pixel, and stores them as two packs: rows of 80 bytes, so that
  // eight lanes, which a pass of the banks takes, begin in different ones.
  const int column = t % kTileSide, slice = t / kTileSide;
  ConvTerms<T> term(a, b);
  const T* image;
  const i32 to = term.set_pixel(blockIdx.x * kTileSide + u32(column), image);
  if (slice == 0) pixel_to[column] = to;
  // And it fetches eight neighbouring channels of two terms, 16 apart: eight lanes read a row.
  const int w_term = t / 8, w_row = t % 8 * 8;
  ConvTerms<T> w_walk(a, b);
  const bool real_rows = u32(row0 + w_row) < a.by_pitch.divisor;
  const T* w = group_weights(a, b) + (real_rows ? row0 + w_row : 0);

  Pack<T, 8> v[2], u[2];
  const auto load = [&]() WT_INLINE_LAMBDA {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      Pack<T, 8> zeros;
#pragma unroll
      for (int e = 0; e < 8; ++e) zeros.v[e] = T(0.0f);
      u[j] = w_walk.there && real_rows ? vload<Pack<T, 8>>(w + w_walk.w_at) : zeros;
      w_walk.advance(16);
      if (a.packs) {  // the same for all threads
        v[j] = term.inside ? vload<Pack<T, 8>>(image + term.from_at) : zeros;
        term.advance(8);
      } else {
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          v[j].v[e] = term.inside ? image[term.from_at] : T(0.0f);
          term.advance(1);
        }
      }
    }
    term.advance(kMmaDepth - 16);
  };
  if (b.depth > 0) {
    term.find_tap();
    term.advance(slice * 16);
    w_walk.find_tap();
    w_walk.advance(w_term);
    load();
  }
  const int warp_row = t / 64 * 32, warp_column = t / 32 % 2 * 32;
  float sum[2][4][4] = {};
  __syncthreads();  // pixel_to
  int buffer = 0;
  for (i32 left = b.depth; left > 0; left -= kMmaDepth, buffer ^= 1) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      vstore(&patches[buffer].v[column][slice * 16 + j * 8], v[j]);
      vstore(&weights[buffer].v[w_term + j * 16][w_row], u[j]);
    }
    // One a step is enough: see conv_tiled.
    __syncthreads();
    if (left > kMmaDepth) load();
#pragma unroll
    for (int p = 0; p < kMmaDepth; p += 16) {
      uint32_t fa[2][4], fb[2][4];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        weights[buffer].fragments(fa[r], warp_row + 16 * r, p, false);
        patches[buffer].fragments(fb[r], warp_column + 16 * r, p, true);
      }
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c)
          mma_m16n8k16<T>(sum[r][c], fa[r], {fb[c / 2][c % 2 * 2], fb[c / 2][c % 2 * 2 + 1]});
    }
  }
  // Sums 0 and 1 of a tile are row lane / 4, columns 2 (lane % 4) and the next; 2 and 3 lie 8 rows
  // below.
#pragma unroll
  for (int c = 0; c < 4; ++c)
#pragma unroll
    for (int second = 0; second < 2; ++second) {
      const i32 at = pixel_to[warp_column + 8 * c + lane % 4 * 2 + second];
      if (at < 0) continue;
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const i32 row = row0 + warp_row + 8 * r + lane / 4, channel = b.group * a.rows + row;
        const float v = sum[r / 2][c][r % 2 * 2 + second];
        if (row < a.rows)
          a.to.data[at + channel * a.to.channel] = T(a.bias ? v + float(a.bias[channel]) : v);
      }
    }
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
