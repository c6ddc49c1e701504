#include "warptape/kernels/random/philox_words_cpu.h"

#include <bit>
#include <cstring>

#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt {
namespace {

constexpr int kCounters = PhiloxWords::kCounters;

void draw_plain(const PhiloxWords& w, u32* words, u64 block) {
  u32 word[4][kCounters];
  for (int k = 0; k < kCounters; ++k) {
    word[0][k] = u32(block + u64(k));
    word[1][k] = u32((block + u64(k)) >> 32);
    word[2][k] = u32(w.call);
    word[3][k] = u32(w.call >> 32);
  }
  for (int round = 0; round < 10; ++round) {
    const PhiloxKey key{u32(w.lo[round]), u32(w.hi[round])};
    for (int k = 0; k < kCounters; ++k)
      philox_round(word[0][k], word[1][k], word[2][k], word[3][k], key);
  }
  u64 pairs[2 * kCounters];  // two words at a time: half the stores
  for (int k = 0; k < kCounters; ++k) {
    pairs[2 * k] = word[0][k] | u64(word[1][k]) << 32;
    pairs[2 * k + 1] = word[2][k] | u64(word[3][k]) << 32;
  }
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(words, pairs, sizeof pairs);
}

#if WT_X86
#if defined(__clang__)
#define WT_UNROLL_VECTORS _Pragma("unroll")
#else
#define WT_UNROLL_VECTORS _Pragma("GCC unroll 4")
#endif
using Words = u64 __attribute__((vector_size(32)));

WT_AVX2_HOT Words product(Words a, u64 b) {
  return Words(_mm256_mul_epu32(__m256i(a), _mm256_set1_epi64x(i64(b))));
}
// The same with a word in the lower half of each 64 bits. The product that makes the next words
// reads no more, so what is left in the upper half may stay: six instructions a round. All
// counters, four vectors of them in step: one chain of products would leave a core waiting.
WT_AVX2_HOT void draw_halves(const PhiloxWords& w, u32* words, u64 block) {
  constexpr int kVectors = kCounters / 4;
  Words w0[kVectors], w1[kVectors], w2[kVectors], w3[kVectors];
  WT_UNROLL_VECTORS
  for (int v = 0; v < kVectors; ++v) {
    w0[v] = block + u64(4 * v) + Words{0, 1, 2, 3};
    w1[v] = w0[v] >> 32;
    w2[v] = Words{} + w.call;
    w3[v] = Words{} + (w.call >> 32);
  }
  for (int round = 0; round < 10; ++round) {
    WT_UNROLL_VECTORS
    for (int v = 0; v < kVectors; ++v) {
      const Words p = product(w0[v], 0xD2511F53u), q = product(w2[v], 0xCD9E8D57u);
      w0[v] = (q >> 32) ^ w1[v] ^ w.lo[round];
      w1[v] = q;
      w2[v] = (p >> 32) ^ w3[v] ^ w.hi[round];
      w3[v] = p;
    }
  }
  WT_UNROLL_VECTORS
  for (int v = 0; v < kVectors; ++v) {
    const __m256i first = _mm256_blend_epi32(__m256i(w0[v]), __m256i(w1[v] << 32), 0xaa);
    const __m256i second = _mm256_blend_epi32(__m256i(w2[v]), __m256i(w3[v] << 32), 0xaa);
    const __m256i even = _mm256_unpacklo_epi64(first, second);
    const __m256i odd = _mm256_unpackhi_epi64(first, second);
    auto* to = reinterpret_cast<__m256i*>(words + 16 * v);
    _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
    _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
  }
}
WT_TARGET_AVX2 void draw_avx2(const PhiloxWords& w, u32* words, u64 block) {
  draw_halves(w, words, block);
}
WT_TARGET_AVX512 void draw_avx512(const PhiloxWords& w, u32* words, u64 block) {
  draw_halves(w, words, block);
}
#else
constexpr auto draw_avx2 = draw_plain, draw_avx512 = draw_plain;
#endif

}  // namespace

PhiloxWords::PhiloxWords(PhiloxKey key, u64 index) : call(index) {
  constexpr decltype(draw_) kDraws[] = {draw_plain, draw_avx2, draw_avx512};
  draw_ = kDraws[cpu_isa()];
  for (int i = 0; i < 10; ++i, key = philox_next(key)) lo[i] = key.lo, hi[i] = key.hi;
}

}  // namespace wt
