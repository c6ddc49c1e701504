// Copies and fills by rows: one typed loop a pair of dtypes.
#include "warptape/kernels/copy/copy_cpu.h"

#include <cstring>
#include <limits>
#include <type_traits>

#include "warptape/core/half.h"
#include "warptape/core/numbers/narrow.h"
#include "warptape/kernels/common/strided.h"
#include "warptape/kernels/copy/copy_rows_cpu.h"
#include "warptape/kernels/cpu/half_rows.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt {
namespace {

template <class T>
void copy_rows(const CopyArgs& a, LoopNest<2> nest) {
  T* out = a.out.as<T>();
  const T* in = a.in.as<T>();
  if (LoopNest<2> outer; as_transposes(nest, outer))
    return for_each_row(outer,
                        [&](const i64(&at)[2]) { copy_transposed(out + at[0], in + at[1], nest); });
  const i64 n = nest.inner(), step_out = nest.inner_stride(0), step_in = nest.inner_stride(1);
  for_each_row(nest, [&](const i64(&at)[2]) {
    T* o = out + at[0];
    const T* s = in + at[1];
    if (step_out == 1 && step_in == 1)
      copy_row(o, s, n);
    else if (step_in == 0)
      for (i64 i = 0; i < n; ++i) o[i * step_out] = *s;
    else
      for (i64 i = 0; i < n; ++i) o[i * step_out] = s[i * step_in];
  });
}

void copy_same_dtype(const CopyArgs& a) {
  const LoopNest<2> nest = loop_nest({a.out, a.in}, LoopOrder::memory);
  switch (item_size(a.out.dtype())) {
    case 1:
      return copy_rows<u8>(a, nest);
    case 2:
      return copy_rows<u16>(a, nest);
    case 4:
      return copy_rows<u32>(a, nest);
    default:
      return copy_rows<u64>(a, nest);
  }
}

struct Bool {
  u8 value;
};
template <class T>
constexpr bool kFloating = std::is_floating_point_v<T>;
template <>
constexpr bool kFloating<Half> = true;
template <>
constexpr bool kFloating<BFloat16> = true;

template <class T>
WT_HOT auto number(T v) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return float(v);
  else if constexpr (std::is_same_v<T, Bool>)
    return i32(v.value != 0);
  else
    return v;
}

template <class To, class From>
WT_HOT To convert(From value) {
  const auto v = number(value);
  if constexpr (std::is_same_v<To, Bool>) {
    return Bool{u8(v != 0)};
  } else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>) {
    return To(detail::before_narrowing(v));
  } else if constexpr (kFloating<From> && !kFloating<To>) {
    using Limits = std::numeric_limits<To>;
    const double d = double(v);  // 2^63 is the first value beyond i64; the other limits are exact
    if (d != d) return 0;
    return d <= double(Limits::min())   ? Limits::min()
           : d >= double(Limits::max()) ? Limits::max()
                                        : To(d);
  } else {
    return To(v);
  }
}

// Not inlined: for short rows gcc sees the loop's counter overflow, with a warning.
template <class To, class From>
__attribute__((noinline)) void cast_row(To* out, const From* in, i64 n) {
  i64 i = 0;
  for (; i + 16 <= n; i += 16) {  // a fixed count and no aliasing: compilers vectorise this at -O2
    From from[16];
    To to[16];
    std::memcpy(from, in + i, sizeof from);
    for (int k = 0; k < 16; ++k) to[k] = convert<To>(from[k]);
    std::memcpy(out + i, to, sizeof to);
  }
  for (; i < n; ++i) out[i] = convert<To>(in[i]);
}

#if WT_X86
WT_TARGET_AVX2 void half_row_avx2(Half* out, const float* in, i64 n) {
  i64 i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; ++i) out[i] = Half(in[i]);
}
WT_TARGET_AVX2 void float_row_avx2(float* out, const Half* in, i64 n) {
  i64 i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
  for (; i < n; ++i) out[i] = float(in[i]);
}
WT_TARGET_AVX2 void float_row_avx2(float* out, const BFloat16* in, i64 n) {
  i64 i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
    const __m256i wide = _mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16);
    _mm256_storeu_ps(out + i, _mm256_castsi256_ps(wide));
  }
  for (; i < n; ++i) out[i] = float(in[i]);
}
// Eight of them, in the low half of each 32 bits.
WT_AVX2_HOT __m256i bfloats(const float* in) {
  const __m256 x = _mm256_loadu_ps(in);
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  return _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, _mm256_castps_si256(nan)), 16);
}
WT_TARGET_AVX2 void bfloat_row_avx2(BFloat16* out, const float* in, i64 n) {
  i64 i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i both = _mm256_packus_epi32(bfloats(in + i), bfloats(in + i + 8));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_permute4x64_epi64(both, 0xd8));
  }
  for (; i < n; ++i) out[i] = BFloat16(in[i]);
}
template <>
void cast_row(BFloat16* out, const float* in, i64 n) {
  if (cpu_isa() >= kAvx2) return bfloat_row_avx2(out, in, n);
  for (i64 i = 0; i < n; ++i) out[i] = BFloat16(in[i]);
}
template <>
void cast_row(Half* out, const float* in, i64 n) {
  if (cpu_isa() >= kAvx2) return half_row_avx2(out, in, n);
  for (i64 i = 0; i < n; ++i) out[i] = Half(in[i]);
}
template <>
void cast_row(float* out, const Half* in, i64 n) {
  if (cpu_isa() >= kAvx2) return float_row_avx2(out, in, n);
  for (i64 i = 0; i < n; ++i) out[i] = float(in[i]);
}
template <>
void cast_row(float* out, const BFloat16* in, i64 n) {
  if (cpu_isa() >= kAvx2) return float_row_avx2(out, in, n);
  for (i64 i = 0; i < n; ++i) out[i] = float(in[i]);
}
#endif

