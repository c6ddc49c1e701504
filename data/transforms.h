// Transforms of images, with torchvision's names, defaults and ranges, and the datasets and batches
// that they are applied to.
//
//   const data::Compose augment{data::RandomResizedCrop{224}, data::RandomHorizontalFlip{},
//                               data::ToTensor{}, data::Normalize{{0.485, 0.456, 0.406},
//                                                                 {0.229, 0.224, 0.225}}};
//   Tensor x = augment(images, {.samples = rows, .epoch = 3, .seed = 1});   // u8 [N, C, H, W]
//
// A Compose becomes one launch for a batch, on the images' device: augmentation on the GPU is on
// the GPU. What is drawn for a sample depends on (seed, epoch, sample) alone, so that it is the
// same on every device, in every batch and for any number of workers; the pixels are equal, but for
// roundings where images are resized (1e-5 of their range).
#pragma once
#include <initializer_list>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "warptape/core/tensor.h"
#include "warptape/kernels/image_batch.h"

namespace wt::data {

// Height and width in pixels.
struct ImageSize {
  i64 height = 0, width = 0;
  ImageSize(i64 side) : height(side), width(side) {}  // NOLINT: implicit by design
  ImageSize(i64 h, i64 w) : height(h), width(w) {}
};

enum class PadMode { zero, reflect };

// A window of `size` anywhere in the image with `padding` pixels on all sides.
struct RandomCrop {
  ImageSize size;
  i64 padding = 0;
  PadMode mode = PadMode::zero;
};
// The window in the middle.
struct CenterCrop {
  ImageSize size;
};
// A part of the image with a share of its area in `scale` and width / height in `ratio`, resized.
struct RandomResizedCrop {
  ImageSize size;
  double scale[2] = {0.08, 1};
  double ratio[2] = {3.0 / 4, 4.0 / 3};
  bool antialias = true;
};
// The whole image, to height x width (torchvision's Resize((h, w)), not its Resize(side)).
struct Resize {
  ImageSize size;
  bool antialias = true;
};
// Left and right change places with probability p.
struct RandomHorizontalFlip {
  double p = 0.5;
};
// u8 in [0, 255] becomes float in [0, 1].
struct ToTensor {};
// (x - mean) / std, channel by channel: one number, or one a channel.
struct Normalize {
  std::vector<double> mean, std;
};
// A square of `side` pixels anywhere is set to 0 (DeVries and Taylor 2017). Of normalised images:
// 0 is the mean.
struct Cutout {
  i64 side;
};

using Transform = std::variant<RandomCrop, CenterCrop, RandomResizedCrop, Resize,
                               RandomHorizontalFlip, ToTensor, Normalize, Cutout>;

struct ComposeCall {
  std::span<const i64> samples =
      {};  // the numbers of the images, for their draws; empty: 0, 1, ...
  i64 epoch = 0;
  u64 seed = 0;
  DType dtype = DType::f32;  // f32, f16, bf16
  bool channels_last = false;
};

class WT_API Compose {
 public:
  // Cropping, resizing and flips first, in any order, then ToTensor, Normalize, Cutout; each at
  // most once, at most one that says the size. Throws UsageError for another order, and for numbers
  // that make no sense.
  Compose(std::initializer_list<Transform> list) : Compose(std::vector<Transform>(list)) {}
  explicit Compose(const std::vector<Transform>& list);

  // images u8, f16, bf16 or f32, [N, C, H, W] in any layout, or one image [C, H, W]; C at most 4.
  // Gives [N, C, h, w] (or [C, h, w]) on their device. Throws ShapeError, DtypeError and UsageError
  // for images that do not go through it.
  Tensor operator()(const Tensor& images, const ComposeCall& call = {}) const;

  // What an image of height x width becomes.
  ImageSize output(ImageSize image) const;
  // "Compose(RandomCrop(32, padding=4), RandomHorizontalFlip(0.5), ToTensor)".
  std::string text() const;

 private:
  void add(const Transform& t);
  // The arguments of the launch but for the tensors, the seed and the epoch.
  ImageBatchArgs program(i64 channels, ImageSize image, DType from) const;

  std::vector<Transform> list_;
  ImageAugment augment_{};
  ImageSize size_{0};
  bool sized_ = false, to_tensor_ = false;
  std::vector<double> mean_, std_;
};

}  // namespace wt::data
