// CIFAR-10 from its binary files (Krizhevsky 2009, https://www.cs.toronto.edu/~kriz/cifar.html).
#pragma once
#include <array>
#include <string>

#include "warptape/core/parse_limits.h"
#include "warptape/data/dataset.h"

namespace wt::data {

// Images and labels of one batch file, plain or .gz: records of a label byte and 3072 bytes of
// pixels (red, green, blue planes of 32 rows). The file must be a whole number of records. Throws
// DataError with path and byte offset, also for labels outside the classes.
struct CifarFile {
  Tensor images;  // [N, 3, 32, 32] u8
  Tensor labels;  // [N] u8
};
WT_API CifarFile read_cifar10(const std::string& path, const ParseLimits& limits = {});

struct Cifar10Options {
  bool train = true;     // data_batch_1.bin to data_batch_5.bin; else test_batch.bin
  bool flatten = false;  // x [N, 3072] instead of [N, 3, 32, 32]
};
// x is f32, standardised by the training set's mean and deviation of each channel; y is i64 in
// [0, 10). The files lie in `root`, or in its folder "cifar-10-batches-bin". Throws DataError for a
// missing folder or file and what read_cifar10() refuses.
class WT_API Cifar10 {
 public:
  explicit Cifar10(const std::string& root, const Cifar10Options& o = {});
  i64 size() const { return labels_.size(0); }
  Batch batch(std::span<const i64> indices) const;
  static constexpr i64 kClasses = 10;
  static const std::array<const char*, 10>& class_names();
  // u8 [N, 3, 32, 32] as batch() gives it. Throws ShapeError or DtypeError for another tensor.
  static Tensor prepare(const Tensor& images);
  // Bytes that one in `root` will hold.
  static i64 bytes_of(const std::string& root, const Cifar10Options& o = {});
  // The same samples on a device, as u8, with the same batches; with options, of which mean, std,
  // flatten and classes are this dataset's. Throws OutOfMemory where they do not fit.
  ResidentImages resident(Device d) const;
  ResidentImages resident(Device d, const ResidentImagesOptions& o) const;

 private:
  Tensor images_;  // [N, 3072] u8
  Tensor labels_;  // [N] u8
  bool flatten_;
};

}  // namespace wt::data
