// Indexing by tensors: index tuples to row numbers, and rows written by number. Rows are read by
// embedding_forward and added by embedding_backward.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// rows[b] = the row number, in a table whose axes are size[0] x .. x size[count - 1], of the tuple
// (indices[0][b], .., indices[count - 1][b]); negative indices count from the end. A tuple with an
// index outside [-size, size) raises the mailbox and becomes -1.
// rows: i64, contiguous, any shape. indices: i64 or i32, of rows' shape, any strides.
struct IndexRowsArgs {
  View rows;
  View indices[kMaxDims];
  i64 size[kMaxDims] = {};
  int count = 0;
  MailboxRecord* mailbox = nullptr;  // null: bad indices are not reported
  u32 op_id = 0;
  i64 bytes() const { return (count + 1) * rows.bytes(); }
  i64 flops() const { return 0; }
};
WT_CONTRACT(index_rows, IndexRowsArgs);

// table[rows[i], :] = values[i, :]; of positions with one row the last counts, on every device.
// Rows outside [0, V) are skipped. table: [V, D], any strides, any dtype. values: [N, D],
// contiguous, table's dtype. rows: i64 [N], contiguous.
struct IndexPutArgs {
  View table;
  View rows, values;
  i64 bytes() const { return 2 * values.bytes() + rows.bytes(); }
  i64 flops() const { return 0; }
};
WT_CONTRACT(index_put, IndexPutArgs);

}  // namespace wt
