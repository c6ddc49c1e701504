// What the vector variants of normalisations share: eight floats of a row, wherever it ends.
#pragma once
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/cpu/vector.h"

namespace wt {
#if WT_X86

// Elements [i, i + 8) of a row of n; 0 past its end.
WT_AVX2_HOT f32x8 eight(const float* p, i64 i, i64 n) {
  return i + 8 <= n ? load8(p + i) : load_part8(p + i, n - i, 0);
}
// A missing operand reads as 1.
WT_AVX2_HOT f32x8 eight_or_ones(const float* p, i64 i, i64 n) {
  return p ? eight(p, i, n) : splat8(1);
}
template <bool Stream>
WT_AVX2_HOT void put_eight(float* p, i64 i, i64 n, f32x8 v) {
  if (i + 8 <= n)
    put8<Stream>(p + i, v);
  else
    store_part8(p + i, v, n - i);
}

// Past the caches, where what is written is not read first: rows of a tensor beyond them that are
// so long that their loads and stores take turns.
inline bool streams_row(const View& out, const float* row, i64 n) {
  return n >= 1024 && out.bytes() >= (i64(64) << 20) && reinterpret_cast<uintptr_t>(row) % 32 == 0;
}

template <int N>
const char* norm_rows_why_not(const View& x, const Rows<N>& rows) {
  if (cpu_isa() < kAvx2) return kNoAvx2;
  if (x.dtype() != DType::f32) return "f32 only";
  for (i64 step : rows.step)
    if (step != 1 && rows.length > 1) return "the elements of a row must be neighbours";
  return nullptr;
}

#endif
}  // namespace wt
