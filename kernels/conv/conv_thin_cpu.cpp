// The transposed convolution to few channels, as a first layer's gradient with respect to the image
// is, f32 and f64, stride 1. A tile of pixels by so few channels would load a vector of y for every
// multiplication. Here the weights of all taps and channels are the rows of a matrix product with
// y:
//
//   z[c, k, q] = sum over o of w[o, c, k] * y[n, o, q]       x[n, c, p] = sum over k of z[c, k, q]
//
// with q = p + padding - k * dilation. The second sum is a load and an addition for each vector and
// tap, which is little beside the channels of y. Rows of z have zeros between them, so that it
// knows no borders at the sides.
#include <algorithm>
#include <cstring>

#include "warptape/core/device.h"
#include "warptape/kernels/conv/conv_cpu.h"
#include "warptape/kernels/cpu/threads.h"

namespace wt {

namespace {

constexpr double kWorkAThread = 5e5;  // multiplications that are worth waking a thread
constexpr i64 kScratch = 512 << 10;   // bytes of y and z that stay in a second-level cache
constexpr i64 kFewChannels = 4, kManyTerms = 128;

i64 round_up(i64 v, i64 step) { return (v + step - 1) / step * step; }

struct Plan {
  ConvShape s;
  i64 taps, terms;  // of a channel, of all
  i64 reach;        // rows of y beside those of x that a band needs
  i64 width;        // from a row to the next, in y's copy and in z
  i64 band, bands;  // rows of x
  i64 y_plane, z_plane;
  i64 margin;  // zeros around a plane of z
  i64 threads;
  i64 weights() const { return round_up(terms * s.out_channels, 16); }
  i64 offsets() const { return round_up(2 * s.out_channels, 16); }
  i64 each() const {  // elements of a thread: y, z, a row of x
    return s.out_channels * y_plane + margin + terms * z_plane + round_up(s.in[2], 16);
  }
  i64 size() const { return weights() + offsets() + threads * each(); }
};

Plan plan_of(const ConvShape& s) {
  Plan p{};
  p.s = s;
  p.taps = s.kernel[1] * s.kernel[2];
  p.terms = s.in_channels * p.taps;
  p.reach = (s.kernel[1] - 1) * s.dilation[1];
  const i64 gap = (s.kernel[2] - 1) * s.dilation[2];
  p.width = std::max(s.out[2] + gap, s.in[2] + s.padding[2]);
  p.margin = round_up(gap + 1, 2 * kConvLanes);
  p.threads = i64(std::min(double(num_threads()), s.flops() / 2 / kWorkAThread + 1));
  const i64 row = (p.terms + s.out_channels) * p.width;
  p.band = std::min(s.in[1], std::max<i64>(kScratch / item_size(s.dtype) / row - p.reach, 0));
  if (p.band < std::min(s.in[1], 2 * p.reach + 1)) return p;  // too much would be done twice
  const i64 wanted = std::max((s.in[1] + p.band - 1) / p.band, 4 * p.threads / s.batch);
  p.band = std::max(s.in[1] / std::max<i64>(wanted, 1), std::min(s.in[1], 2 * p.reach + 1));
  p.bands = (s.in[1] + p.band - 1) / p.band;
  const i64 plane = round_up((p.band + p.reach) * p.width, 2 * kConvLanes);
  p.y_plane = plane + kConvLanes;
  p.z_plane = plane + p.margin;
  return p;
}

// What a thread has, and one band.
template <class T>
struct Work {
  const Plan& p;
  const ConvBackwardInputArgs& a;
  const T* weights;
  const i64* offsets;
  T *y, *z, *row;
};

template <class T>
void pack_weights(const Plan& p, const ConvTensor& w, T* to, i64* offsets) {
  const i64 step = conv_kernels<T>().rows, tiles = (p.terms + step - 1) / step;
  for (i64 t = 0; t < tiles; ++t)
    for (i64 o = 0; o < p.s.out_channels; ++o)
      for (i64 i = p.terms * t / tiles; i < p.terms * (t + 1) / tiles; ++i)
        *to++ = static_cast<const T*>(
            w.data)[o * w.batch + i / p.taps * w.channel + i % p.taps / p.s.kernel[2] * w.at[1] +
                    i % p.s.kernel[2] * w.at[2]];
  for (i64 o = 0; o < p.s.out_channels; ++o) offsets[o] = o * p.y_plane;
}

// Rows of y from `from` on, in planes. What is between them stays zero.
template <class T>
void copy_planes(const Work<T>& w, const T* from, i64 rows) {
  const ConvTensor& y = w.a.y;
  const ConvKernels<T>& k = conv_kernels<T>();
  const i64 columns = w.p.s.out[2], channels = w.p.s.out_channels;
  if (y.at[2] == 1 || columns == 1) {
    for (i64 o = 0; o < channels; ++o)
      k.copy_rows(w.y + o * w.p.y_plane, w.p.width, from + o * y.channel, y.at[1], rows, columns);
    return;
  }
  for (i64 r = 0; r < rows; ++r, from += y.at[1]) {
    T* const to = w.y + r * w.p.width;
    if (y.channel == 1) {
      k.planes_of(to, w.p.y_plane, from, y.at[2], columns, channels);
      continue;
    }
    for (i64 o = 0; o < channels; ++o)
      for (i64 i = 0; i < columns; ++i) to[o * w.p.y_plane + i] = from[o * y.channel + i * y.at[2]];
  }
}

// Asks for channels [begin, end) of the next image, so that memory is read while this one is
// multiplied.
template <class T>
void expect(const Work<T>& w, i64 n, i64 begin, i64 end) {
  const ConvShape& s = w.p.s;
  if (w.p.bands > 1 || n + 1 >= s.batch) return;
  const T* const next = static_cast<const T*>(w.a.y.data) + (n + 1) * w.a.y.batch;
  const i64 plane = s.out[1] * s.out[2];  // whatever their order, if the image is in one piece
  for (i64 i = begin * plane; i < end * plane; i += 16)
    __builtin_prefetch(next + i, 0, 2);  // for the second-level cache
}

template <class T>
void multiply(const Work<T>& w, i64 n, i64 rows) {
  const Plan& p = w.p;
  const ConvKernels<T>& k = conv_kernels<T>();
  ConvLanes whole[2] = {{0, k.lanes, {}}, {k.lanes, k.lanes, {}}};
  ConvPixelTile<T> tile{};
  tile.offsets = w.offsets;
  tile.depth = p.s.out_channels;
  tile.out_row = p.z_plane;
  tile.lanes = whole;
  const i64 tiles = (p.terms + k.rows - 1) / k.rows, pixels = rows * p.width;
  for (i64 f = 0; f < pixels; f += 2 * k.lanes) {
    const i64 next = std::min(f + 2 * k.lanes, pixels);
    expect(w, n, p.s.out_channels * f / pixels, p.s.out_channels * next / pixels);
    for (i64 t = 0; t < tiles; ++t) {
      const i64 from = p.terms * t / tiles, to = p.terms * (t + 1) / tiles;
      tile.w = w.weights + from * p.s.out_channels;
      tile.x = w.y + f;
      tile.out = w.z + from * p.z_plane + f;
      k.pixels[1][to - from](tile);
    }
  }
}

// Row p1 of channel c, from z's rows q0 to q1.
template <class T>
void gather(const Work<T>& w, i64 n, i64 c, i64 p1, i64 q0, i64 q1) {
  const ConvShape& s = w.p.s;
  const ConvTensor& x = w.a.x;
  const T* taps[kManyTerms];
  i64 count = 0;
  for (i64 i = 0; i < s.kernel[1]; ++i) {
    const i64 q = p1 + s.padding[1] - i * s.dilation[1];
    if (q < q0 || q >= q1) continue;
    for (i64 j = 0; j < s.kernel[2]; ++j)
      taps[count++] = w.z + (c * w.p.taps + i * s.kernel[2] + j) * w.p.z_plane +
                      (q - q0) * w.p.width + s.padding[2] - j * s.dilation[2];
  }
  T* const out = static_cast<T*>(x.data) + n * x.batch + c * x.channel + p1 * x.at[1];
  const bool dense = x.at[2] == 1;
  const T bias = w.a.bias ? static_cast<const T*>(w.a.bias)[c] : 0;
  conv_kernels<T>().sum_taps(dense ? out : w.row, taps, count, s.in[2], bias);
  for (i64 i = 0; !dense && i < s.in[2]; ++i) out[i * x.at[2]] = w.row[i];
}

template <class T>
void run_band(const Work<T>& w, i64 n, i64 band) {
  const ConvShape& s = w.p.s;
  const ConvTensor& y = w.a.y;
  const i64 p0 = band * w.p.band, p1 = std::min(p0 + w.p.band, s.in[1]);
  const i64 q0 = std::clamp<i64>(p0 + s.padding[1] - w.p.reach, 0, s.out[1]);
  const i64 q1 = std::clamp<i64>(p1 + s.padding[1], q0, s.out[1]);
  copy_planes(w, static_cast<const T*>(y.data) + n * y.batch + q0 * y.at[1], q1 - q0);
  multiply(w, n, q1 - q0);
  for (i64 c = 0; c < s.in_channels; ++c)
    for (i64 p = p0; p < p1; ++p) gather(w, n, c, p, q0, q1);
}

template <class T>
void launch(const ConvBackwardInputArgs& a, const Launch& l) {
  const Plan p = plan_of(a.shape);
  T* const weights = static_cast<T*>(l.workspace);
  i64* const offsets = reinterpret_cast<i64*>(weights + p.weights());
  T* const workers = weights + p.weights() + p.offsets();
  pack_weights(p, a.w, weights, offsets);
  std::memset(workers, 0, size_t(p.threads * p.each()) * sizeof(T));
  const i64 all = p.s.batch * p.bands, tasks = std::min<i64>(all, 1 << 20);
  parallel(int(p.threads), int(tasks), [&](int task, int worker) {
    T* const y = workers + worker * p.each();
    T* const z = y + p.s.out_channels * p.y_plane + p.margin;
    const Work<T> work{p, a, weights, offsets, y, z, z + p.terms * p.z_plane};
    for (i64 i = all * task / tasks; i < all * (task + 1) / tasks; ++i)
      run_band(work, i / p.bands, i % p.bands);
  });
}

}  // namespace

bool conv_thin_input_takes(const ConvShape& s) {
  for (int d = 0; d < 3; ++d)
    if (s.stride[d] != 1) return false;
  if (s.groups != 1 || s.in[0] != 1 || s.out[0] != 1 || s.kernel[0] != 1 || s.padding[0] != 0)
    return false;
  const i64 taps = s.kernel[1] * s.kernel[2];
  return taps > 1 && s.in_channels <= kFewChannels && s.in_channels * taps <= kManyTerms &&
         s.out_channels > s.in_channels && plan_of(s).bands > 0;
}
i64 conv_thin_input_workspace(const ConvBackwardInputArgs& a) {
  return plan_of(a.shape).size() * item_size(a.shape.dtype);
}
void conv_thin_input(const ConvBackwardInputArgs& a, const Launch& l) {
  a.shape.dtype == DType::f32 ? launch<float>(a, l) : launch<double>(a, l);
}

}  // namespace wt
