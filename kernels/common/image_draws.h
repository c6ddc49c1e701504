// What augmentation does to one image: drawn from (seed, epoch, row of the dataset) alone, so that
// it is the same on every device, in every batch and for any number of workers. No STL: kernels
// include this.
#pragma once
#include "warptape/core/permutation.h"

namespace wt {

// The same for all images of a batch. Sizes are in pixels.
struct ImageAugment {
  i32 padding = 0;           // around the image, on all four sides, before a window is cut from it
  bool reflect = false;      // what lies there: mirrored pixels (the edge is not repeated), else 0
  bool random_crop = false;  // any window of the padded image; else the middle one
  float mirror = 0;          // probability that left and right change places
  i32 hole = 0;  // side of a square of zeros anywhere, cut off at the edges (DeVries and Taylor,
                 // "Cutout", arXiv:1708.04552); 0: none
};

// How one image is seen.
struct ImageView {
  i32 top, left;  // of the window, from the image's own corner: negative in the padding
  bool mirrored;
  i32 hole_top, hole_left;  // in the output; ends after `hole` pixels
};

namespace detail {

// [0, n), n at most 2^32.
WT_HD constexpr i32 draw_below(u32 bits, i64 n) { return i32(u64(bits) * u64(n) >> 32); }

}  // namespace detail

// Of an image of rows x columns pixels, seen in a window of height x width.
WT_HD constexpr ImageView draw_image_view(const ImageAugment& a, u64 seed, i64 epoch, i64 row,
                                          i32 rows, i32 columns, i32 height, i32 width) {
  const i32 free_rows = rows + 2 * a.padding - height,
            free_columns = columns + 2 * a.padding - width;
  ImageView v{free_rows / 2 - a.padding, free_columns / 2 - a.padding, false, 0, 0};
  if (a.mirror > 0 || a.random_crop) {
    const PhiloxBlock b = philox(philox_key(seed, RandomStream::augment), u64(row), u64(epoch));
    v.mirrored = uniform24(b.v[0]) < a.mirror;
    if (a.random_crop) {
      v.top = detail::draw_below(b.v[1], free_rows + i64(1)) - a.padding;
      v.left = detail::draw_below(b.v[2], free_columns + i64(1)) - a.padding;
    }
  }
  if (a.hole > 0) {
    const PhiloxBlock b = philox(philox_key(seed, RandomStream::augment, 1), u64(row), u64(epoch));
    v.hole_top = detail::draw_below(b.v[0], height) - a.hole / 2;
    v.hole_left = detail::draw_below(b.v[1], width) - a.hole / 2;
  }
  return v;
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
  if (height > rows + 2 * a.padding || width > columns + 2 * a.padding)
    return "the window is larger than the padded image";
  if (!(a.mirror >= 0 && a.mirror <= 1)) return "the probability of mirroring must be in [0, 1]";
  if (a.hole < 0 || a.hole > (1 << 20)) return "the hole's side must be 0 or more";
  return nullptr;
}

}  // namespace wt
