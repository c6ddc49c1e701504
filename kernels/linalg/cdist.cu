// Distances of all pairs on simt and cuda. The ladder, forward:
//   naive  one thread a pair, coordinates from memory
//   tiles  a block 32 x 32 pairs: points come by tiles through shared memory, each coordinate is
//          read once for 32 pairs instead of for every one
// Backward, a gradient after the other:
//   naive  one thread an element, in the order of the sum that the reference has; neighbouring
//          threads have neighbouring coordinates, so that a warp shares gy and y
//   tiles  a block 32 points x 32 coordinates in the same order: the other points, gy and y come by
//          tiles through shared memory, read once for 32 coordinates or points
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
  Points transposed() const {
    Points t = *this;
    t.row = step, t.step = row;
    return t;
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

// Of ga. The other gradient is the same of a problem whose a is b and whose pairs are transposed:
// slopes are odd functions of the difference.
template <class T>
struct CdistBackward {
  using C = ComputeType<T>;
  Points<const T> own, others, gy;
  Points<const C> y;
  Points<T> out;
  i64 batches, points, count, depth;  // count: of the others
  NormSteps<C> norm;                  // the same for all threads, and so are its branches
  template <class F>
  void visit_pointers(F&& f) const {
    f(own.data), f(others.data), f(gy.data), f(y.data), f(out.data);
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) cdist_backward_naive(CdistBackward<T> a) {
  using C = ComputeType<T>;
  const i64 total = a.batches * a.points * a.depth, stride = i64(gridDim.x) * kThreads;
  for (i64 at = i64(blockIdx.x) * kThreads + threadIdx.x; at < total; at += stride) {
    const i64 k = at % a.depth, i = at / a.depth % a.points, n = at / a.depth / a.points;
    const C mine = C(a.own.at(n, i, k));
    C sum = 0;
    for (i64 j = 0; j < a.count; ++j)
      sum += C(a.gy.at(n, i, j)) * a.norm.slope(mine - C(a.others.at(n, j, k)), a.y.at(n, i, j));
    a.out.at(n, i, k) = T(sum);
  }
}

// gy and y of 32 x 32 pairs, [other][own]: a thread reads its four own points at once. 36 a row:
// what a warp stores, 32 own points or four of eight others, meets every bank once.
struct alignas(16) PairTile {
  float gy[kSide][kSide + 4], y[kSide][kSide + 4];
};
// The pair that a thread brings in turn s. Lanes go along the axis of the pairs whose elements lie
// closer together in memory.
__device__ __forceinline__ int own_of(bool along_own) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  return along_own ? lane : kEach * warp + lane / 8;
}
__device__ __forceinline__ int other_of(bool along_own, int s) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  return along_own ? warp + 8 * s : 8 * s + lane % 8;
}

// What slope() makes of a difference d, with y as slope_base() leaves it in the tile.
template <Metric M>
__device__ __forceinline__ float slope_base(float y) {
  // One division a pair instead of one a coordinate. The forward's y is 0 or a root of what f32 can
  // hold, at least 2^-75, so 1 / y is finite.
  return M != Metric::euclidean ? y : y == 0 ? 0 : 1 / y;
}
template <Metric M>
__device__ __forceinline__ float slope_of(float p, float d, float base) {
  return M == Metric::euclidean ? d * base : NormSteps<float>{M, p}.slope(d, base);
}

