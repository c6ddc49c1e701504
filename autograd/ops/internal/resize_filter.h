// Resizing one axis by a filter of several taps. Internal to ops/resize.cpp.
#pragma once
#include "warptape/core/tensor.h"

namespace wt::detail {

struct ResizeFilter {
  bool cubic = false;      // else the triangle
  bool antialias = false;  // scaled with the step where the axis shrinks
  bool align_corners = false;
  double scale = 0;  // new size / old size as the user gave it; 0: the sizes say
};
// `axis` of x with `size` elements, each the sum of its taps. f64 and f32.
Tensor filtered_axis(const Tensor& x, int axis, i64 size, const ResizeFilter& f);

}  // namespace wt::detail
