#include "warptape/kernels/simt/mma.h"

#include <immintrin.h>

#include "warptape/core/half.h"

namespace wt::simt_runtime {
namespace {

// The warp's fragments as matrices of packed pairs. PTX layout: group g = lane / 4 and t = lane %
// 4; a0..a3 hold A[g][2t..], A[g+8][2t..], A[g][2t+8..], A[g+8][2t+8..]; b0, b1 hold B[2t..][g],
// B[2t+8..][g]; d0, d1 are D[g][2t..], d2, d3 are D[g+8][2t..].
struct Fragments {
  alignas(64) uint32_t a[16][8];  // row, pair along k
  alignas(64) uint32_t b[8][8];   // column, pair along k
};

void gather(const MmaLane* const* lanes, Fragments& f) {
  for (int l = 0; l < 32; ++l) {
    const int g = l >> 2, t = l & 3;
    const MmaLane& lane = *lanes[l];
    f.a[g][t] = lane.a[0];
    f.a[g + 8][t] = lane.a[1];
    f.a[g][t + 4] = lane.a[2];
    f.a[g + 8][t + 4] = lane.a[3];
    f.b[g][t] = lane.b[0];
    f.b[g][t + 4] = lane.b[1];
  }
}

void scatter(const MmaLane* const* lanes, const float (*d)[8]) {
  for (int l = 0; l < 32; ++l) {
    const int g = l >> 2, t = l & 3;
    float* out = lanes[l]->d;
    out[0] += d[g][2 * t];
    out[1] += d[g][2 * t + 1];
    out[2] += d[g + 8][2 * t];
    out[3] += d[g + 8][2 * t + 1];
  }
}

void multiply_plain(const Fragments& f, bool bf16, float (*d)[8]) {
  float a[16][16], b[8][16];
  const auto widen = [bf16](const uint32_t* from, float* to) {
    for (int i = 0; i < 16; ++i) {
      const u16 bits = u16(from[i / 2] >> (i % 2 * 16));
      to[i] = bf16 ? wt::detail::bfloat_to_float(bits) : wt::detail::half_to_float(bits);
    }
  };
  for (int i = 0; i < 16; ++i) widen(f.a[i], a[i]);
  for (int j = 0; j < 8; ++j) widen(f.b[j], b[j]);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += a[i][k] * b[j][k];
      d[i][j] = sum;
    }
}

// The same with AVX2, FMA and F16C. Products of 11-bit mantissas are exact in float, so the fused
// sum rounds like the plain one: both give equal bits.
#define WT_AVX2 __attribute__((target("avx2,fma,f16c")))

WT_AVX2 inline __m256 widen8(const uint32_t* packed, bool bf16) {
  const __m128i bits = _mm_load_si128(reinterpret_cast<const __m128i*>(packed));
  if (!bf16) return _mm256_cvtph_ps(bits);
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

WT_AVX2 void multiply_avx2(const Fragments& f, bool bf16, float (*d)[8]) {
  alignas(32) float a[16][16], columns[8][16], b[16][8];
  for (int i = 0; i < 16; ++i)
    for (int h = 0; h < 2; ++h) _mm256_store_ps(a[i] + 8 * h, widen8(f.a[i] + 4 * h, bf16));
  for (int j = 0; j < 8; ++j)
    for (int h = 0; h < 2; ++h) _mm256_store_ps(columns[j] + 8 * h, widen8(f.b[j] + 4 * h, bf16));
  for (int k = 0; k < 16; ++k)
    for (int j = 0; j < 8; ++j) b[k][j] = columns[j][k];
  for (int i = 0; i < 16; i += 4) {
    __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    for (int k = 0; k < 16; ++k) {
      const __m256 row = _mm256_load_ps(b[k]);
      for (int r = 0; r < 4; ++r)
        sum[r] = _mm256_fmadd_ps(_mm256_set1_ps(a[i + r][k]), row, sum[r]);
    }
    for (int r = 0; r < 4; ++r) _mm256_storeu_ps(d[i + r], sum[r]);
  }
}

}  // namespace

bool cpu_has_avx2() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");  // AVX2 CPUs have F16C
}

void mma_m16n8k16_warp(const MmaLane* const* lanes, bool bf16) {
  static const bool avx2 = cpu_has_avx2();
  Fragments f;
  alignas(32) float d[16][8];
  gather(lanes, f);
  if (avx2)
    multiply_avx2(f, bf16, d);
  else
    multiply_plain(f, bf16, d);
  scatter(lanes, d);
}

void ldmatrix_warp(const LdmatrixLane* const* lanes, unsigned count, bool transposed) {
  for (unsigned m = 0; m < count; ++m) {
    const uint16_t* rows[8];
    for (unsigned i = 0; i < 8; ++i) rows[i] = static_cast<const uint16_t*>(lanes[m * 8 + i]->row);
    for (unsigned l = 0; l < 32; ++l) {
      const unsigned g = l >> 2, t = 2 * (l & 3);
      const uint32_t low = transposed ? rows[t][g] : rows[g][t];
      const uint32_t high = transposed ? rows[t + 1][g] : rows[g][t + 1];
      lanes[l]->r[m] = low | high << 16;
    }
  }
}

}  // namespace wt::simt_runtime
