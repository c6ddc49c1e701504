// Root mean square normalisation of rows (Zhang and Sennrich 2019, arXiv:1910.07467).
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// A row is the last axis, of C elements:
//   rstd = 1 / sqrt(sum(x^2) / C + eps)    y = x * rstd * weight
// x, y: one shape, any strides, f64 f32 f16 bf16 (16-bit types compute in f32). y may be x. weight:
// [C], contiguous, x's dtype; absent: 1. stats: [3, rows], contiguous, f64 for f64, else f32:
// two times zeros, then every row's rstd, as layer_norm's backward of weight reads them; may be
// absent.
struct RmsNormForwardArgs {
  View y, stats;
  View x, weight;
  double eps;
  i64 bytes() const {
    return x.bytes() + y.bytes() + (stats ? stats.bytes() : 0) + (weight ? weight.bytes() : 0);
  }
  i64 flops() const { return 4 * x.numel(); }
};
WT_CONTRACT(rms_norm_forward, RmsNormForwardArgs);

// With h = x * rstd and g = gy * weight: gx = rstd * (g - h * sum(g * h) / C).
// gx, gy, x: one shape and dtype, any strides. gx may be gy. weight and stats as above.
struct RmsNormBackwardInputArgs {
  View gx;
  View gy, x, stats, weight;
  i64 bytes() const {
    return gx.bytes() + gy.bytes() + x.bytes() + stats.bytes() + (weight ? weight.bytes() : 0);
  }
  i64 flops() const { return 6 * x.numel(); }
};
WT_CONTRACT(rms_norm_backward_input, RmsNormBackwardInputArgs);

}  // namespace wt
