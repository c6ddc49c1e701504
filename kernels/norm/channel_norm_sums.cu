// Normalisation by channels on simt and cuda: the sums that gradients are made of. channel_norm.cu
// has the ladder.
#include "warptape/kernels/norm/channel_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

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

// --- sums for the gradients: a thread a channel, or a cell where each sample has its own ---

template <class T, class... Behind>
__global__ void __launch_bounds__(kNaiveThreads)
    channel_norm_sums_naive(ChannelNormSums<T> a, Behind... behind) {
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
    [[maybe_unused]] A w = 0, b = 0;
    (behind.line(c, A(1), w, b), ...);
    const auto gy = a.gy.row(n, c);
    const auto x = a.x.row(n, c);
    // Two loads an element for three operations: the arithmetic is free, the wait is not. Nothing
    // but the compiler's unrolling has several loads of a thread under way.
    A plain_part = 0, product_part = 0;
    for (i64 i = 0; i < s.size; ++i) {
      A g = A(gy[i]);
      const A h = centre.distance(A(x[i])) * centre.rstd;
      (behind.gradient(g, h * w + b), ...);
      plain_part += g;
      product_part += g * h;
    }
    plain += plain_part;
    product += product_part;
  }
  a.sums[cell] = plain;  // zeros, too, where there are no samples or places
  a.sums[all + cell] = product;
}

// --- sums for the gradients: parts ---

using SumsPack = Pack<float, 2>;  // of gy, and of gy * h

// Block (cell of `sums`, part of it).
template <class T, class... Behind>
__global__ void __launch_bounds__(kChannelThreads)
    channel_sums_planes(ChannelNormSums<T> a, SmallShape s, PlaneRows p, PlaneParts q,
                        SumsPack* parts, Behind... behind) {
  const u32 cell = q.parts == 1 ? blockIdx.x : blockIdx.x / q.parts;
  const u32 part = blockIdx.x - cell * q.parts;
  const u32 band = p.chunks == 1 ? part : part / p.chunks, chunk = part - band * p.chunks;
  const u32 n0 = s.batch() ? 0 : cell / s.channels, c = cell - n0 * s.channels;
  const u32 begin = band * q.rows_each + (threadIdx.x >> p.log_lanes);
  const u32 end = q.rows - band * q.rows_each < q.rows_each ? q.rows : (band + 1) * q.rows_each;
  const SmallCentre centre(s, a.stats, s.statistic(n0, c));
  [[maybe_unused]] float scale = 0, b = 0;
  (behind.line(c, centre.rstd, scale, b), ...);
  TwoSums<float> sums{0, 0};
  for (u32 n = n0 + begin; n < n0 + end; n += blockDim.x >> p.log_lanes) {
    const i64 at = n * a.x.sample + c * a.x.channel;
    const RowOf<const T> row[2] = {a.gy.row(n, c), {a.x.data + at, a.x.step}};
    const int shift = window_shift<T>(at);
    walk_windows(p, row, shift, int(chunk * p.chunk), windows_end<T>(p, shift, chunk),
                 [&](int, const float(&v)[2][kPerPack<T>], int lo, int hi) WT_INLINE_LAMBDA {
#pragma unroll
                   for (int j = 0; j < kPerPack<T>; ++j)
                     if (j >= lo && j < hi) {
                       float g = v[0][j];
                       const float d = centre.distance(v[1][j]);
                       (behind.gradient(g, d * scale + b), ...);
                       sums.first += g;
                       sums.second += g * d;
                     }
                 });
  }
  sums = block_reduce(sums, PlusBoth());
  if (threadIdx.x != 0) return;
  // Once a part, not once an element; rstd of nothing is NaN, the sum stays 0.
  if (s.samples > 0 && s.size > 0) sums.second *= centre.rstd;
  if (q.parts == 1) {
    a.sums[cell] = sums.first;
    a.sums[s.cells() + cell] = sums.second;
  } else {
    vstore(parts + blockIdx.x, SumsPack{sums.first, sums.second});
  }
}

