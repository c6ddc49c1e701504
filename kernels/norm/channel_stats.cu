// Normalisation by channels on simt and cuda: statistics. channel_norm.cu has the ladder.
#include "warptape/kernels/norm/channel_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

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

// --- statistics: a thread each ---

template <class T>
__global__ void __launch_bounds__(kNaiveThreads) channel_stats_naive(ChannelStats<T> a) {
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

// --- statistics: parts ---

// What a part of a statistic comes to: its elements, their sum as distances from `base`, their
// squared distances from their own mean. 16 bytes, written and read as one.
using StatsPack = Pack<float, 4>;  // count, sum, squares, base

// `distance` is the mean's from base. Two numbers without overlap make the mean (Knuth's exact sum:
// of base and distance either may be the larger).
template <class A>
__device__ __forceinline__ void finish_statistic(float* stats, float* variance, i64 all, i64 k,
                                                 float base, A distance, float spread, float eps) {
  const float near = float(distance), mean = base + near, part = mean - base;
  stats[k] = mean;
  stats[all + k] = (base - (mean - part)) + (near - part);
  stats[2 * all + k] = 1.0f / sqrtf(spread + eps);
  if (variance) variance[k] = spread;
}

// One pass, where naive needs two: a thread takes squares around the first element that it meets
// itself. That one may be far off; but it is one of the thread's own at most 256 elements, so that
// their true squares are 1 / 256 of these at least, and two digits are what can be lost. Around one
// element for the whole tensor it could be all of them.
struct OwnSquares {
  float centre = 0, sum = 0, squares = 0;
  __device__ __forceinline__ void add(float x) {
    const float d = x - centre;
    sum += d;
    squares += d * d;
  }
  // Squares around the mean; a NaN stays one.
  __device__ __forceinline__ float spread(float count) const {
    const float rest = squares - sum * (sum / count);
    return rest < 0 ? 0 : rest;
  }
};

// Block (statistic, part of it).
template <class T>
__global__ void __launch_bounds__(kChannelThreads)
    channel_stats_planes(ChannelStats<T> a, SmallShape s, PlaneRows p, PlaneParts q,
                         StatsPack* parts) {
  const u32 k = q.parts == 1 ? blockIdx.x : blockIdx.x / q.parts, part = blockIdx.x - k * q.parts;
  const u32 band = p.chunks == 1 ? part : part / p.chunks, chunk = part - band * p.chunks;
  const u32 n0 = s.batch() ? 0 : k / s.groups;
  const u32 c0 = s.batch() ? k : (k - n0 * s.groups) * s.width;
  const u32 begin = band * q.rows_each + (threadIdx.x >> p.log_lanes);
  const u32 end = q.rows - band * q.rows_each < q.rows_each ? q.rows : (band + 1) * q.rows_each;
  // The statistic's first element is what all of its parts count their sums from: an offset of all
  // elements costs no digits. One address for all threads.
  const float base = float(*a.x.at(n0, c0));
  OwnSquares own;
  int count = 0;
  for (u32 r = begin; r < end; r += blockDim.x >> p.log_lanes) {
    const i64 at =
        s.batch() ? r * a.x.sample + c0 * a.x.channel : n0 * a.x.sample + (c0 + r) * a.x.channel;
    const RowOf<const T> x[1] = {{a.x.data + at, a.x.step}};
    const int shift = window_shift<T>(at);
    walk_windows(p, x, shift, int(chunk * p.chunk), windows_end<T>(p, shift, chunk),
                 [&](int, const float(&v)[1][kPerPack<T>], int lo, int hi) WT_INLINE_LAMBDA {
                   if (count == 0) {
#pragma unroll
                     for (int j = 0; j < kPerPack<T>; ++j)
                       if (j == lo) own.centre = v[0][j];
                   }
#pragma unroll
                   for (int j = 0; j < kPerPack<T>; ++j)
                     if (j >= lo && j < hi) own.add(v[0][j]);
                   count += hi - lo;
                 });
  }
  // Threads are joined as Chan, Golub and LeVeque do: squares around each one's mean, and the
  // distances of these means from the block's.
  const float mine = float(count);
  const float sum = count ? own.sum + mine * (own.centre - base) : 0.0f;
  const auto both = block_reduce(TwoSums<float>{mine, sum}, PlusBoth());
  const float mean = both.second / both.first, away = count ? sum / mine - mean : 0.0f;
  const float squares =
      block_reduce(count ? own.spread(mine) + mine * (away * away) : 0.0f, Plus());
  if (threadIdx.x != 0) return;
  if (q.parts == 1)
    finish_statistic(a.stats, a.variance, s.statistics(), k, base, mean, squares / both.first,
                     a.eps);
  else
    vstore(parts + blockIdx.x, StatsPack{both.first, both.second, squares, base});
}

// Block (part, group of columns).
template <class T>
__global__ void __launch_bounds__(kChannelThreads)
    channel_stats_columns(ChannelStats<T> a, SmallShape s, Columns c, StatsPack* parts) {
  constexpr int V = kPerPack<T>;
  WT_SHARED(float, sums, [V * kColumnRow]);
  WT_SHARED(float, spreads, [V * kColumnRow]);
  const u32 row = column_row(c);
  const ColumnThread t(c, s.channels, V);
  OwnSquares own[V];
  if (t.valid > 0 && t.begin + t.slot < t.end) {
    // The first place's channels; the walk finds them in L1 once more.
    const T* const first = column_at(a.x, c, s, t, t.begin + t.slot);
#pragma unroll
    for (int j = 0; j < V; ++j)
      if (j < t.valid) own[j].centre = float(first[j]);
    const Cells<const T> operands[1] = {a.x};
    walk_columns(operands, c, s, t, [&](u32, const float(&v)[1][V]) WT_INLINE_LAMBDA {
#pragma unroll
      for (int j = 0; j < V; ++j) own[j].add(v[0][j]);
    });
  }
  const auto count_of = [&](u32 slot) WT_INLINE_LAMBDA {
    const u32 all = t.end - t.begin;
    return slot < all ? float(((all - slot - 1) >> (8 - c.log_lanes)) + 1) : 0.0f;
  };
  static_assert(kChannelThreads == 1 << 8);
  const float mine = count_of(t.slot);
#pragma unroll
  for (int j = 0; j < V; ++j) {
    float base = 0;
    if (j < t.valid && mine > 0) {
      const u32 channel = t.first + j;
      base = float(*a.x.at(t.slab, s.batch() ? channel : channel - channel % s.width));
    }
    sums[j * row + threadIdx.x] = mine > 0 ? own[j].sum + mine * (own[j].centre - base) : 0.0f;
    spreads[j * row + threadIdx.x] = mine > 0 ? own[j].spread(mine) : 0.0f;
  }
  __syncthreads();
  // A thread a channel joins what the others have, in the order of the slots.
  const u32 lane = threadIdx.x & (c.lanes - 1), j = threadIdx.x >> c.log_lanes;
  const u32 channel = t.first + j;
  if (j >= u32(V) || channel >= s.channels) return;
  const float count = float(t.end - t.begin);
  float sum = 0, squares = 0;
  for (u32 slot = 0; slot < t.slots; ++slot) sum += sums[j * row + (slot << c.log_lanes) + lane];
  const float mean = sum / count;
  for (u32 slot = 0; slot < t.slots; ++slot) {
    const float its = count_of(slot);
    if (its == 0) break;
    const u32 at = j * row + (slot << c.log_lanes) + lane;
    const float away = sums[at] / its - mean;
    squares += spreads[at] + its * (away * away);
  }
  const float base = float(*a.x.at(t.slab, s.batch() ? channel : channel - channel % s.width));
  if (c.parts == 1 && s.width == 1)
    finish_statistic(a.stats, a.variance, s.statistics(), s.statistic(t.slab, channel), base, mean,
                     squares / count, a.eps);
  else
    vstore(parts + i64(t.slab * c.parts + t.part) * s.channels + channel,
           StatsPack{count, sum, squares, base});
}

// Where the parts of statistic k are: part e at (k / per) * slab + (k % per) * own +
// (e / inner) * stride + e % inner.
struct StatsParts {
  u32 per, inner, entries;
  i64 slab, own, stride;
};
// A block a statistic. Few numbers, so that f64 costs nothing even where it is slow; and a first
// element far from all others (an outlier that every part counts from) costs no digits.
__global__ void __launch_bounds__(kChannelThreads)
    channel_stats_join(float* stats, float* variance, const StatsPack* parts, StatsParts w,
                       float eps) {
  const u32 k = blockIdx.x;
  const StatsPack* const own = parts + (k / w.per) * w.slab + (k % w.per) * w.own;
  const auto part = [&](u32 e) WT_INLINE_LAMBDA {
    return vload<StatsPack>(own + (e / w.inner) * w.stride + e % w.inner);
  };
  TwoSums<double> both{0, 0};
  for (u32 e = threadIdx.x; e < w.entries; e += blockDim.x) {
    const StatsPack v = part(e);
    both = PlusBoth()(both, TwoSums<double>{double(v.v[0]), double(v.v[1])});
  }
  both = block_reduce(both, PlusBoth());
  const double mean = both.second / both.first;
  double squares = 0;
  for (u32 e = threadIdx.x; e < w.entries; e += blockDim.x) {
    const StatsPack v = part(e);
    const double away = double(v.v[1]) / double(v.v[0]) - mean;
    squares += double(v.v[2]) + double(v.v[0]) * (away * away);
  }
  squares = block_reduce(squares, Plus());
  if (threadIdx.x == 0)
    finish_statistic(stats, variance, gridDim.x, k, part(0).v[3], mean, float(squares / both.first),
                     eps);
}

// --- launch ---

template <class T>
ChannelStats<T> stats_args(const ChannelStatsArgs& a) {
  using A = ComputeType<T>;
  const ChannelShape s(a.x, a.groups);
  return {s, Cells<const T>(a.x), a.stats.as<A>(), a.variance.as<A>(), A(s.count()), A(a.eps)};
}
void launch_naive(const ChannelStatsArgs& a, const Launch& l) {
  with_float_or_double(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ChannelStats<T> k = stats_args<T>(a);
    launch<channel_stats_naive<T>>(
        grid_of(l, ceil_div(k.shape.statistics(), kNaiveThreads), kNaiveThreads), k);
  });
}

