// Resizing along one axis, and its transpose.
#pragma once
#include "warptape/kernels/common/float_math.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/resize_mode.h"

namespace wt {

// floor(a b / c) for a, b >= 0 and 0 < c < 2^63, exactly, where the quotient fits: one division of
// 32 bits where those do. For host and device.
WT_HD inline i64 floor_of_product(i64 a, i64 b, i64 c) {
  if (((a | b) >> 31) == 0) {  // the product fits
    const u64 product = u64(a) * u64(b);
    return (product | u64(c)) >> 32 ? i64(product / u64(c)) : i64(u32(product) / u32(c));
  }
  // Bit by bit of a: quotient and remainder of (the bits so far) b / c.
  const u64 whole = u64(b) / u64(c), part = u64(b) % u64(c);
  u64 quotient = 0, rest = 0;
  for (int bit = 63; bit-- > 0;) {
    quotient *= 2, rest *= 2;
    if (u64(a) >> bit & 1) {
      quotient += whole, rest += part;
      if (rest >= u64(c) && rest - u64(c) >= u64(c)) rest -= u64(c), ++quotient;
    }
    if (rest >= u64(c)) rest -= u64(c), ++quotient;
  }
  return i64(quotient);
}
// floor(a / b) of the exact quotient of two doubles above 0, which rounding may make a whole number
// too large; what is beyond `most` gives that.
WT_HD inline i64 floor_of_quotient(double a, double b, i64 most) {
  const double quotient = a / b;
  if (!(quotient < double(most))) return most;  // NaN too: 0 / 0 cannot be, infinity can
  const i64 k = i64(quotient);
  return k > 0 && float_math::fused(double(k), b, -a) > 0 ? k - 1 : k;
}

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
    return mode == ResizeMode::linear ? linear(i) : Tap{nearest(i), 0};
  }

 private:
  // floor(i n / size), floor((i + 1/2) n / size), in integers: no rounding decides which neighbour
  // it is.
  WT_HD i64 nearest(i64 i) const {
    const bool exact = mode == ResizeMode::nearest_exact;
    if (scale > 0 && !(out == 2 * in && !exact))
      return floor_of_quotient(double(i) + (exact ? 0.5 : 0), scale, in - 1);
    return exact ? floor_of_product(2 * i + 1, in, 2 * out) : floor_of_product(i, in, out);
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
