// Rows of layer normalisation's forward for the ladder of norm/layer_norm.cuh: of x, or (Add) of
// x + residual, which is written, too.
#pragma once
#include "warptape/kernels/norm/layer_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T, bool Add>
struct NormForwardRows {
  using Element = T;
  using A = ComputeType<T>;
  enum { Y, X, Residual, Sum };  // the operands of `rows`; the last two with Add
  Rows<Add ? 4 : 2> rows;
  T* y;
  const T *x, *weight, *bias;
  A* stats;
  A eps;
  const T* residual = nullptr;
  T* sum = nullptr;
  bool cached = false;  // block: dynamic shared memory holds the row
  template <class F>
  void visit_pointers(F&& f) const {
    f(y), f(x), f(weight), f(bias), f(stats), f(residual), f(sum);
  }
  // Bytes of shared memory for a row of so many packs; 0 where it has more than `most`.
  i64 cache_bytes(i64 packs, i64 most) {
    // Above 48 KiB a kernel has to be asked to allow it, which launch() does. From 114 KiB on, half
    // of what a processor of an H100 has, a block is alone there: nobody works while it waits.
    cached = packs * 16 <= most && unit_steps(rows);
    return cached ? packs * 16 : 0;
  }
};
// In float one instruction, right to 2 units in the last place; f64 has none, and divides.
__device__ __forceinline__ float reciprocal_root(float v) { return rsqrtf(v); }
__device__ __forceinline__ double reciprocal_root(double v) { return 1 / sqrt(v); }

// From the sums of x - mean and of its square over a row: what the mean lacks, and rstd.
template <class A>
struct Scale {
  A rest, rstd;
  __device__ __forceinline__ Scale(TwoSums<A> distances, i64 n, A eps)
      : rest(distances.first / A(n)),
        rstd(reciprocal_root(distances.second / A(n) - rest * rest + eps)) {}
};
template <class T, bool Add, class A>
__device__ __forceinline__ void save_stats(const NormForwardRows<T, Add>& a, i64 row, A mean,
                                           A rstd) {
  if (!a.stats) return;
  // All means first, then all rstd: 32 threads with a row each (naive) write 128 bytes in a row
  // twice, where pairs would be 32 places 8 bytes apart twice.
  a.stats[row] = mean;
  a.stats[a.rows.count + row] = rstd;
}

// --- naive ---

template <class T, bool Add>
__device__ __forceinline__ void naive_row(const NormForwardRows<T, Add>& a, i64 row) {
  using A = ComputeType<T>;
  const auto y = a.rows.row(a.Y, a.y, row);
  const i64 n = a.rows.length;
  const auto first = first_read(a, row);
  if constexpr (Add)
    for (i64 i = 0; i < n; ++i) first.one(i);
  const auto x = first.normalised();
  A mean = 0;  // the sum is taken from the first element on: a long one would lose an offset
  // Neighbouring threads are a row apart: each of these loads asks for 32 sectors of 32 bytes, of
  // which an element each is wanted now.
  for (i64 i = 0; i < n; ++i) mean += A(x[i]) - A(x[0]);
  mean = A(x[0]) + mean / A(n);
  TwoSums<A> distances{0, 0};
  for (i64 i = 0; i < n; ++i) {
    // Squares of distances, never the square of the mean off the mean of squares: at a mean of 1e4
    // and a variance of 1 both are 1e8, where f32 counts in steps of 8.
    const A d = A(x[i]) - mean;
    distances = PlusBoth()(distances, TwoSums<A>{d, d * d});
  }
  const Scale<A> s(distances, n, a.eps);
  // The third walk finds x in L2 or L1 only if the rows of all threads in flight fit in there.
  for (i64 i = 0; i < n; ++i) {
    const A h = (A(x[i]) - mean - s.rest) * s.rstd;
    y[i] = T(h * (a.weight ? A(a.weight[i]) : A(1)) + (a.bias ? A(a.bias[i]) : A(0)));
  }
  save_stats(a, row, mean + s.rest, s.rstd);
}

// --- warp ---

