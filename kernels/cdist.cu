// Distances of all pairs on simt and cuda. The ladder, forward:
//   naive  one thread a pair, coordinates from memory
//   tiles  a block 32 x 32 pairs: points come by tiles through shared memory, each coordinate is
//          read once for 32 pairs instead of for every one
// Backward: naive, one thread an element of a gradient, in the order of the sum that the reference
// has; neighbouring threads have neighbouring coordinates, so that a warp shares gy and y.
#include "warptape/kernels/cdist.h"

#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 256;

// [n, row, k] of one operand.
template <class T>
struct Points {
  T* data;
  i64 batch, row, step;
  explicit Points(const View& v) : data(v.as<T>()), batch(0), row(0), step(0) {
    if (!v) return;
    batch = v.stride(0), row = v.stride(1), step = v.stride(2);
  }
  __device__ __forceinline__ T& at(i64 n, i64 i, i64 k) const {
    return data[n * batch + i * row + k * step];
  }
};

// --- forward ---

template <class T>
struct CdistForward {
  using C = ComputeType<T>;
  Points<const T> a, b;
  Points<T> y;
  Points<C> wide_y;  // where y is in the dtype that is computed in
  bool is_wide;
  i64 batches, rows, columns, depth;
  NormSteps<C> norm;  // the same for all threads, and so are its branches
  template <class F>
  void visit_pointers(F&& f) const {
    f(a.data), f(b.data), f(y.data);
  }
  __device__ __forceinline__ void put(i64 n, i64 i, i64 j, C v) const {
    if (is_wide)
      wide_y.at(n, i, j) = v;
    else
      y.at(n, i, j) = T(v);
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) cdist_naive(CdistForward<T> a) {
  using C = ComputeType<T>;
  const i64 total = a.batches * a.rows * a.columns, stride = i64(gridDim.x) * kThreads;
  for (i64 at = i64(blockIdx.x) * kThreads + threadIdx.x; at < total; at += stride) {
    const i64 j = at % a.columns, i = at / a.columns % a.rows, n = at / a.columns / a.rows;
    C sum = 0;
    for (i64 k = 0; k < a.depth; ++k)
      sum = a.norm.with(sum, C(fabs(C(a.a.at(n, i, k)) - C(a.b.at(n, j, k)))));
    a.put(n, i, j, a.norm.finished(sum));
  }
}

constexpr int kSide = 32, kDepth = 32, kEach = kSide * kSide / kThreads;

// Points first .. first + 31, coordinates k0 .. k0 + 31; zeros beyond both ends: equal in both
// operands, they add nothing to any norm. 33 a row: neighbouring lanes read neighbouring rows.
struct PointTile {
  float v[kSide][kDepth + 1];
  template <class T>
  __device__ __forceinline__ void load(const Points<const T>& from, i64 n, i64 first, i64 rows,
                                       i64 k0, i64 depth) {
#pragma unroll
    for (int s = 0; s < kEach; ++s) {
      const int r = int(threadIdx.x) / 32 + s * (kThreads / 32), k = int(threadIdx.x) % 32;
      const bool there = first + r < rows && k0 + k < depth;
      v[r][k] = there ? float(from.at(n, first + r, k0 + k)) : 0.0f;
    }
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) cdist_tiles(CdistForward<T> a) {
  WT_SHARED(PointTile, a_tile, );
  WT_SHARED(PointTile, b_tile, );
  const i64 across = (a.columns + kSide - 1) / kSide, down = (a.rows + kSide - 1) / kSide;
  for (i64 tile = blockIdx.x; tile < a.batches * down * across; tile += gridDim.x) {
    const i64 j0 = tile % across * kSide, i0 = tile / across % down * kSide;
    const i64 n = tile / across / down;
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    float sum[kEach] = {};  // pairs (warp + 8 s, lane)
    for (i64 k0 = 0; k0 < a.depth; k0 += kDepth) {
      __syncthreads();
      a_tile.load(a.a, n, i0, a.rows, k0, a.depth);
      b_tile.load(a.b, n, j0, a.columns, k0, a.depth);
      __syncthreads();
      for (int k = 0; k < kDepth; ++k) {
        const float b = b_tile.v[lane][k];
#pragma unroll
        for (int s = 0; s < kEach; ++s)
          sum[s] = a.norm.with(sum[s], fabsf(a_tile.v[warp + 8 * s][k] - b));
      }
    }
#pragma unroll
    for (int s = 0; s < kEach; ++s) {
      const i64 i = i0 + warp + 8 * s, j = j0 + lane;
      if (i < a.rows && j < a.columns) a.put(n, i, j, a.norm.finished(sum[s]));
    }
  }
}

// --- backward ---

template <class T>
struct CdistBackward {
  using C = ComputeType<T>;
  Points<const T> a, b, gy;
  Points<const C> y;
  Points<T> out;  // ga, or gb
  i64 batches, rows, columns, depth;
  NormSteps<C> norm;  // the same for all threads, and so are its branches
  template <class F>
  void visit_pointers(F&& f) const {
    f(a.data), f(b.data), f(gy.data), f(y.data), f(out.data);
  }
};

// OfB: gb, whose sums run over the points of a.
template <class T, bool OfB>
__global__ void __launch_bounds__(kThreads) cdist_backward_naive(CdistBackward<T> a) {
  using C = ComputeType<T>;
  const i64 points = OfB ? a.columns : a.rows, others = OfB ? a.rows : a.columns;
  const i64 total = a.batches * points * a.depth, stride = i64(gridDim.x) * kThreads;
  for (i64 at = i64(blockIdx.x) * kThreads + threadIdx.x; at < total; at += stride) {
    const i64 k = at % a.depth, own = at / a.depth % points, n = at / a.depth / points;
    const C mine = C((OfB ? a.b : a.a).at(n, own, k));
    C sum = 0;
    for (i64 o = 0; o < others; ++o) {
      const i64 i = OfB ? o : own, j = OfB ? own : o;
      const C other = C((OfB ? a.a : a.b).at(n, o, k)), d = OfB ? other - mine : mine - other;
      const C share = C(a.gy.at(n, i, j)) * a.norm.slope(d, a.y.at(n, i, j));
      sum += OfB ? -share : share;
    }
    a.out.at(n, own, k) = T(sum);
  }
}

// --- host side ---

template <class T>
CdistForward<T> forward_of(const CdistForwardArgs& a) {
  using C = ComputeType<T>;
  return {Points<const T>(a.a),
          Points<const T>(a.b),
          Points<T>(a.y),
          Points<C>(a.y),
          a.y.dtype() != a.a.dtype(),
          a.y.size(0),
          a.y.size(1),
          a.y.size(2),
          a.a.size(2),
          {metric_of(a.p), C(a.p)}};
}
void launch_naive(const CdistForwardArgs& a, const Launch& l) {
  with_float_or_double(a.a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<cdist_naive<T>>(grid_of(l, ceil_div(a.y.numel(), kThreads), kThreads), forward_of<T>(a));
  });
}
void launch_tiles(const CdistForwardArgs& a, const Launch& l) {
  const i64 blocks = a.y.size(0) * ceil_div(a.y.size(1), kSide) * ceil_div(a.y.size(2), kSide);
  with_float(a.a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch<cdist_tiles<T>>(grid_of(l, blocks, kThreads), forward_of<T>(a));
  });
}
void launch_backward(const CdistBackwardArgs& a, const Launch& l) {
  with_float_or_double(a.a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const auto kernel_of = [&](const View& out) {
      return CdistBackward<T>{Points<const T>(a.a),  Points<const T>(a.b),
                              Points<const T>(a.gy), Points<const C>(a.y),
                              Points<T>(out),        a.y.size(0),
                              a.y.size(1),           a.y.size(2),
                              a.a.size(2),           {metric_of(a.p), C(a.p)}};
    };
    const auto config = [&](const View& out) {
      return grid_of(l, ceil_div(out.numel(), kThreads), kThreads);
    };
    if (a.ga) launch<cdist_backward_naive<T, false>>(config(a.ga), kernel_of(a.ga));
    if (a.gb) launch<cdist_backward_naive<T, true>>(config(a.gb), kernel_of(a.gb));
  });
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, cdist_forward, CdistForwardArgs,
            {.name = "tiles",
             .rank = 20,
             .why_not = [](const CdistForwardArgs& a) -> const char* {
               return a.a.dtype() == DType::f64 ? "f64 has the naive rung only" : nullptr;
             },
             .launch = launch_tiles},
            {.name = "naive", .rank = 10, .launch = launch_naive});
WT_VARIANTS(WT_DEVICE_NS, cdist_backward, CdistBackwardArgs,
            {.name = "naive", .rank = 10, .launch = launch_backward});

}  // namespace wt
