// A batch through a Compose: its launches.
#include <algorithm>
#include <utility>

#include "warptape/core/factories.h"
#include "warptape/core/half.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/str.h"
#include "warptape/data/launch_parts.h"
#include "warptape/data/transforms/transform_parts.h"

namespace wt::data {
namespace {

constexpr OpInfo kComposeInfo{.name = "Compose", .derivative = Derivative::none};

// The image's size in Tensor terms: [.., C, H, W].
ImageSize size_of(const Tensor& images) {
  return {images.size(images.ndim() - 2), images.size(images.ndim() - 1)};
}

Tensor numbers_on(std::span<const i64> values, Device d) {
  return tensor(std::vector<i64>(values.begin(), values.end())).to(d);
}

// One number, or one a channel.
double of_channel(const std::vector<double>& v, i64 c, double none) {
  return v.empty() ? none : v[v.size() > 1 ? size_t(c) : 0];
}

}  // namespace

void Compose::check(i64 channels, ImageSize image, DType from) const {
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
  const auto one_each = [&](const std::vector<double>& v, const std::string& what) {
    if (v.size() > 1 && i64(v.size()) != channels)
      throw ShapeError(str("[Compose] ", what, ", the images have ", channels, " channels"));
  };
  one_each(mean_, str("Normalize has ", mean_.size(), " means"));
  one_each(std_, str("Normalize has ", std_.size(), " deviations"));
  one_each(erased_, str("RandomErasing has ", erased_.size(), " values"));
  for (const auto& step : steps_) {
    if (const auto* w = std::get_if<WarpStep>(&step))
      one_each(w->fill, str(w->name, " fills with ", w->fill.size(), " numbers"));
    const auto* c = std::get_if<ColorStep>(&step);
    if (c && channels != 1 && channels != 3)
      throw ShapeError(
          str("[Compose] ", c->name, " is for images of 1 or 3 channels, got ", channels));
  }
  check_fills(from);
  const ImageSize to = output(image);
  if (const char* why = bad_image_augment(augment_, image.height, image.width, to.height, to.width))
    throw ShapeError(
        str("[Compose] ", text(), " of images of ", image.height, " x ", image.width, ": ", why));
}

// Colours come in [0, 1], also where an earlier step has filled something in.
void Compose::check_fills(DType from) const {
  const double most = from == DType::u8 ? 255 : 1;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const auto* w = std::get_if<WarpStep>(&steps_[i]);
    const auto color = std::find_if(steps_.begin() + i64(i), steps_.end(), [](const auto& step) {
      return std::holds_alternative<ColorStep>(step);
    });
    if (!w || color == steps_.end()) continue;
    for (const double f : w->fill)
      if (f < 0 || f > most)
        refuse_transform(str(w->name, " fills with ", f, ", and ", std::get<ColorStep>(*color).name,
                             " after it takes ", dtype_name(from), " images in [0, ", most, "]"));
  }
}

// The launches of one batch, on its device.
class Compose::Batch {
 public:
  Batch(const Compose& all, const Tensor& images, const ComposeCall& call)
      : all_(all),
        images_(images),
        call_(call),
        unit_(images.dtype() == DType::u8 ? 255 : 1),
        size_(all.output(size_of(images))) {
    if (call.samples.empty() || images.device().is_meta) return;
    id_list_ = numbers_on(call.samples, images.device());
    ids_ = static_cast<const i64*>(id_list_.impl()->data);
  }

  Tensor make() const {
    const i64 n = images_.size(0), c = images_.size(1);
    const TensorOptions options{.dtype = call_.dtype, .device = images_.device()};
    Tensor out = call_.channels_last
                     ? empty({n, size_.height, size_.width, c}, options).permute({0, 3, 1, 2})
                     : empty({n, c, size_.height, size_.width}, options);
    if (images_.device().is_meta) return out;
    detail::uses({&images_});
    if (all_.steps_.empty()) {
      gather(images_, out, all_.augment_, all_.to_tensor_ ? 255 : 1);
    } else {
      // Seen in [0, 1] from here on.
      const ImageAugment hole{.hole = all_.augment_.hole};
      gather(changed(), out, hole, all_.to_tensor_ ? 1 : 1 / unit_);
    }
    if (all_.erases_) erase(out);
    return out;
  }

 private:
  template <class Args>
  void launch(const Args& a) const {
    wt::run(a, detail::launch_on(kComposeInfo, images_.device()));
  }
  Tensor planes() const {
    return empty({images_.size(0), images_.size(1), size_.height, size_.width},
                 {.dtype = DType::f32, .device = images_.device()});
  }

