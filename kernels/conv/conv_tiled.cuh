// The rung `tiled` of the convolution's forward pass and of the gradient of its input: a matrix
// product of the weights (a row a channel of the result) with the patches (a column a pixel of it)
// that is never in memory. A block gathers 16 terms of its patches at a time into shared memory.
//
// What `channels` does not get: there eight products share a load of x and each has a load of its
// weight. Here 64 products share each of both, and what the arithmetic reads lies in shared memory.
//
// Where the gradient of a convolution with strides is made, neighbouring elements of x were taken
// by different taps: with stride 2 a quarter of a plane by each quarter of them. Their pixels are
// counted phase by phase, so that a tile's have the same taps, and within a phase both directions
// are one problem: pixel j takes position j * stride + offset + m * reach by its tap m, and nothing
// has to be divided to find it.
//
// Where a tap lies outside of what is gathered, a tile has a zero and the product is made; the
// rungs below leave it out. The sums are the same but where a weight is NaN or infinite: then zero
// times it is NaN, at the border too.
#pragma once
#include "warptape/kernels/conv/conv_finish.cuh"
#include "warptape/kernels/device/unroll.cuh"
#include "warptape/kernels/device/vector.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kTileSide = 64, kTileDepth = 16, kTileThreads = 256;
// 4 floats more: rows still begin at 16 bytes, and what is stored down a column meets 8 banks, not
// one.
constexpr int kTilePitch = kTileSide + 4;
constexpr int kTileTerms = kTileDepth * kTileSide / kTileThreads;  // that a thread gathers a step

using TileRows = float[kTileDepth][kTilePitch];

// sum += x^T y of one step: 4 x 4 of the tile, at rows 4 (t / 16) and columns 4 (t % 16). A warp
// reads 2 different packs of x, which are broadcast, and 16 neighbouring ones of y: three passes
// over the banks for 16 multiplications a lane.
__device__ __forceinline__ void multiply_tile(float (&sum)[4][4], const TileRows& x,
                                              const TileRows& y) {
  const int row = int(threadIdx.x) / 16 * 4, column = int(threadIdx.x) % 16 * 4;
#pragma unroll
  for (int p = 0; p < kTileDepth; ++p) {
    float a[4], b[4];
    load_vector<4>(a, &x[p][row]);
    load_vector<4>(b, &y[p][column]);
    WT_UNROLL
    for (int r = 0; r < 4; ++r) {
      WT_UNROLL
      for (int c = 0; c < 4; ++c) sum[r][c] += a[r] * b[c];
    }
  }
}

struct ConvTileAxis {
  i32 size, from_size, kernel;  // of the result, of what is gathered, of the weights
  i32 period, phases;  // pixels so far apart have the same taps; phases: as far as there are pixels
  i32 shift, dilation;  // pixel i is taken by tap k if i + shift - k * dilation is a
                        // multiple of the period, at position so much / period
  i32 stride;           // positions from a pixel of a phase to the next
  i32 tap_step, reach;  // taps from one of a phase to the next, and positions
};

template <class T>
struct ConvTiles {
  ConvTileAxis axis[3];
  i32 batch, rows, depth_channels, phases;  // rows: channels of the result in a group
  ConvPlanes<T, i32> to;
  ConvPlanes<const T, i32> from, w;  // w: `batch` by the result's channels, `channel` the others
  i32 w_group;                       // from a group's weights to the next one's
  T* packed;                         // [group][tap][depth_channels][pitch], zeros past the rows
  const T* bias;
  FastDivisor by_pitch, by_channels, by_taps, by_kernel1, by_kernel2;  // for packing
  ConvEnd end;
  template <class F>
  void visit_pointers(F&& f) const {
    f(to.data), f(from.data), f(w.data), f(packed), f(bias);
    end.visit_pointers(f);
  }
};

