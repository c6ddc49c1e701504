// Datasets that stay on the device: a batch is one kernel there, and no byte of it comes from the
// host.
//
//   auto images = data::FashionMnist{root}.resident(Device::cuda());
//   for (auto& [x, y] : data::ResidentLoader{images, {.batch = 64, .shuffle = true}}) ...
//
// data/resident_loader.h has the loader, whose batches can also be made inside a captured step.
// Indices are those of the dataset, so a data::Loader takes these sets too; it sends a list of
// them with each batch. Both give the same batches for one (seed, epoch), on every device.
#pragma once
#include <concepts>
#include <span>
#include <string>
#include <vector>

#include "warptape/data/dataset.h"
#include "warptape/kernels/image_batch.h"

namespace wt {
struct BatchOrder;  // kernels/image/batch_order.h
}

namespace wt::data {

// A batch by its place in the order of an epoch: samples [place, place + count).
struct BatchAt {
  bool shuffle = false;  // the order is the permutation of (seed, epoch); else 0, 1, 2, ...
  u64 seed = 0;          // of the order, and of what is drawn for each sample
  // The `epoch`, the first `place` in its order and the `count` of samples from there on.
  i64 epoch = 0, place = 0, count = 0;
  // i64 [2] on the device, epoch and place: read by the kernel instead of the two above.
  Tensor cursor{};
};

// What ResidentImages makes of its pixels.
struct ResidentImagesOptions {
  // `mean` and `std` of each channel, of pixels in [0, 1]: x = (pixel / 255 - mean) / std. Empty: 0
  // and 1.
  std::vector<float> mean{}, std{};
  DType dtype = DType::f32;                        // of x: f32, f16, bf16
  MemoryFormat format = MemoryFormat::contiguous;  // of x: contiguous or channels_last
  // `height` and `width` of x in pixels; 0: the images'. A crop is taken with augment.random_crop.
  i64 height = 0, width = 0;
  bool flatten = false;    // x [N, C * H * W]; needs `contiguous`
  ImageAugment augment{};  // crops, flips and holes, drawn by (seed, epoch, sample) alone
  u64 seed = 0;            // of the augmentation where batch() is given indices
  i64 classes = 0;         // labels lie in [0, classes); 0: in [0, 2^31)
};

// Images that lie on a device as u8, and their labels. x is [n, C, h, w] of the options' dtype, or
// [n, C * h * w] with `flatten`; y is i64 [n].
class WT_API ResidentImages {
 public:
  // images: u8 [N, C, H, W] with at most four channels, any strides; labels: [N], u8, i32 or i64.
  // Copies them to `device` unless they are there and contiguous (labels as i64). Throws
  // ShapeError, DtypeError, UsageError (options), IndexError (a label outside the classes) and
  // OutOfMemory where they do not fit, with what to do instead.
  ResidentImages(const Tensor& images, const Tensor& labels, Device device,
                 ResidentImagesOptions o = {});
  // True: a Loader with workers = kAuto takes none, as a batch is little more than a copy.
  static constexpr bool in_memory = true;
  // The number of images.
  i64 size() const { return images_.size(0); }
  // Another number after each write to the images or labels, which a Loader refuses within an
  // epoch.
  u64 version() const { return u64(images_.version()) + labels_.version(); }
  // Where the images and all batches lie.
  Device device() const { return images_.device(); }
  // The options as given, height and width filled in.
  const ResidentImagesOptions& options() const { return o_; }
  // Bytes of images and labels on the device.
  i64 bytes() const;

  // The images of these numbers, augmented by (options().seed, epoch, number). The list is copied
  // to the device. Throws IndexError for a sample that is not there.
  Batch batch(std::span<const i64> indices, i64 epoch = 0) const;
  // The images at places of an epoch's order, augmented by (at.seed, epoch, number): nothing is
  // sent. Throws IndexError for places outside of the epoch, UsageError for a cursor that is not
  // two i64 on the device.
  Batch batch_at(const BatchAt& at) const;

