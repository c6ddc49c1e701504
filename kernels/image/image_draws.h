// What augmentation does to one image: drawn from (seed, epoch, row of the dataset) alone, so that
// it is the same on every device, in every batch and for any number of workers. No STL: kernels
// include this.
#pragma once
#include "warptape/core/permutation.h"
#include "warptape/kernels/common/float_math.h"
#include "warptape/kernels/common/normal_math.h"

namespace wt {

// Which part of an image is seen.
enum class ImageFit : u8 {
  window,  // as many pixels as the output has, out of the padded image
  crop,    // a part of random size and shape, resized to the output
  whole,   // all of it, resized
};

// The same for all images of a batch. Sizes are in pixels.
struct ImageAugment {
  ImageFit fit = ImageFit::window;
  i32 padding = 0;           // around the image, on all four sides, before a window is cut from it
  bool reflect = false;      // what lies there: mirrored pixels (the edge is not repeated), else 0
  bool random_crop = false;  // any window of the padded image; else the middle one
  float mirror = 0;          // probability that left and right change places
  i32 hole = 0;  // side of a square of zeros anywhere, cut off at the edges (DeVries and Taylor,
                 // "Cutout", arXiv:1708.04552); 0: none
  // Of `crop`: the part's share of the image's area, and width / height, drawn evenly by logarithm.
  float area_least = 0.08f, area_most = 1;
  float ratio_least = 0.75f, ratio_most = 4.0f / 3.0f;
  float log_ratio_least = -0.28768207f, log_ratio_most = 0.28768207f;  // of the two ratios
  // Of `crop` and `whole`: a pixel of a smaller output is a weighted mean of all that it stands
  // for, instead of between its four neighbours.
  bool antialias = true;
};

// How one image is seen.
struct ImageView {
  i32 top, left;      // of the window, from the image's own corner: negative in the padding
  i32 height, width;  // of the window: the output's, or what is resized to it
  bool mirrored;
  i32 hole_top, hole_left;  // in the output; ends after `hole` pixels
};

namespace detail {

// [0, n), n at most 2^32.
WT_HD constexpr i32 draw_below(u32 bits, i64 n) { return i32(u64(bits) * u64(n) >> 32); }

// n / 2, halves to the even one: where torchvision's CenterCrop begins.
WT_HD constexpr i32 half_of(i32 n) { return n / 2 + (n % 4 == 3); }

WT_HD inline float exp_of_ratio(float x) {
  const float_math::Reduced k = float_math::by_ln2<127>(x);
  return float_math::exp_near_0(k.r) * float_math::of_bits(k.bits << 23);
}

// Sides of a part with a drawn share of `area` and a drawn ratio, long / other, rounded. Every step
// is rounded as it is written, so that all devices take the same part.
struct DrawnSides {
  i32 longer, other;
};
WT_HD inline DrawnSides draw_sides(const PhiloxBlock& b, float area, float share_least,
                                   float share_most, float log_least, float log_most) {
  const float share = float_math::fused(uniform24(b.v[0]), share_most - share_least, share_least),
              log_ratio = float_math::fused(uniform24(b.v[1]), log_most - log_least, log_least);
  const double target = float_math::product(area, share);
  return {i32(normal_math::square_root(target * exp_of_ratio(log_ratio)) + 0.5),
          i32(normal_math::square_root(target * exp_of_ratio(-log_ratio)) + 0.5)};
}

// A part of an image of rows x columns, as torchvision's RandomResizedCrop draws it: ten tries,
// then the middle of the image in the nearest allowed shape.
WT_HD inline void draw_crop(const ImageAugment& a, PhiloxKey key, i64 row, i64 epoch, i32 rows,
                            i32 columns, ImageView& v) {
  const float area = float(rows) * float(columns);
  for (u64 attempt = 0; attempt < 10; ++attempt) {
    const PhiloxBlock b = philox(key, u64(row), u64(epoch) << 4 | attempt);
    const DrawnSides sides =
        draw_sides(b, area, a.area_least, a.area_most, a.log_ratio_least, a.log_ratio_most);
    const i32 width = sides.longer, height = sides.other;
    if (width < 1 || width > columns || height < 1 || height > rows) continue;
    v.height = height, v.width = width;
    v.top = draw_below(b.v[2], rows - height + i64(1));
    v.left = draw_below(b.v[3], columns - width + i64(1));
    return;
  }
  v.height = rows, v.width = columns;
  const float shape = float(columns) / float(rows);
  if (shape < a.ratio_least)
    v.height = i32(float(columns) / a.ratio_least + 0.5f);
  else if (shape > a.ratio_most)
    v.width = i32(float_math::product(float(rows), a.ratio_most) + 0.5f);
  v.height = v.height < 1 ? 1 : v.height, v.width = v.width < 1 ? 1 : v.width;
  v.top = (rows - v.height) / 2, v.left = (columns - v.width) / 2;
}

}  // namespace detail

// Of an image of rows x columns pixels for an output of height x width; `sample` is the number that
// its draws are made from. Resized: may a.fit be another than `window`? What draws parts of images
// takes twice the registers of the rest.
template <bool Resized = true>
WT_HD inline ImageView draw_image_view(const ImageAugment& a, u64 seed, i64 epoch, i64 sample,
                                       i32 rows, i32 columns, i32 height, i32 width) {
  const i32 free_rows = rows + 2 * a.padding - height,
            free_columns = columns + 2 * a.padding - width;
  ImageView v{detail::half_of(free_rows) - a.padding,
              detail::half_of(free_columns) - a.padding,
              height,
              width,
              false,
              0,
              0};
  if (a.fit == ImageFit::whole) v.top = v.left = 0, v.height = rows, v.width = columns;
  if (a.mirror > 0 || a.random_crop) {
    const PhiloxBlock b = philox(philox_key(seed, RandomStream::augment), u64(sample), u64(epoch));
    v.mirrored = uniform24(b.v[0]) < a.mirror;
    if (a.random_crop && a.fit == ImageFit::window) {
      v.top = detail::draw_below(b.v[1], free_rows + i64(1)) - a.padding;
      v.left = detail::draw_below(b.v[2], free_columns + i64(1)) - a.padding;
    }
  }
  if (Resized && a.fit == ImageFit::crop)
    detail::draw_crop(a, philox_key(seed, RandomStream::augment, 2), sample, epoch, rows, columns,
                      v);
  if (a.hole > 0) {
    const PhiloxBlock b =
        philox(philox_key(seed, RandomStream::augment, 1), u64(sample), u64(epoch));
    v.hole_top = detail::draw_below(b.v[0], height) - a.hole / 2;
    v.hole_left = detail::draw_below(b.v[1], width) - a.hole / 2;
  }
  return v;
}

// Pixels that count for place `at` of an axis of `to` pixels made from `from` ones, and their
// weights, which are not yet divided by their sum: linear, as PIL's and torch's antialias = true.
struct ImageTaps {
  i32 begin, end;
  float centre, inverse_radius;
  WT_HD float weight(i32 k) const {
    const float d = float_math::product(float(k) - centre + 0.5f, inverse_radius);
    return 1.0f - (d < 0 ? -d : d);
  }
};
WT_HD inline ImageTaps image_taps(i32 at, i32 from, i32 to, bool antialias) {
  const float scale = float(from) / float(to);
  const float radius = antialias && scale > 1 ? scale : 1,
              centre = float_math::product(float(at) + 0.5f, scale);
  const i32 begin = i32(centre - radius + 0.5f), end = i32(centre + radius + 0.5f);
  return {begin < 0 || centre - radius + 0.5f < 0 ? 0 : begin, end > from ? from : end, centre,
          1.0f / radius};
}

// The image's own row (or column) that stands at `at`, which may lie outside [0, n); -1: padding.
WT_HD constexpr i32 padded_place(i32 at, i32 n, bool reflect) {
  if (at >= 0 && at < n) return at;
  if (!reflect) return -1;
  return at < 0 ? -at : 2 * (n - 1) - at;
}

// Null, or what is wrong with it.
constexpr const char* bad_image_augment(const ImageAugment& a, i64 rows, i64 columns, i64 height,
                                        i64 width) {
  if (a.padding < 0 || a.padding > (1 << 20)) return "padding must be 0 or more";
  if (a.reflect && (a.padding >= rows || a.padding >= columns))
    return "reflected padding must be less than the image's height and width";
  if (a.fit != ImageFit::window && a.padding > 0) return "what is resized has no padding";
  if (a.fit == ImageFit::window &&
      (height > rows + 2 * a.padding || width > columns + 2 * a.padding))
    return "the window is larger than the padded image";
  if (!(a.area_least > 0 && a.area_least <= a.area_most && a.area_most <= 1))
    return "the shares of the area must be in (0, 1], the lesser first";
  if (!(a.ratio_least > 0 && a.ratio_least <= a.ratio_most))
    return "the ratios must be above 0, the lesser first";
  if (!(a.mirror >= 0 && a.mirror <= 1)) return "the probability of mirroring must be in [0, 1]";
  if (a.hole < 0 || a.hole > (1 << 20)) return "the hole's side must be 0 or more";
  return nullptr;
}

}  // namespace wt