template <class T, Metric M>
__global__ void __launch_bounds__(kThreads)
    cdist_backward_tiles(const __grid_constant__ CdistBackward<T> a) {
  WT_SHARED(PointTile, others, );
  WT_SHARED(PairTile, pairs, );
  const i64 across = (a.depth + kDepth - 1) / kDepth, down = (a.points + kSide - 1) / kSide;
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const bool along_own = a.y.row < a.y.step;
  for (i64 tile = blockIdx.x; tile < a.batches * down * across; tile += gridDim.x) {
    const i64 k0 = tile % across * kDepth, i0 = tile / across % down * kSide;
    const i64 n = tile / across / down, k = k0 + lane;
    float mine[kEach], sum[kEach] = {};  // points 4 warp + s, coordinate `lane`
#pragma unroll
    for (int s = 0; s < kEach; ++s) {
      const i64 i = i0 + kEach * warp + s;
      mine[s] = i < a.points && k < a.depth ? float(a.own.at(n, i, k)) : 0.0f;
    }
    for (i64 j0 = 0; j0 < a.count; j0 += kSide) {
      float gy[kEach], y[kEach];  // all asked for before the first is used
#pragma unroll
      for (int s = 0; s < kEach; ++s) {
        const i64 i = i0 + own_of(along_own), j = j0 + other_of(along_own, s);
        const bool there = i < a.points && j < a.count;
        gy[s] = there ? float(a.gy.at(n, i, j)) : 0.0f;
        y[s] = M != Metric::manhattan && there ? a.y.at(n, i, j) : 0.0f;
      }
      __syncthreads();  // the tiles before have been read
      others.load(a.others, n, j0, a.count, k0, a.depth);
#pragma unroll
      for (int s = 0; s < kEach; ++s) {
        const int i = own_of(along_own), j = other_of(along_own, s);
        pairs.gy[j][i] = gy[s];
        if (M != Metric::manhattan) pairs.y[j][i] = slope_base<M>(y[s]);
      }
      __syncthreads();
      const int count = a.count - j0 < kSide ? int(a.count - j0) : kSide;
#pragma unroll 4
      for (int j = 0; j < count; ++j) {
        float weight[kEach], base[kEach] = {};
        load_vector(weight, &pairs.gy[j][kEach * warp]);
        if (M != Metric::manhattan) load_vector(base, &pairs.y[j][kEach * warp]);
        const float other = others.v[j][lane];
#pragma unroll
        for (int s = 0; s < kEach; ++s)
          sum[s] += weight[s] * slope_of<M>(a.norm.p, mine[s] - other, base[s]);
      }
    }
#pragma unroll
    for (int s = 0; s < kEach; ++s) {
      const i64 i = i0 + kEach * warp + s;
      if (i < a.points && k < a.depth) a.out.at(n, i, k) = T(sum[s]);
    }
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

// f(kernel's arguments, output) for the gradients that are wanted.
template <class T, class F>
void for_each_gradient(const CdistBackwardArgs& a, const F& f) {
  using C = ComputeType<T>;
  const Points<const T> first(a.a), second(a.b), gy(a.gy);
  const Points<const C> y(a.y);
  const i64 batches = a.y.size(0), rows = a.y.size(1), columns = a.y.size(2), depth = a.a.size(2);
  const NormSteps<C> norm{metric_of(a.p), C(a.p)};
  if (a.ga)
    f(CdistBackward<T>{first, second, gy, y, Points<T>(a.ga), batches, rows, columns, depth, norm});
  if (a.gb)
    f(CdistBackward<T>{second, first, gy.transposed(), y.transposed(), Points<T>(a.gb), batches,
                       columns, rows, depth, norm});
}
void launch_backward_naive(const CdistBackwardArgs& a, const Launch& l) {
  with_float_or_double(a.a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_gradient<T>(a, [&](const CdistBackward<T>& k) {
      const i64 elements = k.batches * k.points * k.depth;
      launch<cdist_backward_naive<T>>(grid_of(l, ceil_div(elements, kThreads), kThreads), k);
    });
  });
}

i64 backward_tiles(i64 batches, i64 points, i64 depth) {
  return batches * ceil_div(points, kSide) * ceil_div(depth, kDepth);
}
template <Metric M>
void launch_backward_tiles(const CdistBackwardArgs& a, const Launch& l) {
  with_float(a.a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_gradient<T>(a, [&](const CdistBackward<T>& k) {
      launch<cdist_backward_tiles<T, M>>(
          grid_of(l, backward_tiles(k.batches, k.points, k.depth), kThreads), k);
    });
  });
}
void launch_backward_tiles(const CdistBackwardArgs& a, const Launch& l) {
  switch (metric_of(a.p)) {
    case Metric::manhattan:
      return launch_backward_tiles<Metric::manhattan>(a, l);
    case Metric::euclidean:
      return launch_backward_tiles<Metric::euclidean>(a, l);
    case Metric::largest:
      return launch_backward_tiles<Metric::largest>(a, l);
    default:  // p > 0
      return launch_backward_tiles<Metric::power>(a, l);
  }
}
// Lanes are coordinates, and a block walks over all other points: few coordinates leave lanes idle,
// few points leave processors idle, of which naive has eight blocks for one of these.
int backward_tiles_rank(const CdistBackwardArgs& a) {
  const i64 depth = a.a.size(2);
  const auto enough = [&](const View& gradient, int points) {
    return !gradient || backward_tiles(a.y.size(0), a.y.size(points), depth) >= 64;
  };
  return depth >= 16 && enough(a.ga, 1) && enough(a.gb, 2) ? 20 : 5;
}
template <class Args>
const char* why_not_tiles(const Args& a) {
  return a.a.dtype() == DType::f64 ? "f64 has the naive rung only" : nullptr;
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, cdist_forward, CdistForwardArgs,
            {.name = "tiles",
             .rank = 20,
             .why_not = why_not_tiles<CdistForwardArgs>,
             .launch = launch_tiles},
            {.name = "naive", .rank = 10, .launch = launch_naive});
WT_VARIANTS(WT_DEVICE_NS, cdist_backward, CdistBackwardArgs,
            {.name = "tiles",
             .rank = 20,
             .why_not = why_not_tiles<CdistBackwardArgs>,
             .rank_of = backward_tiles_rank,
             .launch = launch_backward_tiles},
            {.name = "naive", .rank = 10, .launch = launch_backward_naive});

}  // namespace wt
