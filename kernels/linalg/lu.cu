// LU factors on simt and cuda. The ladder:
//   naive  one thread a matrix, by the textbook in double
//   block  one block a matrix, which stays in memory: of each of the n steps the threads share the
//          search for the pivot and what is left of the matrix
#include "warptape/kernels/linalg/linalg.cuh"
#include "warptape/kernels/lu.h"
// After simt.h, which the headers above include.
#include "warptape/kernels/linalg/lu_common.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

template <class T>
struct Lu {
  T* out;
  i64* rows;
  T* sign;
  i32* info;
  const T* in;
  i64 count, n;
  template <class F>
  void visit_pointers(F&& f) const {
    f(out), f(rows), f(sign), f(info), f(in);
  }
};

template <class T>
__global__ void __launch_bounds__(kMatrixThreads) lu_naive(Lu<T> a) {
  const i64 stride = i64(gridDim.x) * kMatrixThreads;
  for (i64 b = i64(blockIdx.x) * kMatrixThreads + threadIdx.x; b < a.count; b += stride)
    a.info[b] =
        lu_of(a.out + b * a.n * a.n, a.rows + b * a.n, a.sign + b, a.in + b * a.n * a.n, a.n);
}

constexpr int kLuThreads = 256;

template <class T>
__global__ void __launch_bounds__(kLuThreads) lu_block(Lu<T> a) {
  WT_SHARED(T, most, [kLuThreads]);
  WT_SHARED(i64, where, [kLuThreads]);
  const i64 n = a.n;
  const int t = int(threadIdx.x);
  for (i64 b = blockIdx.x; b < a.count; b += gridDim.x) {
    T* const m = a.out + b * n * n;
    i64* const rows = a.rows + b * n;
    T sign = T(1);
    i32 info = 0;
    for (i64 i = t; i < n * n; i += kLuThreads) m[i] = a.in[b * n * n + i];
    for (i64 i = t; i < n; i += kLuThreads) rows[i] = i;
    for (i64 j = 0; j < n; ++j) {
      __syncthreads();
      // The first of the largest, or of NaN.
      T best = T(-1);
      i64 at = j;
      for (i64 i = j + t; i < n; i += kLuThreads) {
        const T size = m[i * n + j] < 0 ? -m[i * n + j] : m[i * n + j];
        if (best == best && !(size <= best)) best = size, at = i;
      }
      most[t] = best;
      where[t] = at;
      __syncthreads();
      for (int half = kLuThreads / 2; half > 0; half /= 2) {
        if (t < half) {
          const T own = most[t], other = most[t + half];
          const bool nan = other != other, larger = own == own && (nan || other > own);
          const bool equal = other == own || (nan && own != own);
          if (larger || (equal && where[t + half] < where[t])) {
            most[t] = other;
            where[t] = where[t + half];
          }
        }
        __syncthreads();
      }
      const i64 p = where[0];
      if (p != j) {
        for (i64 k = t; k < n; k += kLuThreads) {
          const T other = m[j * n + k];
          m[j * n + k] = m[p * n + k];
          m[p * n + k] = other;
        }
        if (t == 0) {
          const i64 row = rows[j];
          rows[j] = rows[p];
          rows[p] = row;
        }
        sign = -sign;
      }
      __syncthreads();
      const T pivot = m[j * n + j];
      if (pivot == 0) {  // so it is to every thread
        if (info == 0) info = i32(j + 1);
        continue;
      }
      for (i64 i = j + 1 + t; i < n; i += kLuThreads) m[i * n + j] /= pivot;
      __syncthreads();
      const i64 left = n - 1 - j;
      for (i64 e = t; e < left * left; e += kLuThreads) {
        const i64 i = j + 1 + e / left, k = j + 1 + e % left;
        m[i * n + k] -= m[i * n + j] * m[j * n + k];
      }
    }
    if (t == 0) {
      a.sign[b] = sign;
      a.info[b] = info;
    }
    __syncthreads();
  }
}

template <class T>
Lu<T> lu_args(const LuArgs& a) {
  const MatrixBatch m(a.in);
  return {a.out.as<T>(),      a.rows.as<i64>(), a.sign.as<T>(), a.info.as<i32>(),
          a.in.as<const T>(), m.count,          m.rows};
}
void launch_lu_naive(const LuArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  with_matrix_type(a.in.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = lu_args<T>(a);
    launch<lu_naive<T>>(grid_of(l, ceil_div(k.count, kMatrixThreads), kMatrixThreads), k);
  });
}
void launch_lu_block(const LuArgs& a, const Launch& l) {
  if (a.in.numel() == 0) return;
  with_matrix_type(a.in.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto k = lu_args<T>(a);
    launch<lu_block<T>>(grid_of(l, k.count, kLuThreads), k);
  });
}

const char* lu_why_not(const LuArgs& a) { return why_not_matrix_type(a.in.dtype()); }
int lu_block_rank(const LuArgs& a) { return rank_of_block(a.in, 20); }

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, lu, LuArgs,
            {.name = "block",
             .rank = 20,
             .why_not = lu_why_not,
             .rank_of = lu_block_rank,
             .launch = launch_lu_block},
            {.name = "naive", .rank = 10, .why_not = lu_why_not, .launch = launch_lu_naive});

}  // namespace wt
