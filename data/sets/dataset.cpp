#include "warptape/data/dataset.h"

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/data/bytes.h"
#include "warptape/data/idx.h"
#include "warptape/data/pixel_levels.h"
#include "warptape/data/resident.h"
#include "warptape/data/resident_rows.h"
#include "warptape/data/transformed_rows.h"

namespace wt::data {
namespace {

constexpr TensorOptions kHostFloats{.dtype = DType::f32, .device = Device::cpu()};
constexpr TensorOptions kHostIndices{.dtype = DType::i64, .device = Device::cpu()};

// The named file in `root`, plain or gzipped.
std::string find_file(const std::string& root, const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code ec;
  if (!fs::is_directory(root, ec))
    throw DataError(printable_path(root) + ": there is no such folder");
  std::string dotted = name;  // "train-images.idx3-ubyte" is seen in the wild
  dotted[dotted.find("-idx")] = '.';
  for (const std::string& n : {name, dotted})
    for (const char* tail : {"", ".gz"})
      // A link that leads nowhere or in a circle counts: what is wrong with it is said when it is
      // read.
      if (const fs::path p = fs::path(root) / (n + tail); fs::exists(fs::symlink_status(p, ec)))
        return p.string();
  throw DataError(str(printable_path(root), ": has neither ", name, " nor ", name, ".gz"));
}

Tensor host_bytes(const std::vector<u8>& bytes) {
  const CategoryScope scope(Category::dataset);
  return tensor(bytes, {.device = Device::cpu()});
}

}  // namespace

void detail::not_resident() {
  throw UsageError(
      "[AnyDataset] the dataset is not on a device: a data::Loader makes its batches\n  Try "
      "is_resident() first");
}

void detail::bad_sample(const char* dataset, i64 i, i64 n) {
  throw IndexError(str("[", dataset, "] sample ", i, " is outside [0, ", n, ")"));
}

void detail::check_images(const char* dataset, const Tensor& images, const Shape& image) {
  if (images.ndim() != 4 || Shape{images.size(1), images.size(2), images.size(3)} != image)
    throw ShapeError(str("[", dataset, "] expected images of shape [N, ", image[0], ", ", image[1],
                         ", ", image[2], "], got ", images.shape()));
  if (images.dtype() != DType::u8)
    throw DtypeError(
        str("[", dataset, "] expected images of u8, got ", dtype_name(images.dtype())));
}

void detail::prepare_rows(const char* dataset, std::span<Tensor> tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor &first = tensors[0], &t = tensors[i];
    if (t.ndim() == 0 || t.size(0) != first.size(0))
      throw ShapeError(str("[", dataset, "] all tensors need equal first sizes\n  tensor 0 ",
                           describe(first), "\n  tensor ", i, " ", describe(t)));
  }
  for (Tensor& t : tensors) t = t.contiguous();
}

Tensor detail::gather_rows(const char* dataset, const Tensor& t, std::span<const i64> indices) {
  if (t.device() != Device::cpu()) return gather_resident_rows(dataset, t, indices);
  Shape shape = t.shape();
  shape[0] = i64(indices.size());
  Tensor out = empty(shape, {.dtype = t.dtype(), .device = Device::cpu()});
  const i64 row = t.size(0) ? t.numel() / t.size(0) * item_size(t.dtype()) : 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    check_sample(dataset, indices[i], t.size(0));
    std::memcpy(static_cast<char*>(out.impl()->data) + i64(i) * row,
                static_cast<const char*>(t.impl()->data) + indices[i] * row, size_t(row));
  }
  return out;
}

TensorDataset::TensorDataset(Tensor x, Tensor y) : x_(x.contiguous()), y_(y.contiguous()) {
  if (x.ndim() == 0 || y.ndim() == 0 || x.size(0) != y.size(0))
    throw ShapeError(str("[TensorDataset] x and y need equal first sizes\n  x ", describe(x),
                         "\n  y ", describe(y)));
}

Batch TensorDataset::batch(std::span<const i64> indices) const {
  return {detail::gather_rows("TensorDataset", x_, indices),
          detail::gather_rows("TensorDataset", y_, indices)};
}

namespace {
struct FashionFiles {
  std::string images, labels;
  FashionFiles(const std::string& root, const FashionMnistOptions& o) {
    const std::string prefix = o.train ? "train" : "t10k";
    images = find_file(root, prefix + "-images-idx3-ubyte");
    labels = find_file(root, prefix + "-labels-idx1-ubyte");
  }
};
}  // namespace

i64 FashionMnist::bytes_of(const std::string& root, const FashionMnistOptions& o) {
  const FashionFiles files(root, o);
  return numel_of(idx_shape(files.images)) + numel_of(idx_shape(files.labels));
}

FashionMnist::FashionMnist(const std::string& root, const FashionMnistOptions& o)
    : flatten_(o.flatten), transform_(o.transform), seed_(o.seed) {
  detail::check_transform(transform_, 1, 28);
  const auto [images, labels] = FashionFiles(root, o);
  images_ = read_idx(images);
  labels_ = read_idx(labels);
  if (images_.ndim() != 3 || images_.size(1) != 28 || images_.size(2) != 28)
    data_error(images, 4, str("expected images of shape [N, 28, 28], got ", images_.shape()));
  if (labels_.ndim() != 1 || labels_.size(0) != images_.size(0))
    data_error(labels, 4,
               str("expected ", images_.size(0), " labels, got shape ", labels_.shape()));
  const u8* l = labels_.data<u8>();
  for (i64 i = 0; i < labels_.numel(); ++i)
    if (l[i] >= kClasses)
      data_error(labels, u64(8 + i), str("label ", int(l[i]), " is outside [0, ", kClasses, ")"));
}