 private:
  Batch make(i64 n, const BatchOrder& order) const;
  Tensor images_, labels_;
  ResidentImagesOptions o_;
  std::vector<float> scale_, shift_;
};

// The windows of ResidentTokens.
struct ResidentTokensOptions {
  i64 context = 64;  // tokens of x
  i64 stride = 1;    // tokens from one sample to the next
  // y is the token after each of x, [N, context]; else only the one after the last, [N].
  bool every_position = true;
};

// Windows of tokens that lie on a device: sample i is x = tokens [s, s + context), s = i * stride,
// as i64 [n, context]; y is i64 [n, context] or [n]. Shuffled with a stride of 1 these are windows
// anywhere, each once an epoch.
class WT_API ResidentTokens {
 public:
  // tokens: [n], u8, u16, i32 or i64. Throws ShapeError, DtypeError, UsageError (options, too few
  // tokens), OutOfMemory.
  ResidentTokens(const Tensor& tokens, Device device, const ResidentTokensOptions& o = {});
  // True: a Loader with workers = kAuto takes none, as a batch is little more than a copy.
  static constexpr bool in_memory = true;
  // The number of windows, (n - context - 1) / stride + 1.
  i64 size() const { return count_; }
  // Another number after each write to the tokens, which a Loader refuses within an epoch.
  u64 version() const { return tokens_.version(); }
  // Where the tokens and all batches lie.
  Device device() const { return tokens_.device(); }
  // The windows of these numbers; the list is copied to the device. Throws IndexError.
  Batch batch(std::span<const i64> indices) const;
  // The windows at places of an epoch's order: nothing is sent. Throws IndexError for places
  // outside of the epoch, UsageError for a cursor that is not two i64 on the device.
  Batch batch_at(const BatchAt& at) const;

 private:
  Batch make(i64 n, const BatchOrder& order) const;
  Tensor tokens_;
  ResidentTokensOptions o_;
  i64 count_ = 0;
};

// How many points of a cloud ResidentPoints draws.
struct ResidentPointsOptions {
  double ratio = 0.1;  // of a cloud's points that a sample has
  i64 points = 0;      // the number itself, instead of the ratio; 0: by ratio
  u64 seed = 0;        // of the subsets where batch() is given indices
};

// Clouds of points, of which each sample has a fresh random subset: drawn without replacement by
// (seed, epoch, cloud) alone, so that a training sees all points over its epochs.
class WT_API ResidentPoints {
 public:
  // x: [N, D], one cloud, or [S, N, D]. y: a value for each point, [N, ...] or [S, N, ...], of
  // which a sample has those of its points; or for each of several clouds, [S, ...] with another
  // second size; undefined: y is x. Any dtypes. A batch of n clouds has x [n, points, D]; of the
  // one cloud of [N, D], x [points, D]. Throws ShapeError, UsageError, OutOfMemory.
  ResidentPoints(const Tensor& x, const Tensor& y, Device device,
                 const ResidentPointsOptions& o = {});
  // True: a Loader with workers = kAuto takes none, as a batch is little more than a copy.
  static constexpr bool in_memory = true;
  // The number of clouds: a step on one cloud is an epoch.
  i64 size() const { return clouds_; }
  // Points of a cloud that a sample has: at least 1.
  i64 points() const { return picks_; }
  // Another number after each write to the points or values, which a Loader refuses within an
  // epoch.
  u64 version() const { return u64(x_.version()) + y_.version(); }
  // Where the clouds and all batches lie.
  Device device() const { return x_.device(); }
  // The clouds of these numbers, their points drawn by (options' seed, epoch, number); the list is
  // copied to the device. Throws IndexError, and UsageError for other than one of one cloud [N, D].
  Batch batch(std::span<const i64> indices, i64 epoch = 0) const;
  // The clouds at places of an epoch's order, their points drawn by (at.seed, epoch, number):
  // nothing is sent. Throws as batch(), and UsageError for a cursor that is not two i64 on the
  // device.
  Batch batch_at(const BatchAt& at) const;

 private:
  Batch make(i64 n, const BatchOrder& order) const;
  Tensor x_, y_;
  i64 clouds_ = 1, in_cloud_ = 0, picks_ = 0;
  bool one_ = false, y_by_points_ = true;
  u64 seed_ = 0;
};

}  // namespace wt::data
