// What the recipes about sets of small images have in common: fashion and cifar.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "warptape/data/resident.h"
#include "warptape/nn/models.h"
#include "warptape/tools/wt/recipes/recipes.h"

namespace wt::tools {

inline constexpr i64 kImageClasses = 10;

// Stages of convolutions, each with half the pixels of the one before, and one hidden layer.
struct CnnShape {
  i64 channels, size;       // of the images
  std::vector<i64> widths;  // channels of each stage
  i64 depth;                // convolutions a stage
  i64 hidden;
  double dropout;
};
// The cnn or mlp that `model` says, by the settings width and dropout.
models::AnyModel small_image_model(Settings& s, const std::string& model, CnnShape shape);

// Any module of one input behind one type, with its own names.
template <class M>
models::AnyModel any_model(const M& net) {
  return {net, [net](const models::AnyModel::Inputs& x) mutable { return Tensor(net(x[0])); }};
}

// Shapes of a batch of such images [channels, height, width], on the meta device.
data::Batch meta_images(i64 batch, const Shape& image);
// Every other one of images [N, C, H, W], as seen in a mirror. Which ones dropout draws: its calls
// are counted on the device, so a captured step draws anew each time.
Tensor some_mirrored(const Tensor& images);
// --data synthetic: patterns of the same shape that need no file.
RecipeData synthetic_images(const Shape& image);
i64 synthetic_images_bytes(const Shape& image);

// D is the dataset.
template <class D>
class Images : public Recipe {
 public:
  nn::ModuleBase& model() override { return net_; }
  RecipeData load(const std::string& root) override {
    need(root);
    if (root == kSyntheticData) return synthetic_images(image_shape());
    const D train(root, {.train = true});
    const D held_out(root, {.train = false});
    const data::ResidentImagesOptions on_device = resident_options();
    const auto resident = [train, on_device](Device d) {
      return data::AnyDataset(train.resident(d, on_device));
    };
    if (!augments(on_device.augment)) return {train, held_out, {}, resident};
    // The same batches as on any other device.
    return {resident(Device::cpu()), held_out, {}, resident};
  }
  i64 dataset_bytes(const std::string& root) const override {
    need(root);
    if (root == kSyntheticData) return 0;  // made as they are asked for
    return D::bytes_of(root, {.train = true}) + D::bytes_of(root, {.train = false});
  }
  i64 resident_bytes(const std::string& root) const override {
    need(root);
    const i64 pixels = numel_of(image_shape()), label = item_size(DType::i64);
    if (root == kSyntheticData) return synthetic_images_bytes(image_shape());
    return D::bytes_of(root, {.train = true}) / (pixels + 1) * (pixels + label);
  }
  data::Batch shape_batch(i64 batch) const override { return meta_images(batch, image_shape()); }
  const char* item() const override { return "images"; }
  std::vector<std::string> class_names() const override {
    return {D::class_names().begin(), D::class_names().end()};
  }
  Tensor prepare(const Tensor& images) const override { return D::prepare(images); }

 protected:
  Images(models::AnyModel net, const char* wanted) : net_(std::move(net)), wanted_(wanted) {}
  // How the training images are seen.
  virtual data::ResidentImagesOptions resident_options() const { return {}; }
  models::AnyModel net_;

 private:
  static bool augments(const ImageAugment& a) {
    return a.random_crop || a.mirror > 0 || a.hole > 0;
  }
  void need(const std::string& root) const {
    if (root.empty()) throw UsageError(str(wanted_));
  }
  const char* wanted_;
};

}  // namespace wt::tools
