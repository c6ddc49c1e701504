#include "warptape/data/transforms.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/str.h"
#include "warptape/data/transforms/transform_parts.h"

namespace wt::data {
namespace {

constexpr const char* kOrder =
    "crops, sizes and flips first, then rotations and colours, ToTensor, Normalize, Cutout, "
    "RandomErasing";

// Where a transform stands in that order.
int stage_of(const Transform& t) {
  struct Stage {
    int operator()(const RandomCrop&) const { return 0; }
    int operator()(const CenterCrop&) const { return 0; }
    int operator()(const RandomResizedCrop&) const { return 0; }
    int operator()(const Resize&) const { return 0; }
    int operator()(const RandomHorizontalFlip&) const { return 0; }
    int operator()(const RandomRotation&) const { return 1; }
    int operator()(const RandomAffine&) const { return 1; }
    int operator()(const ColorJitter&) const { return 1; }
    int operator()(const RandomGrayscale&) const { return 1; }
    int operator()(const RandAugment&) const { return 1; }
    int operator()(const ToTensor&) const { return 2; }
    int operator()(const Normalize&) const { return 3; }
    int operator()(const Cutout&) const { return 4; }
    int operator()(const RandomErasing&) const { return 5; }
  };
  return std::visit(Stage{}, t);
}

bool says_size(const Transform& t) {
  return std::holds_alternative<RandomCrop>(t) || std::holds_alternative<CenterCrop>(t) ||
         std::holds_alternative<RandomResizedCrop>(t) || std::holds_alternative<Resize>(t);
}

void check_numbers(const Normalize& n) {
  if (n.mean.empty() || n.std.empty() ||
      (n.mean.size() != n.std.size() && n.mean.size() > 1 && n.std.size() > 1))
    refuse_transform(str(transform_name(n),
                         " needs one mean and one std, or one of each a channel, got ",
                         n.mean.size(), " and ", n.std.size()));
  for (const double s : n.std)
    if (!(s > 0 && std::isfinite(s)))
      refuse_transform(str(transform_name(n), " has a std that is not positive"));
  for (const double m : n.mean)
    if (!std::isfinite(m))
      refuse_transform(str(transform_name(n), " has a mean that is not finite"));
}

void check_fill(const Transform& t, const std::vector<double>& fill) {
  if (fill.empty() || fill.size() > size_t(kImageChannels))
    refuse_transform(str(transform_name(t),
                         " needs one number to fill with, or one a channel, got ", fill.size()));
  for (const double f : fill)
    if (!std::isfinite(f))
      refuse_transform(str(transform_name(t), " is to fill with a number that is not finite"));
}

void refuse_if(const char* why, const Transform& t) {
  if (why) refuse_transform(str(transform_name(t), ": ", why));
}

}  // namespace

// What each transform adds to a Compose.
struct Compose::Lower {
  Compose& to;

  void sized(ImageSize s) const {
    if (s.height < 1 || s.width < 1)
      refuse_transform(str("a size of ", s.height, " x ", s.width, " has no pixels"));
    to.size_ = s, to.sized_ = true;
  }
  void operator()(const RandomCrop& c) const {
    sized(c.size);
    if (c.padding < 0 || c.padding > (1 << 20)) refuse_transform(str("a padding of ", c.padding));
    to.augment_.padding = i32(c.padding), to.augment_.random_crop = true;
    to.augment_.reflect = c.mode == PadMode::reflect;
  }
  void operator()(const CenterCrop& c) const { sized(c.size); }
  void operator()(const RandomResizedCrop& c) const {
    sized(c.size);
    ImageAugment& a = to.augment_;
    a.fit = ImageFit::crop, a.antialias = c.antialias;
    a.area_least = float(c.scale[0]), a.area_most = float(c.scale[1]);
    a.ratio_least = float(c.ratio[0]), a.ratio_most = float(c.ratio[1]);
    a.log_ratio_least = float(std::log(c.ratio[0]));
    a.log_ratio_most = float(std::log(c.ratio[1]));
  }
  void operator()(const Resize& r) const {
    sized(r.size);
    to.augment_.fit = ImageFit::whole, to.augment_.antialias = r.antialias;
  }
  void operator()(const RandomHorizontalFlip& f) const { to.augment_.mirror = float(f.p); }
  void operator()(const ToTensor&) const { to.to_tensor_ = true; }
  void operator()(const Normalize& n) const {
    check_numbers(n);
    if (!to.to_tensor_)
      refuse_transform(str(transform_name(n), " is for pixels in [0, 1]"), "ToTensor before it");
    to.mean_ = n.mean, to.std_ = n.std;
  }
  void operator()(const Cutout& c) const {
    if (c.side < 1) refuse_transform(str(transform_name(c), " needs a side of 1 or more"));
    to.augment_.hole = i32(std::min<i64>(c.side, 1 << 20));
  }
  void operator()(const RandomErasing& e) const {
    check_fill(e, e.value);
    EraseRule r{.p = float(e.p),
                .area_least = float(e.scale[0]),
                .area_most = float(e.scale[1]),
                .log_ratio_least = float(std::log(e.ratio[0])),
                .log_ratio_most = float(std::log(e.ratio[1])),
                .noise = e.random};
    refuse_if(bad_erase_rule(r), e);
    to.erase_ = r, to.erased_ = e.value, to.erases_ = true;
  }

