// CIFAR-10 and CIFAR-100 from their binary files (Krizhevsky 2009,
// https://www.cs.toronto.edu/~kriz/cifar.html).
#pragma once
#include <array>
#include <string>

#include "warptape/core/parse_limits.h"
#include "warptape/data/dataset.h"

namespace wt::data {

// Images and labels of one batch file of CIFAR-10, on the cpu.
struct CifarFile {
  Tensor images;  // [N, 3, 32, 32] u8
  Tensor labels;  // [N] u8 in [0, 10)
};
// Images and labels of one batch file, plain, gzip or xz: records of a label byte and 3072 bytes of
// pixels (red, green, blue planes of 32 rows). The file must be a whole number of records. Throws
// DataError with path and byte offset, also for labels outside the classes.
WT_API CifarFile read_cifar10(const std::string& path, const ParseLimits& limits = {});

// Which images Cifar10 reads, and what becomes of them.
struct Cifar10Options {
  bool train = true;     // data_batch_1.bin to data_batch_5.bin; else test_batch.bin
  bool flatten = false;  // x [N, 3072] instead of [N, 3, 32, 32]
  // In place of the standardising; x is then f32 [N, C, h, w] as it gives it. As torchvision's.
  ImageTransform transform = {};
  u64 seed = 0;  // of what it draws, for (seed, epoch, sample)
};
// CIFAR-10 as a dataset: x is f32, standardised by the training set's mean and deviation of each
// channel; y is i64 in [0, 10). The files, also with .gz or .xz, lie in `root`, or in its folder
// "cifar-10-batches-bin". Throws DataError for a missing folder or file and what read_cifar10()
// refuses, and what the transform throws for images of this size.
class WT_API Cifar10 {
 public:
  // Reads all files of the part that the options name, and keeps 3073 bytes an image.
  explicit Cifar10(const std::string& root, const Cifar10Options& o = {});
  // True without a transform; transforms are work for workers.
  bool in_memory() const { return transform_.empty(); }
  // The number of images, 50,000 or 10,000 for the original files.
  i64 size() const { return labels_.size(0); }
  // x f32 [n, 3, 32, 32], or as the options say, and y i64 [n]; the epoch counts for the transform
  // alone. Throws IndexError.
  Batch batch(std::span<const i64> indices, i64 epoch = 0) const;
  // The number of classes; labels are below it.
  static constexpr i64 kClasses = 10;
  // The ten names of the classes, by label: "airplane" to "truck".
  static const std::array<const char*, 10>& class_names();
  // Images u8 [N, 3, 32, 32], standardised as batch() does: f32 of that shape on the cpu. Throws
  // ShapeError or DtypeError for another tensor.
  static Tensor prepare(const Tensor& images);
  // Bytes that a set read from `root` will hold; packed files are inflated to count them. Throws
  // DataError for a missing folder or file.
  static i64 bytes_of(const std::string& root, const Cifar10Options& o = {});
  // The same samples on a device, as u8, with the same batches; with options, of which mean, std,
  // flatten and classes are this dataset's. Throws OutOfMemory where they do not fit, UsageError
  // for a set with a transform: data on the device augments by its own options.
  ResidentImages resident(Device d) const;
  ResidentImages resident(Device d, const ResidentImagesOptions& o) const;

 private:
  Tensor images_;  // [N, 3072] u8
  Tensor labels_;  // [N] u8
  bool flatten_;
  ImageTransform transform_;
  u64 seed_;
};

// Images and both kinds of labels of one file of CIFAR-100, on the cpu.
struct Cifar100File {
  Tensor images;  // [N, 3, 32, 32] u8
  Tensor coarse;  // [N] u8 in [0, 20)
  Tensor fine;    // [N] u8 in [0, 100)
};
// As read_cifar10(), of records with a byte for the superclass and one for the class before the
// pixels.
WT_API Cifar100File read_cifar100(const std::string& path, const ParseLimits& limits = {});

// Which images and labels Cifar100 reads, and what becomes of them.
struct Cifar100Options {
  bool train = true;              // train.bin; else test.bin
  bool flatten = false;           // x [N, 3072] instead of [N, 3, 32, 32]
  bool coarse = false;            // y is the superclass in [0, 20) instead of the class in [0, 100)
  ImageTransform transform = {};  // as Cifar10Options have them
  u64 seed = 0;                   // of what it draws, for (seed, epoch, sample)
};
// CIFAR-100 as a dataset: as Cifar10, in `root` or its folder "cifar-100-binary".
class WT_API Cifar100 {
 public:
  // Reads the file of the part that the options name, and keeps 3073 bytes an image.
  explicit Cifar100(const std::string& root, const Cifar100Options& o = {});
  // True without a transform; transforms are work for workers.
  bool in_memory() const { return transform_.empty(); }
  // The number of images, 50,000 or 10,000 for the original files.
  i64 size() const { return labels_.size(0); }
  // x f32 [n, 3, 32, 32], or as the options say, and y i64 [n]; the epoch counts for the transform
  // alone. Throws IndexError.
  Batch batch(std::span<const i64> indices, i64 epoch = 0) const;
  // The numbers of classes (kClasses) and of superclasses (kCoarseClasses).
  static constexpr i64 kClasses = 100, kCoarseClasses = 20;
  // The hundred names of the classes, by label, in the archive's order.
  static const std::array<const char*, 100>& class_names();
  // The twenty names of the superclasses, by coarse label.
  static const std::array<const char*, 20>& coarse_names();
  // Images u8 [N, 3, 32, 32], standardised as batch() does: f32 of that shape on the cpu. Throws
  // ShapeError or DtypeError for another tensor.
  static Tensor prepare(const Tensor& images);
  // Bytes of the records that a set is read from `root` with, those of both labels. Throws
  // DataError for a missing folder or file.
  static i64 bytes_of(const std::string& root, const Cifar100Options& o = {});

 private:
  Tensor images_;  // [N, 3072] u8
  Tensor labels_;  // [N] u8
  bool flatten_;
  ImageTransform transform_;
  u64 seed_;
};

}  // namespace wt::data
