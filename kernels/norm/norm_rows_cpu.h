// What the vector variants of normalisations share: eight floats of a row, wherever it ends, and
// the walk over rows.
#pragma once
#include "warptape/kernels/cpu/pieces.h"
#include "warptape/kernels/cpu/vector.h"
#include "warptape/kernels/norm/norm_operands.h"

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

// f(begin, end) for pieces of the rows, by several threads.
template <class Args, class F>
void in_norm_pieces(const Args& a, const F& f) {
  const auto rows = norm_rows(a);
  in_row_pieces(rows.count, rows.length, f);
}

// What is saved of a row: its mean, what rounding left of that, and rstd.
struct SavedStats {
  float mean, rest, rstd;

  static SavedStats of(const View& stats, i64 rows, i64 row) {
    const float* p = stats.as<const float>();
    return {p[row], p[rows + row], p[2 * rows + row]};
  }
  WT_AVX2_HOT f32x8 distance(f32x8 x) const { return x - mean - rest; }
  void save(float* stats, i64 rows, i64 row) const {
    stats[row] = mean, stats[rows + row] = rest, stats[2 * rows + row] = rstd;
  }
};
// Rows [begin, end) of a forward. norm(y, x, n, streams) normalises one, and returns what is saved.
template <class Args, class Norm>
void normalise_rows(const Args& a, i64 begin, i64 end, const Norm& norm) {
  enum { Y, X };  // the operands of `rows`
  const auto rows = norm_rows(a);
  float* stats = a.stats.template as<float>();
  if (rows.length == 0) return;
  for (i64 row = begin; row < end; ++row) {
    float* y = rows.row(Y, a.y.template as<float>(), row).data;
    const float* x = rows.row(X, a.x.template as<const float>(), row).data;
    const SavedStats s = norm(y, x, rows.length, streams_row(a.y, y, rows.length));
    if (stats) s.save(stats, rows.count, row);
  }
  _mm_sfence();  // what went past the caches is there before anything that follows
}

// Rows [begin, end) of a gradient of the input, by either of two functions: the second is for what
// goes past the caches. gsum, of gx's shape, may be absent.
using NormGradientRow = void (*)(float* gx, const float* gy, const float* x, const float* weight,
                                 const float* gsum, i64 n, const SavedStats& s);
template <class Args>
void norm_gradient_rows(const Args& a, const View& gsum, i64 begin, i64 end, NormGradientRow plain,
                        NormGradientRow streaming) {
  enum { GX, GY, X, GSum };  // the operands of `rows`
  const auto rows = rows_along<4>(a.x.ndim() - 1, {{a.gx}, {a.gy}, {a.x}, {gsum ? gsum : a.gy}});
  const float* weight = a.weight.template as<const float>();
  for (i64 row = begin; row < end; ++row) {
    float* gx = rows.row(GX, a.gx.template as<float>(), row).data;
    const float* gy = rows.row(GY, a.gy.template as<const float>(), row).data;
    const float* x = rows.row(X, a.x.template as<const float>(), row).data;
    const float* more = gsum ? rows.row(GSum, gsum.as<const float>(), row).data : nullptr;
    (streams_row(a.gx, gx, rows.length) ? streaming : plain)(
        gx, gy, x, weight, more, rows.length, SavedStats::of(a.stats, rows.count, row));
  }
  _mm_sfence();
}

#endif
}  // namespace wt
