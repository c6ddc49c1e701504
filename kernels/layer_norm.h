// Layer normalisation of rows (Ba, Kiros, Hinton 2016, arXiv:1607.06450), forward and backward.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// A row is the last axis, of C elements: the operator shows several normalised axes as one.
//   mean = sum(x) / C    var = sum((x - mean)^2) / C    rstd = 1 / sqrt(var + eps)
//   y    = (x - mean) * rstd * weight + bias
// The variance is taken around the mean, and the mean is corrected by what is left over there, so
// that a large offset does not cancel (Chan, Golub, LeVeque 1983, corrected two-pass); sums of one
// long chain are taken from the row's first element on. x - mean is taken in two steps, forward and
// backward: the mean, then what its rounding left of it.
// x, y: one shape, any strides, f64 f32 f16 bf16 (16-bit types compute in f32). y may be x,
// and of a single row weight or bias.
// weight, bias: [C], contiguous, x's dtype; absent: 1 and 0. stats: [3, rows], contiguous, f64 for
// f64, else f32; the mean of every row, what its rounding left of it, then rstd, saved for the
// backwards; may be absent.
struct LayerNormForwardArgs {
  View y, stats;
  View x, weight, bias;
  double eps;
  i64 bytes() const {
    return x.bytes() + y.bytes() + (stats ? stats.bytes() : 0) + (weight ? weight.bytes() : 0) +
           (bias ? bias.bytes() : 0);
  }
  i64 flops() const { return 8 * x.numel(); }
};
WT_CONTRACT(layer_norm_forward, LayerNormForwardArgs);

// With h = (x - mean) * rstd and g = gy * weight:
//   gx = rstd * (g - sum(g) / C - h * sum(g * h) / C)
// gx, gy, x: one shape and dtype, any strides. gx may be gy. weight and stats as above.
struct LayerNormBackwardInputArgs {
  View gx;
  View gy, x, stats, weight;
  i64 bytes() const {
    return gx.bytes() + gy.bytes() + x.bytes() + stats.bytes() + (weight ? weight.bytes() : 0);
  }
  i64 flops() const { return 12 * x.numel(); }
};
WT_CONTRACT(layer_norm_backward_input, LayerNormBackwardInputArgs);

// gweight (+)= sum over the rows of gy * h, gbias (+)= sum over the rows of gy; zeros without rows.
// gy, x, stats as above. gweight, gbias: [C], contiguous, x's dtype; one may be absent. The order
// of the additions depends on the shape alone.
struct LayerNormBackwardParamsArgs {
  View gweight, gbias;
  View gy, x, stats;
  bool accumulate_weight = false, accumulate_bias = false;  // else the old values are not read
  i64 bytes() const {
    return gy.bytes() + x.bytes() + stats.bytes() + (gweight ? gweight.bytes() : 0) +
           (gbias ? gbias.bytes() : 0);
  }
  i64 flops() const { return 5 * x.numel(); }
};
WT_CONTRACT(layer_norm_backward_params, LayerNormBackwardParamsArgs);

}  // namespace wt
