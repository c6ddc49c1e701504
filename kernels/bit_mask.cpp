// Bits of relu's output on the cpu.
#include "warptape/kernels/bit_mask.h"

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt {
namespace {

void pack_reference(const BitPackArgs& a, const Launch&) {
  const i64 n = a.in.numel();
  dispatch_floating(a.in.dtype(), [&]<class S>() {
    const S* in = a.in.as<const S>();
    u8* bits = a.bits.as<u8>();
    for (i64 i = 0; i < n; i += 8) {
      u32 byte = 0;
      for (i64 k = 0; k < 8 && i + k < n; ++k) byte |= u32(!(ComputeType<S>(in[i + k]) <= 0)) << k;
      bits[i / 8] = u8(byte);
    }
  });
}

void unpack_reference(const BitUnpackArgs& a, const Launch&) {
  const i64 n = a.out.numel();
  dispatch_floating(a.out.dtype(), [&]<class S>() {
    const u8* bits = a.bits.as<const u8>();
    S* out = a.out.as<S>();
    for (i64 i = 0; i < n; ++i) out[i] = S(ComputeType<S>(bits[i / 8] >> (i % 8) & 1));
  });
}

#if WT_X86
const char* f32_why_not(DType dtype) {
  if (cpu_isa() < kAvx2) return kNoAvx2;
  return dtype == DType::f32 ? nullptr : "f32 only";
}
const char* pack_why_not(const BitPackArgs& a) { return f32_why_not(a.in.dtype()); }
const char* unpack_why_not(const BitUnpackArgs& a) { return f32_why_not(a.out.dtype()); }

// A byte is a compare of eight elements; "not <=" is true for NaN.
WT_TARGET_AVX2 void pack_avx2(const BitPackArgs& a, const Launch&) {
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

WT_TARGET_AVX2 void unpack_avx2(const BitUnpackArgs& a, const Launch&) {
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

}  // namespace

WT_VARIANTS(cpu, bit_pack, BitPackArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = pack_why_not,
                        .launch = pack_avx2)  //
            {.name = "reference", .rank = 10, .launch = pack_reference});
WT_VARIANTS(cpu, bit_unpack, BitUnpackArgs,
            WT_AVX2_ROW(.name = "avx2", .rank = 20, .why_not = unpack_why_not,
                        .launch = unpack_avx2)  //
            {.name = "reference", .rank = 10, .launch = unpack_reference});

}  // namespace wt