  void warp(const Transform& t, const WarpRule& rule, const std::vector<double>& fill) const {
    check_fill(t, fill);
    refuse_if(bad_warp_rule(rule), t);
    to.steps_.emplace_back(WarpStep{rule, fill, transform_name(t)});
  }
  void color(const Transform& t, const ColorRule& rule) const {
    refuse_if(bad_color_rule(rule), t);
    to.steps_.emplace_back(ColorStep{rule, transform_name(t)});
  }
  void operator()(const RandomRotation& r) const {
    warp(r,
         {.draw = WarpDraw::rotation,
          .bilinear = r.interpolation == Interpolation::bilinear,
          .angle_least = r.degrees.least,
          .angle_most = r.degrees.most},
         r.fill);
  }
  void operator()(const RandomAffine& r) const {
    warp(r,
         {.bilinear = r.interpolation == Interpolation::bilinear,
          .angle_least = r.degrees.least,
          .angle_most = r.degrees.most,
          .translate_x = r.translate[0],
          .translate_y = r.translate[1],
          .scale_least = r.scale[0],
          .scale_most = r.scale[1],
          .shear_x_least = r.shear_x.least,
          .shear_x_most = r.shear_x.most,
          .shear_y_least = r.shear_y.least,
          .shear_y_most = r.shear_y.most},
         r.fill);
  }
  void operator()(const ColorJitter& j) const {
    ColorRule r{};
    const Factor* const factors[] = {&j.brightness, &j.contrast, &j.saturation};
    for (int k = 0; k < 3; ++k) r.least[k] = factors[k]->least, r.most[k] = factors[k]->most;
    r.least[3] = j.hue.least, r.most[3] = j.hue.most;
    for (int k = 0; k < 4; ++k) {
      const double still = k == 3 ? 0 : 1;
      if (r.least[k] != still || r.most[k] != still) r.ops = u8(r.ops | 1 << k);
    }
    color(j, r);
  }
  void operator()(const RandomGrayscale& g) const {
    color(g, {.draw = ColorDraw::grayscale, .p = float(g.p)});
  }
  void operator()(const RandAugment& r) const {
    if (r.num_ops < 1 || r.num_ops > 16)
      refuse_transform(str(transform_name(r), " needs 1 to 16 operations"));
    const auto whole = [](i64 v) { return i32(std::clamp<i64>(v, -1, 1 << 20)); };
    for (i32 k = 0; k < i32(r.num_ops); ++k) {
      const AugmentStep step{whole(r.magnitude), whole(r.num_magnitude_bins), k};
      warp(r,
           {.draw = WarpDraw::augment,
            .bilinear = r.interpolation == Interpolation::bilinear,
            .augment = step},
           r.fill);
      color(r, {.draw = ColorDraw::augment, .augment = step});
    }
  }
};

Compose::Compose(const std::vector<Transform>& list) {
  for (const Transform& t : list) add(t);
}

std::string Compose::text() const {
  std::string all;
  for (const Transform& t : list_) all += (all.empty() ? "" : ", ") + transform_name(t);
  return "Compose(" + all + ")";
}

void Compose::add(const Transform& t) {
  const std::string name = transform_name(t);
  for (const Transform& before : list_) {
    const std::string other = transform_name(before);
    if (before.index() == t.index())
      refuse_transform(str(name, " comes after ", other, ": one of them"));
    if (says_size(before) && says_size(t))
      refuse_transform(str(name, " comes after ", other, ": each of them says the size"),
                       "one of the two");
    if (stage_of(before) > stage_of(t)) refuse_transform(str(name, " comes after ", other), kOrder);
  }
  std::visit(Lower{*this}, t);
  // What depends on no image: an image of the window's own size is always large enough.
  const i64 side = i64{1} << 24;
  refuse_if(bad_image_augment(augment_, side, side, 1, 1), t);
  list_.push_back(t);
}

ImageSize Compose::output(ImageSize image) const { return sized_ ? size_ : image; }

}  // namespace wt::data
