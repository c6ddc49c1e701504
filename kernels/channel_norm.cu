// Normalisation by channels on simt and cuda. The ladder so far:
//   naive  one thread a statistic, or a cell (one channel of one sample), element after element
// What is missing above it is a block a statistic, with loads that coalesce: 64 channels of batch
// normalisation are 64 threads here, on a machine that holds more than 200,000.
#include "warptape/kernels/channel_norm.h"

#include "warptape/kernels/common/channels.h"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr i64 kThreads = 64;  // few rows to hand out: small blocks spread over more processors

template <class T>
struct ChannelStats {
  using A = ComputeType<T>;
  ChannelShape shape;
  Cells<const T> x;
  A *stats, *variance;
  A count, eps;
  template <class F>
  void visit_pointers(F&& f) const {
    f(x.data), f(stats), f(variance);
  }
};
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
template <class T>
struct ChannelNormSums {
  using A = ComputeType<T>;
  ChannelShape shape;
  A* sums;
  Cells<const T> gy, x;
  const A* stats;
  template <class F>
  void visit_pointers(F&& f) const {
    f(sums), f(gy.data), f(x.data), f(stats);
  }
};
template <class T>
struct ChannelNormBackward {
  using A = ComputeType<T>;
  ChannelShape shape;
  Cells<T> gx;
  Cells<const T> gy, x;
  const A* stats;
  const T* weight;
  const A* sums;
  A count;
  template <class F>
  void visit_pointers(F&& f) const {
    f(gx.data), f(gy.data), f(x.data), f(stats), f(weight), f(sums);
  }
};

// --- statistics: a thread each ---

template <class T>
__global__ void __launch_bounds__(kThreads) channel_stats_naive(ChannelStats<T> a) {
  using A = ComputeType<T>;
  const i64 k = i64(blockIdx.x) * blockDim.x + threadIdx.x, all = a.shape.statistics();
  // No barrier and no shuffle follows, so a thread of the last block without a statistic may leave.
  if (k >= all) return;
  const StatisticCells cells(a.shape, k);
  // Sums are taken from the first element on, so that an offset of all elements costs no digits,
  // and by cells: with one running total a late element of a million would meet a total whose last
  // bit is a million times its own. Doubles would be simpler, and 2 (H100) to 64 (GeForce) times
  // slower.
  const A first = A(a.x.row(cells.n0, cells.c0)[0]);
  A total = 0;
  for (i64 n = cells.n0; n < cells.n1; ++n)
    for (i64 c = cells.c0; c < cells.c1; ++c) {
      // In NCHW thread k + 1 reads a channel further on than thread k: each of the warp's 32 loads
      // is a transaction of 32 bytes of which one element is wanted. In NHWC with groups of 0 they
      // are neighbours, and one transaction serves eight floats.
      const auto x = a.x.row(n, c);
      A part = 0;
      for (i64 i = 0; i < a.shape.size; ++i) part += A(x[i]) - first;
      total += part;
    }
  const A mean = first + total / a.count;
  // The second pass is around a mean that is rounded: what it lacks comes out as the mean distance.
  // A variance from sum(x^2) - M mean^2 would cancel to nothing for a mean of 1e4.
  // It reads x from memory again where x is beyond L2 (50 MiB on an H100), which for the input of
  // a normalisation it often is: this rung moves 8 bytes an f32 element for a mean and a variance.
  A rest = 0, squares = 0;
  for (i64 n = cells.n0; n < cells.n1; ++n)
    for (i64 c = cells.c0; c < cells.c1; ++c) {
      const auto x = a.x.row(n, c);
      A rest_part = 0, squares_part = 0;
      for (i64 i = 0; i < a.shape.size; ++i) {
        const A d = A(x[i]) - mean;
        rest_part += d;
        squares_part += d * d;
      }
      rest += rest_part;
      squares += squares_part;
    }
  rest /= a.count;
  const A variance = squares / a.count - rest * rest;
  // mean + rest as two numbers without overlap, exact because |rest| is the smaller (Dekker 1971).
  const A rounded = mean + rest;
  a.stats[k] = rounded;
  a.stats[all + k] = rest - (rounded - mean);
  // Not rsqrt, which in f32 is off by up to 2 units in the last place: once a statistic an exact
  // root and quotient cost nothing, and every element of the channel is multiplied by this.
  a.stats[2 * all + k] = A(1) / sqrt(variance + a.eps);
  if (a.variance) a.variance[k] = variance;
}

// --- values: a thread a cell ---

template <class T>
__global__ void __launch_bounds__(kThreads) channel_norm_naive(ChannelNormForward<T> a) {
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
  for (i64 i = 0; i < s.size; ++i) y[i] = T(centre.distance(A(x[i])) * centre.rstd * w + b);
}

// --- sums for the gradients: a thread a channel, or a cell where each sample has its own ---

