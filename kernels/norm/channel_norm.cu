// Normalisation by channels on simt and cuda: values. channel_stats.cu has the statistics,
// channel_norm_sums.cu and channel_norm_backward.cu the gradients. The ladder of each:
//   naive    one thread a statistic, or a cell (one channel of one sample), element after element:
//            64 channels of batch normalisation are 64 threads, on a machine that holds 200,000
//   planes   teams of threads take the rows of neighbours inside channels, 16 bytes a lane; a
//            statistic's rows are shared out to many blocks, whose parts a second kernel joins
//   columns  where channels are neighbours (NHWC): lanes side by side take 16 bytes of channels
//            each and walk over the places
// Each has the activation behind the norm in its own kernels (Behind), which are not those without.
#include "warptape/kernels/device/cudnn_functions.h"
#include "warptape/kernels/norm/channel_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct ChannelNormForward {
  using A = ComputeType<T>;
  ChannelShape shape;
  Cells<T> y;
  Cells<const T> x;
  const A* stats;
  const T *weight, *bias;
  template <class F>
  void visit_pointers(F&& f) const {
    f(y.data), f(x.data), f(stats), f(weight), f(bias);
  }
};

// --- values: a thread a cell ---

template <class T, class... Behind>
__global__ void __launch_bounds__(kNaiveThreads)
    channel_norm_naive(ChannelNormForward<T> a, Behind... behind) {
  using A = ComputeType<T>;
  const ChannelShape& s = a.shape;
  const i64 cell = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (cell >= s.samples * s.channels) return;
  // A 64-bit division is dozens of instructions on a GPU: one a cell, never one an element.
  const i64 n = cell / s.channels, c = cell % s.channels;
  // Everything that is the same along the cell waits in registers; the loop then is one load, two
  // subtractions, two multiplications, an addition and one store.
  const Centre<A> centre(s, a.stats, s.statistic(n, c));
  const A w = a.weight ? A(a.weight[c]) : A(1), b = a.bias ? A(a.bias[c]) : A(0);
  const auto x = a.x.row(n, c);
  const auto y = a.y.row(n, c);
  // y may be x: an element is read and written by the same thread, before it goes to the next.
  for (i64 i = 0; i < s.size; ++i) {
    A z = centre.distance(A(x[i])) * centre.rstd * w + b;
    (behind.value(z), ...);
    y[i] = T(z);
  }
}

// --- values: rows and columns ---

template <class T, class... Behind>
__global__ void __launch_bounds__(kChannelThreads)
    channel_norm_planes(ChannelNormForward<T> a, SmallShape s, PlaneRows p, Behind... behind) {
  const u32 rows = p.chunks == 1 ? blockIdx.x : blockIdx.x / p.chunks;
  const u32 chunk = blockIdx.x - rows * p.chunks;
  const u32 row = rows * (kChannelThreads >> p.log_lanes) + (threadIdx.x >> p.log_lanes);
  if (row >= s.samples * s.channels) return;  // no barrier follows
  const u32 n = row / s.channels, c = row - n * s.channels;
  const i64 at = n * a.x.sample + c * a.x.channel;
  const RowOf<const T> x[1] = {{a.x.data + at, a.x.step}};
  const RowOf<T> y = a.y.row(n, c);
  // Five loads a thread, which the elements do not wait for: theirs are under way as well.
  const SmallCentre centre(s, a.stats, s.statistic(n, c));
  const float scale = centre.rstd * (a.weight ? float(a.weight[c]) : 1.0f);
  const float b = a.bias ? float(a.bias[c]) : 0.0f;
  const int shift = window_shift<T>(at);
  walk_windows(p, x, shift, int(chunk * p.chunk), windows_end<T>(p, shift, chunk),
               [&](int i, const float(&v)[1][kPerPack<T>], int lo, int hi) WT_INLINE_LAMBDA {
                 Pack16<T> out;
#pragma unroll
                 for (int j = 0; j < kPerPack<T>; ++j) {
                   float z = centre.distance(v[0][j]) * scale + b;
                   (behind.value(z), ...);
                   out.v[j] = T(z);
                 }
                 store_window(y, out, i, lo, hi, p.packs);
               });
}

