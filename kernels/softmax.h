// softmax and log_softmax along one axis, forward and backward.
#pragma once
#include "warptape/kernels/contract.h"

namespace wt {

// With m = max(x) and s = sum(exp(x - m)) over the axis:
//   y = exp(x - m) / s                  softmax
//   y = x - m - log(s)                  log_softmax (`log`)
// x, y: one shape, any strides, f64 f32 f16 bf16 (16-bit types compute in f32). y may be x. A row
// without a finite maximum (all -inf, a NaN, a +inf) gives NaN, as in PyTorch. Nothing is saved
// beside y.
struct SoftmaxForwardArgs {
  static constexpr int kSliceViews = 2;  // kernels/dispatch/run_slices.h
  static constexpr bool kSliceBroadcast = false;
  void shift_axes(int n) { axis += n; }
  View y, x;
  int axis;
  bool log = false;
  i64 bytes() const { return x.bytes() + y.bytes(); }
  i64 flops() const { return 5 * x.numel(); }
};
WT_CONTRACT(softmax_forward, SoftmaxForwardArgs);

// gx = y * (gy - sum(gy * y))           softmax
// gx = gy - exp(y) * sum(gy)            log_softmax
// gx, gy, y: one shape and dtype, any strides. gx may be gy. Reads the forward's output only.
struct SoftmaxBackwardArgs {
  static constexpr int kSliceViews = 3;
  static constexpr bool kSliceBroadcast = false;
  void shift_axes(int n) { axis += n; }
  View gx, gy, y;
  int axis;
  bool log = false;
  i64 bytes() const { return gx.bytes() + gy.bytes() + y.bytes(); }
  i64 flops() const { return 4 * y.numel(); }
};
WT_CONTRACT(softmax_backward, SoftmaxBackwardArgs);

}  // namespace wt
