// Cholesky and triangular systems on simt and cuda (qr and eigh have files of their own). The
// ladder:
//   naive  one thread a matrix, or a right side, by the textbook in double: each element that it
//          wants comes from memory by itself, and nothing else runs meanwhile
//   tiles  one block a matrix, or 32 right sides, in tiles of 32 x 32: what lies between two tiles
//          is a product out of shared memory, which reads an element once for 32 uses; one after
//          the other go only the 32 steps within a tile of the diagonal
#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/linalg/linalg.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

// --- naive ---

template <class T>
struct Cholesky {
  T* out;
  const T* in;
  i32* info;
  i64 count, n;
  template <class F>
  void visit_pointers(F&& f) const {
    f(out), f(in), f(info);
  }
};

template <class T>
__global__ void __launch_bounds__(kMatrixThreads) cholesky_naive(Cholesky<T> a) {
  const i64 stride = i64(gridDim.x) * kMatrixThreads;
  for (i64 b = i64(blockIdx.x) * kMatrixThreads + threadIdx.x; b < a.count; b += stride)
    a.info[b] = cholesky_of(a.out + b * a.n * a.n, a.in + b * a.n * a.n, a.n);
}

template <class T>
struct Systems {
  T* x;
  const T* a;
  Triangle triangle;
  i64 count, n, columns;
  template <class F>
  void visit_pointers(F&& f) const {
    f(x), f(a);
  }
};

// Neighbouring threads have neighbouring right sides, whose elements are neighbours in memory too.
template <class T>
__global__ void __launch_bounds__(kMatrixThreads) solve_naive(Systems<T> a) {
  const i64 total = a.count * a.columns, stride = i64(gridDim.x) * kMatrixThreads;
  for (i64 at = i64(blockIdx.x) * kMatrixThreads + threadIdx.x; at < total; at += stride) {
    const i64 b = at / a.columns, c = at % a.columns;
    substitute(a.triangle, a.a + b * a.n * a.n, a.x + b * a.n * a.columns, a.n, a.columns, c,
               c + 1);
  }
}

// --- tiles ---

constexpr int kSide = 32, kThreads = 256, kWarps = kThreads / 32, kEach = kSide / kWarps;

// A thread has column `lane` of rows warp, warp + 8, ... of a tile. 33 a row: lanes that go down a
// column are in different banks.
template <class T>
struct Tile {
  T v[kSide][kSide + 1];
};
struct Place {
  int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  __device__ __forceinline__ int row(int s) const { return warp + s * kWarps; }
};

// The tile of `from` [rows, columns] that begins at (i0, j0); zeros beyond both ends.
template <class T>
__device__ __forceinline__ void load_tile(Tile<T>& to, const T* from, i64 i0, i64 j0, i64 rows,
                                          i64 columns) {
  const Place at;
#pragma unroll
  for (int s = 0; s < kEach; ++s) {
    const i64 i = i0 + at.row(s), j = j0 + at.lane;
    to.v[at.row(s)][at.lane] = i < rows && j < columns ? from[i * columns + j] : T(0);
  }
}

// Takes a tile of the diagonal apart in place, whose first `there` rows are some: its lower
// triangle becomes that of L. The order of the first minor that is not positive, or 0, to every
// thread. Nobody leaves at a bad pivot, for the barriers are everybody's; what comes out then is of
// no use.
template <class T>
__device__ int cholesky_tile(Tile<T>& d, int there) {
  const Place at;
  int bad = 0;
  for (int k = 0; k < there; ++k) {
    __syncthreads();
    // Column k is left as it is, without the root: who writes it would make the others wait once
    // more. l_ik l_jk is d_ik d_jk / pivot too.
    const T pivot = d.v[k][k];
    if (!(pivot > 0) && bad == 0) bad = k + 1;  // nor if it is NaN
    if (at.lane > k) {
      const T factor = d.v[at.lane][k] / pivot;
#pragma unroll
      for (int s = 0; s < kEach; ++s)
        if (at.row(s) >= at.lane) d.v[at.row(s)][at.lane] -= d.v[at.row(s)][k] * factor;
    }
  }
  __syncthreads();
  const T root = sqrt(d.v[at.lane][at.lane]);
  __syncthreads();  // the roots are taken of what is overwritten now
#pragma unroll
  for (int s = 0; s < kEach; ++s)
    if (at.row(s) >= at.lane && at.row(s) < there)
      d.v[at.row(s)][at.lane] = at.row(s) == at.lane ? root : d.v[at.row(s)][at.lane] / root;
  __syncthreads();
  return bad;
}

