// Convolutions and transposed ones of small planes with many channels, f32 and f64, as the last
// stages of image networks have them: an implicit matrix product, tap by tap, whose rows are the
// images of the batch at one position,
//
//   y[n, q, o] = bias[o] + sum over k, c of x[n, p(q, k), c] * w[k, c, o]
//
// A tile of images reads each weight once where a tile of a 4x4 plane's pixels would come to its
// end after four; taps that lie outside of the image are left out, which is 31 % of them at 4x4.
// Tiles are read with channels side by side; images in planes are turned to that, block by block.
#include <algorithm>
#include <cstring>

#include "warptape/core/device.h"
#include "warptape/kernels/conv/conv_turn_cpu.h"
#include "warptape/kernels/cpu/threads.h"

namespace wt {

namespace {

constexpr double kWorkAThread = 5e5;  // multiplications that are worth waking a thread
constexpr i64 kMaxDepth = 384;   // of channels at a time: a tile's rows stay in the first cache
constexpr i64 kTilesABlock = 2;  // of images, that go through all taps while a cache holds them

i64 taps_of(const ConvShape& s) { return conv_positions(s.kernel); }

// Workspace, in elements: all weights in panels, then for each thread a tile's rows and what of a
// block of images has to be turned.
struct Parts {
  i64 images, blocks, threads;
  i64 row;  // of a tile's copy
  i64 weights, rows, source, destination;
  i64 each() const { return rows + source + destination; }
  i64 size() const { return weights + threads * each(); }
};
template <class T>
Parts parts_of(const ConvSums<T>& p) {
  const PackedKernels<T>& k = matmul_packed_kernels<T>();
  Parts r{};
  r.threads = i64(std::min(double(num_threads()), p.s.flops() / 2 / kWorkAThread + 1));
  const i64 shared = (p.s.batch + 2 * r.threads - 1) / (2 * r.threads);
  r.images = r.threads == 1 ? kTilesABlock * k.rows : std::min(kTilesABlock * k.rows, shared);
  r.blocks = (p.s.batch + r.images - 1) / r.images;
  r.threads = std::min(r.threads, r.blocks);
  r.weights = taps_of(p.s) * p.depth * conv_round_up(p.columns, k.width);
  r.row = conv_round_up(std::min(p.depth, kMaxDepth), 16) + 16;
  r.rows = conv_round_up(r.row * k.rows, 16);
  if (!conv_channels_inside(p.from, p.depth))
    r.source = conv_round_up(r.images * conv_positions(p.source()) * p.depth, 16);
  if (!conv_channels_inside(p.to, p.columns))
    r.destination = conv_round_up(r.images * conv_positions(p.destination()) * p.columns, 16);
  return r;
}

// --- weights: [tap][panel][depth][panel's width] ---

template <class T>
void pack_panel(const ConvSums<T>& p, i64 panel, T* to) {
  const PackedKernels<T>& k = matmul_packed_kernels<T>();
  const i64 taps = taps_of(p.s), c0 = panel * k.width, tap_step = p.w.at[2];
  const i64 panels = (p.columns + k.width - 1) / k.width, tap_size = panels * p.depth * k.width;
  constexpr i64 kTerms = 128;
  T some[kTerms * 64 / sizeof(T) * 2];
  // As many channels at once as have their taps one after the other.
  const i64 together = p.depth_step == taps * tap_step ? std::max<i64>(1, kTerms / taps) : 1;
  const int columns = int(std::min<i64>(k.width, p.columns - c0));
  for (i64 d = 0; d < p.depth; d += together)
    for (i64 t0 = 0, terms = std::min(together, p.depth - d) * taps; t0 < terms; t0 += kTerms) {
      const i64 n = std::min(kTerms, terms - t0);
      k.pack(
          some,
          static_cast<const T*>(p.w.data) + c0 * p.columns_step + d * p.depth_step + t0 * tap_step,
          tap_step, p.columns_step, n, columns);
      for (i64 i = 0; i < n; ++i)
        std::memcpy(
            to + (t0 + i) % taps * tap_size + (panel * p.depth + d + (t0 + i) / taps) * k.width,
            some + i * k.width, size_t(k.width) * sizeof(T));
    }
}

// --- a block of images ---

template <class F>
void for_positions(const i64 (&size)[3], F&& f) {
  i64 at[3];
  for (at[0] = 0; at[0] < size[0]; ++at[0])
    for (at[1] = 0; at[1] < size[1]; ++at[1])
      for (at[2] = 0; at[2] < size[2]; ++at[2]) f(at);
}

template <class T>
struct Block {
  const ConvSums<T>& p;
  const Parts& parts;
  const T* weights;
  ConvImages<T> from, to;
  i64 images;
  T* rows;  // of a tile
};

// All images at one position by one tap, of channels [d0, d0 + depth).
template <class T>
void add_tap(const Block<T>& b, const T* source, T* destination, i64 tap, i64 d0, i64 depth) {
  const PackedKernels<T>& k = matmul_packed_kernels<T>();
  const i64 panels = (b.p.columns + k.width - 1) / k.width;
  PackedTile<T> tile{};
  tile.a = b.rows;
  tile.a_row = b.parts.row;
  tile.a_column = 1;
  tile.panel_row = k.width;
  tile.depth = depth;
  tile.out_row = b.to.image;
  tile.out_column = 1;
  tile.add = true;
  const i64 tiles = (b.images + k.rows - 1) / k.rows;
  for (i64 t = 0; t < tiles; ++t) {
    const i64 i0 = b.images * t / tiles, i1 = b.images * (t + 1) / tiles;
    // Images are often a multiple of 4 KiB apart, which is one set of the first-level cache.
    for (i64 i = i0; i < i1; ++i)
      std::memcpy(b.rows + (i - i0) * b.parts.row, source + i * b.from.image + d0,
                  size_t(depth) * sizeof(T));
    for (i64 j = 0; j < panels; ++j) {
      tile.panel = b.weights + ((tap * panels + j) * b.p.depth + d0) * k.width;
      tile.columns = int(std::min<i64>(k.width, b.p.columns - j * k.width));
      tile.out = destination + i0 * b.to.image + j * k.width;
      (2 * tile.columns > k.width ? k.wide : k.narrow)[i1 - i0](tile);
    }
  }
}

template <class T>
void run_block(const Block<T>& b) {
  const ConvShape& s = b.p.s;
  for (i64 n = 0; n < b.images; ++n)
    for_positions(b.p.destination(), [&](const i64(&q)[3]) {
      T* const to = b.to.of(q) + n * b.to.image;
      for (i64 c = 0; c < b.p.columns; ++c) to[c] = b.p.bias ? b.p.bias[c] : T(0);
    });
  const i64 chunks = (b.p.depth + kMaxDepth - 1) / kMaxDepth;
  for_positions(s.kernel, [&](const i64(&k)[3]) {
    const i64 tap = (k[0] * s.kernel[1] + k[1]) * s.kernel[2] + k[2];
    for (i64 chunk = 0; chunk < chunks; ++chunk) {
      const i64 d0 = b.p.depth * chunk / chunks, d1 = b.p.depth * (chunk + 1) / chunks;
      for_positions(b.p.destination(), [&](const i64(&q)[3]) {
        i64 p[3];
        const bool inside =
            b.p.transposed ? conv_output_position(s, q, k, p) : conv_input_position(s, q, k, p);
        if (inside) add_tap(b, b.from.of(p), b.to.of(q), tap, d0, d1 - d0);
      });
    }
  });
}

template <class T>
void run_images(const ConvSums<T>& p, const Parts& parts, const T* weights, i64 block, T* mine) {
  const i64 first = p.s.batch * block / parts.blocks, end = p.s.batch * (block + 1) / parts.blocks;
  T *const from = mine + parts.rows, *const to = from + parts.source;
  const Block<T> b{p,
                   parts,
                   weights,
                   conv_images_of(p.from, p.source(), p.depth, first, from),
                   conv_images_of(p.to, p.destination(), p.columns, first, to),
                   end - first,
                   mine};
  const i64 from_size = conv_positions(p.source()) * p.depth;
  const i64 to_size = conv_positions(p.destination()) * p.columns;
  for (i64 i = 0; parts.source > 0 && i < b.images; ++i)
    conv_turn_in(static_cast<const T*>(p.from.data) + (first + i) * p.from.batch, p.from,
                 p.source(), p.depth, from + i * from_size);
  run_block(b);
  for (i64 i = 0; parts.destination > 0 && i < b.images; ++i)
    conv_turn_out(to + i * to_size, p.to, p.destination(), p.columns,
                  static_cast<T*>(p.to.data) + (first + i) * p.to.batch);
}

template <class T, class Args>
void launch(const Args& a, const Launch& l) {
  const ConvSums<T> p = conv_sums<T>(a);
  const Parts parts = parts_of(p);
  T* const weights = static_cast<T*>(l.workspace);
  const i64 width = matmul_packed_kernels<T>().width;
  parallel(int(parts.threads), int((p.columns + width - 1) / width),
           [&](int panel, int) { pack_panel(p, panel, weights); });
  parallel(int(parts.threads), int(parts.blocks), [&](int block, int worker) {
    run_images(p, parts, weights, block, weights + parts.weights + worker * parts.each());
  });
}

const char* why_not(const ConvShape& s, const ConvTensor& x, const ConvTensor& y,
                    const ConvTensor& w) {
  if (s.dtype != DType::f32 && s.dtype != DType::f64) return "takes f32 and f64 only";
  if (s.x_numel() == 0 || s.y_numel() == 0 || s.w_numel() == 0) return "takes no empty operands";
  if (s.groups != 1) return "takes one group only";
  if (!conv_can_turn(x, s.in, s.in_channels) || !conv_can_turn(y, s.out, s.out_channels))
    return "channels, or the pixels of a row, must be neighbours";
  if (s.kernel[1] > 1 && w.at[1] != s.kernel[2] * w.at[2]) return "takes taps at equal steps only";
  if (s.kernel[0] > 1 && w.at[0] != s.kernel[1] * s.kernel[2] * w.at[2])
    return "takes taps at equal steps only";
  return nullptr;
}

// Ahead of the direct one's 20 where it was measured to be: where that reads many weights for few
// positions of an image, or fills parts of vectors with them.
int rank(const ConvShape& s, i64 positions, bool in_planes) {
  constexpr i64 kFewImages = 8, kManyChannels = 32, kManyWeights = 1 << 16,
                kWeightsAPixel = 1 << 14;
  constexpr i64 kFewPositions = 200, kPartsOfVectors = 16;
  if (s.batch < kFewImages || std::min(s.in_channels, s.out_channels) < kManyChannels) return 15;
  const i64 taps = taps_of(s), weights = taps * s.in_channels * s.out_channels;
  const bool takes = taps == 1                 ? weights >= kWeightsAPixel * positions
                     : weights >= kManyWeights ? positions <= kFewPositions
                                               : in_planes && positions <= kPartsOfVectors;
  return takes ? 25 : 15;
}

template <class Args>
i64 workspace(const Args& a) {
  if (a.shape.dtype == DType::f32) return parts_of(conv_sums<float>(a)).size() * 4;
  return parts_of(conv_sums<double>(a)).size() * 8;
}

}  // namespace

const char* conv_images_why_not(const ConvForwardArgs& a) {
  return why_not(a.shape, a.x, a.y, a.w);
}
const char* conv_images_why_not(const ConvBackwardInputArgs& a) {
  return why_not(a.shape, a.x, a.y, a.w);
}
int conv_images_rank(const ConvForwardArgs& a) {
  return rank(a.shape, conv_positions(a.shape.out), a.y.channel != 1);
}
int conv_images_rank(const ConvBackwardInputArgs& a) {
  return rank(a.shape, conv_positions(a.shape.in), a.x.channel != 1);
}
i64 conv_images_workspace(const ConvForwardArgs& a) { return workspace(a); }
i64 conv_images_workspace(const ConvBackwardInputArgs& a) { return workspace(a); }
void conv_images_forward(const ConvForwardArgs& a, const Launch& l) {
  a.shape.dtype == DType::f32 ? launch<float>(a, l) : launch<double>(a, l);
}
void conv_images_input(const ConvBackwardInputArgs& a, const Launch& l) {
  a.shape.dtype == DType::f32 ? launch<float>(a, l) : launch<double>(a, l);
}

}  // namespace wt