template <class T, class... Behind>
__global__ void __launch_bounds__(kChannelThreads)
    channel_norm_columns(ChannelNormForward<T> a, SmallShape s, Columns c, Behind... behind) {
  constexpr int V = kPerPack<T>;
  const ColumnThread t(c, s.channels, V);
  if (t.valid <= 0) return;  // no barrier follows
  // Once a thread, for all the places that it walks over.
  float mean[V], rest[V], scale[V], b[V];
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const u32 channel = j < t.valid ? t.first + j : t.first;
    const SmallCentre centre(s, a.stats, s.statistic(t.slab, channel));
    mean[j] = centre.mean, rest[j] = centre.rest;
    scale[j] = centre.rstd * (a.weight ? float(a.weight[channel]) : 1.0f);
    b[j] = a.bias ? float(a.bias[channel]) : 0.0f;
  }
  const Cells<const T> operands[1] = {a.x};
  walk_columns(operands, c, s, t, [&](u32 place, const float(&v)[1][V]) WT_INLINE_LAMBDA {
    Pack16<T> out;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      float z = ((v[0][j] - mean[j]) - rest[j]) * scale[j] + b[j];
      (behind.value(z), ...);
      out.v[j] = T(z);
    }
    store_column(column_at(a.y, c, s, t, place), out, c, t.valid);
  });
}

// --- launch ---

template <class T>
ChannelNormForward<T> forward_args(const ChannelNormForwardArgs& a) {
  return {ChannelShape(a.x, a.groups),        Cells<T>(a.y),          Cells<const T>(a.x),
          a.stats.as<const ComputeType<T>>(), a.weight.as<const T>(), a.bias.as<const T>()};
}
void launch_naive(const ChannelNormForwardArgs& a, const Launch& l) {
  with_float_or_double(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ChannelNormForward<T> k = forward_args<T>(a);
    const i64 cells = k.shape.samples * k.shape.channels;
    with_activation<T>(a, [&](auto... behind) {
      launch<channel_norm_naive<T, decltype(behind)...>>(
          grid_of(l, ceil_div(cells, kNaiveThreads), kNaiveThreads), k, behind...);
    });
  });
}
void launch_planes(const ChannelNormForwardArgs& a, const Launch& l) {
  with_float(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ChannelNormForward<T> k = forward_args<T>(a);
    const ChannelShape& s = k.shape;
    const i64 rows = s.samples * s.channels;
    const PlaneRows p =
        plane_rows(k.x, rows, s.size, in_packs(k.x) && in_packs(k.y) && same_shift(k.x, k.y, s));
    const i64 bands = ceil_div(rows, kChannelThreads >> p.log_lanes);
    with_activation<T>(a, [&](auto... behind) {
      launch<channel_norm_planes<T, decltype(behind)...>>(
          grid_of(l, bands * p.chunks, kChannelThreads), k, SmallShape(s), p, behind...);
    });
  });
}
void launch_columns(const ChannelNormForwardArgs& a, const Launch& l) {
  with_float(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ChannelNormForward<T> k = forward_args<T>(a);
    const ChannelShape& s = k.shape;
    const Columns c =
        make_columns<T>(s, s.batch(), places_even(k.x, s) && places_even(k.y, s),
                        columns_in_packs(k.x, s) && columns_in_packs(k.y, s), 1ll << 20);
    with_activation<T>(a, [&](auto... behind) {
      launch<channel_norm_columns<T, decltype(behind)...>>(
          grid_of(l, column_blocks(c), kChannelThreads), k, SmallShape(s), c, behind...);
    });
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, channel_norm_forward, ChannelNormForwardArgs,
            {.name = "columns",
             .rank = 30,
             .why_not = why_not_columns<ChannelNormForwardArgs>,
             .launch = launch_columns},
            {.name = "planes",
             .rank = 20,
             .why_not = channels_too_large<ChannelNormForwardArgs>,
             .launch = launch_planes},
            {.name = "naive", .rank = 10, .launch = launch_naive}
#if defined(__CUDACC__)  // last: see conv.cu
            ,
            {.name = "cudnn",
             .rank = 5,
             .why_not = channel_norm_forward_cudnn_why_not,
             .launch = channel_norm_forward_cudnn}
#endif
);

}  // namespace wt
