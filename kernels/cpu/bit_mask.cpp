// Bits of relu's output, eight floats at a time.
#include "warptape/kernels/cpu/bit_mask.h"

#include "warptape/kernels/cpu/vector.h"

namespace wt {
#if WT_X86
namespace {

const char* f32_why_not(DType dtype) {
  if (cpu_isa() < kAvx2) return kNoAvx2;
  return dtype == DType::f32 ? nullptr : "f32 only";
}

}  // namespace

const char* bit_pack_why_not(const BitPackArgs& a) { return f32_why_not(a.in.dtype()); }

const char* bit_unpack_why_not(const BitUnpackArgs& a) { return f32_why_not(a.out.dtype()); }

// A byte is a compare of eight elements; "not <=" is true for NaN.
WT_TARGET_AVX2 void bit_pack_avx2(const BitPackArgs& a, const Launch&) {
  const i64 n = a.in.numel();
  const float* in = a.in.as<const float>();
  u8* bits = a.bits.as<u8>();
  const auto byte_of = [&](__m256 v) WT_TARGET_AVX2 {
    return u8(_mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_NLE_UQ)));
  };
  i64 i = 0;
  for (; i + 8 <= n; i += 8) bits[i / 8] = byte_of(_mm256_loadu_ps(in + i));
  if (i < n) bits[i / 8] = byte_of(__m256(load_part8(in + i, n - i, 0)));
}

WT_TARGET_AVX2 void bit_unpack_avx2(const BitUnpackArgs& a, const Launch&) {
  const i64 n = a.out.numel();
  const u8* bits = a.bits.as<const u8>();
  float* out = a.out.as<float>();
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256 one = _mm256_set1_ps(1);
  const auto ones_of = [&](u8 byte) WT_TARGET_AVX2 {
    const __m256i set = _mm256_and_si256(_mm256_set1_epi32(byte), bit);
    return f32x8(_mm256_and_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(set, bit)), one));
  };
  i64 i = 0;
  for (; i + 8 <= n; i += 8) store8(out + i, ones_of(bits[i / 8]));
  if (i < n) store_part8(out + i, ones_of(bits[i / 8]), n - i);
}
#endif
}  // namespace wt
