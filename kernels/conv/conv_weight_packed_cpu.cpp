// The weight gradient of a convolution as a product of packed panels, f32 and f64:
//
//   w[k, c, o] = sum over n, q of x[n, p(q, k), c] * y[n, q, o]
//
// A part of the batch is copied to panels, of x and of y, [rows of the plane][columns][images][a
// panel's channels]. For a tap, the columns that have a partner in x are neighbours in both, with
// all images at them: one run of terms, without zeros of the padding. The sums of all weights stay
// in the workspace while parts pass by, so parts are as large as caches allow. Threads share taps
// and channels, never terms: sums have one order.
#include <algorithm>
#include <cstring>

#include "warptape/core/device.h"
#include "warptape/kernels/conv/conv_cpu.h"
#include "warptape/kernels/cpu/threads.h"

namespace wt {

namespace {

constexpr double kWorkAThread = 5e5;  // multiplications that are worth waking a thread
constexpr i64 kPartBytes = 2 << 20;   // of a part's panels, about a second-level cache
constexpr i64 kMostTerms = 2048, kFewestTerms = 128;  // of a part
constexpr i64 kRun = 96;                              // terms that are worth loading sums for
constexpr i64 kCopied = 64;                           // positions that are turned at a time

// One of the two operands: a group's channels over planes of `rows` (of all slices) by `columns`.
template <class T>
struct Side {
  const T* data;
  i64 image, channel, at[3];
  i64 height;  // rows of a slice
  i64 rows, columns, channels;
  i64 step;    // columns with one remainder by it follow each other in panels
  i64 panels;  // of a group
  const T* row(i64 n, i64 r) const {
    return data + n * image + r / height * at[0] + r % height * at[1];
  }
  // Where a column is in a panel's row.
  i64 place(i64 x) const {
    const i64 phase = x % step, longer = columns % step;
    return phase * (columns / step) + std::min(phase, longer) + x / step;
  }
};
template <class T>
Side<T> side_of(const ConvTensor& t, const i64 (&size)[3], i64 channels, i64 step) {
  const i64 width = matmul_packed_kernels<T>().width;
  return {static_cast<const T*>(t.data),
          t.batch,
          t.channel,
          {t.at[0], t.at[1], t.at[2]},
          size[1],
          size[0] * size[1],
          size[2],
          channels,
          step,
          (channels + width - 1) / width};
}

template <class T>
struct Problem {
  const ConvBackwardWeightArgs& a;
  Side<T> x, y;
  i64 taps;
  i64 images, rows;  // of y in a part
  i64 x_rows;        // of x that they need, at most
  i64 threads;
  i64 parts() const { return (a.shape.batch + images - 1) / images * ((y.rows + rows - 1) / rows); }
  // Elements of the workspace: a group's sums, panels of y and x, what each thread turns.
  i64 y_sums() const { return y.panels * matmul_packed_kernels<T>().width; }
  i64 sums() const { return (taps * x.channels + 1) * y_sums(); }
  i64 y_size() const { return rows * y.columns * images * y_sums(); }
  i64 x_size() const {
    return x_rows * x.columns * images * x.panels * matmul_packed_kernels<T>().width;
  }
  i64 size() const {
    return sums() + y_size() + x_size() + threads * kCopied * matmul_packed_kernels<T>().width;
  }
};

// The rows of x between which those of y, [y0, y1), have their partners.
struct Rows {
  i64 begin, end;
};
Rows partners(const ConvShape& s, i64 y0, i64 y1) {
  Rows r{s.in[0] * s.in[1], 0};
  for (i64 row = y0; row < y1; ++row)
    for (i64 kz = 0; kz < s.kernel[0]; ++kz)
      for (i64 ky = 0; ky < s.kernel[1]; ++ky) {
        const i64 z = row / s.out[1] * s.stride[0] - s.padding[0] + kz * s.dilation[0];
        const i64 y = row % s.out[1] * s.stride[1] - s.padding[1] + ky * s.dilation[1];
        if (z < 0 || z >= s.in[0] || y < 0 || y >= s.in[1]) continue;
        r.begin = std::min(r.begin, z * s.in[1] + y);
        r.end = std::max(r.end, z * s.in[1] + y + 1);
      }
  r.begin = std::min(r.begin, r.end);
  return r;
}

template <class T>
Problem<T> problem(const ConvBackwardWeightArgs& a) {
  const ConvShape& s = a.shape;
  Problem<T> p{a,
               side_of<T>(a.x, s.in, s.in_group(), s.stride[2]),
               side_of<T>(a.y, s.out, s.out_group(), 1),
               s.kernel[0] * s.kernel[1] * s.kernel[2],
               0,
               0,
               0,
               0};
  const i64 width = matmul_packed_kernels<T>().width;
  const i64 bytes = (p.x.panels + p.y.panels) * width * i64(sizeof(T));
  const i64 terms = std::clamp(kPartBytes / bytes, kFewestTerms, kMostTerms);
  p.images = std::max(terms / (p.y.rows * p.y.columns), (kRun + p.y.columns - 1) / p.y.columns);
  p.images = std::min(p.images, s.batch);
  p.rows = std::clamp<i64>(terms / (p.y.columns * p.images), 1, p.y.rows);
  for (i64 y0 = 0; y0 < p.y.rows; y0 += p.rows) {
    const Rows r = partners(s, y0, std::min(y0 + p.rows, p.y.rows));
    p.x_rows = std::max(p.x_rows, r.end - r.begin);
  }
  p.threads = i64(std::min(double(num_threads()), s.flops() / 2 / kWorkAThread + 1));
  return p;
}

// --- panels ---

// A panel of images [n0, n0 + images) and rows [r0, r1): [row][place of a column][image][channel].
template <class T>
void pack_panel(const Side<T>& s, i64 channel, i64 n0, i64 images, Rows rows, T* copied, T* to) {
  const PackedKernels<T>& k = matmul_packed_kernels<T>();
  const i64 c0 = channel * k.width;
  const int channels = int(std::min<i64>(k.width, s.channels - c0));
  for (i64 r = rows.begin; r < rows.end; ++r, to += s.columns * images * k.width)
    for (i64 n = 0; n < images; ++n) {
      const T* const from = s.row(n0 + n, r) + c0 * s.channel;
      if (images == 1 && s.step == 1) {
        k.pack(to, from, s.at[2], s.channel, s.columns, channels);
        continue;
      }
      for (i64 x0 = 0; x0 < s.columns; x0 += kCopied) {
        const i64 count = std::min(kCopied, s.columns - x0);
        k.pack(copied, from + x0 * s.at[2], s.at[2], s.channel, count, channels);
        for (i64 i = 0; i < count; ++i)
          std::memcpy(to + (s.place(x0 + i) * images + n) * k.width, copied + i * k.width,
                      size_t(k.width) * sizeof(T));
      }
    }
}

// The sums of a panel's rows, added to `to`.
template <class T>
void add_rows(const T* panel, i64 rows, i64 width, T* to) {
  for (i64 i = 0; i < rows; ++i)
    for (i64 c = 0; c < width; ++c) to[c] += panel[i * width + c];
}

// --- a part of the batch ---

template <class T>
struct Part {
  const Problem<T>& p;
  i64 images;
  Rows y, x;  // rows
  const T *y_panels, *x_panels;
  T* sums;  // [tap][channel of x][channels of y]
  const T* y_panel(i64 o) const {
    return y_panels +
           o * (y.end - y.begin) * p.y.columns * images * matmul_packed_kernels<T>().width;
  }
  const T* x_panel(i64 c) const {
    return x_panels +
           c * (x.end - x.begin) * p.x.columns * images * matmul_packed_kernels<T>().width;
  }
};

// The first and the end of the columns of y whose partner by tap k is inside of x.
Rows columns_of(const ConvShape& s, i64 k) {
  const i64 shift = k * s.dilation[2] - s.padding[2], step = s.stride[2];
  const i64 begin = shift >= 0 ? 0 : (-shift + step - 1) / step;
  const i64 end = shift >= s.in[2] ? 0 : (s.in[2] - shift + step - 1) / step;
  return {std::min(begin, s.out[2]), std::clamp(end, std::min(begin, s.out[2]), s.out[2])};
}

// A panel of x by a panel of y, at tap k.
template <class T>
void add_tap(const Part<T>& b, const i64 (&k)[3], i64 c, i64 o) {
  const PackedKernels<T>& kernels = matmul_packed_kernels<T>();
  const ConvShape& s = b.p.a.shape;
  const i64 width = kernels.width, tap = (k[0] * s.kernel[1] + k[1]) * s.kernel[2] + k[2];
  const Rows columns = columns_of(s, k[2]);
  if (columns.begin == columns.end) return;
  const i64 x0 = b.p.x.place(columns.begin * s.stride[2] + k[2] * s.dilation[2] - s.padding[2]);
  const i64 channels = std::min(width, b.p.x.channels - c * width);
  const i64 tiles = (channels + kernels.rows - 1) / kernels.rows;
  PackedTile<T> tile{};
  tile.a_row = 1;
  tile.a_column = tile.panel_row = width;
  tile.depth = (columns.end - columns.begin) * b.images;
  tile.out_row = b.p.y_sums();
  tile.out_column = 1;
  tile.columns = int(std::min(width, b.p.y.channels - o * width));
  tile.add = true;
  const auto& by_rows = 2 * tile.columns > width ? kernels.wide : kernels.narrow;
  T* const sums = b.sums + (tap * b.p.x.channels + c * width) * tile.out_row + o * width;
  for (i64 q = b.y.begin; q < b.y.end; ++q) {
    const i64 pz = q / s.out[1] * s.stride[0] - s.padding[0] + k[0] * s.dilation[0];
    const i64 py = q % s.out[1] * s.stride[1] - s.padding[1] + k[1] * s.dilation[1];
    if (pz < 0 || pz >= s.in[0] || py < 0 || py >= s.in[1]) continue;
    const i64 row = pz * s.in[1] + py - b.x.begin;
    const T* const x = b.x_panel(c) + (row * b.p.x.columns + x0) * b.images * width;
    tile.panel =
        b.y_panel(o) + ((q - b.y.begin) * b.p.y.columns + columns.begin) * b.images * width;
    for (i64 t = 0; t < tiles; ++t) {
      const i64 from = channels * t / tiles, to = channels * (t + 1) / tiles;
      tile.a = x + from;
      tile.out = sums + from * tile.out_row;
      by_rows[to - from](tile);
    }
  }
}

template <class T>
void add_part(const Problem<T>& p, i64 n0, i64 y0, T* sums, T* y_panels, T* x_panels, T* copied) {
  const i64 width = matmul_packed_kernels<T>().width;
  const ConvShape& s = p.a.shape;
  Part<T> b{p,
            std::min(p.images, s.batch - n0),
            {y0, std::min(y0 + p.rows, p.y.rows)},
            {},
            y_panels,
            x_panels,
            sums};
  b.x = partners(s, b.y.begin, b.y.end);
  parallel(int(p.threads), int(p.y.panels + p.x.panels), [&](int i, int worker) {
    T* const mine = copied + worker * kCopied * width;
    if (i >= p.y.panels)
      return pack_panel(p.x, i - p.y.panels, n0, b.images, b.x, mine,
                        const_cast<T*>(b.x_panel(i - p.y.panels)));
    T* const panel = const_cast<T*>(b.y_panel(i));
    pack_panel(p.y, i, n0, b.images, b.y, mine, panel);
    if (p.a.y_sum)
      add_rows(panel, (b.y.end - b.y.begin) * p.y.columns * b.images, width,
               sums + p.taps * p.x.channels * p.y_sums() + i * width);
  });
  parallel(int(p.threads), int(p.taps * p.x.panels), [&](int i, int) {
    const i64 tap = i / p.x.panels, c = i % p.x.panels;
    const i64 k[3] = {tap / (s.kernel[1] * s.kernel[2]), tap / s.kernel[2] % s.kernel[1],
                      tap % s.kernel[2]};
    for (i64 o = 0; o < p.y.panels; ++o) add_tap(b, k, c, o);
  });
}

// --- the result ---

// A group's sums to its weights, in [some terms][a panel's channels of y] that are turned.
template <class T>
void store_panel(const Problem<T>& p, const T* sums, i64 o, T* w, T* copied) {
  const ConvShape& s = p.a.shape;
  const ConvTensor& t = p.a.w;
  const i64 width = matmul_packed_kernels<T>().width;
  const i64 channels = std::min(width, p.y.channels - o * width);
  const auto source = [&](i64 tap, i64 c) {
    return sums + (tap * p.x.channels + c) * p.y_sums() + o * width;
  };
  w += o * width * t.batch;
  // Terms that lie one after the other in w: [c][tap], as a rule.
  const bool dense = t.at[2] == 1 && t.at[1] == s.kernel[2] &&
                     t.at[0] == s.kernel[1] * s.kernel[2] && t.channel == p.taps;
  if (!dense || p.a.accumulate) {
    for (i64 tap = 0; tap < p.taps; ++tap) {
      const i64 at = tap / (s.kernel[1] * s.kernel[2]) * t.at[0] +
                     tap / s.kernel[2] % s.kernel[1] * t.at[1] + tap % s.kernel[2] * t.at[2];
      for (i64 c = 0; c < p.x.channels; ++c)
        for (i64 i = 0; i < channels; ++i) {
          T& to = w[i * t.batch + c * t.channel + at];
          to = p.a.accumulate ? to + source(tap, c)[i] : source(tap, c)[i];
        }
    }
    return;
  }
  for (i64 t0 = 0; t0 < p.taps * p.x.channels; t0 += kCopied) {
    const i64 count = std::min(kCopied, p.taps * p.x.channels - t0);
    for (i64 i = 0; i < count; ++i)
      std::memcpy(copied + i * width, source((t0 + i) % p.taps, (t0 + i) / p.taps),
                  size_t(width) * sizeof(T));
    conv_kernels<T>().planes_of(w + t0, t.batch, copied, width, count, channels);
  }
}

template <class T>
void run_group(Problem<T> p, i64 group, T* workspace) {
  const ConvBackwardWeightArgs& a = p.a;
  const i64 width = matmul_packed_kernels<T>().width, first = group * p.y.channels;
  p.x.data += group * p.x.channels * p.x.channel;
  p.y.data += first * p.y.channel;
  T *const sums = workspace, *const y_panels = sums + p.sums();
  T *const x_panels = y_panels + p.y_size(), *const copied = x_panels + p.x_size();
  std::memset(sums, 0, size_t(p.sums()) * sizeof(T));
  for (i64 n0 = 0; n0 < a.shape.batch; n0 += p.images)
    for (i64 y0 = 0; y0 < p.y.rows; y0 += p.rows)
      add_part(p, n0, y0, sums, y_panels, x_panels, copied);
  parallel(int(p.threads), int(p.y.panels), [&](int o, int worker) {
    store_panel(p, sums, o, static_cast<T*>(a.w.data) + first * a.w.batch,
                copied + worker * kCopied * width);
  });
  T* const y_sum = a.y_sum ? static_cast<T*>(a.y_sum) + first : nullptr;
  const T* const of_y = sums + p.taps * p.x.channels * p.y_sums();
  for (i64 o = 0; y_sum && o < p.y.channels; ++o)
    y_sum[o] = a.accumulate_y_sum ? y_sum[o] + of_y[o] : of_y[o];
}

template <class T>
void launch(const ConvBackwardWeightArgs& a, const Launch& l) {
  const Problem<T> p = problem<T>(a);
  for (i64 g = 0; g < a.shape.groups; ++g) run_group(p, g, static_cast<T*>(l.workspace));
}

}  // namespace

const char* conv_packed_weight_why_not(const ConvBackwardWeightArgs& a) {
  const ConvShape& s = a.shape;
  if (s.dtype != DType::f32 && s.dtype != DType::f64) return "takes f32 and f64 only";
  if (s.x_numel() == 0 || s.y_numel() == 0 || s.w_numel() == 0) return "takes no empty operands";
  return nullptr;
}
// Ahead of the direct one's 20 where it was measured to be. Longer rows than that, which parts do
// not divide, would leave the caches.
int conv_packed_weight_rank(const ConvBackwardWeightArgs& a) {
  constexpr i64 kManyChannels = 16, kFewPositions = 16 /* of kernels of a pixel */;
  constexpr i64 kLongRow = 1024;
  const ConvShape& s = a.shape;
  const bool takes = s.kernel[0] * s.kernel[1] * s.kernel[2] > 1
                         ? s.out[2] <= kLongRow
                         : s.out[0] * s.out[1] * s.out[2] <= kFewPositions;
  return takes && s.in_group() >= kManyChannels && s.out_group() >= kManyChannels ? 25 : 15;
}
i64 conv_packed_weight_workspace(const ConvBackwardWeightArgs& a) {
  return a.shape.dtype == DType::f32 ? problem<float>(a).size() * 4 : problem<double>(a).size() * 8;
}
void conv_packed_weight(const ConvBackwardWeightArgs& a, const Launch& l) {
  a.shape.dtype == DType::f32 ? launch<float>(a, l) : launch<double>(a, l);
}

}  // namespace wt
