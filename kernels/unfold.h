// The gradient of windows that overlap.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// gx[.., i, ..] = sum of gout[.., w, .., k] over the windows w and places k with w * step + k == i,
// in ascending order of w; 0 where there is none. Sums in f32 (f64 for f64).
//
// gx: any strides, f64 f32 f16 bf16. gout: the axes of gx, but `axis` counts windows, and one more,
// the place in the window; any strides, gx's dtype. For a 0-d gx gout has one element. step >= 1.
struct UnfoldBackwardArgs {
  View gx;
  View gout;
  int axis = 0;
  i64 step = 1;
  i64 bytes() const { return gx.bytes() + gout.bytes(); }
  i64 flops() const { return gout.numel(); }
};
WT_CONTRACT(unfold_backward, UnfoldBackwardArgs);

}  // namespace wt