// The weights with the result's channels as neighbours. In their own order a warp that reads 32
// channels of a term would touch 32 lines, in every block and every step anew.
template <class T>
__global__ void __launch_bounds__(kTileThreads)
    conv_pack_weights(const __grid_constant__ ConvTiles<T> a, u32 count) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  u32 rest = divide(i, a.by_pitch);
  const u32 row = i - rest * a.by_pitch.divisor;
  const u32 terms = divide(rest, a.by_channels), c = rest - terms * a.by_channels.divisor;
  const u32 group = divide(terms, a.by_taps), tap = terms - group * a.by_taps.divisor;
  rest = divide(tap, a.by_kernel2);
  const u32 k2 = tap - rest * a.by_kernel2.divisor;
  const u32 k0 = divide(rest, a.by_kernel1), k1 = rest - k0 * a.by_kernel1.divisor;
  a.packed[i] =
      i32(row) < a.rows
          ? a.w.data[i32(group) * a.w_group + i32(row) * a.w.batch + i32(c) * a.w.channel +
                     i32(k0) * a.w.at[0] + i32(k1) * a.w.at[1] + i32(k2) * a.w.at[2]]
          : T(0.0f);
}

// What a block is about: its group, its phase, and what pixels and taps that phase has.
struct ConvBlock {
  i32 group, depth;  // depth: terms of a sum; 0 where the phase has no pixel for the block
  u32 pixels;
  i32 first_at[3], positions[3], taps[3], first_tap[3], offset[3];
};
// The same for all threads, and once a block, so divisions may be here.
template <class T>
__device__ __forceinline__ ConvBlock conv_block(const ConvTiles<T>& a) {
  ConvBlock b;
  b.group = i32(blockIdx.z) / a.phases;
  i32 phase = i32(blockIdx.z) % a.phases;
  b.pixels = u32(a.batch), b.depth = a.depth_channels;
#pragma unroll
  for (int d = 2; d >= 0; --d) {
    const ConvTileAxis& x = a.axis[d];
    b.first_at[d] = phase % x.phases;
    phase /= x.phases;
    b.positions[d] = (x.size - b.first_at[d] + x.period - 1) / x.period;
    i32 k = 0, from = b.first_at[d] + x.shift;
    while (k < x.kernel && k < x.period && from % x.period != 0) ++k, from -= x.dilation;
    const bool any = k < x.kernel && from % x.period == 0;
    b.taps[d] = any ? (x.kernel - k + x.tap_step - 1) / x.tap_step : 0;
    b.first_tap[d] = k;
    b.offset[d] = any ? from / x.period : 0;
    b.pixels *= u32(b.positions[d]);
    b.depth *= b.taps[d];
  }
  // Other phases may have more pixels than this one: then the block has nothing to do.
  if (blockIdx.x * kTileSide >= b.pixels) b.depth = 0;
  return b;
}

// Terms of a sum, counted channel by channel within a tap. Where a tap lies, and whether that is
// inside of what is gathered, is so found once for all channels of it, not once a term. The lanes
// of a warp that gathers walk the same terms: no branch here splits it.
template <class T>
struct ConvTerms {
  const ConvTiles<T>& a;
  const ConvBlock& b;
  i32 c = 0, m[3] = {0, 0, 0};
  u32 w_at = 0;  // the term's weights in `packed`, from those of the group
  bool there = false;
  // For a thread that gathers: its pixel, and where the term lies from its image on.
  bool real = false, inside = false;
  i32 base[3] = {0, 0, 0}, from_at = 0;

