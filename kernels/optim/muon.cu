// Muon's elementwise steps on simt and cuda.
//   naive       a thread an element
//   vectorized  16-byte accesses, two of each array in flight
#include "warptape/kernels/muon.h"

#include "warptape/kernels/device/block_reduce.cuh"
#include "warptape/kernels/device/vector.cuh"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 256;
constexpr int kPacks = 2;          // 16-byte accesses of an array, a thread
constexpr i64 kMostBlocks = 1024;  // of those that add up the partial sums for themselves

struct DirectionPointers : MuonDirectionArgs {
  template <class F>
  void visit_pointers(F&& f) const {
    f(out), f(grad), f(momentum), f(block), f(grad_factor);
  }
};
struct NormalizePointers : MuonNormalizeArgs {
  template <class F>
  void visit_pointers(F&& f) const {
    f(out), f(in), f(partials);
  }
};
struct PolynomialPointers : MuonPolynomialArgs {
  template <class F>
  void visit_pointers(F&& f) const {
    f(square), f(gram);
  }
};

inline Config config_for(i64 threads, const Launch& l, i64 most_blocks = i64{1} << 31) {
  const i64 blocks = (threads + kThreads - 1) / kThreads;
  return {.grid = unsigned(blocks < most_blocks ? blocks : most_blocks),
          .block = kThreads,
          .stream = l.stream,
          .op_name = l.op ? l.op->name : nullptr};
}
__device__ __forceinline__ i64 global_thread() {
  return i64(blockIdx.x) * blockDim.x + threadIdx.x;
}

// --- direction ---
template <class T, int V>
__device__ __forceinline__ void direction_pack(const MuonDirectionArgs& a, i64 i) {
  T g[V], m[V], out[V];
  load_vector(g, static_cast<const T*>(a.grad) + i);
  load_vector(m, static_cast<const T*>(a.momentum) + i);
  // After the loads of data: the scalars' way to the thread is theirs too.
  const detail::MuonDirection<T> direction(a);
#pragma unroll
  for (int k = 0; k < V; ++k) out[k] = direction(g[k], m[k]);
  store_vector(static_cast<T*>(a.out) + i, out);
}
template <class T, int V>
__global__ void __launch_bounds__(kThreads) direction_kernel(DirectionPointers a) {
  const i64 i = global_thread() * V;
  if (i + V <= a.n) return direction_pack<T, V>(a, i);
  // The last thread, where V does not divide n.
  for (i64 k = i; k < a.n; ++k) direction_pack<T, 1>(a, k);
}
template <class T, int V>
void launch_direction(const MuonDirectionArgs& a, const Launch& l) {
  launch<direction_kernel<T, V>>(config_for((a.n + V - 1) / V, l), DirectionPointers{a});
}
void direction_naive(const MuonDirectionArgs& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_direction<float, 1>(a, l) : launch_direction<double, 1>(a, l);
}
void direction_vectorized(const MuonDirectionArgs& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_direction<float, 4 * kPacks>(a, l)
                        : launch_direction<double, 2 * kPacks>(a, l);
}

// --- norm ---
template <class T, int V>
__device__ __forceinline__ void normalize_pack(const MuonNormalizeArgs& a, T scale, i64 i) {
  T x[V];
  load_vector(x, static_cast<const T*>(a.in) + i);
#pragma unroll
  for (int k = 0; k < V; ++k) x[k] *= scale;
  store_vector(static_cast<T*>(a.out) + i, x);
}
template <class T, int V>
__global__ void __launch_bounds__(kThreads) normalize_kernel(NormalizePointers a) {
  // Every block adds up all partial sums, in the same order and so to the same bits: one of 8 KiB
  // of elements costs 8 bytes out of L2, and a kernel that added them up once would be a launch
  // more.
  double sum = 0;
  for (i64 i = threadIdx.x; i < a.count; i += kThreads) sum += a.partials[i];
  const T scale = T(detail::muon_scale(a, sqrt(block_reduce(sum, Plus{}))));
  for (i64 i = global_thread() * V; i < a.n; i += i64(gridDim.x) * kThreads * V) {
    if (i + V <= a.n) {
      normalize_pack<T, V>(a, scale, i);
    } else {
      for (i64 k = i; k < a.n; ++k) normalize_pack<T, 1>(a, scale, k);
    }
  }
}
template <class T, int V>
void launch_normalize(const MuonNormalizeArgs& a, const Launch& l) {
  launch<normalize_kernel<T, V>>(config_for((a.n + V - 1) / V, l, kMostBlocks),
                                 NormalizePointers{a});
}
void normalize_naive(const MuonNormalizeArgs& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_normalize<float, 1>(a, l) : launch_normalize<double, 1>(a, l);
}
void normalize_vectorized(const MuonNormalizeArgs& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_normalize<float, 4 * kPacks>(a, l)
                        : launch_normalize<double, 2 * kPacks>(a, l);
}

