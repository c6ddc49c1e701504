// The weight gradient of a convolution by Winograd's transforms, f32 and f64. Tiles of x become 16
// matrices [tile, channel], those of gy 16 in panels of channels; the products of the two, summed
// over all tiles of the batch, stay in the workspace and become 3 x 3 taps at the end. Threads
// share places and channels, never tiles: sums have one order.
#include <algorithm>

#include "warptape/core/device.h"
#include "warptape/kernels/conv/conv_turn_cpu.h"
#include "warptape/kernels/conv/conv_winograd_cpu.h"
#include "warptape/kernels/cpu/threads.h"

namespace wt {

namespace {

constexpr double kWorkAThread = 5e5;  // multiplications that are worth waking a thread
constexpr i64 kTiles = 112;           // at a time: sums are read and written once for so many
constexpr i64 kTilesATask = 14;
constexpr i64 kLine = 16;  // elements; rows and places are not a power of two apart

// Workspace, in elements: sums [place][in channel][out channel] and those of gy, a row of zeros for
// what lies outside of an image, the 16 matrices of x and of gy, images that have to be turned.
struct Parts {
  i64 images, threads;
  i64 tiles[2];  // of an image, down and across
  i64 in_image, at_once;
  i64 panels, columns;        // of gy; the panels' channels
  i64 x_row, x_step, y_step;  // from a tile, from a place to the next
  i64 sums, zeros, x_turned, y_turned;
  i64 size() const {
    return sums + columns + zeros + kWinogradPlaces * (x_step + y_step) + x_turned + y_turned;
  }
};
template <class T>
Parts parts_of(const ConvBackwardWeightArgs& a) {
  const ConvShape& s = a.shape;
  const i64 width = matmul_packed_kernels<T>().width;
  Parts r{};
  for (int d = 0; d < 2; ++d) r.tiles[d] = (s.out[d + 1] + 1) / 2;
  r.in_image = r.tiles[0] * r.tiles[1];
  r.threads = i64(std::min(double(num_threads()), s.flops() / 2 / kWorkAThread + 1));
  r.images = std::min(s.batch, (kTiles + r.in_image - 1) / r.in_image);
  r.at_once = std::min(kTiles, r.images * r.in_image);
  r.panels = (s.out_channels + width - 1) / width;
  r.columns = r.panels * width;
  r.x_row = conv_round_up(s.in_channels, kLine) + kLine;
  r.x_step = r.at_once * r.x_row + kLine;
  r.y_step = r.at_once * r.columns + kLine;
  r.sums = kWinogradPlaces * s.in_channels * r.columns;
  r.zeros = conv_round_up(std::max(s.in_channels, s.out_channels), kLine);
  if (!conv_channels_inside(a.x, s.in_channels))
    r.x_turned = conv_round_up(r.images * conv_positions(s.in) * s.in_channels, kLine);
  if (!conv_channels_inside(a.y, s.out_channels))
    r.y_turned = conv_round_up(r.images * conv_positions(s.out) * s.out_channels, kLine);
  return r;
}

template <class T>
struct Work {
  const ConvBackwardWeightArgs& a;
  const Parts parts;
  T *sums, *y_sums, *zeros, *x, *y, *x_turned, *y_turned;
  Work(const ConvBackwardWeightArgs& args, T* base) : a(args), parts(parts_of<T>(args)) {
    sums = base;
    y_sums = sums + parts.sums;
    zeros = y_sums + parts.columns;
    x = zeros + parts.zeros;
    y = x + kWinogradPlaces * parts.x_step;
    x_turned = y + kWinogradPlaces * parts.y_step;
    y_turned = x_turned + parts.x_turned;
    std::fill(sums, x, T(0));
  }
};

template <class T>
void transform(const Work<T>& w, const ConvImages<T>& x, const ConvImages<T>& y, i64 tile, i64 t) {
  const ConvShape& s = w.a.shape;
  const Parts& r = w.parts;
  const i64 width = matmul_packed_kernels<T>().width, image = tile / r.in_image;
  const i64 y0 = 2 * (tile % r.in_image / r.tiles[1]), x0 = 2 * (tile % r.tiles[1]);
  const T *of_x[16], *of_y[4];
  winograd_pixels<4>(x, image, s.in, y0 - s.padding[1], x0 - s.padding[2], w.zeros, of_x);
  winograd_kernels<T>().image(of_x, w.x + t * r.x_row, r.x_step, s.in_channels);
  winograd_pixels<2>(y, image, s.out, y0, x0, w.zeros, of_y);
  for (i64 c = 0; c < s.out_channels; c += width) {
    winograd_kernels<T>().gradient(of_y, w.y + c * r.at_once + t * width, r.y_step,
                                   std::min(width, s.out_channels - c));
    for (const T*& from : of_y) from += width;
  }
}

// The sums of a place and some in channels.
template <class T>
void add_products(const Work<T>& w, i64 place, i64 i0, i64 i1, i64 count) {
  const PackedKernels<T>& k = matmul_packed_kernels<T>();
  const Parts& r = w.parts;
  PackedTile<T> tile{};
  tile.a = w.x + place * r.x_step + i0;
  tile.a_row = 1, tile.a_column = r.x_row;
  tile.panel_row = k.width;
  tile.depth = count;
  tile.out_row = r.columns, tile.out_column = 1;
  tile.columns = k.width;  // what a panel has too much is not read again
  tile.add = true;
  for (i64 j = 0; j < r.panels; ++j) {
    tile.panel = w.y + place * r.y_step + j * r.at_once * k.width;
    tile.out = w.sums + (place * w.a.shape.in_channels + i0) * r.columns + j * k.width;
    k.wide[i1 - i0](tile);
  }
}
// A place of A gy A^T is the sum of a tile.
template <class T>
void add_y_sums(const Work<T>& w, i64 count) {
  constexpr i64 kSum = 5;
  const i64 width = matmul_packed_kernels<T>().width;
  for (i64 c = 0; c < w.parts.columns; c += width)
    for (i64 t = 0; t < count; ++t) {
      const T* const from = w.y + kSum * w.parts.y_step + c * w.parts.at_once + t * width;
      for (i64 lane = 0; lane < width; ++lane) w.y_sums[c + lane] += from[lane];
    }
}

template <class T>
void turn(const Work<T>& w, const ConvTensor& t, const i64 (&size)[3], i64 channels, i64 first,
          i64 images, T* to) {
  parallel(int(w.parts.threads), int(images), [&](int i, int) {
    conv_turn_in(static_cast<const T*>(t.data) + (first + i) * t.batch, t, size, channels,
                 to + i * conv_positions(size) * channels);
  });
}

template <class T>
void add_images(const Work<T>& w, i64 first, i64 images) {
  const ConvShape& s = w.a.shape;
  const Parts& r = w.parts;
  if (r.x_turned > 0) turn(w, w.a.x, s.in, s.in_channels, first, images, w.x_turned);
  if (r.y_turned > 0) turn(w, w.a.y, s.out, s.out_channels, first, images, w.y_turned);
  const ConvImages<T> x = conv_images_of(w.a.x, s.in, s.in_channels, first, w.x_turned);
  const ConvImages<T> y = conv_images_of(w.a.y, s.out, s.out_channels, first, w.y_turned);
  const i64 tiles = images * r.in_image, turns = (tiles + r.at_once - 1) / r.at_once;
  const i64 rows = matmul_packed_kernels<T>().rows, each = (s.in_channels + rows - 1) / rows;
  for (i64 n = 0; n < turns; ++n) {
    const i64 t0 = tiles * n / turns, count = tiles * (n + 1) / turns - t0;
    parallel(int(r.threads), int((count + kTilesATask - 1) / kTilesATask), [&](int task, int) {
      for (i64 t = task * kTilesATask; t < std::min(count, (task + 1) * kTilesATask); ++t)
        transform(w, x, y, t0 + t, t);
    });
    parallel(int(r.threads), int(kWinogradPlaces * each + 1), [&](int task, int) {
      const i64 place = task / each, i = task % each;
      if (place == kWinogradPlaces)
        add_y_sums(w, count);
      else
        add_products(w, place, s.in_channels * i / each, s.in_channels * (i + 1) / each, count);
    });
  }
}

// All sums of a panel to taps.
template <class T>
void write_panel(const Work<T>& w, i64 panel) {
  const ConvShape& s = w.a.shape;
  const i64 width = matmul_packed_kernels<T>().width, c0 = panel * width;
  const i64 n = std::min(width, s.out_channels - c0);
  alignas(64) T taps[9 * 64 / sizeof(T) * 2];
  for (i64 c = 0; c < s.in_channels; ++c) {
    winograd_kernels<T>().weight_gradient(w.sums + c * w.parts.columns + c0,
                                          s.in_channels * w.parts.columns, taps, width, width);
    for (i64 o = 0; o < n; ++o) {
      T* const to = static_cast<T*>(w.a.w.data) + (c0 + o) * w.a.w.batch + c * w.a.w.channel;
      for (i64 tap = 0; tap < 9; ++tap) {
        T& g = to[tap * w.a.w.at[2]];
        g = (w.a.accumulate ? g : T(0)) + taps[tap * width + o];
      }
    }
  }
  T* const y_sum = static_cast<T*>(w.a.y_sum);
  for (i64 o = c0; y_sum && o < c0 + n; ++o)
    y_sum[o] = (w.a.accumulate_y_sum ? y_sum[o] : T(0)) + w.y_sums[o];
}

template <class T>
void launch(const ConvBackwardWeightArgs& a, T* workspace) {
  const Work<T> w(a, workspace);
  for (i64 first = 0; first < a.shape.batch; first += w.parts.images)
    add_images(w, first, std::min(w.parts.images, a.shape.batch - first));
  parallel(int(w.parts.threads), int(w.parts.panels),
           [&](int panel, int) { write_panel(w, panel); });
}

}  // namespace

const char* conv_winograd_why_not(const ConvBackwardWeightArgs& a) { return winograd_why_not(a); }
int conv_winograd_rank(const ConvBackwardWeightArgs& a) { return winograd_pays(a.shape) ? 28 : 14; }
i64 conv_winograd_workspace(const ConvBackwardWeightArgs& a) {
  return a.shape.dtype == DType::f32 ? parts_of<float>(a).size() * 4
                                     : parts_of<double>(a).size() * 8;
}
void conv_winograd_weight(const ConvBackwardWeightArgs& a, const Launch& l) {
  a.shape.dtype == DType::f32 ? launch(a, static_cast<float*>(l.workspace))
                              : launch(a, static_cast<double*>(l.workspace));
}

}  // namespace wt
