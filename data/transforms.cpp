#include "warptape/data/transforms.h"

#include <cmath>

#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/str.h"
#include "warptape/kernels/run.h"

namespace wt::data {
namespace {

constexpr OpInfo kComposeInfo{.name = "Compose", .derivative = Derivative::none};

[[noreturn]] void fail(const std::string& why, const std::string& hint = {}) {
  throw UsageError("[Compose] " + why + (hint.empty() ? "" : "\n  Try " + hint));
}

std::string size_text(ImageSize s) {
  return s.height == s.width ? str(s.height) : str("(", s.height, ", ", s.width, ")");
}
std::string list_text(const std::vector<double>& v) {
  std::string all;
  for (const double x : v) all += str(all.empty() ? "" : ", ", x);
  return v.size() == 1 ? all : "[" + all + "]";
}

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
};

// Where a transform stands: geometry, ToTensor, Normalize, Cutout.
int stage_of(const Transform& t) {
  if (std::holds_alternative<ToTensor>(t)) return 1;
  if (std::holds_alternative<Normalize>(t)) return 2;
  return std::holds_alternative<Cutout>(t) ? 3 : 0;
}

bool says_size(const Transform& t) {
  return std::holds_alternative<RandomCrop>(t) || std::holds_alternative<CenterCrop>(t) ||
         std::holds_alternative<RandomResizedCrop>(t) || std::holds_alternative<Resize>(t);
}

void check_numbers(const Transform& t) {
  if (const auto* n = std::get_if<Normalize>(&t)) {
    if (n->mean.empty() || n->std.empty() ||
        (n->mean.size() != n->std.size() && n->mean.size() > 1 && n->std.size() > 1))
      fail(str(Name{}(*n), " needs one mean and one std, or one of each a channel, got ",
               n->mean.size(), " and ", n->std.size()));
    for (const double s : n->std)
      if (!(s > 0 && std::isfinite(s))) fail(str(Name{}(*n), " has a std that is not positive"));
    for (const double m : n->mean)
      if (!std::isfinite(m)) fail(str(Name{}(*n), " has a mean that is not finite"));
  }
  if (const auto* c = std::get_if<Cutout>(&t); c && c->side < 1)
    fail(str(Name{}(*c), " needs a side of 1 or more"));
}

// The image's size in Tensor terms: [.., C, H, W].
ImageSize size_of(const Tensor& images) {
  return {images.size(images.ndim() - 2), images.size(images.ndim() - 1)};
}

Tensor numbers_on(std::span<const i64> values, Device d) {
  return tensor(std::vector<i64>(values.begin(), values.end())).to(d);
}

}  // namespace

Compose::Compose(const std::vector<Transform>& list) {
  for (const Transform& t : list) add(t);
}

std::string Compose::text() const {
  std::string all;
  for (const Transform& t : list_) all += (all.empty() ? "" : ", ") + std::visit(Name{}, t);
  return "Compose(" + all + ")";
}

