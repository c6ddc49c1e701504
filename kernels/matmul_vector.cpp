// The vector code of the cpu's matrix products, compiled for three instruction sets: the variant
// for small products, which packs nothing, and the inner kernels of the packed one.
#include <utility>

#include "warptape/kernels/matmul_cpu.h"

namespace wt {

// Register arrays stay in registers only when the loops over them are unrolled, which -O2 leaves
// undone.
#if defined(__clang__)
#define WT_UNROLL _Pragma("unroll")
#else
#define WT_UNROLL _Pragma("GCC unroll 32")
#endif

namespace {

// --- per instruction set: vectors, accesses to their first n elements, sums -------------------
#define WT_VECTOR_TYPES(bytes)                                                          \
  constexpr int kVectorBytes = bytes;                                                   \
  template <class T>                                                                    \
  struct Simd {                                                                         \
    typedef T type __attribute__((vector_size(bytes), aligned(alignof(T)), may_alias)); \
  };                                                                                    \
  template <class T>                                                                    \
  using Vec = typename Simd<T>::type;

// to[r][c] = from[c][r], 16 bytes square.
template <class T>
WT_HOT void transpose_block(T* to, i64 to_row, const T* from, i64 from_row) {
  constexpr int kSide = 16 / int(sizeof(T));
#if WT_X86
  if constexpr (kSide == 4) {
    __m128 r0 = _mm_loadu_ps(from), r1 = _mm_loadu_ps(from + from_row);
    __m128 r2 = _mm_loadu_ps(from + 2 * from_row), r3 = _mm_loadu_ps(from + 3 * from_row);
    _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
    _mm_storeu_ps(to, r0);
    _mm_storeu_ps(to + to_row, r1);
    _mm_storeu_ps(to + 2 * to_row, r2);
    _mm_storeu_ps(to + 3 * to_row, r3);
    return;
  }
#endif
  for (int r = 0; r < kSide; ++r)
    for (int c = 0; c < kSide; ++c) to[r * to_row + c] = from[c * from_row + r];
}

namespace baseline {
WT_VECTOR_TYPES(16)
template <class T>
WT_HOT Vec<T> load_first(const T* p, int n) {
  T all[16 / sizeof(T)] = {};
  for (int i = 0; i < n; ++i) all[i] = p[i];
  return *reinterpret_cast<const Vec<T>*>(all);
}
template <class T>
WT_HOT void store_first(T* p, Vec<T> v, int n) {
  T all[16 / sizeof(T)];
  *reinterpret_cast<Vec<T>*>(all) = v;
  for (int i = 0; i < n; ++i) p[i] = all[i];
}
template <class T>
WT_HOT T sum_of(Vec<T> v) {
  T s = v[0];
  for (int i = 1; i < 16 / int(sizeof(T)); ++i) s += v[i];
  return s;
}
#define WT_SIMD
#include "warptape/kernels/matmul_packed.inc"
#undef WT_SIMD
}  // namespace baseline

#if WT_X86
namespace avx2 {
WT_VECTOR_TYPES(32)
#define WT_SIMD WT_TARGET_AVX2
// Masks of the first n elements start n before the middle.
constexpr i32 kMask32[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
constexpr i64 kMask64[8] = {-1, -1, -1, -1};
WT_SIMD inline __m256i mask32(int n) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMask32 + 8 - n));
}
WT_SIMD inline __m256i mask64(int n) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMask64 + 4 - n));
}
WT_SIMD inline Vec<float> load_first(const float* p, int n) {
  return _mm256_maskload_ps(p, mask32(n));
}
WT_SIMD inline Vec<double> load_first(const double* p, int n) {
  return _mm256_maskload_pd(p, mask64(n));
}
WT_SIMD inline void store_first(float* p, Vec<float> v, int n) {
  _mm256_maskstore_ps(p, mask32(n), v);
}
WT_SIMD inline void store_first(double* p, Vec<double> v, int n) {
  _mm256_maskstore_pd(p, mask64(n), v);
}
template <class T>
WT_SIMD inline T sum_of(Vec<T> v) {
  if constexpr (sizeof(T) == 4) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  } else {
    const __m128d s = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    return _mm_cvtsd_f64(_mm_add_sd(s, _mm_unpackhi_pd(s, s)));
  }
}
#include "warptape/kernels/matmul_packed.inc"
#undef WT_SIMD
}  // namespace avx2

