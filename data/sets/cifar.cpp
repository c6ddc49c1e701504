#include "warptape/data/cifar.h"

#include <cstring>
#include <filesystem>

#include "warptape/core/factories.h"
#include "warptape/core/input_file.h"
#include "warptape/data/bytes.h"
#include "warptape/data/pixel_levels.h"
#include "warptape/data/resident.h"
#include "warptape/data/transformed_rows.h"

namespace wt::data {
namespace {

constexpr i64 kPlane = 32 * 32, kImage = 3 * kPlane;

// A family of files: records of `labels` bytes, each below its number of classes, and an image.
struct CifarKind {
  const char* name;
  const char* folder;
  i64 labels;
  i64 classes[2];
  // Of the 50,000 training images, as everybody rounds them.
  float mean[3], deviation[3];
  i64 record() const { return labels + kImage; }
};
constexpr CifarKind kCifar10{.name = "CIFAR-10",
                             .folder = "cifar-10-batches-bin",
                             .labels = 1,
                             .classes = {Cifar10::kClasses, 0},
                             .mean = {0.4914f, 0.4822f, 0.4465f},
                             .deviation = {0.2470f, 0.2435f, 0.2616f}};
constexpr CifarKind kCifar100{.name = "CIFAR-100",
                              .folder = "cifar-100-binary",
                              .labels = 2,
                              .classes = {Cifar100::kCoarseClasses, Cifar100::kClasses},
                              .mean = {0.5071f, 0.4865f, 0.4409f},
                              .deviation = {0.2673f, 0.2564f, 0.2762f}};

std::vector<std::string> batch_files(const CifarKind& kind, const std::string& root, bool train) {
  namespace fs = std::filesystem;
  std::error_code ec;
  fs::path folder = root;
  if (!fs::is_directory(folder, ec))
    throw DataError(printable_path(root) + ": there is no such folder");
  if (fs::is_directory(folder / kind.folder, ec)) folder /= kind.folder;
  std::vector<std::string> names;
  if (&kind == &kCifar100)
    names = {train ? "train.bin" : "test.bin"};
  else if (train)
    for (int i = 1; i <= 5; ++i) names.push_back(str("data_batch_", i, ".bin"));
  else
    names = {"test_batch.bin"};
  for (std::string& name : names) {
    fs::path found;
    for (const char* packing : {".xz", ".gz", ""})
      // A link that leads nowhere or in a circle counts: what is wrong with it is said when it is
      // read.
      if (const fs::path p = folder / (name + packing); fs::exists(fs::symlink_status(p, ec)))
        found = p;
    if (found.empty())
      throw DataError(str(printable_path(folder.string()), ": has neither ", name, " nor ", name,
                          ".gz nor ", name, ".xz"));
    name = found.string();
  }
  return names;
}

// How many there are in so many bytes.
i64 whole_records(const CifarKind& kind, const std::string& path, u64 bytes) {
  const i64 n = i64(bytes) / kind.record();
  if (n == 0 || i64(bytes) % kind.record() != 0)
    data_error(path, u64(n * kind.record()),
               str(kind.name, " records have ", kind.record(), " bytes, the file has ", bytes,
                   " (truncated download?)"));
  return n;
}

// Number of records; the labels are checked.
i64 check_records(const CifarKind& kind, const std::string& path, const std::vector<u8>& bytes) {
  const i64 n = whole_records(kind, path, bytes.size());
  for (i64 i = 0; i < n; ++i)
    for (i64 k = 0; k < kind.labels; ++k) {
      const i64 at = i * kind.record() + k;
      if (const u8 label = bytes[size_t(at)]; label >= kind.classes[k])
        data_error(path, u64(at),
                   str("label ", int(label), " is outside [0, ", kind.classes[k], ")"));
    }
  return n;
}

// Of a whole number of records; a plain file's size says that before anything is read.
std::vector<u8> read_records(const CifarKind& kind, const std::string& path,
                             const ParseLimits& limits = {}) {
  Content file(path, limits);
  if (const auto size = file.size()) whole_records(kind, path, *size);
  std::vector<u8> bytes;
  file.append(bytes, ~u64{0});
  return bytes;
}

// The images and the label at place `k` of each record.
void split_records(const CifarKind& kind, const std::vector<u8>& bytes, i64 n, i64 k, u8* images,
                   u8* labels) {
  for (i64 i = 0; i < n; ++i) {
    const u8* record = bytes.data() + i * kind.record();
    labels[i] = record[k];
    std::memcpy(images + i * kImage, record + kind.labels, size_t(kImage));
  }
}

Tensor host_u8(const Shape& shape) {
  return empty(shape, {.dtype = DType::u8, .device = Device::cpu()});
}

// All files of a set, with the label at place `k`.
void load_set(const CifarKind& kind, const std::string& root, bool train, i64 k, Tensor& images,
              Tensor& labels) {
  std::vector<std::vector<u8>> files;
  i64 total = 0;
  for (const std::string& path : batch_files(kind, root, train)) {
    files.push_back(read_records(kind, path));
    total += check_records(kind, path, files.back());
  }
  const CategoryScope scope(Category::dataset);
  images = host_u8({total, kImage});
  labels = host_u8({total});
  u8* to = images.mutable_data<u8>();
  u8* label = labels.mutable_data<u8>();
  for (std::vector<u8>& file : files) {
    const i64 n = i64(file.size()) / kind.record();
    split_records(kind, file, n, k, to, label);
    to += n * kImage;
    label += n;
    std::vector<u8>().swap(file);
  }
}

i64 set_bytes(const CifarKind& kind, const std::string& root, bool train) {
  i64 n = 0;
  for (const std::string& path : batch_files(kind, root, train)) n += i64(content_size(path));
  return n;
}

// Of the three channels.
class ImageLevels {
 public:
  explicit ImageLevels(const CifarKind& kind)
      : levels_{{kind.mean[0], kind.deviation[0]},
                {kind.mean[1], kind.deviation[1]},
                {kind.mean[2], kind.deviation[2]}} {}
  // One image.
  void standardise(const u8* pixels, float* x) const {
    for (int c = 0; c < 3; ++c)
      for (i64 p = c * kPlane; p < (c + 1) * kPlane; ++p) x[p] = levels_[c][pixels[p]];
  }

