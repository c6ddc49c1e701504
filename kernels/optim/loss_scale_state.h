// Dynamic loss scaling (Micikevicius et al. 2018, arXiv:1710.03740, section 3.2): the scalars in
// device memory, and the one rule by which they move, for host and devices. No STL: .cu files
// include this.
#pragma once
#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

// One a GradScaler, in memory of the model's device. Defaults are PyTorch's GradScaler's.
struct LossScale {
  // Written by the host.
  double growth_factor = 2, backoff_factor = 0.5;
  i64 growth_interval = 2000;
  double min_scale = 1;
  // Written by kernels.
  double scale = 65536;
  double inverse = 1.0 / 65536;
  i64 growth_tracker = 0;   // steps without inf or NaN since the scale last changed
  float scale_f32 = 65536;  // what an f32 loss begins its backward with
  i32 found = 0;            // a raw loop's optimizer met inf or NaN since the last update
  i32 exhausted = 0;        // ... at min_scale, until the host has heard of it
  i32 unused = 0;
};

namespace detail {

// A scale stays below this: as an f32 it must be finite.
inline constexpr double kLargestScale = 0x1p127;

WT_HD WT_HOT void set_scale(LossScale& s, double scale) {
  s.scale = scale;
  s.inverse = 1 / scale;
  s.scale_f32 = float(scale);
}

// After a step. found: its gradients held inf or NaN, and it was skipped. The scale then falls by
// backoff_factor, not below min_scale; after growth_interval steps without, it grows.
WT_HD WT_HOT void next_scale(LossScale& s, bool found) {
  if (found) {
    const double lower = s.scale * s.backoff_factor;
    set_scale(s, lower > s.min_scale ? lower : s.min_scale);
    s.growth_tracker = 0;
  } else if (++s.growth_tracker >= s.growth_interval) {
    const double higher = s.scale * s.growth_factor;
    if (higher <= kLargestScale) set_scale(s, higher);
    s.growth_tracker = 0;
  }
}

}  // namespace detail
}  // namespace wt
