// Transforms in words.
#include "warptape/core/str.h"
#include "warptape/data/transforms/transform_parts.h"

namespace wt::data {
namespace {

std::string size_text(ImageSize s) {
  return s.height == s.width ? str(s.height) : str("(", s.height, ", ", s.width, ")");
}
std::string list_text(const std::vector<double>& v) {
  std::string all;
  for (const double x : v) all += str(all.empty() ? "" : ", ", x);
  return v.size() == 1 ? all : "[" + all + "]";
}
std::string pair_text(double a, double b) { return str("[", a, ", ", b, "]"); }
std::string interval_text(const Interval& i) {
  return i.least == -i.most ? str(i.most) : pair_text(i.least, i.most);
}
std::string fill_text(const std::vector<double>& fill) {
  for (const double f : fill)
    if (f != 0) return ", fill=" + list_text(fill);
  return "";
}
const char* mode_text(Interpolation i) { return i == Interpolation::bilinear ? ", bilinear" : ""; }

struct Name {
  std::string operator()(const RandomCrop& t) const {
    return str("RandomCrop(", size_text(t.size), t.padding ? str(", padding=", t.padding) : "",
               t.mode == PadMode::reflect ? ", reflect" : "", ")");
  }
  std::string operator()(const CenterCrop& t) const {
    return str("CenterCrop(", size_text(t.size), ")");
  }
  std::string operator()(const RandomResizedCrop& t) const {
    return str("RandomResizedCrop(", size_text(t.size), ")");
  }
  std::string operator()(const Resize& t) const { return str("Resize(", size_text(t.size), ")"); }
  std::string operator()(const RandomHorizontalFlip& t) const {
    return str("RandomHorizontalFlip(", t.p, ")");
  }
  std::string operator()(const ToTensor&) const { return "ToTensor"; }
  std::string operator()(const Normalize& t) const {
    return str("Normalize(", list_text(t.mean), ", ", list_text(t.std), ")");
  }
  std::string operator()(const Cutout& t) const { return str("Cutout(", t.side, ")"); }
  std::string operator()(const RandomRotation& t) const {
    return str("RandomRotation(", interval_text(t.degrees), mode_text(t.interpolation),
               fill_text(t.fill), ")");
  }
  std::string operator()(const RandomAffine& t) const {
    std::string all = "RandomAffine(" + interval_text(t.degrees);
    if (t.translate[0] != 0 || t.translate[1] != 0)
      all += ", translate=" + pair_text(t.translate[0], t.translate[1]);
    if (t.scale[0] != 1 || t.scale[1] != 1) all += ", scale=" + pair_text(t.scale[0], t.scale[1]);
    if (t.shear_x.least != 0 || t.shear_x.most != 0) all += ", shear_x=" + interval_text(t.shear_x);
    if (t.shear_y.least != 0 || t.shear_y.most != 0) all += ", shear_y=" + interval_text(t.shear_y);
    return all + mode_text(t.interpolation) + fill_text(t.fill) + ")";
  }
  std::string operator()(const ColorJitter& t) const {
    std::string all;
    const auto add = [&](const char* name, double least, double most, double still) {
      if (least != still || most != still)
        all += str(all.empty() ? "" : ", ", name, "=", pair_text(least, most));
    };
    add("brightness", t.brightness.least, t.brightness.most, 1);
    add("contrast", t.contrast.least, t.contrast.most, 1);
    add("saturation", t.saturation.least, t.saturation.most, 1);
    add("hue", t.hue.least, t.hue.most, 0);
    return "ColorJitter(" + all + ")";
  }
  std::string operator()(const RandomGrayscale& t) const {
    return str("RandomGrayscale(", t.p, ")");
  }
  std::string operator()(const RandAugment& t) const {
    return str("RandAugment(", t.num_ops, ", ", t.magnitude,
               t.num_magnitude_bins != 31 ? str(", bins=", t.num_magnitude_bins) : "",
               mode_text(t.interpolation), fill_text(t.fill), ")");
  }
  std::string operator()(const RandomErasing& t) const {
    return str("RandomErasing(", t.p, t.random ? ", random" : "",
               t.random ? "" : fill_text(t.value), ")");
  }
};

}  // namespace

std::string transform_name(const Transform& t) { return std::visit(Name{}, t); }

void refuse_transform(const std::string& why, const std::string& hint) {
  throw UsageError("[Compose] " + why + (hint.empty() ? "" : "\n  Try " + hint));
}

}  // namespace wt::data
