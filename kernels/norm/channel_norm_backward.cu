// Normalisation by channels on simt and cuda: the gradient of x. channel_norm.cu has the ladder.
#include "warptape/kernels/device/cudnn_functions.h"
#include "warptape/kernels/norm/channel_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

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

// --- gradient of x: a thread a cell ---

template <class T, class... Behind>
__global__ void __launch_bounds__(kNaiveThreads)
    channel_norm_backward_naive(ChannelNormBackward<T> a, Behind... behind) {
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
  [[maybe_unused]] A scale = 0, b = 0;
  (behind.line(c, A(1), scale, b), ...);
  const auto gx = a.gx.row(n, c);
  const auto gy = a.gy.row(n, c);
  const auto x = a.x.row(n, c);
  for (i64 i = 0; i < s.size; ++i) {
    // h is computed anew from x, which the tape has anyway. Saved by the forward it would be a
    // tensor more in memory, and no byte less to read here.
    const A h = centre.distance(A(x[i])) * centre.rstd;
    // gx may be gy: both are this thread's own element.
    A g = A(gy[i]);
    (behind.gradient(g, h * scale + b), ...);
    gx[i] = T(centre.rstd * (g * w - mean_g - h * mean_gh));
  }
}

// --- gradient of x: rows and columns ---

// The means of g and g * h of each statistic, a warp each: means[2][statistics]. Where a statistic
// has many channels every one of them would add up all of them again.
template <class T>
__global__ void __launch_bounds__(kJoinWarps * 32)
    channel_means(const float* sums, const T* weight, float count, SmallShape s, float* means) {
  const u32 k = blockIdx.x * kJoinWarps + threadIdx.x / 32;
  if (k >= s.statistics()) return;  // the whole warp, and no barrier follows
  const u32 n = k / s.groups, c0 = (k - n * s.groups) * s.width;
  TwoSums<float> both{0, 0};
  for (u32 c = c0 + threadIdx.x % 32; c < c0 + s.width; c += 32) {
    const float w = weight ? float(weight[c]) : 1.0f;
    const u32 cell = s.cell(n, c);
    both = PlusBoth()(both, TwoSums<float>{w * sums[cell], w * sums[s.cells() + cell]});
  }
  both = warp_reduce(both, PlusBoth());
  if (threadIdx.x % 32 != 0) return;
  means[k] = both.first / count;
  means[s.statistics() + k] = both.second / count;
}

// What the elements of a cell have in common.
template <class T>
struct CellGradient {
  SmallCentre centre;
  float w, mean_g, mean_gh;
  __device__ __forceinline__ CellGradient(const ChannelNormBackward<T>& a, const SmallShape& s,
                                          const float* means, u32 n, u32 c)
      : w(a.weight ? float(a.weight[c]) : 1.0f), mean_g(0), mean_gh(0) {
    const u32 k = s.statistic(n, c);
    centre = SmallCentre(s, a.stats, k);
    if (means) {
      mean_g = means[k], mean_gh = means[s.statistics() + k];
    } else if (a.sums) {  // a channel a statistic
      mean_g = w * a.sums[s.cell(n, c)] / a.count;
      mean_gh = w * a.sums[s.cells() + s.cell(n, c)] / a.count;
    }
  }
  template <class... Behind>
  __device__ __forceinline__ float operator()(float gy, float x, float scale, float shift,
                                              const Behind&... behind) const {
    const float d = centre.distance(x), h = d * centre.rstd;
    (behind.gradient(gy, d * scale + shift), ...);
    return centre.rstd * (gy * w - mean_g - h * mean_gh);
  }
};

template <class T, class... Behind>
__global__ void __launch_bounds__(kChannelThreads)
    channel_backward_planes(ChannelNormBackward<T> a, SmallShape s, PlaneRows p, const float* means,
                            Behind... behind) {
  const u32 rows = p.chunks == 1 ? blockIdx.x : blockIdx.x / p.chunks;
  const u32 chunk = blockIdx.x - rows * p.chunks;
  const u32 row = rows * (kChannelThreads >> p.log_lanes) + (threadIdx.x >> p.log_lanes);
  if (row >= s.samples * s.channels) return;  // no barrier follows
  const u32 n = row / s.channels, c = row - n * s.channels;
  const i64 at = n * a.x.sample + c * a.x.channel;
  const RowOf<const T> operands[2] = {a.gy.row(n, c), {a.x.data + at, a.x.step}};
  const RowOf<T> gx = a.gx.row(n, c);
  const CellGradient<T> gradient(a, s, means, n, c);
  [[maybe_unused]] float scale = 0, b = 0;
  (behind.line(c, gradient.centre.rstd, scale, b), ...);
  const int shift = window_shift<T>(at);
  // gx may be gy: a window is written by the thread that read it.
  walk_windows(p, operands, shift, int(chunk * p.chunk), windows_end<T>(p, shift, chunk),
               [&](int i, const float(&v)[2][kPerPack<T>], int lo, int hi) WT_INLINE_LAMBDA {
                 Pack16<T> out;
#pragma unroll
                 for (int j = 0; j < kPerPack<T>; ++j)
                   out.v[j] = T(gradient(v[0][j], v[1][j], scale, b, behind...));
                 store_window(gx, out, i, lo, hi, p.packs);
               });
}