  // Crops, sizes and flips, then (pixel / unit - mean) / std, and the hole.
  void gather(const Tensor& from, const Tensor& out, const ImageAugment& augment,
              double unit) const {
    ImageBatchArgs a{};
    a.augment = augment;
    for (i64 c = 0; c < from.size(1); ++c) {
      const double std = of_channel(all_.std_, c, 1);
      a.scale[c] = float(1 / (unit * std));
      a.shift[c] = float(-of_channel(all_.mean_, c, 0) / std);
    }
    gather(a, from, out);
  }
  void gather(ImageBatchArgs& a, const Tensor& from, const Tensor& out) const {
    a.ids = ids_, a.out = view_of(out.impl()), a.images = view_of(from.impl());
    a.seed = call_.seed, a.epoch = call_.epoch;
    launch(a);
  }

  // Rotations and colours, in f32. A first rotation reads the images as they are.
  Tensor changed() const {
    Tensor seen = images_;
    double unit = unit_;
    if (all_.sized_ || all_.augment_.mirror > 0 ||
        std::holds_alternative<ColorStep>(all_.steps_.front())) {
      ImageBatchArgs a{};
      a.augment = all_.augment_, a.augment.hole = 0;
      for (float& s : a.scale) s = float(1 / unit);
      Tensor planes = this->planes();
      gather(a, seen, planes);
      seen = std::move(planes), unit = 1;
    }
    bool checked = unit_ != 1;  // u8 images are in their range, and what was colour once stays so
    for (const auto& step : all_.steps_) {
      if (const auto* w = std::get_if<WarpStep>(&step))
        seen = warped(*w, seen, unit), unit = 1;
      else
        color(std::get<ColorStep>(step), seen, !std::exchange(checked, true));
    }
    return seen;
  }
  void color(const ColorStep& step, const Tensor& images, bool check) const {
    ImageColorArgs a{};
    a.images = view_of(images.impl()), a.ids = ids_;
    a.rule = step.rule, a.seed = call_.seed, a.epoch = call_.epoch;
    MailboxRecord own{};
    if (check) {
      a.mailbox = images.device() == Device::cpu() ? &own : mailbox_of(images.device());
      a.op_id = mailbox_op_id(kComposeInfo);
    }
    launch(a);
    if (own.raised)
      refuse_transform(
          str(step.name, " is for images in [0, 1], image ",
              own.position / std::max<i64>(1, images.numel() / images.size(0)), " has ",
              wt::detail::bits_float(u32(own.value))),
          "u8 images, or x * std + mean where x was standardised, as FashionMnist and Cifar10 are");
  }
  Tensor warped(const WarpStep& step, const Tensor& from, double unit) const {
    Tensor out = planes();
    ImageWarpArgs a{};
    a.out = view_of(out.impl()), a.images = view_of(from.impl()), a.ids = ids_;
    a.rule = step.rule, a.scale = float(1 / unit), a.seed = call_.seed, a.epoch = call_.epoch;
    for (i64 c = 0; c < from.size(1); ++c) a.fill[c] = float(of_channel(step.fill, c, 0) / unit_);
    launch(a);
    return out;
  }

  void erase(const Tensor& out) const {
    ImageEraseArgs a{};
    a.images = view_of(out.impl()), a.ids = ids_;
    a.rule = all_.erase_, a.seed = call_.seed, a.epoch = call_.epoch;
    for (i64 c = 0; c < out.size(1); ++c) a.value[c] = float(of_channel(all_.erased_, c, 0));
    launch(a);
  }

  const Compose& all_;
  const Tensor& images_;
  const ComposeCall& call_;
  double unit_;  // what is 1 in [0, 1]
  ImageSize size_;
  Tensor id_list_;
  const i64* ids_ = nullptr;
};

Tensor Compose::operator()(const Tensor& images, const ComposeCall& call) const {
  if (images.ndim() != 4 && images.ndim() != 3)
    throw ShapeError(
        str("[Compose] expected images [N, C, H, W] or one [C, H, W], got ", describe(images)));
  if (call.dtype != DType::f32 && !is_half(call.dtype))
    throw DtypeError(str("[Compose] dtype must be f32, f16 or bf16, got ", dtype_name(call.dtype)));
  if (images.ndim() == 3) return (*this)(images.unsqueeze(0), call).squeeze(0);
  const i64 n = images.size(0);
  if (!call.samples.empty() && i64(call.samples.size()) != n)
    throw UsageError(str("[Compose] ", call.samples.size(), " sample numbers for ", n, " images"));
  check(images.size(1), size_of(images), images.dtype());
  return Batch(*this, images, call).make();
}

}  // namespace wt::data
