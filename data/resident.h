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
  bool shuffle = false;
  u64 seed = 0;  // of the order, and of what is drawn for each sample
  i64 epoch = 0, place = 0, count = 0;
  // i64 [2] on the device, epoch and place: read by the kernel instead of the two above.
  Tensor cursor{};
};

struct ResidentImagesOptions {
  // Of each channel, of pixels in [0, 1]: x = (pixel / 255 - mean) / std. Empty: 0 and 1.
  std::vector<float> mean{}, std{};
  DType dtype = DType::f32;  // of x: f32, f16, bf16
  MemoryFormat format = MemoryFormat::contiguous;
  i64 height = 0, width = 0;  // of x; 0: the images'. A crop is taken with augment.random_crop
  bool flatten = false;       // x [N, C * H * W]; needs `contiguous`
  ImageAugment augment{};     // kernels/image_batch.h; by (seed, epoch, sample) alone
  u64 seed = 0;               // of the augmentation where batch() is given indices
  i64 classes = 0;            // labels lie in [0, classes); 0: in [0, 2^31)
};

// u8 images and their labels. x is [n, C, H, W], y is i64 [n].
class WT_API ResidentImages {
 public:
  // images: u8 [N, C, H, W] with at most four channels, any strides; labels: [N], u8, i32 or i64.
  // Copies them to `device` unless they are there and contiguous (labels as i64). Throws
  // ShapeError, DtypeError, UsageError (options), IndexError (a label outside the classes) and
  // OutOfMemory where they do not fit, with what to do instead.
  ResidentImages(const Tensor& images, const Tensor& labels, Device device,
                 ResidentImagesOptions o = {});
  static constexpr bool in_memory = true;
  i64 size() const { return images_.size(0); }
  u64 version() const { return u64(images_.version()) + labels_.version(); }
  Device device() const { return images_.device(); }
  const ResidentImagesOptions& options() const { return o_; }
  i64 bytes() const;  // on the device

  // Throws IndexError for a sample that is not there. The list is copied to the device.
  Batch batch(std::span<const i64> indices, i64 epoch = 0) const;
  Batch batch_at(const BatchAt& at) const;

 private:
  Batch make(i64 n, const BatchOrder& order) const;
  Tensor images_, labels_;
  ResidentImagesOptions o_;
  std::vector<float> scale_, shift_;
};

struct ResidentTokensOptions {
  i64 context = 64;
  i64 stride = 1;  // tokens from one sample to the next
  // y is the token after each of x, [N, context]; else only the one after the last, [N].
  bool every_position = true;
};

// Windows of tokens: sample i is x = tokens [s, s + context), s = i * stride, both x and y i64.
// Shuffled with a stride of 1 these are windows anywhere, each once an epoch.
class WT_API ResidentTokens {
 public:
  // tokens: [n], u8, u16, i32 or i64. Throws ShapeError, DtypeError, UsageError (options, too few
  // tokens), OutOfMemory.
  ResidentTokens(const Tensor& tokens, Device device, const ResidentTokensOptions& o = {});
  static constexpr bool in_memory = true;
  i64 size() const { return count_; }
  u64 version() const { return tokens_.version(); }
  Device device() const { return tokens_.device(); }
  Batch batch(std::span<const i64> indices) const;
  Batch batch_at(const BatchAt& at) const;

 private:
  Batch make(i64 n, const BatchOrder& order) const;
  Tensor tokens_;
  ResidentTokensOptions o_;
  i64 count_ = 0;
};

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
  static constexpr bool in_memory = true;
  i64 size() const { return clouds_; }  // clouds: a step on one cloud is an epoch
  i64 points() const { return picks_; }
  u64 version() const { return u64(x_.version()) + y_.version(); }
  Device device() const { return x_.device(); }
  Batch batch(std::span<const i64> indices, i64 epoch = 0) const;
  Batch batch_at(const BatchAt& at) const;

 private:
  Batch make(i64 n, const BatchOrder& order) const;
  Tensor x_, y_;
  i64 clouds_ = 1, in_cloud_ = 0, picks_ = 0;
  bool one_ = false, y_by_points_ = true;
  u64 seed_ = 0;
};

}  // namespace wt::data
