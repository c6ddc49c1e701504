// Rows of a normalisation's gradient of the input for the ladder of norm/layer_norm.cuh: what
// layer norm (norm/layer_norm_gradient.cuh) and the root mean square norm (norm/rms_norm.cuh)
// do alike. With Add the gradient that has reached the row by another way is added to it.
#pragma once
#include "warptape/kernels/norm/layer_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// Norm<A>: made of a row's statistics, (stats, rows, row); with g = gy * weight
//   h(x)             x normalised, or off by what means() makes good
//   padding()        the x whose h is 0
//   add(sums, g, h)  the sums over a row, which reduce by Plus
//   means(sums, n, rest)  these by n, and what the mean's rounding left in them put right
//   gx(g, h, means)  the gradient
template <class T, template <class> class Norm, bool Add>
struct NormGradientRows {
  using Element = T;
  using A = ComputeType<T>;
  enum { GX, GY, X, GSum };  // the operands of `rows`; the last with Add
  Rows<Add ? 4 : 3> rows;
  T* gx;
  const T *gy, *x, *weight;
  const A* stats;
  const T* gsum = nullptr;

  template <class Args>
  static NormGradientRows of(const Args& a) {
    NormGradientRows k{norm_rows(a),
                       a.gx.template as<T>(),
                       a.gy.template as<const T>(),
                       a.x.template as<const T>(),
                       a.weight.template as<const T>(),
                       a.stats.template as<const A>()};
    if constexpr (Add) k.gsum = a.gsum.template as<const T>();
    return k;
  }
  template <class F>
  void visit_pointers(F&& f) const {
    f(gx), f(gy), f(x), f(weight), f(stats), f(gsum);
  }
  // Two rows would have to stay, gy and x: a block would then have a processor for itself from rows
  // half as long on.
  i64 cache_bytes(i64, i64) { return 0; }

  // The mean that the forward saved, not one taken again: 12 bytes a row from memory for a pass
  // over the row.
  __device__ __forceinline__ Norm<A> norm_of(i64 row) const {
    return Norm<A>(stats, rows.count, row);
  }
  // What the mean's rounding left, read where it is wanted: a barrier holds loads back.
  __device__ __forceinline__ A rest_of(i64 row) const { return stats[rows.count + row]; }
  // The row of what has reached the sum by the way beside the norm; without Add of no use.
  __device__ __forceinline__ RowOf<const T> row_beside(i64 row) const {
    if constexpr (Add) return rows.row(GSum, gsum, row);
    return {nullptr, 1};
  }
};

// --- naive: a thread a row, whose neighbours read a row apart ---

template <class T, template <class> class Norm, bool Add>
__device__ __forceinline__ void naive_row(const NormGradientRows<T, Norm, Add>& a, i64 row) {
  using A = ComputeType<T>;
  const auto gx = a.rows.row(a.GX, a.gx, row);
  const auto gy = a.rows.row(a.GY, a.gy, row);
  const auto x = a.rows.row(a.X, a.x, row);
  const auto more = a.row_beside(row);
  const i64 n = a.rows.length;
  const auto norm = a.norm_of(row);
  // gy and x are a row apart from thread to thread, 32 transactions each; weight is one address for
  // the whole warp, one transaction that all lanes share.
  const auto g_at = [&](i64 i)
                        WT_INLINE_LAMBDA { return A(gy[i]) * (a.weight ? A(a.weight[i]) : A(1)); };
  typename Norm<A>::Sums sums{};
  for (i64 i = 0; i < n; ++i) sums = norm.add(sums, g_at(i), norm.h(A(x[i])));
  const auto means = norm.means(sums, A(n), a.rest_of(row));
  for (i64 i = 0; i < n; ++i) {
    const A to_x = norm.gx(g_at(i), norm.h(A(x[i])), means);
    gx[i] = T(Add ? to_x + A(more[i]) : to_x);
  }
}

// --- warp: rows stay in registers, memory is read once and written once ---