// --- polynomial ---
// A block a row, which knows its place on the diagonal without a division. V divides a row.
template <class T, int V, class Term>
__device__ __forceinline__ void polynomial_row(const MuonPolynomialArgs& a, i64 columns,
                                               Term term) {
  const i64 row = blockIdx.x;
  T* const squares = static_cast<T*>(a.square) + row * columns;
  const T* const grams = static_cast<const T*>(a.gram) + row * columns;
  for (i64 j = i64(threadIdx.x) * V; j < columns; j += i64(blockDim.x) * V) {
    T square[V], gram[V];
    load_vector(square, squares + j);
    load_vector(gram, grams + j);
#pragma unroll
    for (int k = 0; k < V; ++k) square[k] = term(row == j + k, gram[k], square[k]);
    store_vector(squares + j, square);
  }
}
template <class T, int V>
__global__ void __launch_bounds__(kThreads) polynomial_kernel(PolynomialPointers a) {
  polynomial_row<T, V>(a, a.rows, [&](bool diagonal, T gram, T square) {
    return detail::muon_term(a, diagonal, gram, square);
  });
}
template <class T, int V>
__global__ void __launch_bounds__(kThreads) polynomial_bf16_kernel(PolynomialPointers a) {
  polynomial_row<T, V>(a, a.row_size(), [&](bool diagonal, T gram, T square) {
    return detail::muon_term_in_bf16(a, diagonal, gram, square);
  });
}
template <class T, int V>
void launch_polynomial(const MuonPolynomialArgs& a, const Launch& l) {
  const i64 threads = (a.row_size() / V + 31) / 32 * 32;  // whole warps
  const Config config{
      .grid = unsigned(a.rows),
      .block = unsigned(threads < kThreads ? (threads > 0 ? threads : 32) : kThreads),
      .stream = l.stream,
      .op_name = l.op ? l.op->name : nullptr};
  if (a.bf16)
    launch<polynomial_bf16_kernel<T, V>>(config, PolynomialPointers{a});
  else
    launch<polynomial_kernel<T, V>>(config, PolynomialPointers{a});
}
void polynomial_naive(const MuonPolynomialArgs& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_polynomial<float, 1>(a, l) : launch_polynomial<double, 1>(a, l);
}
void polynomial_vectorized(const MuonPolynomialArgs& a, const Launch& l) {
  a.dtype == DType::f32 ? launch_polynomial<float, 4>(a, l) : launch_polynomial<double, 2>(a, l);
}

// --- what they take ---
template <class Args>
const char* not_f32_or_f64(const Args& a) {
  return a.dtype == DType::f32 || a.dtype == DType::f64 ? nullptr : "matrices must be f32 or f64";
}
constexpr const char* kUnaligned = "pointers must be 16-byte aligned";
const char* direction_unaligned(const MuonDirectionArgs& a) {
  if (const char* why = not_f32_or_f64(a)) return why;
  return aligned_16(a.out) && aligned_16(a.grad) && aligned_16(a.momentum) ? nullptr : kUnaligned;
}
const char* normalize_unaligned(const MuonNormalizeArgs& a) {
  if (const char* why = not_f32_or_f64(a)) return why;
  return aligned_16(a.out) && aligned_16(a.in) ? nullptr : kUnaligned;
}
const char* polynomial_unaligned(const MuonPolynomialArgs& a) {
  if (const char* why = not_f32_or_f64(a)) return why;
  if (a.row_size() * item_size(a.dtype) % 16 != 0) return "rows must be of whole 16 bytes";
  return aligned_16(a.square) && aligned_16(a.gram) ? nullptr : kUnaligned;
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, muon_direction, MuonDirectionArgs,
            {.name = "vectorized",
             .rank = 10,
             .why_not = direction_unaligned,
             .launch = direction_vectorized},
            {.name = "naive", .why_not = not_f32_or_f64, .launch = direction_naive});
WT_VARIANTS(WT_DEVICE_NS, muon_normalize, MuonNormalizeArgs,
            {.name = "vectorized",
             .rank = 10,
             .why_not = normalize_unaligned,
             .launch = normalize_vectorized},
            {.name = "naive", .why_not = not_f32_or_f64, .launch = normalize_naive});
WT_VARIANTS(WT_DEVICE_NS, muon_polynomial, MuonPolynomialArgs,
            {.name = "vectorized",
             .rank = 10,
             .why_not = polynomial_unaligned,
             .launch = polynomial_vectorized},
            {.name = "naive", .why_not = not_f32_or_f64, .launch = polynomial_naive});

}  // namespace wt