 private:
  detail::PixelLevels levels_[3];
};

Tensor prepare_images(const CifarKind& kind, const char* dataset, const Tensor& images) {
  detail::check_images(dataset, images, {3, 32, 32});
  const Tensor from = images.to(Device::cpu()).contiguous();
  Tensor x = empty(from.shape(), {.dtype = DType::f32, .device = Device::cpu()});
  const ImageLevels levels(kind);
  for (i64 i = 0; i < from.size(0); ++i)
    levels.standardise(from.data<u8>() + i * kImage, x.mutable_data<float>() + i * kImage);
  return x;
}

Batch make_batch(const CifarKind& kind, const char* dataset, const Tensor& images,
                 const Tensor& labels, bool flatten, std::span<const i64> indices) {
  const i64 n = i64(indices.size());
  Batch b{empty(flatten ? Shape{n, kImage} : Shape{n, 3, 32, 32},
                {.dtype = DType::f32, .device = Device::cpu()}),
          empty({n}, {.dtype = DType::i64, .device = Device::cpu()})};
  float* x = b.x.mutable_data<float>();
  i64* y = b.y.mutable_data<i64>();
  const ImageLevels levels(kind);
  for (i64 i = 0; i < n; ++i) {
    const i64 k = indices[size_t(i)];
    detail::check_sample(dataset, k, labels.size(0));
    levels.standardise(images.data<u8>() + k * kImage, x + i * kImage);
    y[i] = labels.data<u8>()[k];
  }
  return b;
}

}  // namespace

CifarFile read_cifar10(const std::string& path, const ParseLimits& limits) {
  const std::vector<u8> bytes = read_records(kCifar10, path, limits);
  const i64 n = check_records(kCifar10, path, bytes);
  const CategoryScope scope(Category::dataset);
  CifarFile f{host_u8({n, 3, 32, 32}), host_u8({n})};
  split_records(kCifar10, bytes, n, 0, f.images.mutable_data<u8>(), f.labels.mutable_data<u8>());
  return f;
}

Cifar100File read_cifar100(const std::string& path, const ParseLimits& limits) {
  const std::vector<u8> bytes = read_records(kCifar100, path, limits);
  const i64 n = check_records(kCifar100, path, bytes);
  const CategoryScope scope(Category::dataset);
  Cifar100File f{host_u8({n, 3, 32, 32}), host_u8({n}), host_u8({n})};
  split_records(kCifar100, bytes, n, 0, f.images.mutable_data<u8>(), f.coarse.mutable_data<u8>());
  split_records(kCifar100, bytes, n, 1, f.images.mutable_data<u8>(), f.fine.mutable_data<u8>());
  return f;
}

Cifar10::Cifar10(const std::string& root, const Cifar10Options& o)
    : flatten_(o.flatten), transform_(o.transform), seed_(o.seed) {
  detail::check_transform(transform_, 3, 32);
  load_set(kCifar10, root, o.train, 0, images_, labels_);
}
i64 Cifar10::bytes_of(const std::string& root, const Cifar10Options& o) {
  return set_bytes(kCifar10, root, o.train);
}
Tensor Cifar10::prepare(const Tensor& images) {
  return prepare_images(kCifar10, "Cifar10", images);
}
Batch Cifar10::batch(std::span<const i64> indices, i64 epoch) const {
  if (!transform_.empty())
    return detail::transformed_rows(
        "Cifar10", {transform_, seed_, images_.view({size(), 3, 32, 32}), labels_, flatten_},
        indices, epoch);
  return make_batch(kCifar10, "Cifar10", images_, labels_, flatten_, indices);
}
ResidentImages Cifar10::resident(Device d) const { return resident(d, {}); }
ResidentImages Cifar10::resident(Device d, const ResidentImagesOptions& o) const {
  detail::refuse_resident_transform("Cifar10", transform_);
  ResidentImagesOptions own = o;
  own.mean.assign(kCifar10.mean, kCifar10.mean + 3);
  own.std.assign(kCifar10.deviation, kCifar10.deviation + 3);
  own.flatten = flatten_;
  own.classes = kClasses;
  return ResidentImages(images_.view({size(), 3, 32, 32}), labels_, d, own);
}

Cifar100::Cifar100(const std::string& root, const Cifar100Options& o)
    : flatten_(o.flatten), transform_(o.transform), seed_(o.seed) {
  detail::check_transform(transform_, 3, 32);
  load_set(kCifar100, root, o.train, o.coarse ? 0 : 1, images_, labels_);
}
i64 Cifar100::bytes_of(const std::string& root, const Cifar100Options& o) {
  return set_bytes(kCifar100, root, o.train);
}
Tensor Cifar100::prepare(const Tensor& images) {
  return prepare_images(kCifar100, "Cifar100", images);
}
Batch Cifar100::batch(std::span<const i64> indices, i64 epoch) const {
  if (!transform_.empty())
    return detail::transformed_rows(
        "Cifar100", {transform_, seed_, images_.view({size(), 3, 32, 32}), labels_, flatten_},
        indices, epoch);
  return make_batch(kCifar100, "Cifar100", images_, labels_, flatten_, indices);
}

const std::array<const char*, 10>& Cifar10::class_names() {
  static constexpr std::array<const char*, 10> names{
      "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
  return names;
}

// In the order of the archive's coarse_label_names.txt and fine_label_names.txt.
const std::array<const char*, 20>& Cifar100::coarse_names() {
  static constexpr std::array<const char*, 20> names{"aquatic_mammals",
                                                     "fish",
                                                     "flowers",
                                                     "food_containers",
                                                     "fruit_and_vegetables",
                                                     "household_electrical_devices",
                                                     "household_furniture",
                                                     "insects",
                                                     "large_carnivores",
                                                     "large_man-made_outdoor_things",
                                                     "large_natural_outdoor_scenes",
                                                     "large_omnivores_and_herbivores",
                                                     "medium_mammals",
                                                     "non-insect_invertebrates",
                                                     "people",
                                                     "reptiles",
                                                     "small_mammals",
                                                     "trees",
                                                     "vehicles_1",
                                                     "vehicles_2"};
  return names;
}
const std::array<const char*, 100>& Cifar100::class_names() {
  static constexpr std::array<const char*, 100> names{
      "apple",       "aquarium_fish", "baby",      "bear",       "beaver",       "bed",
      "bee",         "beetle",        "bicycle",   "bottle",     "bowl",         "boy",
      "bridge",      "bus",           "butterfly", "camel",      "can",          "castle",
      "caterpillar", "cattle",        "chair",     "chimpanzee", "clock",        "cloud",
      "cockroach",   "couch",         "crab",      "crocodile",  "cup",          "dinosaur",
      "dolphin",     "elephant",      "flatfish",  "forest",     "fox",          "girl",
      "hamster",     "house",         "kangaroo",  "keyboard",   "lamp",         "lawn_mower",
      "leopard",     "lion",          "lizard",    "lobster",    "man",          "maple_tree",
      "motorcycle",  "mountain",      "mouse",     "mushroom",   "oak_tree",     "orange",
      "orchid",      "otter",         "palm_tree", "pear",       "pickup_truck", "pine_tree",
      "plain",       "plate",         "poppy",     "porcupine",  "possum",       "rabbit",
      "raccoon",     "ray",           "road",      "rocket",     "rose",         "sea",
      "seal",        "shark",         "shrew",     "skunk",      "skyscraper",   "snail",
      "snake",       "spider",        "squirrel",  "streetcar",  "sunflower",    "sweet_pepper",
      "table",       "tank",          "telephone", "television", "tiger",        "tractor",
      "train",       "trout",         "tulip",     "turtle",     "wardrobe",     "whale",
      "willow_tree", "wolf",          "woman",     "worm"};
  return names;
}

}  // namespace wt::data