  __device__ __forceinline__ ConvTerms(const ConvTiles<T>& tiles, const ConvBlock& block)
      : a(tiles), b(block) {}
  // Tells the image that the pixel gathers from; returns where it lies in `to`, or -1.
  __device__ __forceinline__ i32 set_pixel(u32 pixel, const T*& image) {
    real = pixel < b.pixels;
    i32 to = 0, rest = real ? i32(pixel) : 0;
#pragma unroll
    for (int d = 2; d >= 0; --d) {
      const i32 next = rest / b.positions[d], j = rest - next * b.positions[d];
      base[d] = j * a.axis[d].stride + b.offset[d];
      to += (b.first_at[d] + j * a.axis[d].period) * a.to.at[d];
      rest = next;
    }
    image = a.from.data + rest * a.from.batch + b.group * a.depth_channels * a.from.channel;
    return real ? to + rest * a.to.batch : -1;
  }
  __device__ __forceinline__ void find_tap() {
    there = m[0] < b.taps[0];
    inside = real && there;
    if (!there) return;
    u32 at = u32(c) * u32(a.from.channel), tap = 0;
#pragma unroll
    for (int d = 0; d < 3; ++d) {
      const i32 p = base[d] + m[d] * a.axis[d].reach;
      inside = inside && u32(p) < u32(a.axis[d].from_size);
      at += u32(p) * u32(a.from.at[d]);
      tap = tap * u32(a.axis[d].kernel) + u32(b.first_tap[d] + m[d] * a.axis[d].tap_step);
    }
    from_at = i32(at);
    w_at = (tap * u32(a.depth_channels) + u32(c)) * a.by_pitch.divisor;
  }
  __device__ __forceinline__ void advance(i32 terms) {
    c += terms, from_at += terms * a.from.channel, w_at += u32(terms) * a.by_pitch.divisor;
    if (c < a.depth_channels) return;
    do {
      c -= a.depth_channels;
      if (++m[2] < b.taps[2]) continue;
      m[2] = 0;
      if (++m[1] < b.taps[1]) continue;
      m[1] = 0, ++m[0];
    } while (c >= a.depth_channels);
    find_tap();
  }
};
template <class T>
__device__ __forceinline__ const T* group_weights(const ConvTiles<T>& a, const ConvBlock& b) {
  return a.packed + u32(b.group) * a.by_taps.divisor * u32(a.depth_channels) * a.by_pitch.divisor;
}

// With an epilogue a block's sums go by way of shared memory, in the memory of its tiles: what the
// epilogue reads and writes are then packs of four neighbours, be they channels of a pixel or
// pixels of a channel. A line of the band is what lies further apart in y.
constexpr int kBandFloats = kTileSide * kTileSide;
template <class T>
__device__ __forceinline__ bool lines_are_pixels(const ConvTiles<T>& a) {
  return a.to.channel == 1;
}
// The place of element `i` of a line. Groups of four are exchanged as the line's number says: both
// rungs store the sums of 8 to 32 lines at once, down a column of them, and meet every bank once.
__device__ __forceinline__ int band_at(int line, int i) {
  const int exchange = (line & 1) << 2 ^ (line & 6) ^ (line >> 3 & 3);
  return line * kTileSide + ((i / kStaged ^ exchange) * kStaged + i % kStaged);
}
// Where the pixels of a tile lie in the result; below 0: nowhere.
struct alignas(16) TilePixels {
  i32 to[kTileSide];
};
// To be called by all threads of the block, with a barrier before.
template <class T, int Threads>
__device__ __forceinline__ void finish_tile(const ConvTiles<T>& a, i32 group, i32 row0,
                                            const float* band, const TilePixels& pixels) {
  constexpr int kPacks = kTileSide / kStaged;
  const bool turned = lines_are_pixels(a);
  // Rolled up: the code of the activations once.
#pragma unroll 1
  for (int p = int(threadIdx.x); p < kTileSide * kPacks; p += Threads) {
    const int line = p / kPacks, first = p % kPacks * kStaged;
    float z[kStaged];
    i32 at[kStaged];
    load_vector(z, band + band_at(line, first));
    i32 pixel[kStaged];
    if (turned) {
#pragma unroll
      for (int k = 0; k < kStaged; ++k) pixel[k] = pixels.to[line];
    } else {
      // One access: four would meet every bank twice, as the lanes are four words apart.
      load_vector(pixel, pixels.to + first);
    }
#pragma unroll
    for (int k = 0; k < kStaged; ++k) {
      const i32 row = row0 + (turned ? first + k : line), channel = group * a.rows + row;
      const bool there = pixel[k] >= 0 && row < a.rows;
      at[k] = there ? pixel[k] + channel * a.to.channel : -1;
      if (a.bias && there) z[k] += float(a.bias[channel]);
    }
    finish_at(a.end, a.to.data, at, z);
  }
}

