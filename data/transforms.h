// Transforms of images, with torchvision's names, defaults and ranges, and the datasets and batches
// that they are applied to.
//
//   const data::Compose augment{data::RandomResizedCrop{224}, data::RandomHorizontalFlip{},
//                               data::ToTensor{}, data::Normalize{{0.485, 0.456, 0.406},
//                                                                 {0.229, 0.224, 0.225}}};
//   Tensor x = augment(images, {.samples = rows, .epoch = 3, .seed = 1});   // u8 [N, C, H, W]
//
// Crops, sizes, flips, ToTensor, Normalize and Cutout become one launch for a batch, on the images'
// device: augmentation on the GPU is on the GPU. RandomErasing is one more; rotations, affine maps,
// colours and a step of RandAugment work on f32 images in [0, 1] between two such launches. What is
// drawn for a sample depends on (seed, epoch, sample) alone, so that it is the same on every
// device, in every batch and for any number of workers; the pixels are equal, but for roundings
// where images are resized (1e-5 of their range).
#pragma once
#include <initializer_list>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "warptape/core/tensor.h"
#include "warptape/data/image_transform.h"
#include "warptape/kernels/image_batch.h"
#include "warptape/kernels/image_color.h"
#include "warptape/kernels/image_erase.h"
#include "warptape/kernels/image_warp.h"

namespace wt::data {

// Height and width in pixels.
struct ImageSize {
  i64 height = 0, width = 0;  // rows and columns of pixels
  // A square of this side.
  ImageSize(i64 side) : height(side), width(side) {}  // NOLINT: implicit by design
  // Height, then width.
  ImageSize(i64 h, i64 w) : height(h), width(w) {}
};

// What lies around an image: zeros (`zero`), or its own pixels without the edge (`reflect`).
enum class PadMode { zero, reflect };

// A window of `size` anywhere in the image with `padding` pixels on all sides.
struct RandomCrop {
  ImageSize size;                // of the window
  i64 padding = 0;               // pixels, on each side
  PadMode mode = PadMode::zero;  // what the padding is: zero or reflect
};
// The window in the middle of the image.
struct CenterCrop {
  ImageSize size;  // of the window
};
// A part of the image with a share of its area in `scale` and width / height in `ratio`, resized.
struct RandomResizedCrop {
  ImageSize size;                        // of the result
  double scale[2] = {0.08, 1};           // least and greatest share of the area, in (0, 1]
  double ratio[2] = {3.0 / 4, 4.0 / 3};  // least and greatest width / height
  bool antialias = true;                 // all pixels count where the part is made smaller
};
// The whole image, to height x width (torchvision's Resize((h, w)), not its Resize(side)).
struct Resize {
  ImageSize size;         // of the result
  bool antialias = true;  // all pixels count where the image is made smaller
};
// Left and right change places with probability p.
struct RandomHorizontalFlip {
  double p = 0.5;  // in [0, 1]
};
// u8 in [0, 255] becomes float in [0, 1].
struct ToTensor {};
// (x - mean) / std, channel by channel: one number, or one a channel.
struct Normalize {
  std::vector<double> mean, std;  // `mean` finite and `std` above 0, of pixels in [0, 1]
};
// A square of `side` pixels anywhere is set to 0 (DeVries and Taylor 2017). Of normalised images:
// 0 is the mean.
struct Cutout {
  i64 side;  // in pixels, at least 1
};

// A range to draw from, [least, most]; one number x is [-x, x].
struct Interval {
  double least = 0, most = 0;  // both ends, the lesser first
  // [-x, x].
  Interval(double x) : least(-x), most(x) {}  // NOLINT: implicit by design
  // [a, b].
  Interval(double a, double b) : least(a), most(b) {}
};
// A range of factors, [least, most]; one number x is [max(0, 1 - x), 1 + x].
struct Factor {
  double least = 1, most = 1;  // both ends, 0 or more, the lesser first
  // [max(0, 1 - x), 1 + x].
  Factor(double x) : least(x < 1 ? 1 - x : 0), most(1 + x) {}  // NOLINT: implicit by design
  // [a, b].
  Factor(double a, double b) : least(a), most(b) {}
};

// What is seen at a place: `bilinear` between four pixels, or the `nearest` one. Between a pixel
// and the fill it is linear too (where torchvision weights what is seen of the image twice).
enum class Interpolation { nearest, bilinear };

// The four that follow keep the image's size. `fill` is what lies outside, in the image's own
// numbers, one or one a channel.

// Turned by an angle, counter-clockwise, about the middle.
struct RandomRotation {
  Interval degrees;                                      // the angle
  Interpolation interpolation = Interpolation::nearest;  // nearest or bilinear
  std::vector<double> fill{0};                           // what lies outside: one, or one a channel
};
// Turned clockwise by an angle, moved by up to `translate` of width and height (whole pixels),
// scaled, sheared by angles along x and y.
struct RandomAffine {
  Interval degrees;                                      // the angle
  double translate[2] = {0, 0};                          // shares of width and height, in [0, 1]
  double scale[2] = {1, 1};                              // least and greatest factor, above 0
  Interval shear_x{0}, shear_y{0};                       // degrees, between -90 and 90
  Interpolation interpolation = Interpolation::nearest;  // nearest or bilinear
  std::vector<double> fill{0};                           // what lies outside: one, or one a channel
};

// The three that follow change colours: of images of 1 or 3 channels, u8, or floats in [0, 1].
// Standardised images, as FashionMnist and Cifar10 give them, are none: see Compose.

// Brightness, contrast, saturation and hue change, in an order drawn for each image. Nothing is
// rounded to whole levels between the four.
struct ColorJitter {
  Factor brightness{0}, contrast{0}, saturation{0};  // factors; 0: [1, 1], no change
  Interval hue{0};                                   // parts of the circle, at most 0.5
};
// With probability p all three channels become 0.2989 r + 0.587 g + 0.114 b.
struct RandomGrayscale {
  double p = 0.1;  // in [0, 1]
};
// num_ops of twelve operations of one magnitude, for each image: Identity, ShearX, ShearY,
// TranslateX, TranslateY, Rotate, Brightness, Color, Contrast, Posterize, Solarize, AutoContrast.
// torchvision's without Sharpness and Equalize.
struct RandAugment {
  // `num_ops` operations an image, 1 to 16; the `magnitude` of all of them, from 0 to below
  // `num_magnitude_bins`.
  i64 num_ops = 2, magnitude = 9, num_magnitude_bins = 31;
  Interpolation interpolation = Interpolation::nearest;  // nearest or bilinear
  std::vector<double> fill{0};                           // what lies outside: one, or one a channel
};
// With probability p a rectangle with a share of the area in `scale` and height / width in `ratio`
// becomes `value`, one or one a channel, or with `random` normal noise (Zhong et al. 2017). Of
// normalised images.
struct RandomErasing {
  double p = 0.5;                  // in [0, 1]
  double scale[2] = {0.02, 0.33};  // least and greatest share of the area, in (0, 1]
  double ratio[2] = {0.3, 3.3};    // least and greatest height / width
  std::vector<double> value{0};    // what the rectangle becomes: one, or one a channel
  bool random = false;             // normal noise instead of `value`
};

// Any of the transforms above, an element of a Compose.
using Transform =
    std::variant<RandomCrop, CenterCrop, RandomResizedCrop, Resize, RandomHorizontalFlip, ToTensor,
                 Normalize, Cutout, RandomRotation, RandomAffine, ColorJitter, RandomGrayscale,
                 RandAugment, RandomErasing>;

// What a Compose draws for, and what it gives.
struct ComposeCall {
  std::span<const i64> samples =
      {};                      // the numbers of the images, for their draws; empty: 0, 1, ...
  i64 epoch = 0;               // of the draws: another picture in each
  u64 seed = 0;                // of the draws
  DType dtype = DType::f32;    // of the result: f32, f16, bf16
  bool channels_last = false;  // the result lies in memory as [N, H, W, C]
};

// Transforms one after the other, applied to a batch of images on their device.
class WT_API Compose {
 public:
  // Takes transforms in this order: cropping, resizing and flips first, in any order, then
  // rotations and colours, which happen in the order of the list, then ToTensor, Normalize, Cutout,
  // RandomErasing; each at most once, at most one that says the size. Throws UsageError for another
  // order, and for numbers that make no sense.
  Compose(std::initializer_list<Transform> list) : Compose(std::vector<Transform>(list)) {}
  explicit Compose(const std::vector<Transform>& list);

