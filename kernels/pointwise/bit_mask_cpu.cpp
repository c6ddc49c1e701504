// Bits of relu's output, eight floats at a time.
#include "warptape/kernels/pointwise/bit_mask_cpu.h"

#include "warptape/kernels/cpu/pieces.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt {
#if WT_X86
namespace {

const char* f32_why_not(DType dtype) {
  if (cpu_isa() < kAvx2) return kNoAvx2;
  return dtype == DType::f32 ? nullptr : "f32 only";
}

// Elements [i, n); i is a multiple of 8. A byte is a compare of eight elements.
template <int Compare>
WT_TARGET_AVX2 void pack_part(const float* in, u8* bits, float above, i64 i, i64 n) {
  const __m256 bound = _mm256_set1_ps(above);
  const auto byte_of = [&](__m256 v) WT_TARGET_AVX2 {
    return u8(_mm256_movemask_ps(_mm256_cmp_ps(v, bound, Compare)));
  };
  for (; i + 8 <= n; i += 8) bits[i / 8] = byte_of(_mm256_loadu_ps(in + i));
  // The lanes past the end are as large as the bound: no bit.
  if (i < n) bits[i / 8] = byte_of(__m256(load_part8(in + i, n - i, above)));
}

// The same range of gradients.
template <bool Leaky>
WT_TARGET_AVX2 void gate_part(float* out, const float* gy, const u8* bits, float slope, i64 i,
                              i64 n) {
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const auto gated = [&](f32x8 g, u8 byte) WT_TARGET_AVX2 {
    const __m256i set = _mm256_and_si256(_mm256_set1_epi32(byte), bit);
    const __m256 passes = _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, bit));
    if constexpr (Leaky)
      return f32x8(_mm256_blendv_ps(__m256(g * splat8(slope)), __m256(g), passes));
    else
      return f32x8(_mm256_and_ps(__m256(g), passes));
  };
  for (; i + 8 <= n; i += 8) store8(out + i, gated(load8(gy + i), bits[i / 8]));
  if (i < n) store_part8(out + i, gated(load_part8(gy + i, n - i, 0), bits[i / 8]), n - i);
}

}  // namespace

const char* bit_pack_why_not(const BitPackArgs& a) { return f32_why_not(a.in.dtype()); }

const char* bit_gate_why_not(const BitGateArgs& a) { return f32_why_not(a.out.dtype()); }

void bit_pack_avx2(const BitPackArgs& a, const Launch&) {
  const float* in = a.in.as<const float>();
  u8* bits = a.bits.as<u8>();
  in_pieces(a.in.numel(), [&](i64 from, i64 to) {
    if (a.nan)  // "not <=" is true for NaN
      pack_part<_CMP_NLE_UQ>(in, bits, float(a.above), from, to);
    else
      pack_part<_CMP_GT_OQ>(in, bits, float(a.above), from, to);
  });
}

void bit_gate_avx2(const BitGateArgs& a, const Launch&) {
  float* out = a.out.as<float>();
  const float* gy = a.gy.as<const float>();
  const u8* bits = a.bits.as<const u8>();
  in_pieces(a.out.numel(), [&](i64 from, i64 to) {
    if (a.leaky)
      gate_part<true>(out, gy, bits, float(a.slope), from, to);
    else
      gate_part<false>(out, gy, bits, 0, from, to);
  });
}
#endif
}  // namespace wt