template <class T>
__global__ void __launch_bounds__(kThreads) cholesky_tiles(Cholesky<T> a) {
  WT_SHARED(Tile<T>, left, );
  WT_SHARED(Tile<T>, above, );
  WT_SHARED(Tile<T>, corner, );  // of the columns in question
  const Place at;
  const i64 n = a.n;
  for (i64 b = blockIdx.x; b < a.count; b += gridDim.x) {
    T* const out = a.out + b * n * n;
    const T* const in = a.in + b * n * n;
    i64 info = 0;
    for (i64 j0 = 0; j0 < n; j0 += kSide) {
      const int there = int(n - j0 < kSide ? n - j0 : kSide);
      for (i64 i0 = j0; i0 < n; i0 += kSide) {
        T v[kEach];
#pragma unroll
        for (int s = 0; s < kEach; ++s) {
          const i64 i = i0 + at.row(s), j = j0 + at.lane;
          v[s] = i < n && j <= i ? in[i * n + j] : T(0);
        }
        // All that the columns before take off.
        for (i64 k0 = 0; k0 < j0; k0 += kSide) {
          __syncthreads();
          load_tile(left, out, i0, k0, n, n);
          load_tile(above, out, j0, k0, n, n);
          __syncthreads();
          for (int k = 0; k < kSide; ++k) {
            const T other = above.v[at.lane][k];
#pragma unroll
            for (int s = 0; s < kEach; ++s) v[s] -= left.v[at.row(s)][k] * other;
          }
        }
        if (i0 == j0) {
          __syncthreads();  // the corner before is read no more
#pragma unroll
          for (int s = 0; s < kEach; ++s) corner.v[at.row(s)][at.lane] = v[s];
          const int bad = cholesky_tile(corner, there);
          if (bad != 0 && info == 0) info = j0 + bad;
#pragma unroll
          for (int s = 0; s < kEach; ++s)
            v[s] = at.lane <= at.row(s) ? corner.v[at.row(s)][at.lane] : T(0);
        } else {
          // x L^T = v, L the corner: a row is a warp's, in its registers, and needs nobody else.
          for (int k = 0; k < there; ++k) {
            const T pivot = corner.v[k][k], l = at.lane > k ? corner.v[at.lane][k] : T(0);
#pragma unroll
            for (int s = 0; s < kEach; ++s) {
              const T x = __shfl_sync(kAllLanes, v[s], k) / pivot;
              if (at.lane == k)
                v[s] = x;
              else if (at.lane > k)
                v[s] -= x * l;
            }
          }
        }
#pragma unroll
        for (int s = 0; s < kEach; ++s) {
          const i64 i = i0 + at.row(s), j = j0 + at.lane;
          if (i < n && j < n) out[i * n + j] = v[s];
          // Across the diagonal, which nobody reads.
          if (i0 != j0 && j0 + at.row(s) < n && i0 + at.lane < n)
            out[(j0 + at.row(s)) * n + i0 + at.lane] = T(0);
        }
      }
    }
    if (threadIdx.x == 0) a.info[b] = i32(info);
  }
}

