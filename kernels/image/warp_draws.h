// Affine maps of images: rotations, translations, scales and shears, drawn from (seed, epoch,
// sample) alone, the same on every device. Conventions are torchvision's
// (transforms.functional.affine and rotate): about the middle of the image, the matrix is that of
// the way back, from a pixel of the output to the place that it is taken from. No STL: kernels
// include this.
#pragma once
#include "warptape/kernels/image/augment_draws.h"

namespace wt {

enum class WarpDraw : u8 {
  affine,    // RandomAffine: a positive angle turns clockwise
  rotation,  // RandomRotation: counter-clockwise
  augment    // a step of RandAugment, the identity where it drew no such operation
};

// Degrees, shares of width and height, factors.
struct WarpRule {
  WarpDraw draw = WarpDraw::affine;
  bool bilinear = false;  // else the nearest pixel
  double angle_least = 0, angle_most = 0;
  double translate_x = 0, translate_y = 0;
  double scale_least = 1, scale_most = 1;
  double shear_x_least = 0, shear_x_most = 0, shear_y_least = 0, shear_y_most = 0;
  AugmentStep augment{};
};

// Pixel (x, y) of the output is taken from
//   (xx u + xy v + x0, yx u + yy v + y0),  u = x - middle_x, v = y - middle_y.
struct ImageWarp {
  float xx, xy, x0, yx, yy, y0, middle_x, middle_y;
};

namespace detail {

WT_HD inline double uniform_in(u32 bits, double least, double most) {
  return float_math::fused(double(uniform24(bits)), most - least, least);
}
WT_HD inline normal_math::Point at_degrees(double degrees) {
  double turns = degrees / 360;
  turns -= double(i64(turns));
  return normal_math::on_circle(turns < 0 ? turns + 1 : turns);
}
// Halves to the even one, as Python's round().
WT_HD inline double rounded(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

struct WarpMatrix {  // of the way back, about the middle
  double xx = 1, xy = 0, x0 = 0, yx = 0, yy = 1, y0 = 0;
};

// torchvision's _get_inverse_affine_matrix(center = 0, ...).
WT_HD inline WarpMatrix affine_matrix(double angle, double move_x, double move_y, double scale,
                                      double shear_x, double shear_y) {
  using float_math::fused, float_math::product;
  const normal_math::Point turn = at_degrees(angle), rest = at_degrees(angle - shear_y),
                           sx = at_degrees(shear_x), sy = at_degrees(shear_y);
  const double tan_x = sx.sine / sx.cosine, c = rest.cosine / sy.cosine, s = rest.sine / sy.cosine;
  WarpMatrix m;
  m.xx = fused(-s, tan_x, turn.cosine) / scale;
  m.xy = fused(c, tan_x, turn.sine) / scale;
  m.yx = -s / scale;
  m.yy = c / scale;
  m.x0 = -fused(m.xx, move_x, product(m.xy, move_y));
  m.y0 = -fused(m.yx, move_x, product(m.yy, move_y));
  return m;
}

WT_HD inline WarpMatrix augment_matrix(const DrawnAugment& a, i32 width, i32 height) {
  WarpMatrix m;
  const double signed_level = a.sign * a.level;
  switch (a.op) {
    case AugmentOp::shear_x:  // about the upper left corner, as torchvision does
      m.xy = 0.3 * signed_level, m.x0 = float_math::product(m.xy, 0.5 * height);
      break;
    case AugmentOp::shear_y:
      m.yx = 0.3 * signed_level, m.y0 = float_math::product(m.yx, 0.5 * width);
      break;
    case AugmentOp::translate_x:
      m.x0 = -double(i64(150.0 / 331 * width * signed_level));
      break;
    case AugmentOp::translate_y:
      m.y0 = -double(i64(150.0 / 331 * height * signed_level));
      break;
    case AugmentOp::rotate:
      return affine_matrix(-30 * signed_level, 0, 0, 1, 0, 0);
    default:
      break;
  }
  return m;
}

}  // namespace detail

WT_HD inline ImageWarp draw_warp(const WarpRule& r, u64 seed, i64 epoch, i64 sample, i32 width,
                                 i32 height) {
  using detail::uniform_in;
  detail::WarpMatrix m;
  if (r.draw == WarpDraw::augment) {
    m = detail::augment_matrix(draw_augment(r.augment, seed, epoch, sample), width, height);
  } else {
    const bool rotation = r.draw == WarpDraw::rotation;
    const PhiloxKey key = philox_key(seed, RandomStream::augment, rotation ? 9 : 8);
    const PhiloxBlock b = philox(key, u64(sample), u64(epoch) << 1),
                      more = philox(key, u64(sample), u64(epoch) << 1 | 1);
    const double angle = uniform_in(b.v[0], r.angle_least, r.angle_most),
                 most_x = float_math::product(r.translate_x, double(width)),
                 most_y = float_math::product(r.translate_y, double(height));
    m = detail::affine_matrix(rotation ? -angle : angle,
                              detail::rounded(uniform_in(b.v[1], -most_x, most_x)),
                              detail::rounded(uniform_in(b.v[2], -most_y, most_y)),
                              uniform_in(b.v[3], r.scale_least, r.scale_most),
                              uniform_in(more.v[0], r.shear_x_least, r.shear_x_most),
                              uniform_in(more.v[1], r.shear_y_least, r.shear_y_most));
  }
  const double middle_x = 0.5 * (width - 1), middle_y = 0.5 * (height - 1);
  return {float(m.xx),     float(m.xy),    float(m.x0 + middle_x),
          float(m.yx),     float(m.yy),    float(m.y0 + middle_y),
          float(middle_x), float(middle_y)};
}

// Where a pixel is taken from, in pixels of the image: the upper left of the four around it, and
// how far it is from that one. `near`: within a pixel of the image.
struct WarpPlace {
  i32 x, y;
  float along, down;
  bool near;
};
WT_HD inline WarpPlace warp_place(const ImageWarp& w, bool bilinear, i32 x, i32 y, i32 width,
                                  i32 height) {
  const float u = float(x) - w.middle_x, v = float(y) - w.middle_y;
  float at_x = float_math::fused(w.xx, u, float_math::fused(w.xy, v, w.x0)),
        at_y = float_math::fused(w.yx, u, float_math::fused(w.yy, v, w.y0));
  // Written so that NaN is not near.
  const bool near = at_x > -1 && at_x < float(width) && at_y > -1 && at_y < float(height);
  if (!near) return {0, 0, 0, 0, false};
  if (!bilinear) {  // halves to the even one: float_math's magic number
    at_x = (at_x + float_math::kMagic) - float_math::kMagic;
    at_y = (at_y + float_math::kMagic) - float_math::kMagic;
  }
  i32 left = i32(at_x), top = i32(at_y);
  left -= float(left) > at_x, top -= float(top) > at_y;
  return {left, top, at_x - float(left), at_y - float(top), true};
}

// Null, or what is wrong with it.
constexpr const char* bad_warp_rule(const WarpRule& r) {
  const auto ordered = [](double a, double b) { return a <= b && a >= -1e6 && b <= 1e6; };
  if (!ordered(r.angle_least, r.angle_most)) return "degrees must be finite, the lesser first";
  if (!(r.translate_x >= 0 && r.translate_x <= 1 && r.translate_y >= 0 && r.translate_y <= 1))
    return "translations must be shares in [0, 1] of the width and the height";
  if (!(r.scale_least >= 1e-3 && r.scale_least <= r.scale_most && r.scale_most <= 1e3))
    return "scales must be above 0, the lesser first (0.001 to 1000)";
  if (!(r.shear_x_least > -90 && r.shear_x_least <= r.shear_x_most && r.shear_x_most < 90 &&
        r.shear_y_least > -90 && r.shear_y_least <= r.shear_y_most && r.shear_y_most < 90))
    return "shears must be between -90 and 90 degrees, the lesser first";
  return r.draw == WarpDraw::augment ? bad_augment_step(r.augment) : nullptr;
}

}  // namespace wt
