// The rung `tensor_core` of the convolution's forward pass and of the gradient of its input: the
// tiles of conv_tiled.cuh for 16-bit floats, multiplied by mma.m16n8k16. There the arithmetic units
// are the limit; here a step of 32 terms is 16 instructions a warp, and what counts is how the
// tiles come: weights as 16-byte pieces of a packed copy, patches of a channels-last tensor as
// 16-byte packs of eight channels, of others one element at a time, 16 of them on their way.
#pragma once
#include "warptape/kernels/conv/conv_tiled.cuh"
#include "warptape/kernels/device/mma_tile.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// Eight channels of a pixel lie at a boundary of 16 bytes, in 16-bit floats.
inline bool packs_of_channels(const ConvTensor& t, i64 channels) {
  return aligned_16(t.data) && t.channel == 1 && channels % 8 == 0 && t.batch % 8 == 0 &&
         t.at[0] % 8 == 0 && t.at[1] % 8 == 0 && t.at[2] % 8 == 0;
}
template <class Args>
const char* why_not_tensor_core_on(const Args&, const DeviceLimits& d) {
  return d.major >= 8 ? nullptr : "mma.m16n8k16 needs compute capability 8.0";
}

// The pack at p, or zeros. One instruction that a lane skips: a branch would be a place where two
// ways meet, and there nvcc waits for what either has asked for, so that the loads of a step would
// come before the products of the one before.
// As words: of eight numbers nvcc would take it apart at once, and so wait for it.
using PackWords = Pack<uint32_t, 4>;
template <class T>
__device__ __forceinline__ PackWords load_or_zero(const T* p, bool there) {
  PackWords r = {};
#ifdef __CUDA_ARCH__
  asm volatile(
      "{\n\t.reg .pred there;\n\tsetp.ne.u32 there, %5, 0;\n\t"
      "mov.u32 %0, 0;\n\tmov.u32 %1, 0;\n\tmov.u32 %2, 0;\n\tmov.u32 %3, 0;\n\t"
      "@there ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
      : "=&r"(r.v[0]), "=&r"(r.v[1]), "=&r"(r.v[2]), "=&r"(r.v[3])
      : "l"(p), "r"(uint32_t(there)));
#else
  if (there) r = vload<PackWords>(p);
#endif
  return r;
}

constexpr int kConvMmaThreads = 128;  // 2 x 2 warps, each 32 channels by 32 pixels

// A step of a warp: 32 rows of `a` by 32 columns of `b`, in 2 x 4 tiles.
template <class T, class A, class B>
__device__ __forceinline__ void multiply_mma(float (&sum)[2][4][4], const A& a, int row, const B& b,
                                             int column) {
#pragma unroll
  for (int p = 0; p < kMmaDepth; p += 16) {
    uint32_t fa[2][4], fb[2][4];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      a.fragments(fa[r], row + 16 * r, p, false);
      b.fragments(fb[r], column + 16 * r, p, true);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c)
        mma_m16n8k16<T>(sum[r][c], fa[r], {fb[c / 2][c % 2 * 2], fb[c / 2][c % 2 * 2 + 1]});
  }
}

// Packs: of channels. No question of the loop's: see load_or_zero.
template <class T, bool Packs, bool Ends>
__global__ void __launch_bounds__(kConvMmaThreads, 4)
    conv_mma(const __grid_constant__ ConvTiles<T> a) {
  using Weights = MmaTile<T, kTileSide, false>;  // rows of neighbouring channels, as packed
  using Patches = MmaTile<T, kTileSide, true>;   // rows of a pixel's terms, as gathered
  struct Tiles {
    Weights weights[2];
    Patches patches[2];
  };
  WT_SHARED(Tiles, tiles, [1]);
  Weights(&weights)[2] = tiles[0].weights;
  Patches(&patches)[2] = tiles[0].patches;
  WT_SHARED(TilePixels, pixels);
  const int t = int(threadIdx.x), lane = t % 32;
  const ConvBlock b = conv_block(a);
  const i32 row0 = i32(blockIdx.y) * kTileSide;

  // A thread gathers 16 terms of a pixel, and stores them as two packs: rows of 80 bytes, so that
  // eight lanes, which a pass of the banks takes, begin in different ones.
  const int column = t % kTileSide, slice = t / kTileSide;
  ConvTerms<T> term(a, b);
  const T* image;
  const i32 to = term.set_pixel(blockIdx.x * kTileSide + u32(column), image);
  if (slice == 0) pixels.to[column] = to;
  // And it fetches eight neighbouring channels of two terms, 16 apart: eight lanes read a row.
  const int w_term = t / 8, w_row = t % 8 * 8;
  ConvTerms<T> w_walk(a, b);
  const bool real_rows = u32(row0 + w_row) < a.by_pitch.divisor;
  const T* w = group_weights(a, b) + (real_rows ? row0 + w_row : 0);

  PackWords u[2];
  std::conditional_t<Packs, PackWords, Pack<T, 8>> v[2];
  const auto load = [&]() WT_INLINE_LAMBDA {
    // First where all of them are, then the packs: a walk's loops are places where ways meet, too.
    const T *u_at[2], *v_at[2];
    bool u_there[2], v_there[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      u_at[j] = w + w_walk.w_at, u_there[j] = w_walk.there && real_rows;
      w_walk.advance(16);
      if constexpr (Packs) {
        v_at[j] = image + term.from_at, v_there[j] = term.inside;
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
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      u[j] = load_or_zero(u_at[j], u_there[j]);
      if constexpr (Packs) v[j] = load_or_zero(v_at[j], v_there[j]);
    }
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
  __syncthreads();  // pixels
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
    multiply_mma<T>(sum, weights[buffer], warp_row, patches[buffer], warp_column);
  }
  // Sums 0 and 1 of a tile are row lane / 4, columns 2 (lane % 4) and the next; 2 and 3 lie 8 rows
  // below.
  if constexpr (Ends) {
    float* const band = reinterpret_cast<float*>(tiles);
    static_assert(sizeof(Tiles) >= kBandFloats * sizeof(float));
    const bool turned = lines_are_pixels(a);
    __syncthreads();  // the tiles have been read
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int row = warp_row + 8 * r + lane / 4, pixel = warp_column + 8 * c + lane % 4 * 2;
        const float first = sum[r / 2][c][r % 2 * 2], second = sum[r / 2][c][r % 2 * 2 + 1];
        if (turned) {
          band[band_at(pixel, row)] = first;
          band[band_at(pixel + 1, row)] = second;
        } else {
          vstore(band + band_at(row, pixel), Pack<float, 2>{first, second});
        }
      }
    __syncthreads();
    finish_tile<T, kConvMmaThreads>(a, b.group, row0, band, pixels);
  } else {
#pragma unroll
    for (int c = 0; c < 4; ++c)
#pragma unroll
      for (int second = 0; second < 2; ++second) {
        const i32 at = pixels.to[warp_column + 8 * c + lane % 4 * 2 + second];
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
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
