// What was summed goes to memory: the end that the rungs of the matrix product share.
#pragma once
#include "warptape/kernels/device/epilogue.cuh"
#include "warptape/kernels/dispatch/run_matmul_epilogue.h"
#include "warptape/kernels/matmul/matmul.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
// k in parts, each with blocks of its own (blockIdx.y), which leave their sums in a workspace;
// matmul_split.cuh has the stage that adds them. Of a product that is not split there is one part,
// and `sums` is null.
struct KParts {
  i64 each;  // terms of a part; the last may have fewer
  int count = 1;
  i64 pitch = 0;              // of `sums`: from a row to the next, a multiple of 4
  float* sums = nullptr;      // [batches, count, m, pitch]; behind n there are zeros
  float* row_sums = nullptr;  // [count, m]
  template <class F>
  void visit_pointers(F&& f) const {
    f(sums), f(row_sums);
  }
  // The block's terms: the first, and how many.
  __device__ __forceinline__ i64 first() const { return i64(blockIdx.y) * each; }
  __device__ __forceinline__ i64 terms(i64 k) const { return min(k - first(), each); }
  // Where the block's part of matrix z goes; null where it is the whole.
  __device__ __forceinline__ float* at(const MatmulArgs& g, i64 z) const {
    return sums ? sums + (z * count + i64(blockIdx.y)) * g.m * pitch : nullptr;
  }
};

namespace {

template <class T>
__device__ __forceinline__ void finish(T& to, typename MatmulSum<T>::type sum, bool accumulate) {
  using Sum = typename MatmulSum<T>::type;
  to = T(accumulate ? sum + Sum(to) : sum);
}

// --- an epilogue: kernels/dispatch/run_matmul_epilogue.h has it as a pass of its own ---

// N neighbours of a row, `left` of them there. Packs: as one access, where all are.
template <int N, class T, class A>
__device__ __forceinline__ void read_some(A (&v)[N], const T* from, int left, bool packs) {
  T t[N];
  if (packs && left >= N) {
    load_vector(t, from);
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k) t[k] = k < left ? from[k] : T(0);
  }
#pragma unroll
  for (int k = 0; k < N; ++k) v[k] = A(t[k]);
}
template <int N, class T, class A>
__device__ __forceinline__ void write_some(T* to, const A (&v)[N], int left, bool packs) {
  T t[N];
#pragma unroll
  for (int k = 0; k < N; ++k) t[k] = T(v[k]);
  if (packs && left >= N) {
    store_vector(to, t);
  } else {
#pragma unroll
    for (int k = 0; k < N; ++k)
      if (k < left) to[k] = t[k];
  }
}

// The end of N sums of a row, whatever is to come of them. `out`: the first one's place; j: its
// column.
template <class T, int N, class A>
__device__ __forceinline__ void finish_some(const MatmulArgs& g, T* out, i64 j, A (&z)[N],
                                            bool packs) {
  const int left = clamp_left(g.n - j);
  if (g.bias) {
    const T* bias = static_cast<const T*>(g.bias) + j;
#pragma unroll
    for (int k = 0; k < N; ++k) z[k] += k < left ? A(bias[k]) : A(0);
  }
  A more[N] = {};
  if (g.accumulate) {
    read_some(more, out, left, packs);
#pragma unroll
    for (int k = 0; k < N; ++k) z[k] += more[k];
  }
  if constexpr (std::is_floating_point_v<A>) {
    const MatmulEpilogue& e = g.epilogue;
    const i64 at = out - static_cast<T*>(g.out);  // in residual and aux, too
    if (e.residual) {
      read_some(more, static_cast<const T*>(e.residual) + at, left, packs);
#pragma unroll
      for (int k = 0; k < N; ++k) z[k] += more[k];
    }
    if (e.aux) {
      T* const aux = static_cast<T*>(e.aux) + at;
      if (e.gradient)
        read_some(more, aux, left, packs);
      else
        write_some(aux, z, left, packs);
    }
    activate(e, z, more);
  }
  write_some(out, z, left, packs);
}

// N neighbours of out, residual and aux can be moved at once, wherever a row begins.
inline bool packs_aligned(const MatmulArgs& g, int n) {
  const void* const all[] = {g.out, g.epilogue.residual, g.epilogue.aux};
  bool packs = g.out_row % n == 0;
  for (const void* p : all)
    packs &= reinterpret_cast<uintptr_t>(p) % uintptr_t(n * item_size(g.dtype)) == 0;
  for (int d = 0; d < g.batch_ndim; ++d) packs &= g.batch[d].out % n == 0;
  return packs;
}

// Whether the tensor-core rungs have kernels for its epilogue: of the products that operators make,
// x w^T and dy w. Others have it as a pass of its own.
inline bool ends_in_kernel(const MatmulArgs& g) { return g.epilogue && g.a_column == 1; }

// A band of Rows x Columns sums, `pitch` floats from row to row; i0, j0: its corner in out, the
// matrix of this batch index. To be called by all threads of the block, with barriers before and
// behind.
template <class T, int Rows, int Columns, int Threads>
__device__ __forceinline__ void finish_band(const MatmulArgs& g, const float* band, int pitch,
                                            T* out, i64 i0, i64 j0, bool packs) {
  constexpr int kPacks = Columns / kStaged;
  // Rolled up: the code of the activations once.
#pragma unroll 1
  for (int p = int(threadIdx.x); p < Rows * kPacks; p += Threads) {
    const int row = p / kPacks, column = p % kPacks * kStaged;
    const i64 i = i0 + row, j = j0 + column;
    if (i >= g.m || j >= g.n) continue;
    float z[kStaged];
    load_vector(z, band + row * pitch + column);
    finish_some(g, out + i * g.out_row + j, j, z, packs);
  }
}

// --- a product alone ---

template <class T>
__device__ __forceinline__ void finish_pair(const MatmulArgs& g, T* out, i64 i, i64 j, float first,
                                            float second, bool pairs) {
  if (i >= g.m || j >= g.n) return;
  const T* bias = static_cast<const T*>(g.bias);
  T* at = out + i * g.out_row + j;
  const bool both = j + 1 < g.n;
  if (bias) {
    first += float(bias[j]);
    if (both) second += float(bias[j + 1]);
  }
  if (g.accumulate) {
    first += float(at[0]);
    if (both) second += float(at[1]);
  }
  if (both && pairs) {
    // 4 bytes a lane: the four lanes of a row write 16 bytes of it, half a sector. The next tile to
    // the right is the other half; L2 joins the two before anything goes to memory.
    vstore(at, Pack<T, 2>{T(first), T(second)});
  } else {
    at[0] = T(first);
    if (both) at[1] = T(second);
  }
}

// Row i's sum of the block's terms.
template <class T>
__device__ __forceinline__ void finish_row_sum(const MatmulArgs& g, const KParts& parts, i64 i,
                                               float sum) {
  if (i >= g.m) return;
  if (parts.sums)
    parts.row_sums[i64(blockIdx.y) * g.m + i] = sum;
  else
    finish(static_cast<T*>(g.row_sum)[i], sum, g.row_sum_accumulate);
}

}  // namespace
}  // namespace WT_DEVICE_NS
}  // namespace wt