template <class To, class From>
void cast(const CopyArgs& a) {
  const LoopNest<2> nest = loop_nest({a.out, a.in}, LoopOrder::memory);
  To* out = a.out.as<To>();
  const From* in = a.in.as<From>();
  const i64 n = nest.inner(), step_out = nest.inner_stride(0), step_in = nest.inner_stride(1);
  for_each_row(nest, [&](const i64(&at)[2]) {
    if (step_out == 1 && step_in == 1)
      return write_row(out + at[0], n,
                       [&](To* to, i64 i, i64 m) { cast_row(to, in + at[1] + i, m); });
    for (i64 i = 0; i < n; ++i) out[at[0] + i * step_out] = convert<To>(in[at[1] + i * step_in]);
  });
}

template <class To>
void cast_to(const CopyArgs& a) {
  switch (a.in.dtype()) {
    case DType::f64:
      return cast<To, double>(a);
    case DType::f32:
      return cast<To, float>(a);
    case DType::f16:
      return cast<To, Half>(a);
    case DType::bf16:
      return cast<To, BFloat16>(a);
    case DType::i64:
      return cast<To, i64>(a);
    case DType::i32:
      return cast<To, i32>(a);
    case DType::u8:
      return cast<To, u8>(a);
    default:
      return cast<To, Bool>(a);
  }
}

template <class T>
void fill_rows(const FillArgs& a, u64 bits) {
  const LoopNest<1> nest = loop_nest({a.out}, LoopOrder::memory);
  T value;
  std::memcpy(&value, &bits, sizeof value);
  T* out = a.out.as<T>();
  const i64 n = nest.inner(), step = nest.inner_stride(0);
  for_each_row(nest, [&](const i64(&at)[1]) {
    if (step == 1)
      fill_row(out + at[0], n, value);
    else
      for (i64 i = 0; i < n; ++i) out[at[0] + i * step] = value;
  });
}

}  // namespace

void detail::convert_row(float* out, const Half* in, i64 n) { cast_row(out, in, n); }
void detail::convert_row(float* out, const BFloat16* in, i64 n) { cast_row(out, in, n); }
void detail::convert_row(Half* out, const float* in, i64 n) { cast_row(out, in, n); }
void detail::convert_row(BFloat16* out, const float* in, i64 n) { cast_row(out, in, n); }

const char* copy_vectorized_why_not(const CopyArgs& a) {
  const DType to = a.out.dtype(), from = a.in.dtype();
  return to == from || (computes(to) && computes(from)) ? nullptr
                                                        : "a dtype for storage only is converted";
}

void copy_vectorized(const CopyArgs& a, const Launch&) {
  if (a.out.numel() == 0) return;
  if (a.out.dtype() == a.in.dtype()) return copy_same_dtype(a);
  switch (a.out.dtype()) {
    case DType::f64:
      return cast_to<double>(a);
    case DType::f32:
      return cast_to<float>(a);
    case DType::f16:
      return cast_to<Half>(a);
    case DType::bf16:
      return cast_to<BFloat16>(a);
    case DType::i64:
      return cast_to<i64>(a);
    case DType::i32:
      return cast_to<i32>(a);
    case DType::u8:
      return cast_to<u8>(a);
    default:
      return cast_to<Bool>(a);
  }
}

void fill_vectorized(const FillArgs& a, const Launch&) {
  const u64 bits = detail::fill_bits(a);
  switch (item_size(a.out.dtype())) {
    case 1:
      return fill_rows<u8>(a, bits);
    case 2:
      return fill_rows<u16>(a, bits);
    case 4:
      return fill_rows<u32>(a, bits);
    default:
      return fill_rows<u64>(a, bits);
  }
}

}  // namespace wt