template <int PerLane, class T, template <class> class Norm, bool Add>
__device__ __forceinline__ void warp_row(const NormGradientRows<T, Norm, Add>& a, i64 row,
                                         int lane) {
  constexpr int Vec = kPerPack<T>;
  const int n = int(a.rows.length);
  // 64 registers for rows of 1024, the reason why the rung ends there: twice as much would leave a
  // thread none for addresses. `h` is the weight's place first, x's later.
  float g[PerLane], h[PerLane];
  load_lane<Vec>(g, a.gy + a.rows.start(a.GY, row), n, lane, 0);
  // Asked for now, wanted last: 32 registers more, and one wait less.
  float more[Add ? PerLane : Vec];
  if constexpr (Add) load_lane<Vec>(more, a.gsum + a.rows.start(a.GSum, row), n, lane, 0);
  if (a.weight) {
    load_lane<Vec>(h, a.weight, n, lane, 0);
#pragma unroll
    for (int k = 0; k < PerLane; ++k) g[k] *= h[k];
  }
  const auto norm = a.norm_of(row);
  // Past the end h is 0, and g is, too: no sum notices.
  load_lane<Vec>(h, a.x + a.rows.start(a.X, row), n, lane, norm.padding());
  typename Norm<float>::Sums sums{};
#pragma unroll
  for (int k = 0; k < PerLane; ++k) {
    h[k] = norm.h(h[k]);
    sums = norm.add(sums, g[k], h[k]);
  }
  // Two sums go through one butterfly: ten shuffles, of which each pair is independent, where one
  // after the other would wait twice as often.
  const auto means =
      norm.means(warp_reduce(sums, typename Norm<float>::Plus()), float(n), a.rest_of(row));
#pragma unroll
  for (int k = 0; k < PerLane; ++k) {
    g[k] = norm.gx(g[k], h[k], means);
    if constexpr (Add) g[k] += more[k];
  }
  store_lane<Vec>(a.gx + a.rows.start(a.GX, row), g, n, lane);
}

// --- block: rows of any length, strides and alignment ---

template <class T, template <class> class Norm, bool Add>
__device__ __forceinline__ void block_row(const NormGradientRows<T, Norm, Add>& a, i64 row,
                                          Pack16<T>*) {
  const i64 n = a.rows.length;
  const auto gx = a.rows.row(a.GX, a.gx, row);
  const auto gy = a.rows.row(a.GY, a.gy, row);
  const auto x = a.rows.row(a.X, a.x, row);
  const auto more = a.row_beside(row);
  // One split into packs serves all operands, so they must be equally far from a boundary.
  const bool neighbours = gx.step == 1 && gy.step == 1 && x.step == 1 && more.step == 1 &&
                          equally_far(gx.data, x.data) && (!Add || equally_far(more.data, x.data));
  const PackSplit split = split_into_packs<T>(gy.data, x.data, n, neighbours);
  const auto norm = a.norm_of(row);
  const auto g_at = [&](i64 i) WT_INLINE_LAMBDA {
    return float(gy[i]) * (a.weight ? float(a.weight[i]) : 1.0f);
  };
  // The order of a thread's additions follows from the split alone, that of the threads' sums from
  // the block's size: the same bits at every run.
  typename Norm<float>::Sums sums{};
  walk_row<T>(
      split, n,
      [&](i64 i) WT_INLINE_LAMBDA { sums = norm.add(sums, g_at(i), norm.h(float(x[i]))); },
      [&](i64, i64 i) WT_INLINE_LAMBDA {
        const auto g = vload<Pack16<T>>(gy.data + i), v = vload<Pack16<T>>(x.data + i);
        float weight[kPerPack<T>];
        load_parameter(weight, at_or_null(a.weight, i), 1);
#pragma unroll
        for (int j = 0; j < kPerPack<T>; ++j)
          sums = norm.add(sums, float(g.v[j]) * weight[j], norm.h(float(v.v[j])));
      });
  // gx at any place depends on sums over all of the row, so gy and x are read once more: from L2,
  // where a row in flight a block is little enough to still be.
  const auto means =
      norm.means(block_reduce(sums, typename Norm<float>::Plus()), float(n), a.rest_of(row));
  walk_row<T>(
      split, n,
      [&](i64 i) WT_INLINE_LAMBDA {
        const float to_x = norm.gx(g_at(i), norm.h(float(x[i])), means);
        gx[i] = T(Add ? to_x + float(more[i]) : to_x);
      },
      [&](i64, i64 i) WT_INLINE_LAMBDA {
        auto g = vload<Pack16<T>>(gy.data + i);
        const auto v = vload<Pack16<T>>(x.data + i);
        float weight[kPerPack<T>];
        load_parameter(weight, at_or_null(a.weight, i), 1);
        Pack16<T> beside;
        if constexpr (Add) beside = vload<Pack16<T>>(more.data + i);
#pragma unroll
        for (int j = 0; j < kPerPack<T>; ++j) {
          const float to_x = norm.gx(float(g.v[j]) * weight[j], norm.h(float(v.v[j])), means);
          g.v[j] = T(Add ? to_x + float(beside.v[j]) : to_x);
        }
        // gx may be gy: the pack was read above by this very thread, and nobody else wants it.
        vstore(gx.data + i, g);
      });
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