namespace avx512 {
WT_VECTOR_TYPES(64)
#define WT_SIMD WT_TARGET_AVX512
WT_SIMD inline Vec<float> load_first(const float* p, int n) {
  return _mm512_maskz_loadu_ps(__mmask16((1u << n) - 1), p);
}
WT_SIMD inline Vec<double> load_first(const double* p, int n) {
  return _mm512_maskz_loadu_pd(__mmask8((1u << n) - 1), p);
}
WT_SIMD inline void store_first(float* p, Vec<float> v, int n) {
  _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), v);
}
WT_SIMD inline void store_first(double* p, Vec<double> v, int n) {
  _mm512_mask_storeu_pd(p, __mmask8((1u << n) - 1), v);
}
template <class T>
WT_SIMD inline T sum_of(Vec<T> v) {
  // Not _mm512_reduce_add: g++ 12 warns of an uninitialised value inside it.
  if constexpr (sizeof(T) == 4)
    return avx2::sum_of<float>(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                               __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
  else
    return avx2::sum_of<double>(__builtin_shufflevector(v, v, 0, 1, 2, 3) +
                                __builtin_shufflevector(v, v, 4, 5, 6, 7));
}
#include "warptape/kernels/matmul_packed.inc"
#undef WT_SIMD
}  // namespace avx512
#else
namespace avx2 = baseline;
namespace avx512 = baseline;
#endif

template <class T>
constexpr PackedKernels<T> kPacked[3] = {baseline::packed_kernels<T>(), avx2::packed_kernels<T>(),
                                         avx512::packed_kernels<T>()};

using Kernel = void (*)(const MatmulArgs&);
constexpr Kernel kMultiply[2][3] = {
    {baseline::multiply<float>, avx2::multiply<float>, avx512::multiply<float>},
    {baseline::multiply<double>, avx2::multiply<double>, avx512::multiply<double>}};
constexpr Kernel kRowSums[2][3] = {
    {baseline::row_sums<float>, avx2::row_sums<float>, avx512::row_sums<float>},
    {baseline::row_sums<double>, avx2::row_sums<double>, avx512::row_sums<double>}};

}  // namespace

constinit std::atomic<int> matmul_isa_in_use{-1};

int detect_matmul_isa() {
  const int isa = cpu_has_avx512() ? 2 : cpu_has_avx2() ? 1 : 0;
  matmul_isa_in_use.store(isa, std::memory_order_relaxed);
  return isa;
}

const char* matmul_tiny_why_not(const MatmulArgs& g) {
  return g.dtype == DType::f32 || g.dtype == DType::f64 ? nullptr : "takes f32 and f64 only";
}

int matmul_tiny_rank(const MatmulArgs& g) {
  return double(g.m) * double(g.n) * double(g.k) <= kTinyWork ? 50 : 2;
}

void matmul_tiny(const MatmulArgs& g, const Launch&) {
  const Kernel multiply = kMultiply[g.dtype == DType::f64][matmul_isa()];
  if (g.batch_ndim == 0) [[likely]] {
    multiply(g);
    if (g.row_sum) matmul_row_sum(g);
    return;
  }
  const i64 batches = g.batches();
  for (i64 i = 0; i < batches; ++i) multiply(matmul_at(g, i));
}

void matmul_row_sum(const MatmulArgs& g) { kRowSums[g.dtype == DType::f64][matmul_isa()](g); }

template <class T>
const PackedKernels<T>& matmul_packed_kernels() {
  return kPacked<T>[matmul_isa()];
}
template const PackedKernels<float>& matmul_packed_kernels();
template const PackedKernels<double>& matmul_packed_kernels();

}  // namespace wt