  // Transforms images, u8, f16, bf16 or f32, [N, C, H, W] in any layout, or one image [C, H, W]; C
  // at most 4. Gives [N, C, h, w] (or [C, h, w]) on their device. Throws ShapeError, DtypeError and
  // UsageError for images that do not go through it. For colours, floats must be in [0, 1], but for
  // half a level of 8 bits, and no NaN: what is outside is never cut without a word, but a
  // UsageError, at once on the cpu, when the host next waits for a device.
  Tensor operator()(const Tensor& images, const ComposeCall& call = {}) const;

  // The size that an image of this size has afterwards.
  ImageSize output(ImageSize image) const;
  // The list in words: "Compose(RandomCrop(32, padding=4), RandomHorizontalFlip(0.5), ToTensor)".
  std::string text() const;

 private:
  struct WarpStep {
    WarpRule rule;
    std::vector<double> fill;
    std::string name;
  };
  struct ColorStep {
    ColorRule rule;
    std::string name;
  };
  struct Lower;
  class Batch;

  void add(const Transform& t);
  void check(i64 channels, ImageSize image, DType from) const;
  void check_fills(DType from) const;

  std::vector<Transform> list_;
  ImageAugment augment_{};
  ImageSize size_{0};
  bool sized_ = false, to_tensor_ = false, erases_ = false;
  std::vector<std::variant<WarpStep, ColorStep>> steps_;
  EraseRule erase_{};
  std::vector<double> mean_, std_, erased_{0};
};

// A Compose of these transforms, Compose{parts...}, for a list that stands where an ImageTransform
// is wanted.
template <class... Parts>
Compose compose_of(const Parts&... parts) {
  return Compose({Transform(parts)...});
}

}  // namespace wt::data
