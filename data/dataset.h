// Datasets: a number of samples, and a batch of any of them.
//
// A dataset is any copyable type with `i64 size() const` and
// `Batch batch(std::span<const i64> indices) const`, whose samples depend on their index alone.
// batch() may give another type: std::array<Tensor, 3>, or a struct (core/batch.h). If samples
// depend on the epoch as well (augmentation), its second parameter is `i64 epoch = 0`.
//
// size() and samples may change between the epochs of a Loader, not in the middle of one. Where
// samples can change, `u64 version() const` is another number after each change: a Loader refuses
// to go on with an epoch whose dataset has a new one.
//
// `static constexpr bool in_memory = true` (or `bool in_memory() const`) says that samples lie in
// memory and making a batch is little more than copying: a Loader with workers = kAuto takes none.
//
// A dataset of single samples, with `get(i)` in batch()'s place: data/samples.h.
#pragma once
#include <array>
#include <concepts>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "warptape/core/tensor.h"
#include "warptape/data/image_transform.h"

namespace wt::data {

class ResidentImages;  // data/resident.h, with these two
struct ResidentImagesOptions;
struct BatchAt;

// Inputs and targets, samples along the first axis of both: `auto& [x, y] = batch`.
struct Batch {
  Tensor x;  // inputs, [n, ...]
  Tensor y;  // targets, [n, ...]

  // The number of samples n, which is the first size of x.
  i64 size() const { return x.size(0); }
  // Pointers to x and y. What TrainStep moves to the model's device.
  std::array<Tensor*, 2> tensors() { return {&x, &y}; }
  // Samples [begin, begin + n), as views.
  Batch narrow(i64 begin, i64 n) const { return {x.narrow(0, begin, n), y.narrow(0, begin, n)}; }
  // Both tensors on device d; they keep their dtypes.
  Batch to(Device d) const { return {x.to(d), y.to(d)}; }
};

// A copyable type with size() and batch(indices), as the beginning of this file says.
// What it does is asked first: asked whether a Loader of AnyDataset can be copied, the compiler
// asks whether one could become an AnyDataset.
template <class D>
concept Dataset = std::is_object_v<D> && requires(const D& d, std::span<const i64> indices) {
  { d.size() } -> std::convertible_to<i64>;
  { d.batch(indices) } -> std::movable;
} && std::copy_constructible<D>;

// A copyable type with size() and get(i), or get(i, epoch), in batch()'s place: data/samples.h,
// whose Stacked makes it a Dataset.
template <class D>
concept SampleSet = !Dataset<D> && std::copy_constructible<D> && requires(const D& d, i64 i) {
  { d.size() } -> std::convertible_to<i64>;
}
&&(
    requires(const D& d, i64 i) { d.get(i); } || requires(const D& d, i64 i) { d.get(i, i); });
template <SampleSet D>
class Stacked;

// The type that a dataset's batch() gives.
template <Dataset D>
using BatchOf = decltype(std::declval<const D&>().batch(std::span<const i64>()));

// A Dataset that lies on a device(), where batch_at() makes the batch at a place of an epoch's
// order in one launch: data/resident.h, whose BatchAt says which.
template <class S>
concept ResidentSet = Dataset<S> && requires(const S& s, const BatchAt& at) {
  { s.batch_at(at) } -> std::same_as<BatchOf<S>>;
  { s.device() } -> std::convertible_to<Device>;
};

namespace detail {
[[noreturn]] WT_COLD WT_API void not_resident();
[[noreturn]] WT_COLD WT_API void bad_sample(const char* dataset, i64 i, i64 n);
// Throws IndexError unless i is in [0, n).
inline void check_sample(const char* dataset, i64 i, i64 n) {
  if (i < 0 || i >= n) [[unlikely]]
    bad_sample(dataset, i, n);
}
// Throws ShapeError or DtypeError unless `images` is u8 [N, channels, height, width] on the cpu.
WT_API void check_images(const char* dataset, const Tensor& images, const Shape& image);
// The epoch is for datasets that ask for it. In braces, it does not become a bool or an int that
// a dataset has for something else.
template <Dataset D>
BatchOf<D> batch_of(const D& d, std::span<const i64> indices, i64 epoch) {
  if constexpr (requires {
                  { d.batch(indices, {epoch}) } -> std::same_as<BatchOf<D>>;
                })
    return d.batch(indices, {epoch});
  else
    return d.batch(indices);
}
// Another number after each change of the samples; 0 for datasets that do not say.
template <class D>
u64 version_of(const D& d) {
  if constexpr (requires {
                  { d.version() } -> std::convertible_to<u64>;
                })
    return u64(d.version());
  else
    return 0;
}
enum class InMemory : u8 { unknown, yes, no };
// What the dataset says of itself.
template <class D>
InMemory memory_of(const D& d) {
  if constexpr (requires {
                  { d.in_memory() } -> std::convertible_to<bool>;
                })
    return d.in_memory() ? InMemory::yes : InMemory::no;
  else if constexpr (requires {
                       { D::in_memory } -> std::convertible_to<bool>;
                     })
    return D::in_memory ? InMemory::yes : InMemory::no;
  else
    return InMemory::unknown;
}
// Makes them contiguous, each where it is. Throws ShapeError unless their first sizes are equal.
WT_API void prepare_rows(const char* dataset, std::span<Tensor> tensors);
// Rows of a tensor that was prepared, [N, ...] -> [n, ...], on its device. Throws IndexError.
WT_API Tensor gather_rows(const char* dataset, const Tensor& t, std::span<const i64> indices);
}  // namespace detail

// Two tensors of equal length, row by row, on their device: a batch of a Loader is gathered there,
// by a list of rows that is sent, and one of a ResidentLoader (data/resident_loader.h) by its
// place. Contiguous ones are not copied: writing to them changes the samples, which is for between
// epochs.
class WT_API TensorDataset {
 public:
  // x [N, ...] and y [N, ...] of any dtypes; those that are not contiguous are copied. Throws
  // ShapeError for first sizes that differ and for 0-d tensors.
  TensorDataset(Tensor x, Tensor y);
  // A batch is a copy of rows: a Loader with workers = kAuto takes none.
  static constexpr bool in_memory = true;
  // The number of rows N.
  i64 size() const { return x_.size(0); }
  // Another number after each write to x or y.
  u64 version() const { return u64(x_.version()) + y_.version(); }
  // The rows [n, ...] of these numbers, each tensor on its device. Throws IndexError.
  Batch batch(std::span<const i64> indices) const;
  // The device of x.
  Device device() const { return x_.device(); }
  // The rows at a place of an epoch's order, made in one launch on their device. Throws
  // PlacementError where x and y are on two devices.
  Batch batch_at(const BatchAt& at) const;

