// Training batches out of data that stays where it lies: rows of tensors, subsets of points,
// windows of tokens. Images have kernels/image_batch.h.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/image/batch_order.h"

namespace wt {

inline constexpr int kRowTables = 4;

// One of the tensors that rows are taken of, contiguous, of any dtype.
struct RowTable {
  void* out = nullptr;         // [count, row_bytes], or [count, picks, row_bytes]
  const void* rows = nullptr;  // [rows, row_bytes], or [rows, points, row_bytes]
  i64 row_bytes = 0;
  bool by_points = false;
};

// out[i] = rows[order.row(i)] of each table; of tables with by_points `picks` of the row's
// `points`, drawn without replacement by (seed, epoch, row) alone: out[i, j] = rows[r,
// subset_point(j)]. All of these have the same subset.
struct RowBatchArgs {
  RowTable table[kRowTables];
  int tables = 0;
  BatchOrder order{};
  i64 count = 0;
  i64 picks = 1, points = 1;
  i64 out_rows(int t) const { return table[t].by_points ? count * picks : count; }
  i64 bytes() const {
    i64 sum = order.list ? count * 8 : 0;
    for (int t = 0; t < tables; ++t) sum += 2 * out_rows(t) * table[t].row_bytes;
    return sum;
  }
  i64 flops() const { return 0; }
};
WT_CONTRACT(row_batch, RowBatchArgs);

// Sample i is the window of `context` tokens from r * stride on, r = order.row(i): x[i, k] =
// tokens[r * stride + k], and y what follows: y[i, k] = tokens[r * stride + k + 1], [n, context]
// with `every_position`, else the token after the window alone, [n].
// tokens: [n], contiguous, u8 u16 i32 i64. x, y: i64, contiguous.
struct TokenBatchArgs {
  i64* x = nullptr;
  i64* y = nullptr;
  View tokens{};
  BatchOrder order{};
  i64 count = 0, context = 0, stride = 1;
  bool every_position = true;
  i64 bytes() const {
    const i64 targets = every_position ? context : 1;
    return count * ((context + targets) * 8 + (context + 1) * item_size(tokens.dtype()));
  }
  i64 flops() const { return 0; }
};
WT_CONTRACT(token_batch, TokenBatchArgs);

// After a batch of `count` samples: cursor[1] (the place) goes on by it; at `limit`, the samples
// that an epoch uses, cursor[0] (the epoch) does, and the place is 0 again.
struct BatchCursorArgs {
  i64* cursor = nullptr;
  i64 count = 0, limit = 0;
  i64 bytes() const { return 32; }
  i64 flops() const { return 0; }
};
WT_CONTRACT(batch_cursor, BatchCursorArgs);

namespace detail {

inline const char* bad_token_batch(const TokenBatchArgs& a) {
  const DType t = a.tokens.dtype();
  return t == DType::u8 || t == DType::u16 || t == DType::i32 || t == DType::i64
             ? nullptr
             : "tokens must be u8, u16, i32 or i64";
}

WT_HD inline i64 token_at(const void* tokens, DType t, i64 at) {
  switch (t) {
    case DType::u8:
      return static_cast<const u8*>(tokens)[at];
    case DType::u16:
      return static_cast<const u16*>(tokens)[at];
    case DType::i32:
      return static_cast<const i32*>(tokens)[at];
    default:
      return static_cast<const i64*>(tokens)[at];
  }
}

WT_HD inline void advance_cursor(i64* cursor, i64 count, i64 limit) {
  const i64 place = cursor[1] + count;
  cursor[0] += place >= limit;
  cursor[1] = place >= limit ? 0 : place;
}

}  // namespace detail
}  // namespace wt
