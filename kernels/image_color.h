// Brightness, contrast, saturation, hue and others of a batch of images, in place.
#pragma once
#include "warptape/core/mailbox.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/image/color_draws.h"

namespace wt {

// images: f32 [n, C, H, W] in [0, 1], contiguous, C 1 or 3, in place; values outside are first cut
// to [0, 1], NaN to 0. A ColorProgram (color_draws.h) says what is done to sample i, which is drawn
// as number ids[i] (i64 [n]), i without a list; one without operations is not touched. Means of
// greys are sums of integers: the same bits on all devices. With a mailbox every pixel is looked at
// first, whatever is drawn, and one that is no colour goes there (is_color()).
struct ImageColorArgs {
  View images{};
  const i64* ids = nullptr;
  ColorRule rule{};
  u64 seed = 0;
  i64 epoch = 0;
  MailboxRecord* mailbox = nullptr;
  u32 op_id = 0;

  i64 count() const { return images.size(0); }
  i64 bytes() const { return 2 * images.bytes() + (ids ? count() * 8 : 0); }
  i64 flops() const { return 20 * images.numel(); }
};
WT_CONTRACT(image_color, ImageColorArgs);

namespace detail {

// Null, or what is wrong with the arguments, for all variants.
inline const char* bad_image_color(const ImageColorArgs& a) {
  const View& v = a.images;
  if (v.dtype() != DType::f32) return "images must be f32";
  if (v.size(1) != 1 && v.size(1) != 3) return "images must have one channel or three";
  if (!v.dense()) return "images must be contiguous";
  if (v.size(2) * v.size(3) > (i64{1} << 30)) return "images of more than 2^30 pixels";
  return nullptr;
}

// Within [0, 1] but for half a level of 8 bits: sums of weights round, standardised images are far
// outside. Not so NaN.
WT_HD inline bool is_color(float v) {
  constexpr float kHalfLevel = 0.5f / 255;
  return v >= -kHalfLevel && v <= 1 + kHalfLevel;
}

// Where the next operation that has to see the image stands, from `k` on.
WT_HD inline i32 next_stats(const ColorProgram& p, i32 k) {
  while (k < p.count && !needs_stats(p.op[k])) ++k;
  return k;
}
// Operations [begin, end) on one pixel.
WT_HD inline Rgb colored(Rgb p, const ColorProgram& program, i32 begin, i32 end,
                         const ColorStats& stats, bool grey) {
  p = {unit(p.r), unit(p.g), unit(p.b)};
  for (i32 k = begin; k < end; ++k)
    p = wt::colored(p, program.op[k], program.value[k], stats, grey);
  return p;
}
WT_HD inline float mean_grey(i64 sum, i64 pixels) {
  return float(double(sum) / (kGreyUnit * double(pixels)));
}

}  // namespace detail
}  // namespace wt
