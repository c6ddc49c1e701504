// Layer normalisation on simt and cuda. The ladder, forward and gradient of the input:
//   naive  one thread a row, three passes over it; neighbouring threads read far apart
//   block  one block a row of any length and strides; the forward keeps the row in shared memory if
//          it fits, else reads it again
//   warp   one warp a row of at most 1024, which stays in registers: one read, one write, 16 bytes
//          at a time
// Gradients of the parameters, which are sums over columns:
//   naive    one thread a column, row after row
//   columns  a block takes 32 packs of columns and a part of the rows, a second kernel adds the
//            parts: the order of the additions is fixed
#include "warptape/kernels/layer_norm.h"

#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct NormForward {
  using Element = T;
  enum { Y, X };  // the operands of `rows`
  Rows<2> rows;
  T* y;
  const T *x, *weight, *bias;
  ComputeType<T>* stats;
  ComputeType<T> eps;
  bool cached;  // block: dynamic shared memory holds the row
  template <class F>
  void visit_pointers(F&& f) const {
    f(y), f(x), f(weight), f(bias), f(stats);
  }
};
template <class T>
struct NormBackwardInput {
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
};
template <class T>
struct NormBackwardParams {
  enum { GY, X };  // the operands of `rows`
  Rows<2> rows;
  T *gweight, *gbias;
  const T *gy, *x;
  const ComputeType<T>* stats;
  bool accumulate_weight, accumulate_bias;
  template <class F>
  void visit_pointers(F&& f) const {
    f(gweight), f(gbias), f(gy), f(x), f(stats);
  }
};

// Two sums that are reduced together: of values and of squares, or of g and of g * h.
template <class A>
struct TwoSums {
  A first, second;
};
template <class A>
__device__ __forceinline__ TwoSums<A> shuffle_xor(TwoSums<A> v, int lanes) {
  return {wt::shuffle_xor(v.first, lanes), wt::shuffle_xor(v.second, lanes)};
}
struct PlusBoth {
  template <class A>
  __device__ __forceinline__ TwoSums<A> operator()(TwoSums<A> a, TwoSums<A> b) const {
    return {a.first + b.first, a.second + b.second};
  }
};

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
template <class T, class A>
__device__ __forceinline__ void save_stats(const NormForward<T>& a, i64 row, A mean, A rstd) {
  if (!a.stats) return;
  a.stats[row] = mean;
  a.stats[a.rows.count + row] = rstd;
}

// --- naive ---

template <class T>
__device__ __forceinline__ void naive_row(const NormForward<T>& a, i64 row) {
  using A = ComputeType<T>;
  const auto y = a.rows.row(a.Y, a.y, row);
  const auto x = a.rows.row(a.X, a.x, row);
  const i64 n = a.rows.length;
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
  for (i64 i = 0; i < n; ++i) {
    const A h = (A(x[i]) - mean - s.rest) * s.rstd;
    y[i] = T(h * (a.weight ? A(a.weight[i]) : A(1)) + (a.bias ? A(a.bias[i]) : A(0)));
  }
  save_stats(a, row, mean + s.rest, s.rstd);
}

template <class T>
__device__ __forceinline__ void naive_row(const NormBackwardInput<T>& a, i64 row) {
  using A = ComputeType<T>;
  const auto gx = a.rows.row(a.GX, a.gx, row);
  const auto gy = a.rows.row(a.GY, a.gy, row);
  const auto x = a.rows.row(a.X, a.x, row);
  const i64 n = a.rows.length;
  const A mean = a.stats[row], rstd = a.stats[a.rows.count + row];
  A sum = 0, product = 0;
  for (i64 i = 0; i < n; ++i) {
    const A g = A(gy[i]) * (a.weight ? A(a.weight[i]) : A(1));
    sum += g;
    product += g * ((A(x[i]) - mean) * rstd);
  }
  for (i64 i = 0; i < n; ++i) {
    const A g = A(gy[i]) * (a.weight ? A(a.weight[i]) : A(1));
    const A h = (A(x[i]) - mean) * rstd;
    gx[i] = T(rstd * (g - sum / A(n) - h * (product / A(n))));
  }
}