struct StatsPlanes {
  PlaneRows rows;
  PlaneParts parts;
};
template <class T>
StatsPlanes stats_planes(const ChannelStatsArgs& a) {
  const ChannelShape s(a.x, a.groups);
  const Cells<const T> x(a.x);
  // Neighbouring channels of a group that lie one after the other are one long row.
  const bool merged = !s.batch() && x.step == 1 && (s.width() == 1 || x.channel == s.size);
  const i64 rows = s.batch() ? s.samples : merged ? 1 : s.width();
  StatsPlanes p;
  p.rows = plane_rows(x, s.statistics() * rows, merged ? s.width() * s.size : s.size, in_packs(x));
  p.parts = plane_parts(p.rows, s.statistics(), rows);
  return p;
}
template <class T>
Columns stats_columns(const ChannelStatsArgs& a) {
  const ChannelShape s(a.x, a.groups);
  const Cells<const T> x(a.x);
  return make_columns<T>(s, s.batch(), places_even(x, s), columns_in_packs(x, s), kMostParts);
}
i64 planes_workspace(const ChannelStatsArgs& a) {
  i64 bytes = 0;
  with_float(a.x.dtype(), [&](auto tag) {
    const u32 parts = stats_planes<typename decltype(tag)::type>(a).parts.parts;
    if (parts > 1) bytes = 16 * parts * ChannelShape(a.x, a.groups).statistics();
  });
  return bytes;
}
i64 columns_workspace(const ChannelStatsArgs& a) {
  i64 bytes = 0;
  with_float(a.x.dtype(), [&](auto tag) {
    const Columns c = stats_columns<typename decltype(tag)::type>(a);
    bytes = 16 * i64(c.slabs) * c.parts * a.x.size(1);
  });
  return bytes;
}
void join_stats(const ChannelStatsArgs& a, const Launch& l, const StatsParts& w) {
  const i64 statistics = ChannelShape(a.x, a.groups).statistics();
  launch<channel_stats_join>(grid_of(l, statistics, w.entries <= 128 ? 32 : kChannelThreads),
                             a.stats.as<float>(), a.variance.as<float>(),
                             static_cast<const StatsPack*>(l.workspace), w, float(a.eps));
}