// Block (slab, part, group of columns).
template <class T, class... Behind>
__global__ void __launch_bounds__(kChannelThreads)
    channel_sums_columns(ChannelNormSums<T> a, SmallShape s, Columns c, SumsPack* parts,
                         Behind... behind) {
  constexpr int V = kPerPack<T>;
  WT_SHARED(float, plain, [V * kColumnRow]);
  WT_SHARED(float, product, [V * kColumnRow]);
  const u32 row = column_row(c);
  const ColumnThread t(c, s.channels, V);
  float mean[V], rest[V], sum[V] = {}, with_h[V] = {}, scale[V] = {}, b[V] = {};
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const u32 channel = j < t.valid ? t.first + j : 0;
    const SmallCentre centre(s, a.stats, s.statistic(t.slab, channel));
    mean[j] = centre.mean, rest[j] = centre.rest;
    (behind.line(channel, centre.rstd, scale[j], b[j]), ...);
  }
  const Cells<const T> operands[2] = {a.gy, a.x};
  walk_columns(operands, c, s, t, [&](u32, const float(&v)[2][V]) WT_INLINE_LAMBDA {
#pragma unroll
    for (int j = 0; j < V; ++j) {
      float g = v[0][j];
      const float d = (v[1][j] - mean[j]) - rest[j];
      (behind.gradient(g, d * scale[j] + b[j]), ...);
      sum[j] += g;
      with_h[j] += g * d;
    }
  });
#pragma unroll
  for (int j = 0; j < V; ++j) {
    plain[j * row + threadIdx.x] = sum[j];
    product[j * row + threadIdx.x] = with_h[j];
  }
  __syncthreads();
  // A thread a channel adds what the others have, in the order of the slots.
  const u32 lane = threadIdx.x & (c.lanes - 1), j = threadIdx.x >> c.log_lanes;
  const u32 channel = t.first + j;
  if (j >= u32(V) || channel >= s.channels) return;
  float first = 0, second = 0;
  for (u32 slot = 0; slot < t.slots; ++slot) {
    first += plain[j * row + (slot << c.log_lanes) + lane];
    second += product[j * row + (slot << c.log_lanes) + lane];
  }
  if (t.begin < t.end) second *= SmallCentre(s, a.stats, s.statistic(t.slab, channel)).rstd;
  if (c.parts == 1) {
    const u32 cell = s.cell(t.slab, channel);
    a.sums[cell] = first;
    a.sums[s.cells() + cell] = second;
  } else {
    vstore(parts + i64(t.slab * c.parts + t.part) * s.channels + channel, SumsPack{first, second});
  }
}

// Part e of a cell is at (cell / per) * slab + (cell % per) * own + e * stride.
struct SumsParts {
  u32 cells, per, entries;
  i64 slab, own, stride;
};
// A warp a cell.
__global__ void __launch_bounds__(kJoinWarps * 32)
    channel_sums_join(float* sums, const SumsPack* parts, SumsParts w) {
  const u32 cell = blockIdx.x * kJoinWarps + threadIdx.x / 32;
  if (cell >= w.cells) return;  // the whole warp, and no barrier follows
  const SumsPack* const own = parts + (cell / w.per) * w.slab + (cell % w.per) * w.own;
  TwoSums<float> both{0, 0};
  for (u32 e = threadIdx.x % 32; e < w.entries; e += 32) {
    const SumsPack v = vload<SumsPack>(own + e * w.stride);
    both = PlusBoth()(both, TwoSums<float>{v.v[0], v.v[1]});
  }
  both = warp_reduce(both, PlusBoth());
  if (threadIdx.x % 32 != 0) return;
  sums[cell] = both.first;
  sums[w.cells + cell] = both.second;
}

// --- launch ---

template <class T>
ChannelNormSums<T> sums_args(const ChannelNormSumsArgs& a) {
  return {ChannelShape(a.x, a.groups), a.sums.as<ComputeType<T>>(), Cells<const T>(a.gy),
          Cells<const T>(a.x), a.stats.as<const ComputeType<T>>()};
}
void launch_naive(const ChannelNormSumsArgs& a, const Launch& l) {
  with_float_or_double(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ChannelNormSums<T> k = sums_args<T>(a);
    with_activation<T>(a, [&](auto... behind) {
      launch<channel_norm_sums_naive<T, decltype(behind)...>>(
          grid_of(l, ceil_div(k.shape.cells(), kNaiveThreads), kNaiveThreads), k, behind...);
    });
  });
}

