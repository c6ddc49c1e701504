// Dropout on the cpu.
#include "warptape/kernels/dropout.h"

#include <bit>
#include <cstring>

#include "warptape/kernels/cpu_dtypes.h"
#include "warptape/kernels/cpu_isa.h"
#include "warptape/kernels/cpu_stream.h"
#include "warptape/kernels/cpu_vector.h"
#include "warptape/kernels/strided.h"

namespace wt {
namespace {

u64 call_of(const DropoutArgs& a) { return a.call + (a.call_base ? u64(*a.call_base) : 0); }

template <class S>
WT_HOT S kept(S x, double scale) {
  using T = ComputeType<S>;
  return S(T(x) * T(scale));
}

void reference(const DropoutArgs& a, const Launch&) {
  const LoopNest<2> nest = loop_nest({a.out, a.in});
  const u64 call = call_of(a);
  dispatch_floating(a.out.dtype(), [&]<class S>() {
    i64 i = 0;  // in logical order
    for_each_row(nest, [&](const i64(&at)[2]) {
      for (i64 k = 0; k < nest.inner(); ++k, ++i) {
        const u32 word = philox(a.key, u64(i / 4), call).v[i % 4];
        const S x = a.in.as<S>()[at[1] + k * nest.inner_stride(1)];
        a.out.as<S>()[at[0] + k * nest.inner_stride(0)] =
            DropoutArgs::keeps(word, a.threshold) ? kept(x, a.scale) : S(0);
      }
    });
  });
}

// --- vectorized: sixteen counters at a time ------------------------------------------------------
constexpr int kCounters = 16, kElements = 4 * kCounters;

// The keys of the rounds, which all counters share.
struct Rounds {
  u64 lo[10], hi[10];
  explicit Rounds(PhiloxKey key) {
    for (int i = 0; i < 10; ++i, key = philox_next(key)) lo[i] = key.lo, hi[i] = key.hi;
  }
};

// draws[i]: the random word of element 4 * block + i.
struct Plain {
  PhiloxKey key;
  WT_HOT void draw(u32 (&draws)[kElements], u64 block, u64 call) const;
};
WT_HOT void Plain::draw(u32 (&draws)[kElements], u64 block, u64 call) const {
  PhiloxKey round_key = key;
  u32 word[4][kCounters];
  for (int k = 0; k < kCounters; ++k) {
    word[0][k] = u32(block + u64(k));
    word[1][k] = u32((block + u64(k)) >> 32);
    word[2][k] = u32(call);
    word[3][k] = u32(call >> 32);
  }
  for (int round = 0; round < 10; ++round) {
    for (int k = 0; k < kCounters; ++k)
      philox_round(word[0][k], word[1][k], word[2][k], word[3][k], round_key);
    round_key = philox_next(round_key);
  }
  u64 pairs[2 * kCounters];  // two words at a time: half the stores
  for (int k = 0; k < kCounters; ++k) {
    pairs[2 * k] = word[0][k] | u64(word[1][k]) << 32;
    pairs[2 * k + 1] = word[2][k] | u64(word[3][k]) << 32;
  }
  static_assert(std::endian::native == std::endian::little && sizeof pairs == sizeof draws);
  std::memcpy(draws, pairs, sizeof draws);
}
#if WT_X86
#if defined(__clang__)
#define WT_UNROLL_VECTORS _Pragma("unroll")
#else
#define WT_UNROLL_VECTORS _Pragma("GCC unroll 4")
#endif
// The same with a word in the lower half of each 64 bits. The product that makes the next words
// reads no more, so what is left in the upper half may stay: six instructions a round.
struct Halves {
  Rounds rounds;
  using Words = u64 __attribute__((vector_size(32)));
  WT_AVX2_HOT static Words product(Words a, u64 b) {
    return Words(_mm256_mul_epu32(__m256i(a), _mm256_set1_epi64x(i64(b))));
  }
  // All counters, four vectors of them in step: one chain of products would leave a core waiting.
  WT_AVX2_HOT void all(u32* draws, u64 block, u64 call) const {
    constexpr int kVectors = kCounters / 4;
    Words w0[kVectors], w1[kVectors], w2[kVectors], w3[kVectors];
    WT_UNROLL_VECTORS
    for (int v = 0; v < kVectors; ++v) {
      w0[v] = block + u64(4 * v) + Words{0, 1, 2, 3};
      w1[v] = w0[v] >> 32;
      w2[v] = Words{} + call;
      w3[v] = Words{} + (call >> 32);
    }
    for (int round = 0; round < 10; ++round) {
      WT_UNROLL_VECTORS
      for (int v = 0; v < kVectors; ++v) {
        const Words p = product(w0[v], 0xD2511F53u), q = product(w2[v], 0xCD9E8D57u);
        w0[v] = (q >> 32) ^ w1[v] ^ rounds.lo[round];
        w1[v] = q;
        w2[v] = (p >> 32) ^ w3[v] ^ rounds.hi[round];
        w3[v] = p;
      }
    }
    WT_UNROLL_VECTORS
    for (int v = 0; v < kVectors; ++v) {
      const __m256i first = _mm256_blend_epi32(__m256i(w0[v]), __m256i(w1[v] << 32), 0xaa);
      const __m256i second = _mm256_blend_epi32(__m256i(w2[v]), __m256i(w3[v] << 32), 0xaa);
      const __m256i even = _mm256_unpacklo_epi64(first, second);
      const __m256i odd = _mm256_unpackhi_epi64(first, second);
      auto* to = reinterpret_cast<__m256i*>(draws + 16 * v);
      _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
      _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
    }
  }
};
// Calls, once for kElements: what is inlined must have the caller's instruction set, and the
// templates below have none.
WT_TARGET_AVX2 __attribute__((noinline)) void draw_avx2(const Halves& h, u32* draws, u64 block,
                                                        u64 call) {
  h.all(draws, block, call);
}
WT_TARGET_AVX512 __attribute__((noinline)) void draw_avx512(const Halves& h, u32* draws, u64 block,
                                                            u64 call) {
  h.all(draws, block, call);
}
template <bool Avx512>
struct Drawn : Halves {
  WT_HOT void draw(u32 (&draws)[kElements], u64 block, u64 call) const {
    if constexpr (Avx512)
      draw_avx512(*this, draws, block, call);
    else
      draw_avx2(*this, draws, block, call);
  }
};
#endif
// Fixed counts, no aliases but out = in: what becomes vector code at -O2.
template <class S>
WT_HOT void keep_block(S* out, const S* in, const u32 (&draws)[kElements], u32 threshold,
                       double scale) {
#if !defined(__clang__)
#pragma GCC ivdep
#endif
  for (int k = 0; k < kElements; ++k) {
    const S y = kept(in[k], scale);
    out[k] = DropoutArgs::keeps(draws[k], threshold) ? y : S(0);
  }
}

// Elements [from, to); `from` is a multiple of kElements.
template <class S, class Words>
WT_HOT void part(const DropoutArgs& a, const Words& words, u64 call, S* out, i64 from, i64 to) {
  const S* in = a.in.as<S>() + from;
  alignas(32) u32 draws[kElements];
  const i64 n = to - from;
  i64 i = 0;
  for (; i + kElements <= n; i += kElements) {
    words.draw(draws, u64((from + i) / 4), call);
    keep_block(out + i, in + i, draws, a.threshold, a.scale);
  }
  if (i == n) return;
  words.draw(draws, u64((from + i) / 4), call);
  for (i64 k = 0; i + k < n; ++k)
    out[i + k] = DropoutArgs::keeps(draws[k], a.threshold) ? kept(in[i + k], a.scale) : S(0);
}
template <class S, bool Stream, class Words>
WT_HOT void rows(const DropoutArgs& a, const Words& words) {
  const i64 n = a.out.numel();
  const u64 call = call_of(a);
  S* out = a.out.as<S>();
  i64 i = 0;
#if WT_X86
  if constexpr (Stream)
    if (streams(a.out, a.in) && reinterpret_cast<uintptr_t>(out) % kLine == 0) {
      alignas(kLine) S piece[kShortPiece];
      for (; i + kShortPiece <= n; i += kShortPiece) {
        part(a, words, call, piece, i, i + kShortPiece);
        stream_lines(out + i, piece, sizeof piece);
      }
      end_stream();
    }
#endif
  part(a, words, call, out + i, i, n);
}
template <bool Stream, class Words>
WT_HOT void rows_of_any(const DropoutArgs& a, const Words& words) {
  switch (a.out.dtype()) {
    case DType::f64:
      return rows<double, Stream>(a, words);
    case DType::f32:
      return rows<float, Stream>(a, words);
    case DType::f16:
      return rows<Half, Stream>(a, words);
    default:
      return rows<BFloat16, Stream>(a, words);
  }
}
#if WT_X86
WT_TARGET_AVX2 void rows_avx2(const DropoutArgs& a) {
  rows_of_any<true>(a, Drawn<false>{{Rounds(a.key)}});
}
WT_TARGET_AVX512_WIDE void rows_avx512(const DropoutArgs& a) {
  rows_of_any<true>(a, Drawn<true>{{Rounds(a.key)}});
}
#endif
void rows_plain(const DropoutArgs& a) { rows_of_any<false>(a, Plain{a.key}); }

const char* dense_only(const DropoutArgs& a) {
  return a.out.dense() && a.in.dense() ? nullptr : "the operands are not dense";
}
void vectorized(const DropoutArgs& a, const Launch&) {
#if WT_X86
  if (cpu_has_avx512()) return rows_avx512(a);
  if (cpu_has_avx2()) return rows_avx2(a);
#endif
  rows_plain(a);
}

}  // namespace

WT_VARIANTS(cpu, dropout, DropoutArgs,
            {.name = "vectorized", .rank = 10, .why_not = dense_only, .launch = vectorized},
            {.name = "reference", .launch = reference});

}  // namespace wt