namespace {
constexpr i64 kPixels = 28 * 28;
constexpr float kMean = 0.2860f, kDeviation = 0.3530f;  // of Fashion-MNIST's training images
void standardise(const u8* pixels, i64 n, float* x) {
  static const detail::PixelLevels levels(kMean, kDeviation);
  for (i64 p = 0; p < n; ++p) x[p] = levels[pixels[p]];
}
}  // namespace

ResidentImages FashionMnist::resident(Device d) const { return resident(d, {}); }
ResidentImages FashionMnist::resident(Device d, const ResidentImagesOptions& o) const {
  detail::refuse_resident_transform("FashionMnist", transform_);
  ResidentImagesOptions own = o;
  own.mean = {kMean};
  own.std = {kDeviation};
  own.flatten = flatten_;
  own.classes = kClasses;
  return ResidentImages(images_.view({size(), 1, 28, 28}), labels_, d, own);
}

Batch FashionMnist::batch(std::span<const i64> indices, i64 epoch) const {
  if (!transform_.empty())
    return detail::transformed_rows(
        "FashionMnist", {transform_, seed_, images_.view({size(), 1, 28, 28}), labels_, flatten_},
        indices, epoch);
  const i64 n = i64(indices.size());
  Batch b{empty(flatten_ ? Shape{n, kPixels} : Shape{n, 1, 28, 28}, kHostFloats),
          empty({n}, kHostIndices)};
  float* x = b.x.mutable_data<float>();
  i64* y = b.y.mutable_data<i64>();
  for (i64 i = 0; i < n; ++i) {
    const i64 k = indices[size_t(i)];
    detail::check_sample("FashionMnist", k, size());
    standardise(images_.data<u8>() + k * kPixels, kPixels, x + i * kPixels);
    y[i] = labels_.data<u8>()[k];
  }
  return b;
}

Tensor FashionMnist::prepare(const Tensor& images) {
  detail::check_images("FashionMnist", images, {1, 28, 28});
  const Tensor from = images.to(Device::cpu()).contiguous();
  Tensor x = empty(from.shape(), kHostFloats);
  standardise(from.data<u8>(), from.numel(), x.mutable_data<float>());
  return x;
}

const std::array<const char*, 10>& FashionMnist::class_names() {
  static constexpr std::array<const char*, 10> names{
      "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
      "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  return names;
}

TextBytes::TextBytes(const std::vector<std::string>& paths, const TextBytesOptions& o)
    : where_(paths.size() == 1 ? printable_path(paths[0]) + ": " : str(paths.size(), " files: ")) {
  std::vector<u8> all;
  for (const std::string& p : paths) {
    const std::vector<u8> bytes = read_bytes(p);
    all.insert(all.end(), bytes.begin(), bytes.end());
  }
  bytes_ = host_bytes(all);
  cut(o);
}

TextBytes::TextBytes(std::vector<u8> bytes, const TextBytesOptions& o) : bytes_(host_bytes(bytes)) {
  cut(o);
}

TextBytes TextBytes::with(const TextBytesOptions& o) const {
  TextBytes other = *this;
  other.cut(o);
  return other;
}

void TextBytes::cut(const TextBytesOptions& o) {
  if (o.context < 1 || !(0 <= o.begin && o.begin <= o.end && o.end <= 1))
    throw UsageError(str("[TextBytes] context ", o.context, " and part [", o.begin, ", ", o.end,
                         "] make no sense"));
  if (o.stride < 1) throw UsageError(str("[TextBytes] stride must be at least 1, got ", o.stride));
  const double n = double(bytes_.numel());
  o_ = o;
  first_ = i64(n * o.begin);
  length_ = i64(n * o.end) - first_;
  count_ = length_ > o.context ? (length_ - o.context - 1) / o.stride + 1 : 0;
  if (count_ == 0)
    throw DataError(str("[TextBytes] ", where_, length_, " bytes are too few for a context of ",
                        o.context, " and the byte after it"));
}

std::span<const u8> TextBytes::bytes() const {
  return {bytes_.data<u8>() + first_, size_t(length_)};
}

Batch TextBytes::batch(std::span<const i64> indices) const {
  const i64 n = i64(indices.size()), context = o_.context,
            targets = o_.every_position ? context : 1;
  Batch b{empty({n, context}, kHostIndices),
          empty(o_.every_position ? Shape{n, context} : Shape{n}, kHostIndices)};
  i64* x = b.x.mutable_data<i64>();
  i64* y = b.y.mutable_data<i64>();
  for (i64 i = 0; i < n; ++i) {
    detail::check_sample("TextBytes", indices[size_t(i)], count_);
    const u8* from = bytes_.data<u8>() + first_ + indices[size_t(i)] * o_.stride;
    for (i64 k = 0; k < context; ++k) x[i * context + k] = from[k];
    const u8* after = from + context + 1 - targets;
    for (i64 k = 0; k < targets; ++k) y[i * targets + k] = after[k];
  }
  return b;
}

double unigram_entropy(std::span<const u8> bytes) {
  std::array<double, 256> count{};
  for (u8 b : bytes) ++count[b];
  double h = 0;
  for (double c : count)
    if (c > 0) h -= c / double(bytes.size()) * std::log(c / double(bytes.size()));
  return h;
}

}  // namespace wt::data