// The tile (i0, j0) of op(a).
template <class T>
__device__ __forceinline__ void load_tile_of(Tile<T>& to, const T* a, bool transposed, i64 i0,
                                             i64 j0, i64 n) {
  if (!transposed) return load_tile(to, a, i0, j0, n, n);
  const Place at;
#pragma unroll
  for (int s = 0; s < kEach; ++s) {
    const i64 i = j0 + at.row(s), j = i0 + at.lane;
    to.v[at.lane][at.row(s)] = i < n && j < n ? a[i * n + j] : T(0);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) solve_tiles(Systems<T> a) {
  WT_SHARED(Tile<T>, matrix, );
  WT_SHARED(Tile<T>, solved, );
  const Place at;
  const i64 n = a.n, across = (a.columns + kSide - 1) / kSide, down = (n + kSide - 1) / kSide;
  const bool forward = a.triangle.forward(), transposed = a.triangle.transposed;
  for (i64 block = blockIdx.x; block < a.count * across; block += gridDim.x) {
    const i64 b = block / across, c0 = block % across * kSide;
    const T* const m = a.a + b * n * n;
    T* const x = a.x + b * n * a.columns;
    const bool own = c0 + at.lane < a.columns;
    for (i64 step = 0; step < down; ++step) {
      const i64 i0 = (forward ? step : down - 1 - step) * kSide;
      const int there = int(n - i0 < kSide ? n - i0 : kSide);
      T v[kEach];
#pragma unroll
      for (int s = 0; s < kEach; ++s) {
        const i64 i = i0 + at.row(s);
        v[s] = i < n && own ? x[i * a.columns + c0 + at.lane] : T(0);
      }
      for (i64 before = 0; before < step; ++before) {
        const i64 j0 = (forward ? before : down - 1 - before) * kSide;
        __syncthreads();
        load_tile_of(matrix, m, transposed, i0, j0, n);
        load_tile(solved, x, j0, c0, n, a.columns);
        __syncthreads();
        const int here = int(n - j0 < kSide ? n - j0 : kSide);
        for (int k = 0; k < here; ++k) {
          const T other = solved.v[k][at.lane];
#pragma unroll
          for (int s = 0; s < kEach; ++s) v[s] -= matrix.v[at.row(s)][k] * other;
        }
      }
      __syncthreads();
      load_tile_of(matrix, m, transposed, i0, i0, n);
#pragma unroll
      for (int s = 0; s < kEach; ++s) solved.v[at.row(s)][at.lane] = v[s];
      // Every warp divides for itself, which takes as long as one that does it for all, and saves
      // the others the second wait.
      for (int done = 0; done < there; ++done) {
        const int k = forward ? done : there - 1 - done;
        __syncthreads();
        T known = solved.v[k][at.lane];
        if (!a.triangle.unit) known /= matrix.v[k][k];
#pragma unroll
        for (int s = 0; s < kEach; ++s) {
          const int row = at.row(s);
          if (row == k) v[s] = known;
          if (forward ? row > k : row < k) solved.v[row][at.lane] -= matrix.v[row][k] * known;
        }
      }
#pragma unroll
      for (int s = 0; s < kEach; ++s)
        if (at.row(s) < there && own) x[(i0 + at.row(s)) * a.columns + c0 + at.lane] = v[s];
    }
    __syncthreads();  // the tiles are free for the next right sides
  }
}

// --- host side ---

template <class T>
Cholesky<T> cholesky_args(const CholeskyArgs& a) {
  const MatrixBatch m(a.in);
  return {a.out.as<T>(), a.in.as<const T>(), a.info.as<i32>(), m.count, m.rows};
}
void launch_cholesky_naive(const CholeskyArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  with_matrix_type(a.in.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = cholesky_args<T>(a);
    launch<cholesky_naive<T>>(grid_of(l, ceil_div(k.count, kMatrixThreads), kMatrixThreads), k);
  });
}
void launch_cholesky_tiles(const CholeskyArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  with_matrix_type(a.in.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = cholesky_args<T>(a);
    launch<cholesky_tiles<T>>(grid_of(l, k.count, kThreads), k);
  });
}

template <class T>
Systems<T> system_args(const SolveTriangularArgs& a) {
  const MatrixBatch x(a.out);
  return {a.out.as<T>(), a.a.as<const T>(), {a.upper, a.transposed, a.unit}, x.count,
          x.rows,        x.columns};
}
void launch_solve_naive(const SolveTriangularArgs& a, const Launch& l) {
  if (a.out.numel() == 0) return;
  with_matrix_type(a.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = system_args<T>(a);
    launch<solve_naive<T>>(
        grid_of(l, ceil_div(k.count * k.columns, kMatrixThreads), kMatrixThreads), k);
  });
}
void launch_solve_tiles(const SolveTriangularArgs& a, const Launch& l) {
  if (a.out.numel() == 0) return;
  with_matrix_type(a.out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = system_args<T>(a);
    launch<solve_tiles<T>>(grid_of(l, k.count * ceil_div(k.columns, kSide), kThreads), k);
  });
}

const char* cholesky_why_not(const CholeskyArgs& a) { return why_not_matrix_type(a.in.dtype()); }
const char* solve_why_not(const SolveTriangularArgs& a) { return why_not_matrix_type(a.a.dtype()); }

int cholesky_tiles_rank(const CholeskyArgs& a) { return rank_of_block(a.in, 20); }
int solve_tiles_rank(const SolveTriangularArgs& a) { return rank_of_block(a.a, 20); }

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(
    WT_DEVICE_NS, cholesky, CholeskyArgs,
    {.name = "tiles",
     .rank = 20,
     .why_not = cholesky_why_not,
     .rank_of = cholesky_tiles_rank,
     .launch = launch_cholesky_tiles},
    {.name = "naive", .rank = 10, .why_not = cholesky_why_not, .launch = launch_cholesky_naive});
WT_VARIANTS(WT_DEVICE_NS, solve_triangular, SolveTriangularArgs,
            {.name = "tiles",
             .rank = 20,
             .why_not = solve_why_not,
             .rank_of = solve_tiles_rank,
             .launch = launch_solve_tiles},
            {.name = "naive", .rank = 10, .why_not = solve_why_not, .launch = launch_solve_naive});

}  // namespace wt
