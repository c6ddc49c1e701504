// Rows of root mean square normalisation and of its gradient for the ladder of
// norm/layer_norm.cuh. Add: of x + residual, which is written, too; the gradient that has reached
// that sum by another way is added.
#pragma once
#include "warptape/kernels/norm/layer_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T, bool Add>
struct RmsForwardRows {
  using Element = T;
  using A = ComputeType<T>;
  enum { Y, X, Residual, Sum };  // the operands of `rows`; the last two with Add
  Rows<Add ? 4 : 2> rows;
  T* y;
  const T *x, *weight;
  A* stats;
  A eps;
  const T* residual = nullptr;
  T* sum = nullptr;
  bool cached = false;  // block: dynamic shared memory holds the row
  template <class F>
  void visit_pointers(F&& f) const {
    f(y), f(x), f(weight), f(stats), f(residual), f(sum);
  }
  i64 cache_bytes(i64 packs, i64 most) {
    cached = packs * 16 <= most && unit_steps(rows);
    return cached ? packs * 16 : 0;
  }
};
// An exact root and quotient: once a row they cost nothing, and all of the row is multiplied by it.
template <class A>
__device__ __forceinline__ A rstd_of(A squares, i64 n, A eps) {
  return A(1) / sqrt(squares / A(n) + eps);
}
template <class T, bool Add, class A>
__device__ __forceinline__ void save_stats(const RmsForwardRows<T, Add>& a, i64 row, A rstd) {
  if (!a.stats) return;
  a.stats[row] = 0;  // the mean, for layer_norm's gradient of weight
  a.stats[a.rows.count + row] = rstd;
}

template <class T, bool Add>
struct RmsBackwardInputRows {
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
  // As in layer_norm_gradient.cuh: two rows would have to stay.
  i64 cache_bytes(i64, i64) { return 0; }
};

// --- naive: a thread a row, two walks whose neighbouring threads read a row apart ---

template <class T, bool Add>
__device__ __forceinline__ void naive_row(const RmsForwardRows<T, Add>& a, i64 row) {
  using A = ComputeType<T>;
  const auto y = a.rows.row(a.Y, a.y, row);
  const i64 n = a.rows.length;
  const auto first = first_read(a, row);
  if constexpr (Add)
    for (i64 i = 0; i < n; ++i) first.one(i);
  const auto x = first.normalised();
  A squares = 0;  // of one sign: nothing cancels, and no offset needs to be taken off
  for (i64 i = 0; i < n; ++i) squares += A(x[i]) * A(x[i]);
  const A rstd = rstd_of(squares, n, a.eps);
  for (i64 i = 0; i < n; ++i) y[i] = T(A(x[i]) * rstd * (a.weight ? A(a.weight[i]) : A(1)));
  save_stats(a, row, rstd);
}

template <class T, bool Add>
__device__ __forceinline__ void naive_row(const RmsBackwardInputRows<T, Add>& a, i64 row) {
  using A = ComputeType<T>;
  const auto gx = a.rows.row(a.GX, a.gx, row);
  const auto gy = a.rows.row(a.GY, a.gy, row);
  const auto x = a.rows.row(a.X, a.x, row);
  const auto more = row_beside(a, row);
  const i64 n = a.rows.length;
  const A rstd = a.stats[a.rows.count + row];
  A product = 0;
  for (i64 i = 0; i < n; ++i)
    product += A(gy[i]) * (a.weight ? A(a.weight[i]) : A(1)) * (A(x[i]) * rstd);
  product /= A(n);
  for (i64 i = 0; i < n; ++i) {
    const A g = A(gy[i]) * (a.weight ? A(a.weight[i]) : A(1));
    const A to_x = rstd * (g - A(x[i]) * rstd * product);
    gx[i] = T(Add ? to_x + A(more[i]) : to_x);
  }
}

// --- warp: the row stays in registers, memory is read once and written once ---

template <int PerLane, class T, bool Add>
__device__ __forceinline__ void warp_row(const RmsForwardRows<T, Add>& a, i64 row, int lane) {
  constexpr int Vec = kPerPack<T>;
  const int n = int(a.rows.length);
  float v[PerLane], squares = 0;
  // What lies past the end reads as 0, which adds no square: no condition as layer_norm needs one.
  load_lane<Vec>(v, a.x + a.rows.start(a.X, row), n, lane, 0);
  if constexpr (Add) {
    float residual[PerLane];
    add_residual_lane(a, v, residual, row, lane);
  }
#pragma unroll
  for (int k = 0; k < PerLane; ++k) squares += v[k] * v[k];
  const float rstd = rstd_of(warp_reduce(squares, Plus()), n, a.eps);
#pragma unroll
  for (int k = 0; k < PerLane; ++k) v[k] *= rstd;
  if (a.weight) {
    float weight[PerLane];
    load_lane<Vec>(weight, a.weight, n, lane, 0);
#pragma unroll
    for (int k = 0; k < PerLane; ++k) v[k] *= weight[k];
  }
  store_lane<Vec>(a.y + a.rows.start(a.Y, row), v, n, lane);
  if (lane == 0) save_stats(a, row, rstd);
}