 private:
  Tensor x_, y_;
};

// Any number of tensors of equal length, row by row; a batch is a std::array<Tensor, N>:
//   for (auto& [x, y, weight] : data::Loader{data::TensorsDataset{xs, ys, weights}}) ...
// Throws ShapeError for lengths that differ.
template <size_t N>
class TensorsDataset {
 public:
  // N tensors [rows, ...] of any dtypes; those that are not contiguous are copied.
  template <std::same_as<Tensor>... T>
  requires(sizeof...(T) == N && N > 0) explicit TensorsDataset(T... tensors)
      : tensors_{std::move(tensors)...} {
    detail::prepare_rows("TensorsDataset", tensors_);
  }
  // A batch is a copy of rows: a Loader with workers = kAuto takes none.
  static constexpr bool in_memory = true;
  // The number of rows.
  i64 size() const { return tensors_[0].size(0); }
  // Another number after each write to one of the tensors.
  u64 version() const {
    u64 sum = 0;
    for (const Tensor& t : tensors_) sum += t.version();
    return sum;
  }
  // The rows [n, ...] of these numbers, each tensor on its device. Throws IndexError.
  std::array<Tensor, N> batch(std::span<const i64> indices) const {
    std::array<Tensor, N> rows;
    for (size_t i = 0; i < N; ++i)
      rows[i] = detail::gather_rows("TensorsDataset", tensors_[i], indices);
    return rows;
  }