template <class Kernel>
__global__ void layer_norm_naive(Kernel a) {
  const i64 row = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < a.rows.count) naive_row(a, row);
}

template <class T>
__global__ void layer_norm_backward_params_naive(NormBackwardParams<T> a) {
  using A = ComputeType<T>;
  const i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= a.rows.length) return;
  A weight_sum = 0, bias_sum = 0;
  for (i64 row = 0; row < a.rows.count; ++row) {
    // Here neighbouring threads have neighbouring columns, so a warp's load is 128 bytes in a row
    // (f32). But rows follow one another, and a layer of 768 columns is only 12 blocks.
    const A gy = A(a.rows.row(a.GY, a.gy, row)[i]);
    const A x = A(a.rows.row(a.X, a.x, row)[i]);
    weight_sum += gy * ((x - a.stats[row]) * a.stats[a.rows.count + row]);
    bias_sum += gy;
  }
  if (a.gweight) a.gweight[i] = T(a.accumulate_weight ? A(a.gweight[i]) + weight_sum : weight_sum);
  if (a.gbias) a.gbias[i] = T(a.accumulate_bias ? A(a.gbias[i]) + bias_sum : bias_sum);
}

// --- warp ---

constexpr int kWarpLongest = 1024;

template <int PerLane, class T>
__device__ __forceinline__ void warp_row(const NormForward<T>& a, i64 row, int lane) {
  constexpr int Vec = kPerPack<T>;
  const int n = int(a.rows.length);
  float v[PerLane], parameter[PerLane], sum = 0;
  // Pack k of lane l is number k * 32 + l of the row: one load of the warp is 512 bytes in a row.
  // From here on x is in registers; memory is read once, and the three passes cost arithmetic only.
  load_lane<Vec>(v, a.x + a.rows.start(a.X, row), n, lane, 0);
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

template <int PerLane, class T>
__device__ __forceinline__ void warp_row(const NormBackwardInput<T>& a, i64 row, int lane) {
  constexpr int Vec = kPerPack<T>;
  const int n = int(a.rows.length);
  float g[PerLane], h[PerLane];
  load_lane<Vec>(g, a.gy + a.rows.start(a.GY, row), n, lane, 0);
  if (a.weight) {
    load_lane<Vec>(h, a.weight, n, lane, 0);
#pragma unroll
    for (int k = 0; k < PerLane; ++k) g[k] *= h[k];
  }
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
  for (int k = 0; k < PerLane; ++k) g[k] = rstd * (g[k] - sum - h[k] * product);
  store_lane<Vec>(a.gx + a.rows.start(a.GX, row), g, n, lane);
}

template <class Kernel, int PerLane>
__global__ void __launch_bounds__(kTeamWarps * 32) layer_norm_warp(Kernel a) {
  // The condition is the same for a whole warp, so the shuffles inside have all of their lanes.
  const i64 row = i64(blockIdx.x) * kTeamWarps + threadIdx.x / 32;
  if (row < a.rows.count) warp_row<PerLane>(a, row, int(threadIdx.x) % 32);
}

// --- block ---

// The block's threads share the elements of a row: single(i) for one, pack(p, i) for pack p, which
// begins at i. A thread gets the same elements at every walk.
template <class T, class Single, class Pack>
__device__ __forceinline__ void walk_row(const PackSplit& split, i64 n, Single single, Pack pack) {
  // Pack p goes to thread p modulo the block: in each turn the warps read 512 bytes each, side by
  // side.
  const i64 t = threadIdx.x, threads = blockDim.x;
  for (i64 i = t; i < split.head; i += threads) single(i);
  for (i64 p = t; p < split.packs; p += threads) pack(p, split.head + p * kPerPack<T>);
  for (i64 i = split.tail + t; i < n; i += threads) single(i);
}
// kPerPack<T> elements of a parameter, wherever they begin.
template <class T>
__device__ __forceinline__ void load_parameter(float (&v)[kPerPack<T>], const T* p, float absent) {
  // A parameter may be a view that begins anywhere; p is the same for all rows, so the branch goes
  // one way.
  if (p && aligned_16(p)) {
    const auto pack = vload<Pack16<T>>(p);
#pragma unroll
    for (int j = 0; j < kPerPack<T>; ++j) v[j] = float(pack.v[j]);
    return;
  }
  // Neighbouring elements one by one: the first load brings the sector, the others find it in L1.
#pragma unroll
  for (int j = 0; j < kPerPack<T>; ++j) v[j] = p ? float(p[j]) : absent;
}
template <class T>
__device__ __forceinline__ const T* at_or_null(const T* p, i64 i) {
  return p ? p + i : nullptr;
}

template <class T>
__device__ __forceinline__ void block_row(const NormForward<T>& a, i64 row, Pack16<T>* cache) {
  const i64 n = a.rows.length;
  const auto y = a.rows.row(a.Y, a.y, row);
  const auto x = a.rows.row(a.X, a.x, row);
  const PackSplit split = split_into_packs<T>(x.data, y.data, n, x.step == 1 && y.step == 1);
  float sum = 0;
  walk_row<T>(
      split, n, [&](i64 i) WT_INLINE_LAMBDA { sum += float(x[i]); },
      [&](i64 p, i64 i) WT_INLINE_LAMBDA {
        const auto v = vload<Pack16<T>>(x.data + i);
        // x leaves memory in this pass. The two that follow find it in shared memory, in the place
        // that this thread alone writes and reads.
        if (a.cached) cache[p] = v;
#pragma unroll
        for (int j = 0; j < kPerPack<T>; ++j) sum += float(v.v[j]);
      });
  // Two barriers inside: every thread needs the whole row's mean before it can take a distance.
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

template <class T>
__device__ __forceinline__ void block_row(const NormBackwardInput<T>& a, i64 row, Pack16<T>*) {
  const i64 n = a.rows.length;
  const auto gx = a.rows.row(a.GX, a.gx, row);
  const auto gy = a.rows.row(a.GY, a.gy, row);
  const auto x = a.rows.row(a.X, a.x, row);
  // One split into packs serves three operands, so all three must be equally far from a boundary.
  const bool neighbours =
      gx.step == 1 && gy.step == 1 && x.step == 1 &&
      ((reinterpret_cast<uintptr_t>(gx.data) ^ reinterpret_cast<uintptr_t>(x.data)) & 15) == 0;
  const PackSplit split = split_into_packs<T>(gy.data, x.data, n, neighbours);
  const float mean = a.stats[row], rstd = a.stats[a.rows.count + row];
  const auto g_at = [&](i64 i) WT_INLINE_LAMBDA {
    return float(gy[i]) * (a.weight ? float(a.weight[i]) : 1.0f);
  };
  const auto h_at = [&](i64 i) WT_INLINE_LAMBDA { return (float(x[i]) - mean) * rstd; };
  TwoSums<float> sums{0, 0};
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
      [&](i64 i) WT_INLINE_LAMBDA { gx[i] = T(rstd * (g_at(i) - sum - h_at(i) * product)); },
      [&](i64, i64 i) WT_INLINE_LAMBDA {
        auto g = vload<Pack16<T>>(gy.data + i);
        const auto v = vload<Pack16<T>>(x.data + i);
        float weight[kPerPack<T>];
        load_parameter(weight, at_or_null(a.weight, i), 1);
#pragma unroll
        for (int j = 0; j < kPerPack<T>; ++j)
          g.v[j] =
              T(rstd * (float(g.v[j]) * weight[j] - sum - (float(v.v[j]) - mean) * rstd * product));
        vstore(gx.data + i, g);
      });
}

template <class Kernel>
__global__ void layer_norm_block(Kernel a) {
  // Each thread reads back what it wrote itself: no barrier.
  WT_DYN_SHARED(Pack16<typename Kernel::Element>, cache);
  for (i64 row = blockIdx.x; row < a.rows.count; row += gridDim.x) block_row(a, row, cache);
}

// --- columns ---

constexpr int kRowWarps = 8;  // rows at a time

// Block (x, y) adds up part y of the rows for 32 * Vec columns: parts[y][weight, bias][column].
// Vec = kPerPack<T>: every row begins at a 16-byte boundary; Vec = 1: any rows.
template <class T, int Vec>
__global__ void __launch_bounds__(kRowWarps * 32)
    layer_norm_columns(NormBackwardParams<T> a, float* parts) {
  // Lanes last: a warp writes 32 banks, whatever Vec is. 8 KiB of it for f32, 16 for 16-bit types.
  WT_SHARED(float, tile, [kRowWarps][2][Vec][32]);
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const i64 n = a.rows.length, column = (i64(blockIdx.x) * 32 + lane) * Vec;
  // Rows are divided over gridDim.y parts, because columns alone are too few: 768 of them in f32
  // are 6 blocks.
  const i64 each = (a.rows.count + gridDim.y - 1) / gridDim.y, begin = each * blockIdx.y;
  const i64 end = begin + each < a.rows.count ? begin + each : a.rows.count;
  float weight_sum[Vec] = {}, bias_sum[Vec] = {};
  // A warp takes every eighth row. Two rows at once: four loads of 16 bytes a lane are under way
  // before the first is needed.
#pragma unroll 2
  for (i64 row = begin + warp; row < end; row += kRowWarps) {
    const auto gy = a.rows.row(a.GY, a.gy, row);
    const auto x = a.rows.row(a.X, a.x, row);
    const float mean = a.stats[row], rstd = a.stats[a.rows.count + row];
    const auto add = [&](int j, float g, float v) WT_INLINE_LAMBDA {
      weight_sum[j] += g * ((v - mean) * rstd);
      bias_sum[j] += g;
    };
    if (Vec > 1 && column + Vec <= n) {
      const auto g = vload<Pack16<T>>(gy.data + column), v = vload<Pack16<T>>(x.data + column);
#pragma unroll
      for (int j = 0; j < Vec; ++j)
        add(j, float(g.v[j % kPerPack<T>]), float(v.v[j % kPerPack<T>]));
    } else {
#pragma unroll
      for (int j = 0; j < Vec; ++j)
        if (column + j < n) add(j, float(gy[column + j]), float(x[column + j]));
    }
  }
#pragma unroll
  for (int j = 0; j < Vec; ++j) {
    tile[warp][0][j][lane] = weight_sum[j];
    tile[warp][1][j][lane] = bias_sum[j];
  }
  __syncthreads();
  for (int i = int(threadIdx.x); i < 2 * 32 * Vec; i += kRowWarps * 32) {
    // Neighbouring threads take neighbouring columns, so that the writes to `parts` are in a row.
    // Vec of them then read one bank, one after the other: 8 or 16 reads a thread, once a block.
    const int which = i / (32 * Vec), j = i % Vec, from = i / Vec % 32;
    const i64 to = (i64(blockIdx.x) * 32 + from) * Vec + j;
    float sum = 0;
    // In the order of the warps. An atomicAdd would need no tile and no barrier, and would add in
    // the order in which warps happen to arrive: other bits at every run.
    for (int w = 0; w < kRowWarps; ++w) sum += tile[w][which][j][from];
    if (to < n) parts[(i64(blockIdx.y) * 2 + which) * n + to] = sum;
  }
}

// blockIdx.y: 0 the weight, 1 the bias.
template <class T>
__global__ void __launch_bounds__(kRowWarps * 32)
    layer_norm_parts(NormBackwardParams<T> a, const float* parts, int count) {
  WT_SHARED(float, tile, [kRowWarps][32]);
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, which = int(blockIdx.y);
  const i64 n = a.rows.length, column = i64(blockIdx.x) * 32 + lane;
  float sum = 0;
  if (column < n)
    // Eight warps share the parts of 32 columns; neighbouring lanes read neighbouring columns.
    for (int p = warp; p < count; p += kRowWarps) sum += parts[(i64(p) * 2 + which) * n + column];
  tile[warp][lane] = sum;
  __syncthreads();
  T* out = which ? a.gbias : a.gweight;
  if (warp != 0 || column >= n || !out) return;
  // `sum` is warp 0's own part. `out` is the leaf's gradient itself where it accumulates: no pass
  // more.
  for (int w = 1; w < kRowWarps; ++w) sum += tile[w][lane];
  const bool accumulate = which ? a.accumulate_bias : a.accumulate_weight;
  out[column] = T(accumulate ? float(out[column]) + sum : sum);
}

// --- choice and launch ---

constexpr i64 kCacheMax = 160 * 1024;  // bytes of a row kept in shared memory
constexpr i64 kBlocksWanted = 528;     // of the columns rung: four for each processor of an H100
constexpr i64 kPartsMax = 256, kPartRows = 4 * kRowWarps;

inline Rows<2> rows_of(const LayerNormForwardArgs& a) {
  return rows_along<2>(a.x.ndim() - 1, {{a.y}, {a.x}});
}
inline Rows<3> rows_of(const LayerNormBackwardInputArgs& a) {
  return rows_along<3>(a.x.ndim() - 1, {{a.gx}, {a.gy}, {a.x}});
}
inline Rows<2> rows_of(const LayerNormBackwardParamsArgs& a) {
  return rows_along<2>(a.x.ndim() - 1, {{a.gy}, {a.x}});
}
template <class T>
NormForward<T> kernel_args(const LayerNormForwardArgs& a) {
  using A = ComputeType<T>;
  return {rows_of(a),           a.y.as<T>(),     a.x.as<const T>(), a.weight.as<const T>(),
          a.bias.as<const T>(), a.stats.as<A>(), A(a.eps),          false};
}
template <class T>
NormBackwardInput<T> kernel_args(const LayerNormBackwardInputArgs& a) {
  return {rows_of(a),        a.gx.as<T>(),           a.gy.as<const T>(),
          a.x.as<const T>(), a.weight.as<const T>(), a.stats.as<const ComputeType<T>>()};
}
template <class T>
NormBackwardParams<T> kernel_args(const LayerNormBackwardParamsArgs& a) {
  return {rows_of(a),          a.gweight.as<T>(), a.gbias.as<T>(),
          a.gy.as<const T>(),  a.x.as<const T>(), a.stats.as<const ComputeType<T>>(),
          a.accumulate_weight, a.accumulate_bias};
}

template <class Args>
const char* not_double(const Args& a) {
  return a.x.dtype() == DType::f64 ? "f64 has the naive rung only" : nullptr;
}
inline bool packs_fit(const LayerNormForwardArgs& a, i64 pack) {
  return rows_aligned(rows_of(a), {a.y.data, a.x.data}, pack) && aligned_16(a.weight.data) &&
         aligned_16(a.bias.data);
}
inline bool packs_fit(const LayerNormBackwardInputArgs& a, i64 pack) {
  return rows_aligned(rows_of(a), {a.gx.data, a.gy.data, a.x.data}, pack) &&
         aligned_16(a.weight.data);
}
template <class Args>
const char* why_not_warp(const Args& a) {
  const auto rows = rows_of(a);
  if (rows.length > kWarpLongest) return "rows of at most 1024 elements";
  if (!unit_steps(rows)) return "the elements of a row must be neighbours";
  if (!packs_fit(a, 16 / item_size(a.x.dtype())))
    return "every row, weight and bias must begin at a 16-byte boundary";
  return not_double(a);
}

inline i64 blocks_for(i64 rows, i64 length, i64 per_block) {
  return length ? ceil_div(rows, per_block) : 0;
}
template <class Args>
void launch_naive(const Args& a, const Launch& l) {
  with_float_or_double(a.x.dtype(), [&](auto tag) {
    auto k = kernel_args<typename decltype(tag)::type>(a);
    launch<layer_norm_naive<decltype(k)>>(
        grid_of(l, blocks_for(k.rows.count, k.rows.length, 64), 64), k);
  });
}
inline void launch_naive(const LayerNormBackwardParamsArgs& a, const Launch& l) {
  with_float_or_double(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_args<T>(a);
    launch<layer_norm_backward_params_naive<T>>(grid_of(l, ceil_div(k.rows.length, 64), 64), k);
  });
}