template <int PerLane, class T, bool Add>
__device__ __forceinline__ void warp_row(const RmsBackwardInputRows<T, Add>& a, i64 row, int lane) {
  constexpr int Vec = kPerPack<T>;
  const int n = int(a.rows.length);
  float g[PerLane], h[PerLane], product = 0;  // `h` is the weight's place first, x's later
  load_lane<Vec>(g, a.gy + a.rows.start(a.GY, row), n, lane, 0);
  float more[Add ? PerLane : Vec];
  if constexpr (Add) load_lane<Vec>(more, a.gsum + a.rows.start(a.GSum, row), n, lane, 0);
  if (a.weight) {
    load_lane<Vec>(h, a.weight, n, lane, 0);
#pragma unroll
    for (int k = 0; k < PerLane; ++k) g[k] *= h[k];
  }
  const float rstd = a.stats[a.rows.count + row];
  load_lane<Vec>(h, a.x + a.rows.start(a.X, row), n, lane, 0);
#pragma unroll
  for (int k = 0; k < PerLane; ++k) {
    h[k] *= rstd;
    product += g[k] * h[k];
  }
  product = warp_reduce(product, Plus()) / float(n);
#pragma unroll
  for (int k = 0; k < PerLane; ++k) {
    g[k] = rstd * (g[k] - h[k] * product);
    if constexpr (Add) g[k] += more[k];
  }
  store_lane<Vec>(a.gx + a.rows.start(a.GX, row), g, n, lane);
}

// --- block: rows of any length, strides and alignment ---

template <class T, bool Add>
__device__ __forceinline__ void block_row(const RmsForwardRows<T, Add>& a, i64 row,
                                          Pack16<T>* cache) {
  const i64 n = a.rows.length;
  const auto y = a.rows.row(a.Y, a.y, row);
  const auto first = first_read(a, row);
  const auto x = first.normalised();
  const PackSplit split = split_into_packs<T>(x.data, y.data, n, first.packs() && y.step == 1);
  float squares = 0;
  walk_row<T>(
      split, n,
      [&](i64 i) WT_INLINE_LAMBDA {
        const float v = float(first.one(i));
        squares += v * v;
      },
      [&](i64 p, i64 i) WT_INLINE_LAMBDA {
        const auto v = first.pack(i);
        // The second walk finds x in shared memory, in the place that this thread alone uses.
        if (a.cached) cache[p] = v;
#pragma unroll
        for (int j = 0; j < kPerPack<T>; ++j) squares += float(v.v[j]) * float(v.v[j]);
      });
  const float rstd = rstd_of(block_reduce(squares, Plus()), n, a.eps);
  walk_row<T>(
      split, n,
      [&](i64 i) WT_INLINE_LAMBDA {
        y[i] = T(float(x[i]) * rstd * (a.weight ? float(a.weight[i]) : 1.0f));
      },
      [&](i64 p, i64 i) WT_INLINE_LAMBDA {
        auto v = a.cached ? cache[p] : vload<Pack16<T>>(x.data + i);
        float weight[kPerPack<T>];
        load_parameter(weight, at_or_null(a.weight, i), 1);
#pragma unroll
        for (int j = 0; j < kPerPack<T>; ++j) v.v[j] = T(float(v.v[j]) * rstd * weight[j]);
        vstore(y.data + i, v);
      });
  if (threadIdx.x == 0) save_stats(a, row, rstd);
}

template <class T, bool Add>
__device__ __forceinline__ void block_row(const RmsBackwardInputRows<T, Add>& a, i64 row,
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
  const float rstd = a.stats[a.rows.count + row];
  const auto g_at = [&](i64 i) WT_INLINE_LAMBDA {
    return float(gy[i]) * (a.weight ? float(a.weight[i]) : 1.0f);
  };
  float product = 0;
  walk_row<T>(
      split, n, [&](i64 i) WT_INLINE_LAMBDA { product += g_at(i) * (float(x[i]) * rstd); },
      [&](i64, i64 i) WT_INLINE_LAMBDA {
        const auto g = vload<Pack16<T>>(gy.data + i), v = vload<Pack16<T>>(x.data + i);
        float weight[kPerPack<T>];
        load_parameter(weight, at_or_null(a.weight, i), 1);
#pragma unroll
        for (int j = 0; j < kPerPack<T>; ++j)
          product += float(g.v[j]) * weight[j] * (float(v.v[j]) * rstd);
      });
  product = block_reduce(product, Plus()) / float(n);
  walk_row<T>(
      split, n,
      [&](i64 i) WT_INLINE_LAMBDA {
        const float to_x = rstd * (g_at(i) - float(x[i]) * rstd * product);
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
          const float to_x = rstd * (float(g.v[j]) * weight[j] - float(v.v[j]) * rstd * product);
          g.v[j] = T(Add ? to_x + float(beside.v[j]) : to_x);
        }
        // gx may be gy: the pack was read above by this very thread, and nobody else wants it.
        vstore(gx.data + i, g);
      });
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
