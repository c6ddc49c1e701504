// Rows of layer normalisation's gradient of the input for the ladder of norm/layer_norm.cuh; with
// Add the gradient that has reached the row by another way is added to it.
#pragma once
#include "warptape/kernels/norm/layer_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T, bool Add>
struct NormBackwardInputRows {
  using Element = T;
  enum { GX, GY, X, GSum };  // the operands of `rows`; the last with Add
  Rows<Add ? 4 : 3> rows;
  T* gx;
  const T *gy, *x, *weight;
  const ComputeType<T>* stats;
  const T* gsum = nullptr;
  template <class F>
  void visit_pointers(F&& f) const {
    f(gx), f(gy), f(x), f(weight), f(stats), f(gsum);
  }
  // Two rows would have to stay, gy and x: a block would then have a processor for itself from rows
  // half as long on.
  i64 cache_bytes(i64, i64) { return 0; }
};

template <class T, bool Add>
__device__ __forceinline__ void naive_row(const NormBackwardInputRows<T, Add>& a, i64 row) {
  using A = ComputeType<T>;
  const auto gx = a.rows.row(a.GX, a.gx, row);
  const auto gy = a.rows.row(a.GY, a.gy, row);
  const auto x = a.rows.row(a.X, a.x, row);
  const auto more = row_beside(a, row);
  const i64 n = a.rows.length;
  const A mean = a.stats[row], rstd = a.stats[a.rows.count + row];
  A sum = 0, product = 0;
  for (i64 i = 0; i < n; ++i) {
    // gy and x are a row apart from thread to thread, 32 transactions each; weight is one address
    // for the whole warp, one transaction that all lanes share.
    const A g = A(gy[i]) * (a.weight ? A(a.weight[i]) : A(1));
    sum += g;
    product += g * ((A(x[i]) - mean) * rstd);
  }
  for (i64 i = 0; i < n; ++i) {
    const A g = A(gy[i]) * (a.weight ? A(a.weight[i]) : A(1));
    const A h = (A(x[i]) - mean) * rstd;
    const A to_x = rstd * (g - sum / A(n) - h * (product / A(n)));
    gx[i] = T(Add ? to_x + A(more[i]) : to_x);
  }
}

template <int PerLane, class T, bool Add>
__device__ __forceinline__ void warp_row(const NormBackwardInputRows<T, Add>& a, i64 row,
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
  // The mean that the forward saved, not one taken again: 8 bytes a row from memory for a pass over
  // the row, and y's h and this one agree to the bit.
  const float mean = a.stats[row], rstd = a.stats[a.rows.count + row];
  // Past the end x reads as the mean, so h is 0 there, and g is, too: neither sum notices.
  load_lane<Vec>(h, a.x + a.rows.start(a.X, row), n, lane, mean);
  TwoSums<float> sums{0, 0};
#pragma unroll
  for (int k = 0; k < PerLane; ++k) {
    h[k] = (h[k] - mean) * rstd;
    sums = PlusBoth()(sums, TwoSums<float>{g[k], g[k] * h[k]});
  }
  // Both sums in one butterfly: ten shuffles, of which each pair is independent, where one after
  // the other would wait twice as often.
  sums = warp_reduce(sums, PlusBoth());
  const float sum = sums.first / float(n), product = sums.second / float(n);
#pragma unroll
  for (int k = 0; k < PerLane; ++k) {
    g[k] = rstd * (g[k] - sum - h[k] * product);
    if constexpr (Add) g[k] += more[k];
  }
  store_lane<Vec>(a.gx + a.rows.start(a.GX, row), g, n, lane);
}

template <class T, bool Add>
__device__ __forceinline__ void block_row(const NormBackwardInputRows<T, Add>& a, i64 row,
                                          Pack16<T>*) {
  const i64 n = a.rows.length;
  const auto gx = a.rows.row(a.GX, a.gx, row);
  const auto gy = a.rows.row(a.GY, a.gy, row);
  const auto x = a.rows.row(a.X, a.x, row);
  const auto more = row_beside(a, row);
  // One split into packs serves all operands, so they must be equally far from a boundary.
  const bool neighbours = gx.step == 1 && gy.step == 1 && x.step == 1 && more.step == 1 &&
                          equally_far(gx.data, x.data) && (!Add || equally_far(more.data, x.data));
  const PackSplit split = split_into_packs<T>(gy.data, x.data, n, neighbours);
  const float mean = a.stats[row], rstd = a.stats[a.rows.count + row];
  const auto g_at = [&](i64 i) WT_INLINE_LAMBDA {
    return float(gy[i]) * (a.weight ? float(a.weight[i]) : 1.0f);
  };
  const auto h_at = [&](i64 i) WT_INLINE_LAMBDA { return (float(x[i]) - mean) * rstd; };
  TwoSums<float> sums{0, 0};
  // The order of a thread's additions follows from the split alone, that of the threads' sums from
  // the block's size: the same bits at every run.
  const auto add = [&](float g, float h) WT_INLINE_LAMBDA {
    sums = PlusBoth()(sums, TwoSums<float>{g, g * h});
  };
  walk_row<T>(
      split, n, [&](i64 i) WT_INLINE_LAMBDA { add(g_at(i), h_at(i)); },
      [&](i64, i64 i) WT_INLINE_LAMBDA {
        const auto g = vload<Pack16<T>>(gy.data + i), v = vload<Pack16<T>>(x.data + i);
        float weight[kPerPack<T>];
        load_parameter(weight, at_or_null(a.weight, i), 1);
#pragma unroll
        for (int j = 0; j < kPerPack<T>; ++j)
          add(float(g.v[j]) * weight[j], (float(v.v[j]) - mean) * rstd);
      });
  // gx at any place depends on both sums over all of the row, so gy and x are read once more: from
  // L2, where a row in flight a block is little enough to still be.
  sums = block_reduce(sums, PlusBoth());
  const float sum = sums.first / float(n), product = sums.second / float(n);
  walk_row<T>(
      split, n,
      [&](i64 i) WT_INLINE_LAMBDA {
        const float to_x = rstd * (g_at(i) - sum - h_at(i) * product);
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
          const float to_x =
              rstd * (float(g.v[j]) * weight[j] - sum - (float(v.v[j]) - mean) * rstd * product);
          g.v[j] = T(Add ? to_x + float(beside.v[j]) : to_x);
        }
        // gx may be gy: the pack was read above by this very thread, and nobody else wants it.
        vstore(gx.data + i, g);
      });
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
