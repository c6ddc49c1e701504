// Rows of a normalisation's forward for the ladder of norm/layer_norm.cuh: what layer norm
// (norm/layer_norm_forward.cuh) and the root mean square norm (norm/rms_norm.cuh) do alike. Of
// x, or (Add) of x + residual, which is written, too.
#pragma once
#include "warptape/kernels/norm/layer_norm.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// Scale<A>: a row's statistics, which it takes itself on each rung, and
//   h(x)              x normalised by them: y = h * weight + bias
//   kBias             false: no bias
//   term(x)           what the block's first walk adds up
//   mean(), left_of_mean() and rstd: what is saved
template <class T, template <class> class Scale, bool Add>
struct NormForwardRows {
  using Element = T;
  using A = ComputeType<T>;
  static constexpr bool kBias = Scale<A>::kBias;
  enum { Y, X, Residual, Sum };  // the operands of `rows`; the last two with Add
  Rows<Add ? 4 : 2> rows;
  T* y;
  const T *x, *weight, *bias;
  A* stats;
  A eps;
  const T* residual = nullptr;
  T* sum = nullptr;
  bool cached = false;  // block: dynamic shared memory holds the row

  template <class Args>
  static NormForwardRows of(const Args& a) {
    const T* bias = nullptr;
    if constexpr (kBias) bias = a.bias.template as<const T>();
    NormForwardRows k{norm_rows(a),
                      a.y.template as<T>(),
                      a.x.template as<const T>(),
                      a.weight.template as<const T>(),
                      bias,
                      a.stats.template as<A>(),
                      A(a.eps)};
    if constexpr (Add)
      k.residual = a.residual.template as<const T>(), k.sum = a.sum.template as<T>();
    return k;
  }
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

  __device__ __forceinline__ A weighted(A h, i64 i) const {
    h *= weight ? A(weight[i]) : A(1);
    if constexpr (kBias) h += bias ? A(bias[i]) : A(0);
    return h;
  }
  __device__ __forceinline__ void save_stats(i64 row, const Scale<A>& s) const {
    if (!stats) return;
    // All means first, all rstd last: 32 threads with a row each (naive) write 128 bytes in a row
    // three times, where triples would be 32 places 12 bytes apart three times.
    stats[row] = s.mean();
    stats[rows.count + row] = s.left_of_mean();
    stats[2 * rows.count + row] = s.rstd;
  }
};

// How a row is read for the first time: with Add the sum is made, rounded as it is written. The
// places are found once a row: that can take 64-bit divisions.
template <class T, bool Add>
struct FirstRead {
  RowOf<const T> x, residual;
  RowOf<T> sum;

  // What is normalised: x, or the sum once it is written.
  __device__ __forceinline__ RowOf<const T> normalised() const {
    if constexpr (Add)
      return {sum.data, sum.step};
    else
      return x;
  }
  __device__ __forceinline__ T one(i64 i) const {
    if constexpr (Add) {
      using A = ComputeType<T>;
      return sum[i] = T(A(x[i]) + A(residual[i]));
    } else {
      return x[i];
    }
  }
  __device__ __forceinline__ Pack16<T> pack(i64 i) const {
    auto v = vload<Pack16<T>>(x.data + i);
    if constexpr (Add) {
      const auto r = vload<Pack16<T>>(residual.data + i);
#pragma unroll
      for (int j = 0; j < kPerPack<T>; ++j) v.v[j] = T(float(v.v[j]) + float(r.v[j]));
      vstore(sum.data + i, v);
    }
    return v;
  }
  // Neighbours, and with Add as far from a boundary as each other.
  __device__ __forceinline__ bool packs() const {
    if constexpr (Add)
      return x.step == 1 && residual.step == 1 && sum.step == 1 && equally_far(x.data, sum.data) &&
             equally_far(residual.data, sum.data);
    else
      return x.step == 1;
  }
};
template <class T, template <class> class Scale, bool Add>
__device__ __forceinline__ FirstRead<T, Add> first_read(const NormForwardRows<T, Scale, Add>& a,
                                                        i64 row) {
  if constexpr (Add)
    return {a.rows.row(a.X, a.x, row), a.rows.row(a.Residual, a.residual, row),
            a.rows.row(a.Sum, a.sum, row)};
  else
    return {a.rows.row(a.X, a.x, row), {}, {}};
}

// --- naive: a thread a row, whose neighbours read a row apart ---

template <class T, template <class> class Scale, bool Add>
__device__ __forceinline__ void naive_row(const NormForwardRows<T, Scale, Add>& a, i64 row) {
  using A = ComputeType<T>;
  const auto y = a.rows.row(a.Y, a.y, row);
  const i64 n = a.rows.length;
  const auto first = first_read(a, row);
  if constexpr (Add)
    for (i64 i = 0; i < n; ++i) first.one(i);
  const auto x = first.normalised();
  const auto s = Scale<A>::of_row(x, n, a.eps);
  // The last walk finds x in L2 or L1 only if the rows of all threads in flight fit in there.
  for (i64 i = 0; i < n; ++i) y[i] = T(a.weighted(s.h(A(x[i])), i));
  a.save_stats(row, s);
}

