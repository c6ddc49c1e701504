// Scans along one axis: running sums, products, and linear recurrences.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// out[k] = factor[k] out[k - 1] + term[k] along the axis, or with reverse out[k + 1] in place of
// out[k - 1]. Without `factor` it is 1: running sums. Without `term` it is 0, and what comes before
// the first element is 1 instead of 0: running products. One shape and dtype, any strides; f64,
// f32, f16, bf16 (all but f64 carried in f64, so roundings do not pile up) and i64, which wraps.
// out may be one of the operands.
struct ScanArgs {
  static constexpr int kSliceViews = 3;  // kernels/dispatch/run_slices.h
  static constexpr bool kSliceBroadcast = false;
  void shift_axes(int n) { axis += n; }
  View out, factor, term;  // an absent operand is an empty view; one of the two is there
  int axis = 0;
  bool reverse = false;
  i64 bytes() const {
    return out.bytes() + (factor ? factor.bytes() : 0) + (term ? term.bytes() : 0);
  }
  i64 flops() const { return out.numel() * (factor && term ? 2 : 1); }
};
WT_CONTRACT(scan, ScanArgs);

}  // namespace wt