template <class Args>
void launch_warp(const Args& a, const Launch& l) {
  with_float(a.x.dtype(), [&](auto tag) {
    auto k = kernel_args<typename decltype(tag)::type>(a);
    const Config c =
        grid_of(l, blocks_for(k.rows.count, k.rows.length, kTeamWarps), kTeamWarps * 32);
    if (k.rows.length <= 256)
      launch<layer_norm_warp<decltype(k), 8>>(c, k);
    else
      launch<layer_norm_warp<decltype(k), 32>>(c, k);
  });
}

// Bytes of shared memory for a row of so many packs.
template <class T>
i64 cache_bytes(NormForward<T>& k, i64 packs) {
  // Above 48 KiB a kernel has to be asked to allow it, which launch() does.
  k.cached = packs * 16 <= kCacheMax && unit_steps(k.rows);
  return k.cached ? packs * 16 : 0;
}
template <class T>
i64 cache_bytes(NormBackwardInput<T>&, i64) {
  return 0;
}
template <class Args>
void launch_block(const Args& a, const Launch& l) {
  with_float(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto k = kernel_args<T>(a);
    const i64 packs = ceil_div(k.rows.length, kPerPack<T>), shared = cache_bytes(k, packs);
    launch<layer_norm_block<decltype(k)>>(
        grid_of(l, blocks_for(k.rows.count, packs, 1), row_threads(packs), shared), k);
  });
}

