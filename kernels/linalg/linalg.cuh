// What the kernels of linalg.h on simt and cuda share.
#pragma once
#include "warptape/kernels/device/float_types.cuh"
#include "warptape/kernels/device/row_kernels.cuh"
// After simt.h, which the headers above include: the textbook's loops then are this device's.
#include "warptape/kernels/linalg.h"
#include "warptape/kernels/linalg/decompositions.h"
#include "warptape/kernels/linalg/matrix_batch.h"

namespace wt {
inline namespace WT_DEVICE_NS {

constexpr int kMatrixThreads = 32;  // of a block in which every thread has a matrix

template <class F>
void with_matrix_type(DType t, F f) {
  if (t == DType::f32)
    f(TypeTag<float>{});
  else
    f(TypeTag<double>{});
}
inline const char* why_not_matrix_type(DType t) {
  return t == DType::f32 || t == DType::f64 ? nullptr : "takes f32 and f64 only";
}

// Matrices that are worked on at the same time, each with so many bytes of memory beside it: all,
// or what 256 MiB are enough for.
inline i64 matrices_at_once(i64 matrices, i64 bytes) {
  const i64 most = (i64{256} << 20) / (bytes + 1) + 1;
  return matrices < most ? matrices : most;
}
// Threads of a kernel in which a matrix has one, and `work` doubles. Each takes several matrices,
// one after the other, where they are more.
inline i64 matrix_threads(i64 matrices, i64 work) {
  return matrices_at_once(matrices, work * i64(sizeof(double)));
}

// --- a block a matrix ---

// Four such blocks a processor leave a thread 64 registers, which are enough; told nothing, nvcc
// aims at more blocks and spills.
constexpr int kBlockThreads = 256, kBlocksAtOnce = 4;

// Where a block works on its matrix: in shared memory, or in a part of the launch's work space.
template <class T, bool Shared>
__device__ __forceinline__ T* block_work(void* work, i64 elements) {
  if constexpr (Shared) {
    WT_DYN_SHARED(T, tile);
    return tile;
  } else {
    return static_cast<T*>(work) + i64(blockIdx.x) * elements;
  }
}
// 2 KiB are left for what reductions have statically.
inline bool fits_shared(i64 bytes, const DeviceLimits& limits) {
  return bytes <= limits.shared_bytes - 2 * 1024;
}
constexpr const char* kNotShared = "takes matrices that fit into a block's shared memory only";
// A warp for each of `columns`, but no more than eight.
inline i64 block_threads(i64 columns) { return columns < 8 ? 32 * columns : kBlockThreads; }

// --- rotations of which none touches what another one does ---

// An even number of rows, so that each has a partner. A row of zeros, or none, meets the others
// without a rotation.
WT_HD inline int even(i64 n) { return int(n + n % 2); }

// Pair k of a round, of which n - 1 let each row meet every other one: as players of a tournament
// sit down, the last one stays where it is while the others move on by a place.
struct Pair {
  int p, q;
  __device__ __forceinline__ Pair(int round, int k, int n) {
    p = round + k, q = round - k;
    if (p >= n - 1) p -= n - 1;
    if (q < 0) q += n - 1;
    if (k == 0) q = n - 1;
  }
};

// Columns, counted from one end to the other, are addressed in an int.
inline const char* why_not_dense(const View& in) {
  const MatrixBatch m(in);
  if (const char* why = why_not_matrix_type(in.dtype())) return why;
  return m.rows > 32000 || m.columns > 32000 ? "takes at most 32000 rows and columns" : nullptr;
}

// `rank` of a kernel with a block a matrix, which is below the plainest one's where the matrices
// are many and so small that most of a block would look on.
inline int rank_of_block(const View& in, int rank) {
  const MatrixBatch m(in);
  const i64 side = m.rows < m.columns ? m.columns : m.rows;
  return side <= 8 && m.count >= 2048 ? 5 : rank;
}

template <class Args>
const char* matrix_why_not(const Args& a) {
  return why_not_matrix_type(a.in.dtype());
}
template <class Args>
const char* block_why_not(const Args& a) {
  return why_not_dense(a.in);
}
template <class Args, i64 (*Bytes)(const Args&, bool)>
const char* shared_why_not(const Args& a, const DeviceLimits& limits) {
  return fits_shared(Bytes(a, true), limits) ? nullptr : kNotShared;
}
template <class Args, int Rank>
int block_rank(const Args& a) {
  return rank_of_block(a.in, Rank);
}

}  // namespace WT_DEVICE_NS
}  // namespace wt

// The ladder of a decomposition of args.in. The file that has it says how many bytes a block works
// in, block_bytes(args, shared), and has launch_block<Shared>, launch_naive and their workspaces.
#define WT_MATRIX_LADDER(contract, Args)                        \
  WT_VARIANTS(WT_DEVICE_NS, contract, Args,                     \
              {.name = "shared",                                \
               .rank = 30,                                      \
               .why_not = block_why_not<Args>,                  \
               .why_not_on = shared_why_not<Args, block_bytes>, \
               .rank_of = block_rank<Args, 30>,                 \
               .launch = launch_block<true>},                   \
              {.name = "block",                                 \
               .rank = 20,                                      \
               .why_not = block_why_not<Args>,                  \
               .rank_of = block_rank<Args, 20>,                 \
               .workspace = block_workspace,                    \
               .launch = launch_block<false>},                  \
              {.name = "naive",                                 \
               .rank = 10,                                      \
               .why_not = matrix_why_not<Args>,                 \
               .workspace = naive_workspace,                    \
               .launch = launch_naive})