void launch_planes(const ChannelStatsArgs& a, const Launch& l) {
  with_float(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ChannelStats<T> k = stats_args<T>(a);
    const StatsPlanes p = stats_planes<T>(a);
    const i64 statistics = k.shape.statistics(), parts = p.parts.parts;
    launch<channel_stats_planes<T>>(grid_of(l, statistics * parts, p.parts.threads), k,
                                    SmallShape(k.shape), p.rows, p.parts,
                                    static_cast<StatsPack*>(l.workspace));
    if (parts > 1)
      join_stats(a, l,
                 {.per = u32(statistics),
                  .inner = u32(parts),
                  .entries = u32(parts),
                  .slab = 0,
                  .own = parts,
                  .stride = 0});
  });
}
void launch_columns(const ChannelStatsArgs& a, const Launch& l) {
  with_float(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ChannelStats<T> k = stats_args<T>(a);
    const Columns c = stats_columns<T>(a);
    const ChannelShape& s = k.shape;
    launch<channel_stats_columns<T>>(grid_of(l, column_blocks(c), kChannelThreads), k,
                                     SmallShape(s), c, static_cast<StatsPack*>(l.workspace));
    const u32 width = u32(s.width());
    if (c.parts > 1 || width > 1)
      join_stats(a, l,
                 {.per = u32(s.batch() ? s.channels : s.groups),
                  .inner = width,
                  .entries = c.parts * width,
                  .slab = c.parts * s.channels,
                  .own = width,
                  .stride = s.channels});
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, channel_stats, ChannelStatsArgs,
            {.name = "columns",
             .rank = 30,
             .why_not = why_not_columns<ChannelStatsArgs>,
             .workspace = columns_workspace,
             .launch = launch_columns},
            {.name = "planes",
             .rank = 20,
             .why_not = channels_too_large<ChannelStatsArgs>,
             .workspace = planes_workspace,
             .launch = launch_planes},
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
