// Batches of rows, points and tokens on the cpu.
#include "warptape/kernels/sample_batch.h"

#include <cstring>

namespace wt {
namespace {

void row_batch_reference(const RowBatchArgs& a, const Launch&) {
  const i64 epoch = a.order.epoch_now();
  for (i64 i = 0; i < a.count; ++i) {
    const i64 row = a.order.row(i);
    for (int t = 0; t < a.tables; ++t) {
      const RowTable& table = a.table[t];
      const i64 picks = table.by_points ? a.picks : 1, points = table.by_points ? a.points : 1;
      for (i64 j = 0; j < picks; ++j) {
        const i64 point =
            table.by_points ? subset_point(a.order.seed, epoch, row, j, points) : i64{0};
        if (table.row_bytes == 0) continue;  // memcpy from nowhere is undefined even so
        std::memcpy(static_cast<char*>(table.out) + (i * picks + j) * table.row_bytes,
                    static_cast<const char*>(table.rows) + (row * points + point) * table.row_bytes,
                    size_t(table.row_bytes));
      }
    }
  }
}

void token_batch_reference(const TokenBatchArgs& a, const Launch&) {
  const auto at = [&](i64 i) { return detail::token_at(a.tokens.data, a.tokens.dtype(), i); };
  for (i64 i = 0; i < a.count; ++i) {
    const i64 from = a.order.row(i) * a.stride;
    for (i64 k = 0; k < a.context; ++k) a.x[i * a.context + k] = at(from + k);
    if (!a.every_position) {
      a.y[i] = at(from + a.context);
      continue;
    }
    for (i64 k = 0; k < a.context; ++k) a.y[i * a.context + k] = at(from + k + 1);
  }
}

void batch_cursor_reference(const BatchCursorArgs& a, const Launch&) {
  detail::advance_cursor(a.cursor, a.count, a.limit);
}

}  // namespace

WT_VARIANTS(cpu, row_batch, RowBatchArgs, {.name = "reference", .launch = row_batch_reference});
WT_VARIANTS(cpu, token_batch, TokenBatchArgs,
            {.name = "reference",
             .why_not = detail::bad_token_batch,
             .launch = token_batch_reference});
WT_VARIANTS(cpu, batch_cursor, BatchCursorArgs,
            {.name = "reference", .launch = batch_cursor_reference});

}  // namespace wt