struct SumsPlanes {
  PlaneRows rows;
  PlaneParts parts;
};
template <class T>
SumsPlanes sums_planes(const ChannelNormSumsArgs& a) {
  const ChannelNormSums<T> k = sums_args<T>(a);
  const ChannelShape& s = k.shape;
  SumsPlanes p;
  p.rows = plane_rows(k.x, s.samples * s.channels, s.size,
                      in_packs(k.x) && in_packs(k.gy) && same_shift(k.x, k.gy, s));
  p.parts = plane_parts(p.rows, s.cells(), s.batch() ? s.samples : 1);
  return p;
}
template <class T>
Columns sums_columns(const ChannelNormSumsArgs& a) {
  const ChannelNormSums<T> k = sums_args<T>(a);
  const ChannelShape& s = k.shape;
  return make_columns<T>(s, s.batch(), places_even(k.x, s) && places_even(k.gy, s),
                         columns_in_packs(k.x, s) && columns_in_packs(k.gy, s), kMostParts);
}
i64 planes_workspace(const ChannelNormSumsArgs& a) {
  i64 bytes = 0;
  with_float(a.x.dtype(), [&](auto tag) {
    const u32 parts = sums_planes<typename decltype(tag)::type>(a).parts.parts;
    if (parts > 1) bytes = 8 * parts * ChannelShape(a.x, a.groups).cells();
  });
  return bytes;
}
i64 columns_workspace(const ChannelNormSumsArgs& a) {
  i64 bytes = 0;
  with_float(a.x.dtype(), [&](auto tag) {
    const Columns c = sums_columns<typename decltype(tag)::type>(a);
    if (c.parts > 1) bytes = 8 * i64(c.slabs) * c.parts * a.x.size(1);
  });
  return bytes;
}
void join_sums(const ChannelNormSumsArgs& a, const Launch& l, const SumsParts& w) {
  launch<channel_sums_join>(grid_of(l, ceil_div(w.cells, kJoinWarps), kJoinWarps * 32),
                            a.sums.as<float>(), static_cast<const SumsPack*>(l.workspace), w);
}
void launch_planes(const ChannelNormSumsArgs& a, const Launch& l) {
  with_float(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ChannelNormSums<T> k = sums_args<T>(a);
    const SumsPlanes p = sums_planes<T>(a);
    const i64 cells = k.shape.cells(), parts = p.parts.parts;
    with_activation<T>(a, [&](auto... behind) {
      launch<channel_sums_planes<T, decltype(behind)...>>(
          grid_of(l, cells * parts, p.parts.threads), k, SmallShape(k.shape), p.rows, p.parts,
          static_cast<SumsPack*>(l.workspace), behind...);
    });
    if (parts > 1)
      join_sums(a, l,
                {.cells = u32(cells),
                 .per = u32(cells),
                 .entries = u32(parts),
                 .slab = 0,
                 .own = parts,
                 .stride = 1});
  });
}
void launch_columns(const ChannelNormSumsArgs& a, const Launch& l) {
  with_float(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const ChannelNormSums<T> k = sums_args<T>(a);
    const Columns c = sums_columns<T>(a);
    const ChannelShape& s = k.shape;
    with_activation<T>(a, [&](auto... behind) {
      launch<channel_sums_columns<T, decltype(behind)...>>(
          grid_of(l, column_blocks(c), kChannelThreads), k, SmallShape(s), c,
          static_cast<SumsPack*>(l.workspace), behind...);
    });
    if (c.parts > 1)
      join_sums(a, l,
                {.cells = u32(s.cells()),
                 .per = u32(s.channels),
                 .entries = c.parts,
                 .slab = c.parts * s.channels,
                 .own = 1,
                 .stride = s.channels});
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, channel_norm_sums, ChannelNormSumsArgs,
            {.name = "columns",
             .rank = 30,
             .why_not = why_not_columns<ChannelNormSumsArgs>,
             .workspace = columns_workspace,
             .launch = launch_columns},
            {.name = "planes",
             .rank = 20,
             .why_not = channels_too_large<ChannelNormSumsArgs>,
             .workspace = planes_workspace,
             .launch = launch_planes},
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
