// What becomes of an image's colours: brightness, contrast, saturation, hue and others, with
// torchvision's formulas for floats in [0, 1] (transforms.v2.functional), drawn from (seed, epoch,
// sample) alone. Every step is rounded as it is written: the same bits on every device. No STL:
// kernels include this.
#pragma once
#include "warptape/kernels/image/augment_draws.h"

namespace wt {

enum class ColorOp : u8 {
  brightness,
  contrast,
  saturation,
  hue,
  grayscale,
  posterize,
  solarize,
  autocontrast
};

enum class ColorDraw : u8 {
  jitter,     // ColorJitter: what `ops` has, in a drawn order
  grayscale,  // RandomGrayscale: with probability p
  augment     // a step of RandAugment, nothing where it drew no such operation
};

struct ColorRule {
  ColorDraw draw = ColorDraw::jitter;
  u8 ops = 0;  // bits: 1 brightness, 2 contrast, 4 saturation, 8 hue
  float p = 0.1f;
  // Of the four, in that order: factors around 1, and of hue a part of the circle in [-0.5, 0.5].
  double least[4] = {1, 1, 1, 0}, most[4] = {1, 1, 1, 0};
  AugmentStep augment{};
};

// What is done to one image, one after the other. At most one of them needs to see all of the
// image.
struct ColorProgram {
  i32 count = 0;
  ColorOp op[4] = {};
  float value[4] = {};  // factor, levels, threshold
};

namespace detail {

WT_HD inline void add_color_op(ColorProgram& p, ColorOp op, double value) {
  p.op[p.count] = op, p.value[p.count] = float(value), ++p.count;
}

WT_HD inline void draw_jitter(const ColorRule& r, u64 seed, i64 epoch, i64 sample,
                              ColorProgram& p) {
  const PhiloxKey key = philox_key(seed, RandomStream::augment, 10);
  const PhiloxBlock b = philox(key, u64(sample), u64(epoch) << 1),
                    more = philox(key, u64(sample), u64(epoch) << 1 | 1);
  // An order of four: the next one is one of those that are left.
  u32 order = u32(draw_below(more.v[0], 24)), left = 0x3210;  // four numbers of four bits
  for (u32 n = 4; n > 0; --n) {
    const u32 at = order % n * 4, k = left >> at & 15;
    order /= n;
    left = (left & ((1u << at) - 1)) | left >> (at + 4) << at;
    const u32 bits = k == 0 ? b.v[0] : k == 1 ? b.v[1] : k == 2 ? b.v[2] : b.v[3];
    if (r.ops >> k & 1)
      add_color_op(p, ColorOp(k),
                   float_math::fused(double(uniform24(bits)), r.most[k] - r.least[k], r.least[k]));
  }
}

WT_HD inline void augment_program(const AugmentStep& step, u64 seed, i64 epoch, i64 sample,
                                  ColorProgram& p) {
  const DrawnAugment a = draw_augment(step, seed, epoch, sample);
  const double factor = float_math::fused(0.9 * a.sign, a.level, 1.0);
  switch (a.op) {
    case AugmentOp::brightness:
      add_color_op(p, ColorOp::brightness, factor);
      break;
    case AugmentOp::color:
      add_color_op(p, ColorOp::saturation, factor);
      break;
    case AugmentOp::contrast:
      add_color_op(p, ColorOp::contrast, factor);
      break;
    case AugmentOp::posterize: {  // 8 bits less four quarters of the range, halves to the even one
      const double shifted = a.level * 4 + 0x1.8p52;
      add_color_op(p, ColorOp::posterize, double(1 << (8 - i32(shifted - 0x1.8p52))));
      break;
    }
    case AugmentOp::solarize:
      add_color_op(p, ColorOp::solarize, 1 - a.level);
      break;
    case AugmentOp::autocontrast:
      add_color_op(p, ColorOp::autocontrast, 0);
      break;
    default:
      break;
  }
}

// NaN becomes 0.
WT_HD inline float unit(float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; }
WT_HD inline float blend(float x, float with, float factor) {
  return unit(float_math::fused(factor, x, float_math::product(1.0f - factor, with)));
}

}  // namespace detail

// Into memory that can be indexed: a kernel's registers cannot.
WT_HD inline void draw_colors(const ColorRule& r, u64 seed, i64 epoch, i64 sample,
                              ColorProgram& p) {
  p.count = 0;
  if (r.draw == ColorDraw::jitter) return detail::draw_jitter(r, seed, epoch, sample, p);
  if (r.draw == ColorDraw::augment)
    return detail::augment_program(r.augment, seed, epoch, sample, p);
  const PhiloxKey key = philox_key(seed, RandomStream::augment, 11);
  if (uniform24(philox(key, u64(sample), u64(epoch)).v[0]) < r.p)
    detail::add_color_op(p, ColorOp::grayscale, 0);
}

// A pixel; of an image of one channel all three are it.
struct Rgb {
  float r, g, b;
};

WT_HD inline float grey_of(const Rgb& p) {
  return float_math::fused(0.2989f, p.r,
                           float_math::fused(0.587f, p.g, float_math::product(0.114f, p.b)));
}

// By way of hue, saturation and value: `turn` is a part of the circle.
WT_HD inline Rgb turned_hue(const Rgb& p, float turn) {
  const float most = p.r > p.g ? (p.r > p.b ? p.r : p.b) : (p.g > p.b ? p.g : p.b),
              least = p.r < p.g ? (p.r < p.b ? p.r : p.b) : (p.g < p.b ? p.g : p.b);
  const float range = most - least;
  if (!(range > 0)) return p;
  const float rc = (most - p.r) / range, gc = (most - p.g) / range, bc = (most - p.b) / range;
  float h = most == p.r ? bc - gc : most == p.g ? 2.0f + rc - bc : 4.0f + gc - rc;
  h = h / 6.0f + turn;
  h -= float(i32(h));
  if (h < 0) h += 1.0f;
  const i32 sector = i32(float_math::product(h, 6.0f));
  const float f = float_math::fused(h, 6.0f, -float(sector)), s = range / most;
  const float low = detail::unit(float_math::product(most, 1.0f - s)),
              falling = detail::unit(float_math::product(most, float_math::fused(-s, f, 1.0f))),
              rising =
                  detail::unit(float_math::product(most, float_math::fused(-s, 1.0f - f, 1.0f)));
  switch (sector) {
    case 1:
      return {falling, most, low};
    case 2:
      return {low, most, rising};
    case 3:
      return {low, falling, most};
    case 4:
      return {rising, low, most};
    case 5:
      return {most, low, falling};
    default:  // 0, and 6 for a hue that was rounded up to 1
      return {most, rising, low};
  }
}

// What an operation has to know of the whole image: its mean grey, or the least and most of each
// channel.
struct ColorStats {
  float mean = 0;
  float least[3] = {}, most[3] = {};
};
WT_HD inline bool needs_stats(ColorOp op) {
  return op == ColorOp::contrast || op == ColorOp::autocontrast;
}
// The grey of a pixel as an integer, so that sums are the same in every order.
inline constexpr double kGreyUnit = 1 << 30;
WT_HD inline i64 grey_units(const Rgb& p, bool grey) {
  return i64(float_math::product(grey ? p.r : grey_of(p), float(kGreyUnit)));
}

namespace detail {

WT_HD inline float stretched(float x, float least, float most) {
  const float scale = 1.0f / (most - least);
  return most > least ? unit(float_math::product(x - least, scale)) : x;
}
WT_HD inline float posterized(float x, float levels) {
  const float level = float(i32(float_math::product(x, levels)));
  return (level < levels ? level : levels - 1.0f) / levels;
}

}  // namespace detail

// One operation on one pixel in [0, 1]; of grey images the three are one.
WT_HD inline Rgb colored(const Rgb& p, ColorOp op, float value, const ColorStats& stats,
                         bool grey) {
  using namespace detail;
  switch (op) {
    case ColorOp::brightness:
      return {unit(float_math::product(p.r, value)), unit(float_math::product(p.g, value)),
              unit(float_math::product(p.b, value))};
    case ColorOp::contrast:
      return {blend(p.r, stats.mean, value), blend(p.g, stats.mean, value),
              blend(p.b, stats.mean, value)};
    case ColorOp::saturation: {
      if (grey) return p;
      const float g = grey_of(p);
      return {blend(p.r, g, value), blend(p.g, g, value), blend(p.b, g, value)};
    }
    case ColorOp::hue:
      return grey ? p : turned_hue(p, value);
    case ColorOp::grayscale: {
      const float g = grey ? p.r : grey_of(p);
      return {g, g, g};
    }
    case ColorOp::posterize:
      return {posterized(p.r, value), posterized(p.g, value), posterized(p.b, value)};
    case ColorOp::solarize:
      return {p.r >= value ? 1.0f - p.r : p.r, p.g >= value ? 1.0f - p.g : p.g,
              p.b >= value ? 1.0f - p.b : p.b};
    default:
      return {stretched(p.r, stats.least[0], stats.most[0]),
              stretched(p.g, stats.least[1], stats.most[1]),
              stretched(p.b, stats.least[2], stats.most[2])};
  }
}

// Null, or what is wrong with it.
constexpr const char* bad_color_rule(const ColorRule& r) {
  if (!(r.p >= 0 && r.p <= 1)) return "the probability of grey must be in [0, 1]";
  for (int k = 0; k < 3; ++k)
    if (!(r.least[k] >= 0 && r.least[k] <= r.most[k] && r.most[k] <= 1e6))
      return "factors must be 0 or more, the lesser first";
  if (!(r.least[3] >= -0.5 && r.least[3] <= r.most[3] && r.most[3] <= 0.5))
    return "hue must be in [-0.5, 0.5], the lesser first";
  return r.draw == ColorDraw::augment ? bad_augment_step(r.augment) : nullptr;
}

}  // namespace wt