void Compose::add(const Transform& t) {
  check_numbers(t);
  const std::string name = std::visit(Name{}, t);
  for (const Transform& before : list_) {
    const std::string other = std::visit(Name{}, before);
    if (before.index() == t.index()) fail(str(name, " comes after ", other, ": one of them"));
    if (says_size(before) && says_size(t))
      fail(str(name, " comes after ", other, ": each of them says the size"), "one of the two");
    if (stage_of(before) > stage_of(t))
      fail(str(name, " comes after ", other),
           "crops, sizes and flips first, then ToTensor, Normalize, Cutout");
  }
  if (std::holds_alternative<Normalize>(t) && !to_tensor_)
    fail(str(name, " is for pixels in [0, 1]"), "ToTensor before it");
  struct Lower {
    Compose& to;
    void sized(ImageSize s) const {
      if (s.height < 1 || s.width < 1)
        fail(str("a size of ", s.height, " x ", s.width, " has no pixels"));
      to.size_ = s, to.sized_ = true;
    }
    void operator()(const RandomCrop& c) const {
      sized(c.size);
      if (c.padding < 0 || c.padding > (1 << 20)) fail(str("a padding of ", c.padding));
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
    void operator()(const Normalize& n) const { to.mean_ = n.mean, to.std_ = n.std; }
    void operator()(const Cutout& c) const {
      to.augment_.hole = i32(std::min<i64>(c.side, 1 << 20));
    }
  };
  std::visit(Lower{*this}, t);
  // What depends on no image: an image of the window's own size is always large enough.
  const i64 side = i64{1} << 24;
  if (const char* why = bad_image_augment(augment_, side, side, 1, 1)) fail(str(name, ": ", why));
  list_.push_back(t);
}

ImageSize Compose::output(ImageSize image) const { return sized_ ? size_ : image; }

ImageBatchArgs Compose::program(i64 channels, ImageSize image, DType from) const {
  if (channels < 1 || channels > kImageChannels)
    throw ShapeError(
        str("[Compose] images of 1 to 4 channels, got ", channels,
            "\n  Try permute({0, 3, 1, 2}) for images [N, H, W, C], permute({2, 0, 1}) "
            "for one [H, W, C], as read_image() gives it"));
  if (from != DType::u8 && from != DType::f32 && !is_half(from))
    throw DtypeError(str("[Compose] images must be u8, f16, bf16 or f32, got ", dtype_name(from)));
  if (to_tensor_ && from != DType::u8)
    throw DtypeError(str("[Compose] ToTensor is for u8 images, got ", dtype_name(from),
                         "\n  Try leaving it out where they are in [0, 1] already"));
  for (const auto* v : {&mean_, &std_})
    if (v->size() > 1 && i64(v->size()) != channels)
      throw ShapeError(str("[Compose] Normalize has ", v->size(), " ",
                           v == &mean_ ? "means" : "deviations", ", the images have ", channels,
                           " channels"));
  const ImageSize to = output(image);
  if (const char* why = bad_image_augment(augment_, image.height, image.width, to.height, to.width))
    throw ShapeError(
        str("[Compose] ", text(), " of images of ", image.height, " x ", image.width, ": ", why));
  ImageBatchArgs a{};
  a.augment = augment_;
  for (i64 c = 0; c < channels; ++c) {
    const auto at = [&](const std::vector<double>& v, double none) {
      return v.empty() ? none : v[v.size() > 1 ? size_t(c) : 0];
    };
    const double unit = to_tensor_ ? 255 : 1, std = at(std_, 1);
    a.scale[c] = float(1 / (unit * std)), a.shift[c] = float(-at(mean_, 0) / std);
  }
  return a;
}

Tensor Compose::operator()(const Tensor& images, const ComposeCall& call) const {
  if (images.ndim() != 4 && images.ndim() != 3)
    throw ShapeError(
        str("[Compose] expected images [N, C, H, W] or one [C, H, W], got ", describe(images)));
  if (call.dtype != DType::f32 && !is_half(call.dtype))
    throw DtypeError(str("[Compose] dtype must be f32, f16 or bf16, got ", dtype_name(call.dtype)));
  if (images.ndim() == 3) return (*this)(images.unsqueeze(0), call).squeeze(0);
  const i64 n = images.size(0), channels = images.size(1);
  if (!call.samples.empty() && i64(call.samples.size()) != n)
    throw UsageError(str("[Compose] ", call.samples.size(), " sample numbers for ", n, " images"));
  ImageBatchArgs a = program(channels, size_of(images), images.dtype());
  const ImageSize to = output(size_of(images));
  const TensorOptions options{.dtype = call.dtype, .device = images.device()};
  Tensor out = call.channels_last
                   ? empty({n, to.height, to.width, channels}, options).permute({0, 3, 1, 2})
                   : empty({n, channels, to.height, to.width}, options);
  if (images.device().is_meta) return out;
  Tensor ids;
  if (!call.samples.empty()) {
    ids = numbers_on(call.samples, images.device());
    a.ids = static_cast<const i64*>(ids.impl()->data);
  }
  a.out = {out.impl()->data, &out.impl()->geometry};
  a.images = {images.impl()->data, &images.impl()->geometry};
  a.seed = call.seed, a.epoch = call.epoch;
  wt::run(a, Launch{&kComposeInfo, mode.native_stream, nullptr, images.device()});
  return out;
}

}  // namespace wt::data
