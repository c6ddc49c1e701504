// Outputs beyond the cpu's caches, written past them: what is overwritten is then not read first,
// which is a third of the traffic of a copy. Loads and streaming stores take turns: a piece of the
// output is made in the first level cache, then leaves in whole lines.
#pragma once
#include <cstdint>

#include "warptape/core/geometry.h"
#include "warptape/kernels/cpu/isa.h"

namespace wt {

constexpr i64 kStreamedBytes = i64{32} << 20;  // outputs below may be found in a cache later
constexpr i64 kPiece = 1024;                   // elements
constexpr i64 kShortPiece = 256;  // where little is done an element: they overlap better
constexpr i64 kLine = 64;         // bytes

#if WT_X86
// Whole lines; `to` is aligned to them.
WT_TARGET_AVX2 inline void stream_lines(void* to, const void* from, i64 bytes) {
  auto* out = static_cast<__m256i*>(to);
  const auto* in = static_cast<const __m256i*>(from);
  for (i64 i = 0; i < bytes / 32; i += 2) {
    const __m256i low = _mm256_loadu_si256(in + i), high = _mm256_loadu_si256(in + i + 1);
    _mm256_stream_si256(out + i, low);
    _mm256_stream_si256(out + i + 1, high);
  }
}
// Before anything that follows may read what was streamed.
inline void end_stream() { _mm_sfence(); }

// Whether the rows of `out` are worth it. What overwrites an operand is in the caches already.
inline bool streams(const View& out, const View& in) {
  return out.bytes() >= kStreamedBytes && out.data != in.data;
}

// out[i] of a row of n floats by part(to, i, m): elements [i, i + m), to be written to `to`.
template <class F>
void in_pieces(float* out, i64 n, bool stream, F&& part) {
  if (!stream) return part(out, 0, n);
  alignas(kLine) float piece[kPiece];
  const i64 before = (kLine - i64(reinterpret_cast<uintptr_t>(out)) % kLine) % kLine / 4;
  i64 i = before < n ? before : n;
  if (i > 0) part(out, 0, i);
  while (n - i >= kLine / 4) {
    const i64 lines = n - i < kPiece ? (n - i) & ~(kLine / 4 - 1) : kPiece;
    part(piece, i, lines);
    stream_lines(out + i, piece, lines * i64(sizeof(float)));
    i += lines;
  }
  if (i < n) part(out + i, i, n - i);
}
#endif

}  // namespace wt
