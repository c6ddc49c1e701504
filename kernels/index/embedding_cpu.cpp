// The gradient of an embedding, row by row.
#include "warptape/kernels/index/embedding_cpu.h"

#include <cstring>

#include "warptape/kernels/common/dtypes.h"
#include "warptape/kernels/common/rows.h"
#include "warptape/kernels/cpu/vector.h"
#include "warptape/kernels/index/indices.h"

namespace wt {
namespace {

template <class T>
void add_row(T* sum, const RowOf<const T>& row, i64 n) {
  for (i64 d = 0; d < n; ++d) sum[d] += row[d];
}
#if WT_X86
WT_TARGET_AVX2 void add_row_avx2(float* sum, const float* row, i64 n) {
  const i64 whole = n & ~7ll, rest = n & 7;
  for (i64 d = 0; d < whole; d += 8) store8(sum + d, load8(sum + d) + load8(row + d));
  if (rest)
    store_part8(sum + whole, load_part8(sum + whole, rest, 0) + load_part8(row + whole, rest, 0),
                rest);
}
#endif
void add_row(float* sum, const RowOf<const float>& row, i64 n) {
#if WT_X86
  if (row.step == 1 && cpu_isa() >= kAvx2) return add_row_avx2(sum, row.data, n);
#endif
  add_row<float>(sum, row, n);
}

}  // namespace

const char* embedding_backward_why_not(const EmbeddingBackwardArgs& a) {
  return is_half(a.gweight.dtype()) ? "16-bit sums need a wider accumulator" : nullptr;
}

// Adds every position to its row at once: the same order for each row, no sorting.
void embedding_backward_direct(const EmbeddingBackwardArgs& a, const Launch&) {
  enum { GOut, Indices };  // the operands of `rows`
  const auto rows = rows_along<2>(a.gout.ndim() - 1, {{a.gout}, {a.indices, false}});
  const IndexReader indices(a.indices);
  const i64 limit = a.gweight.size(0), width = a.gweight.size(1);
  if (!a.accumulate && a.gweight.numel() > 0)
    std::memset(a.gweight.data, 0, size_t(a.gweight.bytes()));
  dispatch_floating(a.gweight.dtype(), [&]<class T>() {
    if constexpr (sizeof(T) >= 4)
      for (i64 i = 0; i < rows.count; ++i) {
        const i64 v = indices(rows.start(Indices, i));
        if (v < 0 || v >= limit || v == a.skip_index) continue;
        add_row(a.gweight.as<T>() + v * width, rows.row(GOut, a.gout.as<const T>(), i), width);
      }
  });
}

}  // namespace wt
