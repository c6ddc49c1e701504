// Dropout of dense operands: the words of many counters at a time, and loops that become vector
// code.
#include "warptape/kernels/random/dropout_cpu.h"

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/cpu/stream.h"
#include "warptape/kernels/random/philox_words_cpu.h"

namespace wt {
namespace {

template <class S>
WT_HOT S kept(S x, double scale) {
  using T = ComputeType<S>;
  return S(T(x) * T(scale));
}

constexpr int kElements = PhiloxWords::kWords;

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
template <class S>
WT_HOT void part(const DropoutArgs& a, const PhiloxWords& words, S* out, i64 from, i64 to) {
  const S* in = a.in.as<S>() + from;
  alignas(32) u32 draws[kElements];
  const i64 n = to - from;
  i64 i = 0;
  for (; i + kElements <= n; i += kElements) {
    words.draw(draws, u64((from + i) / 4));
    keep_block(out + i, in + i, draws, a.threshold, a.scale);
  }
  if (i == n) return;
  words.draw(draws, u64((from + i) / 4));
  for (i64 k = 0; i + k < n; ++k)
    out[i + k] = DropoutArgs::keeps(draws[k], a.threshold) ? kept(in[i + k], a.scale) : S(0);
}
template <class S, bool Stream>
WT_HOT void rows(const DropoutArgs& a, const PhiloxWords& words) {
  const i64 n = a.out.numel();
  S* out = a.out.as<S>();
  i64 i = 0;
#if WT_X86
  if constexpr (Stream)
    if (streams(a.out, a.in) && reinterpret_cast<uintptr_t>(out) % kLine == 0) {
      alignas(kLine) S piece[kShortPiece];
      for (; i + kShortPiece <= n; i += kShortPiece) {
        part(a, words, piece, i, i + kShortPiece);
        stream_lines(out + i, piece, sizeof piece);
      }
      end_stream();
    }
#endif
  part(a, words, out + i, i, n);
}
template <bool Stream>
WT_HOT void rows_of_any(const DropoutArgs& a) {
  const PhiloxWords words(a.key, a.call + (a.call_base ? u64(*a.call_base) : 0));
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
WT_TARGET_AVX2 void rows_avx2(const DropoutArgs& a) { rows_of_any<true>(a); }
WT_TARGET_AVX512_WIDE void rows_avx512(const DropoutArgs& a) { rows_of_any<true>(a); }
#endif
void rows_plain(const DropoutArgs& a) { rows_of_any<false>(a); }

}  // namespace

const char* dropout_why_not(const DropoutArgs& a) {
  return a.out.dense() && a.in.dense() ? nullptr : "the operands are not dense";
}

void dropout_vectorized(const DropoutArgs& a, const Launch&) {
#if WT_X86
  if (cpu_isa() >= kAvx512) return rows_avx512(a);
  if (cpu_isa() >= kAvx2) return rows_avx2(a);
#endif
  rows_plain(a);
}

}  // namespace wt