template <class T>
__global__ void __launch_bounds__(kThreads) channel_norm_sums_naive(ChannelNormSums<T> a) {
  using A = ComputeType<T>;
  const ChannelShape& s = a.shape;
  const i64 cell = i64(blockIdx.x) * blockDim.x + threadIdx.x, all = s.cells();
  if (cell >= all) return;
  // groups 0 adds over samples as well: C threads, and each reads N runs of S elements.
  const i64 c = cell % s.channels, n0 = s.batch() ? 0 : cell / s.channels;
  const i64 n1 = s.batch() ? s.samples : n0 + 1;
  // No float atomics, which would let all threads of the machine add to 2 C numbers: their order,
  // and with it the last bits, would differ from run to run.
  A plain = 0, product = 0;
  for (i64 n = n0; n < n1; ++n) {
    const Centre<A> centre(s, a.stats, s.statistic(n, c));
    const auto gy = a.gy.row(n, c);
    const auto x = a.x.row(n, c);
    // Two loads an element for three operations: the arithmetic is free, the wait is not. Nothing
    // but the compiler's unrolling has several loads of a thread under way.
    A plain_part = 0, product_part = 0;
    for (i64 i = 0; i < s.size; ++i) {
      const A g = A(gy[i]);
      plain_part += g;
      product_part += g * (centre.distance(A(x[i])) * centre.rstd);
    }
    plain += plain_part;
    product += product_part;
  }
  a.sums[cell] = plain;  // zeros, too, where there are no samples or places
  a.sums[all + cell] = product;
}

// --- gradient of x: a thread a cell ---

template <class T>
__global__ void __launch_bounds__(kThreads) channel_norm_backward_naive(ChannelNormBackward<T> a) {
  using A = ComputeType<T>;
  const ChannelShape& s = a.shape;
  const i64 cell = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (cell >= s.samples * s.channels) return;
  const i64 n = cell / s.channels, c = cell % s.channels;
  A mean_g = 0, mean_gh = 0;
  if (a.sums) {
    // Each cell of a statistic adds up its channels' sums again, C / groups pairs: cheaper than a
    // kernel of its own, and all of them come from L2, where the sums kernel left them.
    const StatisticCells cells(s, s.statistic(n, c));
    for (i64 k = cells.c0; k < cells.c1; ++k) {
      const A w = a.weight ? A(a.weight[k]) : A(1);
      mean_g += w * a.sums[s.cell(n, k)];
      mean_gh += w * a.sums[s.cells() + s.cell(n, k)];
    }
    mean_g /= a.count;
    mean_gh /= a.count;
  }
  const Centre<A> centre(s, a.stats, s.statistic(n, c));
  const A w = a.weight ? A(a.weight[c]) : A(1);
  const auto gx = a.gx.row(n, c);
  const auto gy = a.gy.row(n, c);
  const auto x = a.x.row(n, c);
  for (i64 i = 0; i < s.size; ++i) {
    // h is computed anew from x, which the tape has anyway. Saved by the forward it would be a
    // tensor more in memory, and no byte less to read here.
    const A h = centre.distance(A(x[i])) * centre.rstd;
    // gx may be gy: both are this thread's own element.
    gx[i] = T(centre.rstd * (A(gy[i]) * w - mean_g - h * mean_gh));
  }
}

// --- launch ---

void launch_naive(const ChannelStatsArgs& a, const Launch& l) {
  with_float_or_double(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    const ChannelShape s(a.x, a.groups);
    const ChannelStats<T> k{
        s, Cells<const T>(a.x), a.stats.as<A>(), a.variance.as<A>(), A(s.count()), A(a.eps)};
    launch<channel_stats_naive<T>>(grid_of(l, ceil_div(s.statistics(), kThreads), kThreads), k);
  });
}
void launch_naive(const ChannelNormForwardArgs& a, const Launch& l) {
  with_float_or_double(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ChannelNormForward<T> k{ChannelShape(a.x, a.groups), Cells<T>(a.y),
                                  Cells<const T>(a.x),         a.stats.as<const ComputeType<T>>(),
                                  a.weight.as<const T>(),      a.bias.as<const T>()};
    const i64 cells = k.shape.samples * k.shape.channels;
    launch<channel_norm_naive<T>>(grid_of(l, ceil_div(cells, kThreads), kThreads), k);
  });
}
void launch_naive(const ChannelNormSumsArgs& a, const Launch& l) {
  with_float_or_double(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    const ChannelNormSums<T> k{ChannelShape(a.x, a.groups), a.sums.as<A>(), Cells<const T>(a.gy),
                               Cells<const T>(a.x), a.stats.as<const A>()};
    launch<channel_norm_sums_naive<T>>(grid_of(l, ceil_div(k.shape.cells(), kThreads), kThreads),
                                       k);
  });
}
void launch_naive(const ChannelNormBackwardArgs& a, const Launch& l) {
  with_float_or_double(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    const ChannelShape s(a.x, a.groups);
    const ChannelNormBackward<T> k{s,
                                   Cells<T>(a.gx),
                                   Cells<const T>(a.gy),
                                   Cells<const T>(a.x),
                                   a.stats.as<const A>(),
                                   a.weight.as<const T>(),
                                   a.sums.as<const A>(),
                                   A(s.count())};
    const i64 cells = s.samples * s.channels;
    launch<channel_norm_backward_naive<T>>(grid_of(l, ceil_div(cells, kThreads), kThreads), k);
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, channel_stats, ChannelStatsArgs,
            {.name = "naive", .rank = 10, .launch = launch_naive});
WT_VARIANTS(WT_DEVICE_NS, channel_norm_forward, ChannelNormForwardArgs,
            {.name = "naive", .rank = 10, .launch = launch_naive});
WT_VARIANTS(WT_DEVICE_NS, channel_norm_sums, ChannelNormSumsArgs,
            {.name = "naive", .rank = 10, .launch = launch_naive});
WT_VARIANTS(WT_DEVICE_NS, channel_norm_backward, ChannelNormBackwardArgs,
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
