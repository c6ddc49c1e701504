#include "warptape/data/cifar.h"

#include <cstring>
#include <filesystem>

#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/data/bytes.h"

namespace wt::data {
namespace {

constexpr i64 kPlane = 32 * 32, kImage = 3 * kPlane, kRecord = 1 + kImage;
// Of the 50,000 training images, as everybody rounds them.
constexpr float kMean[3] = {0.4914f, 0.4822f, 0.4465f}, kDeviation[3] = {0.2470f, 0.2435f, 0.2616f};

std::vector<std::string> batch_files(const std::string& root, bool train) {
  namespace fs = std::filesystem;
  std::error_code ec;
  fs::path folder = root;
  if (!fs::is_directory(folder, ec))
    throw DataError(printable_path(root) + ": there is no such folder");
  if (fs::is_directory(folder / "cifar-10-batches-bin", ec)) folder /= "cifar-10-batches-bin";
  std::vector<std::string> names{"test_batch.bin"};
  if (train) {
    names.clear();
    for (int i = 1; i <= 5; ++i) names.push_back(str("data_batch_", i, ".bin"));
  }
  for (std::string& name : names) {
    fs::path p = folder / name;
    // A link that leads nowhere or in a circle counts: what is wrong with it is said when it is
    // read.
    if (!fs::exists(fs::symlink_status(p, ec))) p += ".gz";
    if (!fs::exists(fs::symlink_status(p, ec)))
      throw DataError(str(printable_path(folder.string()), ": has neither ", name, " nor ", name,
                          ".gz",
                          fs::exists(folder / (name + ".xz"), ec) ? "\n  Try unxz " + name + ".xz"
                                                                  : std::string()));
    name = p.string();
  }
  return names;
}

// How many there are in so many bytes.
i64 whole_records(const std::string& path, u64 bytes) {
  const i64 n = i64(bytes) / kRecord;
  if (n == 0 || i64(bytes) % kRecord != 0)
    data_error(path, u64(n * kRecord),
               str("CIFAR-10 records have ", kRecord, " bytes, the file has ", bytes,
                   " (truncated download?)"));
  return n;
}

// Number of records; the labels are checked.
i64 check_records(const std::string& path, const std::vector<u8>& bytes) {
  const i64 n = whole_records(path, bytes.size());
  for (i64 i = 0; i < n; ++i)
    if (const u8 label = bytes[size_t(i * kRecord)]; label >= Cifar10::kClasses)
      data_error(path, u64(i * kRecord),
                 str("label ", int(label), " is outside [0, ", Cifar10::kClasses, ")"));
  return n;
}

// Of a whole number of records; a plain file's size says that before anything is read.
std::vector<u8> read_records(const std::string& path, const ParseLimits& limits = {}) {
  Content file(path, limits);
  if (const auto size = file.size()) whole_records(path, *size);
  std::vector<u8> bytes;
  file.append(bytes, ~u64{0});
  return bytes;
}

void split_records(const std::vector<u8>& bytes, i64 n, u8* images, u8* labels) {
  for (i64 i = 0; i < n; ++i) {
    labels[i] = bytes[size_t(i * kRecord)];
    std::memcpy(images + i * kImage, bytes.data() + i * kRecord + 1, size_t(kImage));
  }
}

}  // namespace

CifarFile read_cifar10(const std::string& path, const ParseLimits& limits) {
  const std::vector<u8> bytes = read_records(path, limits);
  const i64 n = check_records(path, bytes);
  const CategoryScope scope(Category::dataset);
  const TensorOptions host{.dtype = DType::u8, .device = Device::cpu()};
  CifarFile f{empty({n, 3, 32, 32}, host), empty({n}, host)};
  split_records(bytes, n, f.images.mutable_data<u8>(), f.labels.mutable_data<u8>());
  return f;
}

Cifar10::Cifar10(const std::string& root, const Cifar10Options& o) : flatten_(o.flatten) {
  std::vector<std::vector<u8>> files;
  i64 total = 0;
  for (const std::string& path : batch_files(root, o.train)) {
    files.push_back(read_records(path));
    total += check_records(path, files.back());
  }
  const CategoryScope scope(Category::dataset);
  const TensorOptions host{.dtype = DType::u8, .device = Device::cpu()};
  images_ = empty({total, kImage}, host);
  labels_ = empty({total}, host);
  u8* images = images_.mutable_data<u8>();
  u8* labels = labels_.mutable_data<u8>();
  for (std::vector<u8>& file : files) {
    const i64 n = i64(file.size()) / kRecord;
    split_records(file, n, images, labels);
    images += n * kImage;
    labels += n;
    std::vector<u8>().swap(file);
  }
}

i64 Cifar10::bytes_of(const std::string& root, const Cifar10Options& o) {
  i64 n = 0;
  for (const std::string& path : batch_files(root, o.train)) n += i64(content_size(path));
  return n;
}

const std::array<const char*, 10>& Cifar10::class_names() {
  static constexpr std::array<const char*, 10> names{
      "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  return names;
}

namespace {
// One image.
void standardise_image(const u8* pixels, float* x) {
  for (int c = 0; c < 3; ++c) {
    const float scale = 1 / (255.0f * kDeviation[c]), shift = kMean[c] / kDeviation[c];
    for (i64 p = c * kPlane; p < (c + 1) * kPlane; ++p) x[p] = float(pixels[p]) * scale - shift;
  }
}
}  // namespace

Tensor Cifar10::prepare(const Tensor& images) {
  detail::check_images("Cifar10", images, {3, 32, 32});
  const Tensor from = images.to(Device::cpu()).contiguous();
  Tensor x = empty(from.shape(), {.dtype = DType::f32, .device = Device::cpu()});
  for (i64 i = 0; i < from.size(0); ++i)
    standardise_image(from.data<u8>() + i * kImage, x.mutable_data<float>() + i * kImage);
  return x;
}

Batch Cifar10::batch(std::span<const i64> indices) const {
  const i64 n = i64(indices.size());
  Batch b{empty(flatten_ ? Shape{n, kImage} : Shape{n, 3, 32, 32},
                {.dtype = DType::f32, .device = Device::cpu()}),
          empty({n}, {.dtype = DType::i64, .device = Device::cpu()})};
  float* x = b.x.mutable_data<float>();
  i64* y = b.y.mutable_data<i64>();
  const u8* images = images_.data<u8>();
  const u8* labels = labels_.data<u8>();
  for (i64 i = 0; i < n; ++i) {
    const i64 k = indices[size_t(i)];
    detail::check_sample("Cifar10", k, size());
    standardise_image(images + k * kImage, x + i * kImage);
    y[i] = labels[k];
  }
  return b;
}

}  // namespace wt::data
