// Which of RandAugment's operations (Cubuk et al., arXiv:1909.13719) a step does to an image. No
// STL: kernels include this.
#pragma once
#include "warptape/kernels/image/image_draws.h"

namespace wt {

// Those of torchvision's RandAugment that need no histogram and no neighbours, in its order: all
// but Sharpness and Equalize.
enum class AugmentOp : u8 {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  posterize,
  solarize,
  autocontrast
};
inline constexpr i32 kAugmentOps = 12;

// One of num_ops steps, counted from 0.
struct AugmentStep {
  i32 magnitude = 9, bins = 31;
  i32 step = 0;
};

// level: of the operation's range, in [0, 1]; sign: of those that go both ways.
struct DrawnAugment {
  AugmentOp op;
  double level, sign;
};

WT_HD inline DrawnAugment draw_augment(const AugmentStep& a, u64 seed, i64 epoch, i64 sample) {
  const PhiloxBlock b =
      philox(philox_key(seed, RandomStream::augment, 32 + u64(a.step)), u64(sample), u64(epoch));
  return {AugmentOp(detail::draw_below(b.v[0], kAugmentOps)),
          a.bins > 1 ? double(a.magnitude) / double(a.bins - 1) : 0, b.v[1] & 1 ? -1.0 : 1.0};
}

// Null, or what is wrong with it.
constexpr const char* bad_augment_step(const AugmentStep& a) {
  if (a.bins < 2) return "num_magnitude_bins must be 2 or more";
  if (a.magnitude < 0 || a.magnitude >= a.bins)
    return "magnitude must be in [0, num_magnitude_bins)";
  return nullptr;
}

}  // namespace wt
