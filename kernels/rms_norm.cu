// Root mean square normalisation on simt and cuda, with layer normalisation's ladder
// (kernels/device/layer_norm.cuh): a mean less to take off, and one sum a row instead of three.
#include "warptape/kernels/rms_norm.h"

#include "warptape/kernels/device/layer_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct RmsForward {
  using Element = T;
  using A = ComputeType<T>;
  enum { Y, X };  // the operands of `rows`
  Rows<2> rows;
  T* y;
  const T *x, *weight;
  A* stats;
  A eps;
  bool cached;  // block: dynamic shared memory holds the row
  template <class F>
  void visit_pointers(F&& f) const {
    f(y), f(x), f(weight), f(stats);
  }

  static Rows<2> rows_of(const RmsNormForwardArgs& a) {
    return rows_along<2>(a.x.ndim() - 1, {{a.y}, {a.x}});
  }
  static bool packs_fit(const RmsNormForwardArgs& a, i64 pack) {
    return rows_aligned(rows_of(a), {a.y.data, a.x.data}, pack) && aligned_16(a.weight.data);
  }
  static RmsForward of(const RmsNormForwardArgs& a) {
    return {rows_of(a), a.y.as<T>(), a.x.as<const T>(), a.weight.as<const T>(), a.stats.as<A>(),
            A(a.eps),   false};
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
template <class T, class A>
__device__ __forceinline__ void save_stats(const RmsForward<T>& a, i64 row, A rstd) {
  if (!a.stats) return;
  a.stats[row] = 0;  // the mean, for layer_norm's gradient of weight
  a.stats[a.rows.count + row] = rstd;
}

template <class T>
struct RmsBackwardInput {
  using Element = T;
  enum { GX, GY, X };  // the operands of `rows`
  Rows<3> rows;
  T* gx;
  const T *gy, *x, *weight;
  const ComputeType<T>* stats;
  template <class F>
  void visit_pointers(F&& f) const {
    f(gx), f(gy), f(x), f(weight), f(stats);
  }

  static Rows<3> rows_of(const RmsNormBackwardInputArgs& a) {
    return rows_along<3>(a.x.ndim() - 1, {{a.gx}, {a.gy}, {a.x}});
  }
  static bool packs_fit(const RmsNormBackwardInputArgs& a, i64 pack) {
    return rows_aligned(rows_of(a), {a.gx.data, a.gy.data, a.x.data}, pack) &&
           aligned_16(a.weight.data);
  }
  static RmsBackwardInput of(const RmsNormBackwardInputArgs& a) {
    return {rows_of(a),        a.gx.as<T>(),           a.gy.as<const T>(),
            a.x.as<const T>(), a.weight.as<const T>(), a.stats.as<const ComputeType<T>>()};
  }
  // As in layer_norm_backward.cu: two rows would have to stay.
  i64 cache_bytes(i64, i64) { return 0; }
};

// --- naive: a thread a row, two walks whose neighbouring threads read a row apart ---

template <class T>
__device__ __forceinline__ void naive_row(const RmsForward<T>& a, i64 row) {
  using A = ComputeType<T>;
  const auto y = a.rows.row(a.Y, a.y, row);
  const auto x = a.rows.row(a.X, a.x, row);
  const i64 n = a.rows.length;
  A squares = 0;  // of one sign: nothing cancels, and no offset needs to be taken off
  for (i64 i = 0; i < n; ++i) squares += A(x[i]) * A(x[i]);
  const A rstd = rstd_of(squares, n, a.eps);
  for (i64 i = 0; i < n; ++i) y[i] = T(A(x[i]) * rstd * (a.weight ? A(a.weight[i]) : A(1)));
  save_stats(a, row, rstd);
}

template <class T>
__device__ __forceinline__ void naive_row(const RmsBackwardInput<T>& a, i64 row) {
  using A = ComputeType<T>;
  const auto gx = a.rows.row(a.GX, a.gx, row);
  const auto gy = a.rows.row(a.GY, a.gy, row);
  const auto x = a.rows.row(a.X, a.x, row);
  const i64 n = a.rows.length;
  const A rstd = a.stats[a.rows.count + row];
  A product = 0;
  for (i64 i = 0; i < n; ++i)
    product += A(gy[i]) * (a.weight ? A(a.weight[i]) : A(1)) * (A(x[i]) * rstd);
  product /= A(n);
  for (i64 i = 0; i < n; ++i) {
    const A g = A(gy[i]) * (a.weight ? A(a.weight[i]) : A(1));
    gx[i] = T(rstd * (g - A(x[i]) * rstd * product));
  }
}

// --- warp: the row stays in registers, memory is read once and written once ---

template <int PerLane, class T>
__device__ __forceinline__ void warp_row(const RmsForward<T>& a, i64 row, int lane) {
  constexpr int Vec = kPerPack<T>;
  const int n = int(a.rows.length);
  float v[PerLane], squares = 0;
  // What lies past the end reads as 0, which adds no square: no condition as layer_norm needs one.
  load_lane<Vec>(v, a.x + a.rows.start(a.X, row), n, lane, 0);
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

template <int PerLane, class T>
__device__ __forceinline__ void warp_row(const RmsBackwardInput<T>& a, i64 row, int lane) {
  constexpr int Vec = kPerPack<T>;
  const int n = int(a.rows.length);
  float g[PerLane], h[PerLane], product = 0;  // `h` is the weight's place first, x's later
  load_lane<Vec>(g, a.gy + a.rows.start(a.GY, row), n, lane, 0);
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
  for (int k = 0; k < PerLane; ++k) g[k] = rstd * (g[k] - h[k] * product);
  store_lane<Vec>(a.gx + a.rows.start(a.GX, row), g, n, lane);
}

// --- block: rows of any length, strides and alignment ---

template <class T>
__device__ __forceinline__ void block_row(const RmsForward<T>& a, i64 row, Pack16<T>* cache) {
  const i64 n = a.rows.length;
  const auto y = a.rows.row(a.Y, a.y, row);
  const auto x = a.rows.row(a.X, a.x, row);
  const PackSplit split = split_into_packs<T>(x.data, y.data, n, x.step == 1 && y.step == 1);
  float squares = 0;
  walk_row<T>(
      split, n, [&](i64 i) WT_INLINE_LAMBDA { squares += float(x[i]) * float(x[i]); },
      [&](i64 p, i64 i) WT_INLINE_LAMBDA {
        const auto v = vload<Pack16<T>>(x.data + i);
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

template <class T>
__device__ __forceinline__ void block_row(const RmsBackwardInput<T>& a, i64 row, Pack16<T>*) {
  const i64 n = a.rows.length;
  const auto gx = a.rows.row(a.GX, a.gx, row);
  const auto gy = a.rows.row(a.GY, a.gy, row);
  const auto x = a.rows.row(a.X, a.x, row);
  // One split into packs serves three operands, so all three must be equally far from a boundary.
  const bool neighbours =
      gx.step == 1 && gy.step == 1 && x.step == 1 &&
      ((reinterpret_cast<uintptr_t>(gx.data) ^ reinterpret_cast<uintptr_t>(x.data)) & 15) == 0;
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
      [&](i64 i) WT_INLINE_LAMBDA { gx[i] = T(rstd * (g_at(i) - float(x[i]) * rstd * product)); },
      [&](i64, i64 i) WT_INLINE_LAMBDA {
        auto g = vload<Pack16<T>>(gy.data + i);
        const auto v = vload<Pack16<T>>(x.data + i);
        float weight[kPerPack<T>];
        load_parameter(weight, at_or_null(a.weight, i), 1);
#pragma unroll
        for (int j = 0; j < kPerPack<T>; ++j)
          g.v[j] = T(rstd * (float(g.v[j]) * weight[j] - float(v.v[j]) * rstd * product));
        // gx may be gy: the pack was read above by this very thread, and nobody else wants it.
        vstore(gx.data + i, g);
      });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, rms_norm_forward, RmsNormForwardArgs,
            WT_LAYER_NORM_LADDER(RmsForward, RmsNormForwardArgs));
WT_VARIANTS(WT_DEVICE_NS, rms_norm_backward_input, RmsNormBackwardInputArgs,
            WT_LAYER_NORM_LADDER(RmsBackwardInput, RmsNormBackwardInputArgs));

}  // namespace wt
