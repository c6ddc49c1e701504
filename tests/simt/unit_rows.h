// The contract of docs/writing_kernels.md.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// y[r][i] = x[r][i] / sum_k |x[r][k]|: rows of length 1. x, y: [rows, columns], f32, contiguous; y
// may be x. The sums are made in f32. A row of zeros gives NaN.
struct UnitRowsArgs {
  View y, x;
  i64 bytes() const { return x.bytes() + y.bytes(); }
  i64 flops() const { return 3 * x.numel(); }
};
WT_CONTRACT(unit_rows, UnitRowsArgs);

}  // namespace wt
