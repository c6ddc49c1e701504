// The rectangle that random erasing (Zhong et al., arXiv:1708.04896) takes out of an image: drawn
// from (seed, epoch, sample) alone, the same on every device. No STL: kernels include this.
#pragma once
#include "warptape/kernels/image/image_draws.h"

namespace wt {

struct EraseRule {
  float p = 0.5f;  // probability that something is erased
  // Share of the image's area, and height / width, drawn evenly by logarithm.
  float area_least = 0.02f, area_most = 0.33f;
  float log_ratio_least = -1.2039728f, log_ratio_most = 1.1939225f;  // of 0.3 and 3.3
  bool noise = false;  // normal numbers, one an element, instead of a value
};

// [top, bottom) x [left, right); nothing where they are equal.
struct ErasedBox {
  i32 top, left, bottom, right;
};

// As torchvision's RandomErasing draws it: ten tries, then nothing. Never all rows or columns.
WT_HD inline ErasedBox draw_erased_box(const EraseRule& rule, u64 seed, i64 epoch, i64 sample,
                                       i32 rows, i32 columns) {
  const PhiloxKey key = philox_key(seed, RandomStream::augment, 3);
  const u64 call = u64(epoch) << 4;
  if (uniform24(philox(key, u64(sample), call).v[0]) >= rule.p) return {0, 0, 0, 0};
  const float area = float(rows) * float(columns);
  for (u64 attempt = 1; attempt <= 10; ++attempt) {
    const PhiloxBlock b = philox(key, u64(sample), call | attempt);
    const detail::DrawnSides sides = detail::draw_sides(b, area, rule.area_least, rule.area_most,
                                                        rule.log_ratio_least, rule.log_ratio_most);
    const i32 height = sides.longer, width = sides.other;
    if (height >= rows || width >= columns) continue;
    const i32 top = detail::draw_below(b.v[2], rows - height + i64(1)),
              left = detail::draw_below(b.v[3], columns - width + i64(1));
    return {top, left, top + height, left + width};
  }
  return {0, 0, 0, 0};
}

// The key of a sample's noise, and its normal number for element k of the image, counted as [C, H,
// W].
WT_HD inline PhiloxKey erase_noise_key(u64 seed, i64 epoch, i64 sample) {
  const PhiloxBlock b = philox(philox_key(seed, RandomStream::augment, 6), u64(sample), u64(epoch));
  return {b.v[0], b.v[1]};
}
WT_HD inline float erase_noise(PhiloxKey key, i64 k) {
  const PhiloxBlock b = philox(key, u64(k), 0);
  return float(
      normal_math::normal_pair(uniform53(b.v[0], b.v[1]), uniform53(b.v[2], b.v[3])).cosine);
}

// Null, or what is wrong with it.
constexpr const char* bad_erase_rule(const EraseRule& r) {
  if (!(r.p >= 0 && r.p <= 1)) return "the probability of erasing must be in [0, 1]";
  if (!(r.area_least > 0 && r.area_least <= r.area_most && r.area_most <= 1))
    return "the shares of the area must be in (0, 1], the lesser first";
  if (!(r.log_ratio_least <= r.log_ratio_most && r.log_ratio_least > -20 && r.log_ratio_most < 20))
    return "the ratios must be above 0, the lesser first";
  return nullptr;
}

}  // namespace wt