// With an epilogue ptxas would take 66 registers, two more than four blocks of a processor have.
template <class T, bool Ends>
__global__ void __launch_bounds__(kTileThreads, 4)
    conv_tiled(const __grid_constant__ ConvTiles<T> a) {
  WT_SHARED(TileRows, tiles, [4]);
  TileRows *const weights = tiles, *const patches = tiles + 2;
  WT_SHARED(TilePixels, pixels);
  const int t = int(threadIdx.x), column = t % kTileSide, slice = t / kTileSide;
  const ConvBlock b = conv_block(a);
  // A thread gathers for one pixel, so the divisions that find it are once a thread. It also
  // fetches the weights of the same terms, of one channel.
  ConvTerms<T> term(a, b);
  const T* image;
  const i32 to = term.set_pixel(blockIdx.x * kTileSide + u32(column), image);
  if (slice == 0) pixels.to[column] = to;
  const i32 row0 = i32(blockIdx.y) * kTileSide;
  const bool real_row = row0 + column < a.rows;
  const T* w = group_weights(a, b) + (real_row ? row0 + column : 0);

  float v[kTileTerms], u[kTileTerms];
  const auto load = [&]() WT_INLINE_LAMBDA {
#pragma unroll
    for (int i = 0; i < kTileTerms; ++i) {
      v[i] = term.inside ? float(image[term.from_at]) : 0.0f;
      u[i] = term.there && real_row ? float(w[term.w_at]) : 0.0f;
      term.advance(1);
    }
    term.advance(kTileDepth - kTileTerms);
  };
  float sum[4][4] = {};
  if (b.depth > 0) {
    term.find_tap();
    term.advance(slice * kTileTerms);
    load();
  }
  __syncthreads();  // pixels
  int buffer = 0;
  for (i32 left = b.depth; left > 0; left -= kTileDepth, buffer ^= 1) {
#pragma unroll
    for (int i = 0; i < kTileTerms; ++i) {
      patches[buffer][slice * kTileTerms + i][column] = v[i];
      weights[buffer][slice * kTileTerms + i][column] = u[i];
    }
    // One a step: who writes this buffer again, two steps on, has passed the barrier between, and
    // no warp gets there before it has read what it needs of this one.
    __syncthreads();
    // The next step's loads are on their way while this one is multiplied.
    if (left > kTileDepth) load();
    multiply_tile(sum, weights[buffer], patches[buffer]);
  }
  if constexpr (Ends) {
    float* const band = &tiles[0][0][0];
    static_assert(sizeof(TileRows[4]) >= kBandFloats * sizeof(float));
    const bool turned = lines_are_pixels(a);
    __syncthreads();  // the tiles have been read
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      Pack<float, 4> pack;
#pragma unroll
      for (int k = 0; k < 4; ++k) pack.v[k] = turned ? sum[k][i] : sum[i][k];
      const int line = (turned ? t % 16 : t / 16) * 4 + i, first = (turned ? t / 16 : t % 16) * 4;
      vstore(band + band_at(line, first), pack);
    }
    __syncthreads();
    finish_tile<T, kTileThreads>(a, b.group, row0, band, pixels);
  } else {
    i32 pixel[4];
    load_vector(pixel, pixels.to + t % 16 * 4);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const i32 at = pixel[j];
      if (at < 0) continue;
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const i32 row = row0 + t / 16 * 4 + r, channel = b.group * a.rows + row;
        if (row < a.rows)
          a.to.data[at + channel * a.to.channel] =
              T(a.bias ? sum[r][j] + float(a.bias[channel]) : sum[r][j]);
      }
    }
  }
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