// --- warp: the row stays in registers, memory is read once and written once ---

// A lane's part: x, in v, becomes the sum. `residual`: registers that are free.
template <int PerLane, class T, template <class> class Scale>
__device__ __forceinline__ void add_residual_lane(const NormForwardRows<T, Scale, true>& a,
                                                  float (&v)[PerLane], float (&residual)[PerLane],
                                                  i64 row, int lane) {
  constexpr int Vec = kPerPack<T>;
  const int n = int(a.rows.length);
  load_lane<Vec>(residual, a.residual + a.rows.start(a.Residual, row), n, lane, 0);
#pragma unroll
  for (int k = 0; k < PerLane; ++k) v[k] = float(T(v[k] + residual[k]));
  store_lane<Vec>(a.sum + a.rows.start(a.Sum, row), v, n, lane);
}
template <int PerLane, class T, template <class> class Scale, bool Add>
__device__ __forceinline__ void warp_row(const NormForwardRows<T, Scale, Add>& a, i64 row,
                                         int lane) {
  constexpr int Vec = kPerPack<T>;
  const int n = int(a.rows.length);
  float v[PerLane], operand[PerLane];
  // Pack k of lane l is number k * 32 + l of the row: one load of the warp is 512 bytes in a row.
  // From here on x is in registers; memory is read once, and what follows costs arithmetic only.
  load_lane<Vec>(v, a.x + a.rows.start(a.X, row), n, lane, 0);
  if constexpr (Add) add_residual_lane(a, v, operand, row, lane);
  const auto s = Scale<float>::template normalise_lane<Vec>(v, n, lane, a.eps);
  if (a.weight) {
    // Every row reads the same weights: from L2, and from L1 for the warps that share a processor.
    // It is one array of registers for residual, weight and bias, one after the other.
    load_lane<Vec>(operand, a.weight, n, lane, 0);
#pragma unroll
    for (int k = 0; k < PerLane; ++k) v[k] *= operand[k];
  }
  if (a.kBias && a.bias) {
    load_lane<Vec>(operand, a.bias, n, lane, 0);
#pragma unroll
    for (int k = 0; k < PerLane; ++k) v[k] += operand[k];
  }
  store_lane<Vec>(a.y + a.rows.start(a.Y, row), v, n, lane);
  // One lane writes what all of them know.
  if (lane == 0) a.save_stats(row, s);
}

// --- block: rows of any length, strides and alignment ---

template <class T, template <class> class Scale, bool Add>
__device__ __forceinline__ void block_row(const NormForwardRows<T, Scale, Add>& a, i64 row,
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
      split, n, [&](i64 i) WT_INLINE_LAMBDA { sum += Scale<float>::term(float(first.one(i))); },
      [&](i64 p, i64 i) WT_INLINE_LAMBDA {
        const auto v = first.pack(i);
#pragma unroll
        for (int j = 0; j < kPerPack<T>; ++j) sum += Scale<float>::term(float(v.v[j]));
        // x leaves memory in this walk. Those that follow find it in shared memory, in the place
        // that this thread alone writes and reads.
        if (a.cached) vstore(cache + p, v);
      });
  const auto again = [&](i64 p, i64 i) WT_INLINE_LAMBDA {
    return a.cached ? vload<Pack16<T>>(cache + p) : vload<Pack16<T>>(x.data + i);
  };
  // add(x) for the elements of this thread.
  const auto each = [&](const auto& add) WT_INLINE_LAMBDA {
    walk_row<T>(
        split, n, [&](i64 i) WT_INLINE_LAMBDA { add(float(x[i])); },
        [&](i64 p, i64 i) WT_INLINE_LAMBDA {
          const Pack16<T> v = again(p, i);
#pragma unroll
          for (int j = 0; j < kPerPack<T>; ++j) add(float(v.v[j]));
        });
  };
  // Two barriers inside: every thread needs the whole row's sum before it can go on. Of a warp too
  // early it would be that of some warps' elements.
  const auto s = Scale<float>::of_block(block_reduce(sum, Plus()), n, a.eps, each);
  walk_row<T>(
      split, n, [&](i64 i) WT_INLINE_LAMBDA { y[i] = T(a.weighted(s.h(float(x[i])), i)); },
      [&](i64 p, i64 i) WT_INLINE_LAMBDA {
        auto v = again(p, i);
        float weight[kPerPack<T>], bias[kPerPack<T>];
        load_parameter(weight, at_or_null(a.weight, i), 1);
        if constexpr (std::decay_t<decltype(a)>::kBias)
          load_parameter(bias, at_or_null(a.bias, i), 0);
#pragma unroll
        for (int j = 0; j < kPerPack<T>; ++j) {
          const float h = s.h(float(v.v[j])) * weight[j];
          v.v[j] = T(a.kBias ? h + bias[j] : h);
        }
        vstore(y.data + i, v);
      });
  if (threadIdx.x == 0) a.save_stats(row, s);
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
