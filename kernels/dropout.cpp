// Dropout on the cpu.
#include "warptape/kernels/dropout.h"

#include <bit>
#include <cstring>

#include "warptape/kernels/cpu_dtypes.h"
#include "warptape/kernels/cpu_isa.h"
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

// draws[i]: the random word of element 4 * block + i.
WT_HOT void draw(u32 (&draws)[kElements], PhiloxKey key, u64 block, u64 call) {
  u32 word[4][kCounters];
  for (int k = 0; k < kCounters; ++k) {
    word[0][k] = u32(block + u64(k));
    word[1][k] = u32((block + u64(k)) >> 32);
    word[2][k] = u32(call);
    word[3][k] = u32(call >> 32);
  }
  for (int round = 0; round < 10; ++round) {
    for (int k = 0; k < kCounters; ++k)
      philox_round(word[0][k], word[1][k], word[2][k], word[3][k], key);
    key = philox_next(key);
  }
  u64 pairs[2 * kCounters];  // two words at a time: half the stores
  for (int k = 0; k < kCounters; ++k) {
    pairs[2 * k] = word[0][k] | u64(word[1][k]) << 32;
    pairs[2 * k + 1] = word[2][k] | u64(word[3][k]) << 32;
  }
  static_assert(std::endian::native == std::endian::little && sizeof pairs == sizeof draws);
  std::memcpy(draws, pairs, sizeof draws);
}
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

template <class S>
WT_HOT void rows(const DropoutArgs& a) {
  const i64 n = a.out.numel();
  const u64 call = call_of(a);
  const S* in = a.in.as<S>();
  S* out = a.out.as<S>();
  u32 draws[kElements];
  i64 i = 0;
  for (; i + kElements <= n; i += kElements) {
    draw(draws, a.key, u64(i / 4), call);
    keep_block(out + i, in + i, draws, a.threshold, a.scale);
  }
  if (i == n) return;
  draw(draws, a.key, u64(i / 4), call);
  for (i64 k = 0; i + k < n; ++k)
    out[i + k] = DropoutArgs::keeps(draws[k], a.threshold) ? kept(in[i + k], a.scale) : S(0);
}
WT_HOT void rows_of_any(const DropoutArgs& a) {
  switch (a.out.dtype()) {
    case DType::f64:
      return rows<double>(a);
    case DType::f32:
      return rows<float>(a);
    case DType::f16:
      return rows<Half>(a);
    default:
      return rows<BFloat16>(a);
  }
}
WT_TARGET_AVX2 void rows_avx2(const DropoutArgs& a) { rows_of_any(a); }
WT_TARGET_AVX512_WIDE void rows_avx512(const DropoutArgs& a) { rows_of_any(a); }
void rows_plain(const DropoutArgs& a) { rows_of_any(a); }

const char* dense_only(const DropoutArgs& a) {
  return a.out.dense() && a.in.dense() ? nullptr : "the operands are not dense";
}
void vectorized(const DropoutArgs& a, const Launch&) {
  if (cpu_has_avx512())
    rows_avx512(a);
  else if (cpu_has_avx2())
    rows_avx2(a);
  else
    rows_plain(a);
}

}  // namespace

WT_VARIANTS(cpu, dropout, DropoutArgs,
            {.name = "vectorized", .rank = 10, .why_not = dense_only, .launch = vectorized},
            {.name = "reference", .launch = reference});

}  // namespace wt