template <class T, class... Behind>
__global__ void __launch_bounds__(kChannelThreads)
    channel_backward_columns(ChannelNormBackward<T> a, SmallShape s, Columns c, const float* means,
                             Behind... behind) {
  constexpr int V = kPerPack<T>;
  const ColumnThread t(c, s.channels, V);
  if (t.valid <= 0) return;  // no barrier follows
  float mean[V], rest[V], rstd[V], w[V], mean_g[V], mean_gh[V], scale[V] = {}, b[V] = {};
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const u32 channel = j < t.valid ? t.first + j : t.first;
    const CellGradient<T> g(a, s, means, t.slab, channel);
    (behind.line(channel, g.centre.rstd, scale[j], b[j]), ...);
    mean[j] = g.centre.mean, rest[j] = g.centre.rest, rstd[j] = g.centre.rstd;
    w[j] = g.w, mean_g[j] = g.mean_g, mean_gh[j] = g.mean_gh;
  }
  const Cells<const T> operands[2] = {a.gy, a.x};
  walk_columns(operands, c, s, t, [&](u32 place, const float(&v)[2][V]) WT_INLINE_LAMBDA {
    Pack16<T> out;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      const float d = (v[1][j] - mean[j]) - rest[j], h = d * rstd[j];
      float gy = v[0][j];
      (behind.gradient(gy, d * scale[j] + b[j]), ...);
      out.v[j] = T(rstd[j] * (gy * w[j] - mean_g[j] - h * mean_gh[j]));
    }
    store_column(column_at(a.gx, c, s, t, place), out, c, t.valid);
  });
}

// --- launch ---

template <class T>
ChannelNormBackward<T> backward_args(const ChannelNormBackwardArgs& a) {
  const ChannelShape s(a.x, a.groups);
  return {s,
          Cells<T>(a.gx),
          Cells<const T>(a.gy),
          Cells<const T>(a.x),
          a.stats.as<const ComputeType<T>>(),
          a.weight.as<const T>(),
          a.sums.as<const ComputeType<T>>(),
          ComputeType<T>(s.count())};
}

void launch_naive(const ChannelNormBackwardArgs& a, const Launch& l) {
  with_float_or_double(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ChannelNormBackward<T> k = backward_args<T>(a);
    const i64 cells = k.shape.samples * k.shape.channels;
    with_activation<T>(a, [&](auto... behind) {
      launch<channel_norm_backward_naive<T, decltype(behind)...>>(
          grid_of(l, ceil_div(cells, kNaiveThreads), kNaiveThreads), k, behind...);
    });
  });
}

// The means have a kernel of their own where a statistic has several channels.
bool means_apart(const ChannelNormBackwardArgs& a) {
  return a.sums.data && a.groups > 0 && a.groups < a.x.size(1);
}
i64 means_workspace(const ChannelNormBackwardArgs& a) {
  return means_apart(a) ? 8 * ChannelShape(a.x, a.groups).statistics() : 0;
}
template <class T>
const float* launch_means(const ChannelNormBackwardArgs& a, const ChannelNormBackward<T>& k,
                          const Launch& l) {
  if (!means_apart(a)) return nullptr;
  float* const means = static_cast<float*>(l.workspace);
  launch<channel_means<T>>(grid_of(l, ceil_div(k.shape.statistics(), kJoinWarps), kJoinWarps * 32),
                           k.sums, k.weight, k.count, SmallShape(k.shape), means);
  return means;
}
void launch_planes(const ChannelNormBackwardArgs& a, const Launch& l) {
  with_float(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ChannelNormBackward<T> k = backward_args<T>(a);
    const ChannelShape& s = k.shape;
    const float* const means = launch_means(a, k, l);
    const i64 rows = s.samples * s.channels;
    const PlaneRows p = plane_rows(k.x, rows, s.size,
                                   in_packs(k.x) && in_packs(k.gy) && in_packs(k.gx) &&
                                       same_shift(k.x, k.gy, s) && same_shift(k.x, k.gx, s));
    const i64 bands = ceil_div(rows, kChannelThreads >> p.log_lanes);
    with_activation<T>(a, [&](auto... behind) {
      launch<channel_backward_planes<T, decltype(behind)...>>(
          grid_of(l, bands * p.chunks, kChannelThreads), k, SmallShape(s), p, means, behind...);
    });
  });
}
void launch_columns(const ChannelNormBackwardArgs& a, const Launch& l) {
  with_float(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ChannelNormBackward<T> k = backward_args<T>(a);
    const ChannelShape& s = k.shape;
    const float* const means = launch_means(a, k, l);
    const Columns c = make_columns<T>(
        s, s.batch(), places_even(k.x, s) && places_even(k.gy, s) && places_even(k.gx, s),
        columns_in_packs(k.x, s) && columns_in_packs(k.gy, s) && columns_in_packs(k.gx, s),
        1ll << 20);
    with_activation<T>(a, [&](auto... behind) {
      launch<channel_backward_columns<T, decltype(behind)...>>(
          grid_of(l, column_blocks(c), kChannelThreads), k, SmallShape(s), c, means, behind...);
    });
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, channel_norm_backward, ChannelNormBackwardArgs,
            {.name = "columns",
             .rank = 30,
             .why_not = why_not_columns<ChannelNormBackwardArgs>,
             .workspace = means_workspace,
             .launch = launch_columns},
            {.name = "planes",
             .rank = 20,
             .why_not = channels_too_large<ChannelNormBackwardArgs>,
             .workspace = means_workspace,
             .launch = launch_planes},
            {.name = "naive", .rank = 10, .launch = launch_naive}
#if defined(__CUDACC__)  // last: see conv.cu
            ,
            {.name = "cudnn",
             .rank = 5,
             .why_not = channel_norm_backward_cudnn_why_not,
             .launch = channel_norm_backward_cudnn}
#endif
);

}  // namespace wt