// How the columns rung divides its work: elements a thread loads at once, and parts of the rows.
struct ColumnPlan {
  int vec, parts;
};
ColumnPlan plan_columns(const LayerNormBackwardParamsArgs& a) {
  const auto rows = rows_of(a);
  const int pack = 16 / int(item_size(a.x.dtype()));
  const bool packs = unit_steps(rows) && rows_aligned(rows, {a.gy.data, a.x.data}, pack);
  const int vec = packs ? pack : 1;
  // Enough blocks to fill the machine, but at least 32 rows a part: each part costs a write and a
  // read of two floats a column.
  const i64 wide = ceil_div(rows.length, 32 * vec), most = ceil_div(rows.count, kPartRows);
  i64 parts = wide ? ceil_div(kBlocksWanted, wide) : 1;
  if (parts > most) parts = most;
  return {vec, int(parts < 1 ? 1 : parts > kPartsMax ? kPartsMax : parts)};
}
i64 columns_workspace(const LayerNormBackwardParamsArgs& a) {
  return plan_columns(a).parts * 2 * rows_of(a).length * i64(sizeof(float));
}
void launch_columns(const LayerNormBackwardParamsArgs& a, const Launch& l) {
  const ColumnPlan plan = plan_columns(a);
  auto* parts = static_cast<float*>(l.workspace);
  with_float(a.x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = kernel_args<T>(a);
    Config c = grid_of(l, ceil_div(k.rows.length, 32 * plan.vec), kRowWarps * 32);
    c.grid.y = unsigned(plan.parts);
    if (plan.vec > 1)
      launch<layer_norm_columns<T, kPerPack<T>>>(c, k, parts);
    else
      launch<layer_norm_columns<T, 1>>(c, k, parts);
    c = grid_of(l, ceil_div(k.rows.length, 32), kRowWarps * 32);
    c.grid.y = 2;
    launch<layer_norm_parts<T>>(c, k, parts, plan.parts);
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

#define WT_LAYER_NORM_LADDER(Args)                                                          \
  {.name = "warp", .rank = 30, .why_not = why_not_warp<Args>, .launch = launch_warp},       \
      {.name = "block", .rank = 20, .why_not = not_double<Args>, .launch = launch_block}, { \
    .name = "naive", .rank = 10, .launch = launch_naive                                     \
  }
WT_VARIANTS(WT_DEVICE_NS, layer_norm_forward, LayerNormForwardArgs,
            WT_LAYER_NORM_LADDER(LayerNormForwardArgs));
WT_VARIANTS(WT_DEVICE_NS, layer_norm_backward_input, LayerNormBackwardInputArgs,
            WT_LAYER_NORM_LADDER(LayerNormBackwardInputArgs));
WT_VARIANTS(WT_DEVICE_NS, layer_norm_backward_params, LayerNormBackwardParamsArgs,
            {.name = "columns",
             .rank = 20,
             .why_not = not_double<LayerNormBackwardParamsArgs>,
             .workspace = columns_workspace,
             .launch = launch_columns},
            {.name = "naive", .rank = 10, .launch = launch_naive});

}  // namespace wt
