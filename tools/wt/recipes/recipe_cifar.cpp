// cifar: a small CNN, ResNet-18 or the speed-run network on CIFAR-10.
#include <algorithm>
#include <numeric>

#include "warptape/autograd/ops/loss.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/data/cifar.h"
#include "warptape/tools/wt/recipes/image_recipe.h"

namespace wt::tools {
namespace {

constexpr const char* kCifarWanted =
    "cifar needs --data FOLDER with data_batch_1.bin ... test_batch.bin of CIFAR-10";

class Cifar : public Images<data::Cifar10> {
 public:
  Cifar(Settings s, const std::string& model)
      : Images(small_image_model(s, model,
                                 {.channels = 3,
                                  .size = 32,
                                  .widths = {32, 64, 128},
                                  .depth = 2,
                                  .hidden = 128,
                                  .dropout = 0.25}),
               kCifarWanted),
        flip_(s.flag("flip", true)) {
    set_settings(s, "cifar");
  }
  Tensor logits(const Tensor& x) override {
    return net_(flip_ && net_.is_training() ? some_mirrored(x) : x);
  }
  Shape image_shape() const override { return {3, 32, 32}; }
  RecipeDefaults defaults() const override {
    return {.batch = 64, .epochs = 10, .lr = 2e-3, .weight_decay = 0.05, .warmup = 200};
  }

 private:
  bool flip_;
};

// How the networks that are known by name are trained.
struct KnownWay {
  i64 crop;      // pixels around the image, of which any window is seen
  bool reflect;  // what lies there
  double label_smoothing;
  RecipeDefaults defaults;
};

// Images are cropped and mirrored where the data lies, in the launch that makes the batch.
class KnownCifar : public Images<data::Cifar10> {
 public:
  Tensor logits(const Tensor& x) override { return net_(x); }
  Loss loss(const data::Batch& b) override {
    return cross_entropy(logits(b.x), b.y, {.label_smoothing = smoothing_});
  }
  Shape image_shape() const override { return {3, 32, 32}; }
  RecipeDefaults defaults() const override { return defaults_; }

 protected:
  KnownCifar(models::AnyModel net, Settings& s, const KnownWay& way)
      : Images(std::move(net), kCifarWanted), reflect_(way.reflect), defaults_(way.defaults) {
    mirror_ = s.flag("flip", true);
    crop_ = s.integer("crop", way.crop, 0, 16);
    cutout_ = s.integer("cutout", 0, 0, 32);
    smoothing_ = s.real("label_smoothing", way.label_smoothing, 0, 0.9);
    set_settings(s, "cifar");
  }
  data::ResidentImagesOptions resident_options() const override {
    return {.augment = {.padding = i32(crop_),
                        .reflect = reflect_,
                        .random_crop = crop_ > 0,
                        .mirror = mirror_ ? 0.5f : 0.0f,
                        .hole = i32(cutout_)},
            .seed = generator().seed()};
  }

 private:
  bool reflect_, mirror_ = true;
  i64 crop_ = 0, cutout_ = 0;
  double smoothing_ = 0;
  RecipeDefaults defaults_;
};

// He et al. 2015's augmentation.
class CifarResNet : public KnownCifar {
 public:
  explicit CifarResNet(Settings s) : CifarResNet(s, s.integer("width", 64, 1, 1024)) {}

 private:
  CifarResNet(Settings& s, i64 width)
      : KnownCifar(any_model(models::resnet18(
                       {.classes = kImageClasses, .width = width, .cifar_stem = true})),
                   s,
                   {.crop = 4,
                    .reflect = false,
                    .label_smoothing = 0,
                    .defaults = {.batch = 128,
                                 .epochs = 30,
                                 .lr = 2e-3,
                                 .weight_decay = 0.1,
                                 .warmup = 400,
                                 .drop_last = true}}) {}
};

// Jordan 2024's (arXiv:2404.00498) network and augmentation, with AdamW.
class CifarSpeedrun : public KnownCifar {
 public:
  explicit CifarSpeedrun(Settings s) : CifarSpeedrun(s, s.integer("width", 64, 1, 1024)) {}
  void begin(const data::AnyDataset& train) override {
    constexpr i64 kMost = 1000;  // in f64 their patches are 90 MB
    std::vector<i64> first(size_t(std::min(kMost, train.size())));
    std::iota(first.begin(), first.end(), 0);
    net_of_type_.whiten_by(train.batch(first).x);
  }

 private:
  CifarSpeedrun(Settings& s, i64 width)
      : CifarSpeedrun(s, models::CifarSpeedrun({.classes = kImageClasses,
                                                .width1 = width,
                                                .width2 = 4 * width,
                                                .width3 = 4 * width})) {}
  CifarSpeedrun(Settings& s, const models::CifarSpeedrun& net)
      : KnownCifar(any_model(net), s,
                   {.crop = 2,
                    .reflect = true,
                    .label_smoothing = 0.2,
                    .defaults = {.batch = 512,
                                 .epochs = 10,
                                 .lr = 1e-2,
                                 .weight_decay = 0.05,
                                 .schedule = "triangle",
                                 .drop_last = true}}),
        net_of_type_(net) {}
  models::CifarSpeedrun net_of_type_;  // a handle of the same
};

}  // namespace

std::unique_ptr<Recipe> make_cifar(Settings s) {
  const std::string model = s.choice("model", {"cnn", "mlp", "resnet18", "speedrun"});
  if (model == "resnet18") return std::make_unique<CifarResNet>(std::move(s));
  if (model == "speedrun") return std::make_unique<CifarSpeedrun>(std::move(s));
  return std::make_unique<Cifar>(std::move(s), model);
}

}  // namespace wt::tools
