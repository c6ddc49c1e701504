// Convolutions and transposed ones by Winograd's transforms, f32 and f64. A block of images is read
// with channels side by side (in planes: turned first); some hundred of its tiles at a time become
// 16 matrices [tile, channel], each of which is multiplied by that of the weights, and the products
// become 2 x 2 results each. The transposed one is that with turned taps and another padding.
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/conv/conv_turn_cpu.h"
#include "warptape/kernels/conv/conv_winograd_cpu.h"
#include "warptape/kernels/cpu/threads.h"

namespace wt {

namespace {

constexpr double kWorkAThread = 5e5;  // multiplications that are worth waking a thread
constexpr i64 kMaxDepth = 384;        // of channels at a time
constexpr i64 kTiles = 112;           // at a time: weights are read once for so many
constexpr i64 kLine = 16;             // elements; rows and places are not a power of two apart

// Of the source before its first row or column.
template <class T>
i64 padding_of(const ConvSums<T>& p, int d) {
  return p.transposed ? 2 - p.s.padding[d] : p.s.padding[d];
}

// Workspace, in elements: weights [place][panel][depth][panel's width], a row of zeros for what
// lies outside of an image, then for each thread the 16 matrices of tiles and of products, a row
// for results outside, and what of a block of images has to be turned.
struct Parts {
  i64 images, blocks, threads;
  i64 tiles[2];   // of an image, down and across
  i64 at_once;    // tiles
  i64 row, step;  // of the tiles' matrices: from a tile, from a place to the next
  i64 product_row, product_step;
  i64 weights, zeros, outside, source, destination;
  i64 each() const {
    return kWinogradPlaces * (step + product_step) + outside + source + destination;
  }
  i64 size() const { return weights + zeros + threads * each(); }
};
template <class T>
Parts parts_of(const ConvSums<T>& p) {
  const i64 width = matmul_packed_kernels<T>().width;
  Parts r{};
  for (int d = 0; d < 2; ++d) r.tiles[d] = (p.destination()[d + 1] + 1) / 2;
  const i64 in_image = r.tiles[0] * r.tiles[1];
  r.threads = i64(std::min(double(num_threads()), p.s.flops() / 2 / kWorkAThread + 1));
  const i64 shared = (p.s.batch + 2 * r.threads - 1) / (2 * r.threads);
  r.images = std::min((kTiles + in_image - 1) / in_image, r.threads == 1 ? p.s.batch : shared);
  r.blocks = (p.s.batch + r.images - 1) / r.images;
  r.threads = std::min(r.threads, r.blocks);
  r.at_once = std::min(kTiles, r.images * in_image);
  r.row = conv_round_up(p.depth, kLine) + kLine;
  r.step = r.at_once * r.row + kLine;
  r.product_row = conv_round_up(p.columns, width) + kLine;
  r.product_step = r.at_once * r.product_row + kLine;
  r.weights = kWinogradPlaces * p.depth * conv_round_up(p.columns, width);
  r.zeros = conv_round_up(p.depth, kLine);
  r.outside = conv_round_up(p.columns, kLine);
  if (!conv_channels_inside(p.from, p.depth))
    r.source = conv_round_up(r.images * conv_positions(p.source()) * p.depth, kLine);
  if (!conv_channels_inside(p.to, p.columns))
    r.destination = conv_round_up(r.images * conv_positions(p.destination()) * p.columns, kLine);
  return r;
}

template <class T>
void pack_panel(const ConvSums<T>& p, i64 panel, T* to) {
  const PackedKernels<T>& k = matmul_packed_kernels<T>();
  const i64 c0 = panel * k.width, panels = (p.columns + k.width - 1) / k.width;
  const i64 tap = p.w.at[2] * (p.transposed ? -1 : 1);
  const T* from = static_cast<const T*>(p.w.data) + c0 * p.columns_step;
  if (p.transposed) from += 8 * p.w.at[2];
  const int columns = int(std::min<i64>(k.width, p.columns - c0));
  alignas(64) T taps[9 * 64 / sizeof(T) * 2];
  for (i64 d = 0; d < p.depth; ++d) {
    k.pack(taps, from + d * p.depth_step, tap, p.columns_step, 9, columns);
    winograd_kernels<T>().weight(taps, k.width, to + (panel * p.depth + d) * k.width,
                                 panels * p.depth * k.width, k.width);
  }
}

template <class T>
struct Block {
  const ConvSums<T>& p;
  const Parts& parts;
  const T *weights, *zeros;
  ConvImages<T> from, to;
  T *tiles, *products, *outside;
};

// f(index, image, the tile's first row and column of results) for tiles [first, end) of a block.
template <class F>
void for_tiles(const Parts& parts, i64 first, i64 end, F&& f) {
  const i64 in_image = parts.tiles[0] * parts.tiles[1];
  for (i64 t = first; t < end; ++t) {
    const i64 inside = t % in_image;
    f(t - first, t / in_image, 2 * (inside / parts.tiles[1]), 2 * (inside % parts.tiles[1]));
  }
}

template <class T>
void transform_tiles(const Block<T>& b, i64 first, i64 end) {
  const i64(&size)[3] = b.p.source();
  for_tiles(b.parts, first, end, [&](i64 t, i64 image, i64 y0, i64 x0) {
    const T* from[16];
    winograd_pixels<4>(b.from, image, size, y0 - padding_of(b.p, 1), x0 - padding_of(b.p, 2),
                       b.zeros, from);
    winograd_kernels<T>().image(from, b.tiles + t * b.parts.row, b.parts.step, b.p.depth);
  });
}

template <class T>
void multiply_tiles(const Block<T>& b, i64 count) {
  const PackedKernels<T>& k = matmul_packed_kernels<T>();
  const i64 panels = (b.p.columns + k.width - 1) / k.width, tiles = (count + k.rows - 1) / k.rows;
  const i64 chunks = (b.p.depth + kMaxDepth - 1) / kMaxDepth;
  PackedTile<T> tile{};
  tile.a_row = b.parts.row, tile.a_column = 1;
  tile.panel_row = k.width;
  tile.out_row = b.parts.product_row, tile.out_column = 1;
  tile.columns = k.width;  // what a panel has too much is not read again
  for (i64 place = 0; place < kWinogradPlaces; ++place)
    for (i64 chunk = 0; chunk < chunks; ++chunk) {
      const i64 d0 = b.p.depth * chunk / chunks;
      tile.depth = b.p.depth * (chunk + 1) / chunks - d0;
      tile.add = chunk > 0;
      for (i64 t = 0; t < tiles; ++t) {
        const i64 i0 = count * t / tiles, i1 = count * (t + 1) / tiles;
        tile.a = b.tiles + place * b.parts.step + i0 * b.parts.row + d0;
        for (i64 j = 0; j < panels; ++j) {
          tile.panel = b.weights + ((place * panels + j) * b.p.depth + d0) * k.width;
          tile.out =
              b.products + place * b.parts.product_step + i0 * b.parts.product_row + j * k.width;
          k.wide[i1 - i0](tile);
        }
      }
    }
}

template <class T>
void transform_products(const Block<T>& b, i64 first, i64 end) {
  const i64(&size)[3] = b.p.destination();
  for_tiles(b.parts, first, end, [&](i64 t, i64 image, i64 y0, i64 x0) {
    T* to[4];
    winograd_pixels<2>(b.to, image, size, y0, x0, b.outside, to);
    winograd_kernels<T>().result(b.products + t * b.parts.product_row, b.parts.product_step,
                                 b.p.bias, to, b.p.columns);
  });
}

template <class T>
void run_images(const ConvSums<T>& p, const Parts& parts, const T* weights, i64 block, T* mine) {
  const i64 first = p.s.batch * block / parts.blocks, end = p.s.batch * (block + 1) / parts.blocks;
  T* const products = mine + kWinogradPlaces * parts.step;
  T* const outside = products + kWinogradPlaces * parts.product_step;
  T *const from = outside + parts.outside, *const to = from + parts.source;
  const Block<T> b{p,
                   parts,
                   weights,
                   weights + parts.weights,
                   conv_images_of(p.from, p.source(), p.depth, first, from),
                   conv_images_of(p.to, p.destination(), p.columns, first, to),
                   mine,
                   products,
                   outside};
  for (i64 i = 0; parts.source > 0 && i < end - first; ++i)
    conv_turn_in(static_cast<const T*>(p.from.data) + (first + i) * p.from.batch, p.from,
                 p.source(), p.depth, from + i * b.from.image);
  const i64 tiles = (end - first) * parts.tiles[0] * parts.tiles[1];
  const i64 turns = (tiles + parts.at_once - 1) / parts.at_once;
  for (i64 turn = 0; turn < turns; ++turn) {
    const i64 t0 = tiles * turn / turns, t1 = tiles * (turn + 1) / turns;
    transform_tiles(b, t0, t1);
    multiply_tiles(b, t1 - t0);
    transform_products(b, t0, t1);
  }
  for (i64 i = 0; parts.destination > 0 && i < end - first; ++i)
    conv_turn_out(to + i * b.to.image, p.to, p.destination(), p.columns,
                  static_cast<T*>(p.to.data) + (first + i) * p.to.batch);
}

template <class T, class Args>
void launch(const Args& a, const Launch& l) {
  const ConvSums<T> p = conv_sums<T>(a);
  const Parts parts = parts_of(p);
  T* const weights = static_cast<T*>(l.workspace);
  const i64 width = matmul_packed_kernels<T>().width;
  std::fill_n(weights + parts.weights, parts.zeros, T(0));
  parallel(int(parts.threads), int((p.columns + width - 1) / width),
           [&](int panel, int) { pack_panel(p, panel, weights); });
  parallel(int(parts.threads), int(parts.blocks), [&](int block, int worker) {
    run_images(p, parts, weights, block,
               weights + parts.weights + parts.zeros + worker * parts.each());
  });
}

int rank(const ConvShape& s) { return winograd_pays(s) ? 28 : 14; }

template <class Args>
i64 workspace(const Args& a) {
  if (a.shape.dtype == DType::f32) return parts_of(conv_sums<float>(a)).size() * 4;
  return parts_of(conv_sums<double>(a)).size() * 8;
}

}  // namespace

const char* conv_winograd_why_not(const ConvForwardArgs& a) { return winograd_why_not(a); }
const char* conv_winograd_why_not(const ConvBackwardInputArgs& a) { return winograd_why_not(a); }
int conv_winograd_rank(const ConvForwardArgs& a) { return rank(a.shape); }
int conv_winograd_rank(const ConvBackwardInputArgs& a) { return rank(a.shape); }
i64 conv_winograd_workspace(const ConvForwardArgs& a) { return workspace(a); }
i64 conv_winograd_workspace(const ConvBackwardInputArgs& a) { return workspace(a); }
void conv_winograd_forward(const ConvForwardArgs& a, const Launch& l) {
  a.shape.dtype == DType::f32 ? launch<float>(a, l) : launch<double>(a, l);
}
void conv_winograd_input(const ConvBackwardInputArgs& a, const Launch& l) {
  a.shape.dtype == DType::f32 ? launch<float>(a, l) : launch<double>(a, l);
}

}  // namespace wt