 private:
  std::array<Tensor, N> tensors_;
};
template <std::same_as<Tensor>... T>
TensorsDataset(T...) -> TensorsDataset<sizeof...(T)>;

// Which images FashionMnist reads, and what becomes of them.
struct FashionMnistOptions {
  bool train = true;     // 60,000 images; else the 10,000 test images
  bool flatten = false;  // x [N, 784] instead of [N, 1, 28, 28]
  // In place of the standardising; x is then f32 [N, C, h, w] as it gives it. As torchvision's.
  ImageTransform transform = {};
  u64 seed = 0;  // of what it draws, for (seed, epoch, sample)
};
// Fashion-MNIST, or MNIST, from IDX files (plain or .gz) with the usual names in `root`. x is f32,
// standardised with the training set's mean 0.2860 and deviation 0.3530; y is i64 in [0, 10).
// Throws DataError for a missing folder or file, images and labels that do not fit each other, and
// labels outside the classes; what the transform throws for images of this size.
class WT_API FashionMnist {
 public:
  // Reads both files from the folder `root`, and keeps 785 bytes an image.
  explicit FashionMnist(const std::string& root, const FashionMnistOptions& o = {});
  // True without a transform; transforms are work for workers.
  bool in_memory() const { return transform_.empty(); }
  // The number of images, 60,000 or 10,000 for the original files.
  i64 size() const { return images_.size(0); }
  // x f32 [n, 1, 28, 28], or as the options say, and y i64 [n]; the epoch counts for the transform
  // alone. Throws IndexError.
  Batch batch(std::span<const i64> indices, i64 epoch = 0) const;
  // The number of classes; labels are below it.
  static constexpr i64 kClasses = 10;
  // The ten names of Fashion-MNIST's classes, by label; those of MNIST are the digits.
  static const std::array<const char*, 10>& class_names();
  // Images u8 [N, 1, 28, 28], standardised as batch() does: f32 of that shape on the cpu. Throws
  // ShapeError or DtypeError for another tensor.
  static Tensor prepare(const Tensor& images);
  // Bytes that a set read from `root` will hold, from the headers of its files.
  static i64 bytes_of(const std::string& root, const FashionMnistOptions& o = {});
  // The same samples on a device, as u8, with the same batches; with options, of which mean, std,
  // flatten and classes are this dataset's. Throws OutOfMemory where they do not fit, UsageError
  // for a set with a transform: data on the device augments by its own options.
  ResidentImages resident(Device d) const;
  ResidentImages resident(Device d, const ResidentImagesOptions& o) const;

 private:
  Tensor images_;  // [N, 28, 28] u8
  Tensor labels_;  // [N] u8
  bool flatten_;
  ImageTransform transform_;
  u64 seed_;
};

// How TextBytes cuts a text into samples.
struct TextBytesOptions {
  i64 context = 16;           // bytes of x, at least 1
  double begin = 0, end = 1;  // the part of the bytes that samples may touch
  i64 stride = 1;             // bytes from one sample to the next
  // y is the byte after each byte of x, [N, context]; else only the one after the last, [N].
  bool every_position = false;
};
// Bytes of text: sample i is x = bytes [s, s + context), s = i * stride, and y = what follows, both
// i64 in [0, 256). `begin` and `end` cut the text without overlap: the training part never shows a
// held-out byte.
class WT_API TextBytes {
 public:
  // The bytes of one file, or of every file of a list joined in the given order. Throws DataError
  // for what cannot be read and for a part without a single sample, UsageError for a context or a
  // stride below 1 and for parts outside 0 <= begin <= end <= 1.
  explicit TextBytes(const std::vector<std::string>& paths, const TextBytesOptions& o = {});
  // Bytes that are there already. Throws as above.
  explicit TextBytes(std::vector<u8> bytes, const TextBytesOptions& o = {});
  // Other samples of the same text, whose memory they share. Throws as the constructor.
  TextBytes with(const TextBytesOptions& o) const;
  // A batch is a copy of bytes: a Loader with workers = kAuto takes none.
  static constexpr bool in_memory = true;
  // The number of samples whose context and next byte lie within the part, at least 1.
  i64 size() const { return count_; }
  // x i64 [n, context], y i64 [n, context] with every_position, else [n]. Throws IndexError.
  Batch batch(std::span<const i64> indices) const;
  // The part of the text that samples may touch.
  std::span<const u8> bytes() const;

 private:
  void cut(const TextBytesOptions& o);
  Tensor bytes_;  // [n] u8
  std::string where_;
  i64 first_ = 0, length_ = 0, count_ = 0;
  TextBytesOptions o_;
};

// Entropy in nats of single bytes under the text's own frequencies: what a model must beat before
// it has learnt anything about context. 0 for no bytes.
WT_API double unigram_entropy(std::span<const u8> bytes);

}  // namespace wt::data
