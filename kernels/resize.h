// Resizing along one axis, and its transpose.
#pragma once
#include "warptape/kernels/common/float_math.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/resize_mode.h"

namespace wt {

// What an output element is made of: input element `low`, and `weight` of the one after it, as
// PyTorch places them. For host and device.
struct ResizeMap {
  i64 in = 0, out = 0;  // sizes of the axis
  ResizeMode mode = ResizeMode::nearest;
  bool align_corners = false;
  double scale = 0;  // out / in as the user gave it; 0: the sizes say

  struct Tap {
    i64 low;
    double weight;  // of low + 1; 0 at the border
  };
  WT_HD Tap operator()(i64 i) const {
    if (out == in) return {i, 0};
    return mode == ResizeMode::nearest ? nearest(i) : linear(i);
  }

 private:
  WT_HD Tap nearest(i64 i) const {
    if (out == 2 * in) return {i / 2, 0};
    double at;
    // In f32, whose roundings decide which neighbour it is; where f32 has no integers left, in f64.
    if (out < (i64(1) << 24) && in < (i64(1) << 24))
      at = float(i) * (scale > 0 ? float(1 / scale) : float(in) / float(out));
    else
      at = double(i) * (scale > 0 ? 1 / scale : double(in) / double(out));
    return {at < double(in - 1) ? i64(at) : in - 1,
            0};  // NaN too: 0 times what 1 / scale overflows to
  }
  WT_HD Tap linear(i64 i) const {
    double at;
    if (align_corners)
      at = out > 1 ? double(i) * (double(in - 1) / double(out - 1)) : 0;
    else
      // The product rounded by itself: nvcc would make one fused step of it and the 0.5.
      at = float_math::product(double(i) + 0.5, scale > 0 ? 1 / scale : double(in) / double(out)) -
           0.5;
    if (at < 0) at = 0;
    if (!(at < double(in - 1))) return {in - 1, 0};
    const i64 low = i64(at);
    return {low, at - double(low)};
  }
};

// out[.., i, ..] = (1 - w) in[.., low, ..] + w in[.., low + 1, ..], with low and w of i by `map`;
// where w is 0, in[.., low, ..] alone is read. map.in and map.out are the sizes of `axis`, the
// other axes agree; map.in >= 1. Any strides; f64 f32 f16 bf16, 16-bit types computed in f32. No
// overlap.
struct ResizeArgs {
  static constexpr int kSliceViews = 2;  // kernels/dispatch/run_slices.h
  static constexpr bool kSliceBroadcast = false;
  void shift_axes(int n) { axis += n; }
  View out;
  View in;
  int axis = 0;
  ResizeMap map;
  i64 bytes() const { return out.bytes() + in.bytes(); }
  i64 flops() const { return map.mode == ResizeMode::linear ? 3 * out.numel() : 0; }
};
WT_CONTRACT(resize, ResizeArgs);

// The transpose: gin[.., j, ..] = sum over i of gout[.., i, ..] times the weight that j has in
// output i, in ascending order of i and in f32 (f64 for f64). What no output reads gets 0.
struct ResizeBackwardArgs {
  static constexpr int kSliceViews = 2;  // kernels/dispatch/run_slices.h
  static constexpr bool kSliceBroadcast = false;
  void shift_axes(int n) { axis += n; }
  View gin;
  View gout;
  int axis = 0;
  ResizeMap map;
  i64 bytes() const { return gin.bytes() + gout.bytes(); }
  i64 flops() const { return 4 * gout.numel(); }
};
WT_CONTRACT(resize_backward, ResizeBackwardArgs);

}  // namespace wt