template <int PerLane, class T, bool Add>
__device__ __forceinline__ void warp_row(const NormForwardRows<T, Add>& a, i64 row, int lane) {
  constexpr int Vec = kPerPack<T>;
  const int n = int(a.rows.length);
  float v[PerLane], parameter[PerLane], sum = 0;
  // Pack k of lane l is number k * 32 + l of the row: one load of the warp is 512 bytes in a row.
  // From here on x is in registers; memory is read once, and the three passes cost arithmetic only.
  load_lane<Vec>(v, a.x + a.rows.start(a.X, row), n, lane, 0);
  if constexpr (Add) add_residual_lane(a, v, parameter, row, lane);
#pragma unroll
  for (int k = 0; k < PerLane; ++k) sum += v[k];
  // A butterfly: after five shuffles every lane has the sum, with the same bits, and no lane need
  // tell the others.
  const float mean = warp_reduce(sum, Plus()) / float(n);
  TwoSums<float> distances{0, 0};
#pragma unroll
  for (int k = 0; k < PerLane; ++k) {
    // What lies past the end of the row must add no distance: it is 0 from here on.
    v[k] = (k / Vec * 32 + lane) * Vec + k % Vec < n ? v[k] - mean : 0.0f;
    distances = PlusBoth()(distances, TwoSums<float>{v[k], v[k] * v[k]});
  }
  const Scale<float> s(warp_reduce(distances, PlusBoth()), n, a.eps);
#pragma unroll
  for (int k = 0; k < PerLane; ++k) v[k] = (v[k] - s.rest) * s.rstd;
  if (a.weight) {
    // Every row reads the same weights: from L2, and from L1 for the warps that share a processor.
    // It is one array of registers for weight and bias, one after the other.
    load_lane<Vec>(parameter, a.weight, n, lane, 0);
#pragma unroll
    for (int k = 0; k < PerLane; ++k) v[k] *= parameter[k];
  }
  if (a.bias) {
    load_lane<Vec>(parameter, a.bias, n, lane, 0);
#pragma unroll
    for (int k = 0; k < PerLane; ++k) v[k] += parameter[k];
  }
  store_lane<Vec>(a.y + a.rows.start(a.Y, row), v, n, lane);
  // One lane writes what all of them know.
  if (lane == 0) save_stats(a, row, mean + s.rest, s.rstd);
}

// --- block ---

template <class T, bool Add>
__device__ __forceinline__ void block_row(const NormForwardRows<T, Add>& a, i64 row,
                                          Pack16<T>* cache) {
  const i64 n = a.rows.length;
  const auto y = a.rows.row(a.Y, a.y, row);
  const auto first = first_read(a, row);
  const auto x = first.normalised();
  // A 16-byte access off a 16-byte boundary is a fault: what lies before the row's first boundary
  // and after its last goes one by one, and all of it where x and y are not equally far from one.
  const PackSplit split = split_into_packs<T>(x.data, y.data, n, first.packs() && y.step == 1);
  float sum = 0;
  walk_row<T>(
      split, n, [&](i64 i) WT_INLINE_LAMBDA { sum += float(first.one(i)); },
      [&](i64 p, i64 i) WT_INLINE_LAMBDA {
        const auto v = first.pack(i);
        // x leaves memory in this pass. The two that follow find it in shared memory, in the place
        // that this thread alone writes and reads.
        if (a.cached) cache[p] = v;
#pragma unroll
        for (int j = 0; j < kPerPack<T>; ++j) sum += float(v.v[j]);
      });
  // Two barriers inside: every thread needs the whole row's mean before it can take a distance. Of
  // a warp too early the distances would be to the mean of some warps' elements.
  const float mean = block_reduce(sum, Plus()) / float(n);
  TwoSums<float> distances{0, 0};
  const auto add = [&](float v) WT_INLINE_LAMBDA {
    const float d = v - mean;
    distances = PlusBoth()(distances, TwoSums<float>{d, d * d});
  };
  walk_row<T>(
      split, n, [&](i64 i) WT_INLINE_LAMBDA { add(float(x[i])); },
      [&](i64 p, i64 i) WT_INLINE_LAMBDA {
        const auto v = a.cached ? cache[p] : vload<Pack16<T>>(x.data + i);
#pragma unroll
        for (int j = 0; j < kPerPack<T>; ++j) add(float(v.v[j]));
      });
  // `distances.first` would be 0 but for what rounding took from the mean: it corrects mean and
  // variance.
  const Scale<float> s(block_reduce(distances, PlusBoth()), n, a.eps);
  walk_row<T>(
      split, n,
      [&](i64 i) WT_INLINE_LAMBDA {
        const float h = (float(x[i]) - mean - s.rest) * s.rstd;
        y[i] = T(h * (a.weight ? float(a.weight[i]) : 1.0f) + (a.bias ? float(a.bias[i]) : 0.0f));
      },
      [&](i64 p, i64 i) WT_INLINE_LAMBDA {
        auto v = a.cached ? cache[p] : vload<Pack16<T>>(x.data + i);
        float weight[kPerPack<T>], bias[kPerPack<T>];
        load_parameter(weight, at_or_null(a.weight, i), 1);
        load_parameter(bias, at_or_null(a.bias, i), 0);
#pragma unroll
        for (int j = 0; j < kPerPack<T>; ++j)
          v.v[j] = T((float(v.v[j]) - mean - s.rest) * s.rstd * weight[j] + bias[j]);
        vstore(y.data + i, v);
      });
  if (threadIdx.x == 0) save_stats(a, row, mean + s.rest, s.rstd);
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
