// A folder of images as a dataset: torchvision's ImageFolder.
//
//   data::ImageFolder train{"imagenette/train", {.size = 224, .transform = {data::ToTensor{}}}};
//   for (auto& [x, y] : data::Loader{train, {.batch = 64, .shuffle = true, .workers = 4}}) ...
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "warptape/data/dataset.h"
#include "warptape/data/image.h"
#include "warptape/data/transforms.h"

namespace wt::data {

// What becomes of an image that cannot be read or decoded.
enum class BadImages {
  error,  // batch() throws its DataError
  skip,   // the next good one in the folder's order is given instead, with its own label
  blank,  // black pixels, under the label that the image has: a training is shown them as its class
};
// An image of a folder that cannot be read or decoded.
struct BadImage {
  i64 sample = 0;            // its index
  std::string path, reason;  // its file, and the message of the error
};

// What ImageFolder makes of each file, and what it keeps.
struct ImageFolderOptions {
  // 0: as they are, which have to be of one size within a batch. Else the middle of the image, as
  // large as its shape allows, resized to this size (bilinear, antialiased, rounded to u8).
  ImageSize size = 0;
  bool keep_aspect = true;  // false: the whole image is resized
  i64 channels = 3;         // 1 or 3: grey becomes colour by repetition, colour grey by luma
  // A Compose or its list, applied to what the above gives: x is then f32, else u8. Without `size`
  // image by image.
  ImageTransform transform = {};
  u64 seed = 0;                      // of what the transforms draw, for (seed, epoch, sample)
  BadImages bad = BadImages::error;  // what becomes of images that cannot be read
  bool allow_empty = false;          // classes without an image
  bool keep_encoded = false;         // the files' bytes are read once, by the constructor, and kept
  // Pixels (u8, before `transform`) that are kept once they are decoded; images that no longer
  // fit in are decoded each time.
  u64 cache_bytes = 0;
  bool apply_orientation = true;  // EXIF's
  // JPEG files that are at least twice as large as `size` are decoded at 1/2, 1/4 or 1/8 first:
  // several times as fast, other pixels.
  bool fast_downscale = false;
  ParseLimits limits = {};  // max_bytes: of one file and one image, with keep_encoded of all files
};

// A dataset of the images in the folders of classes. Every folder in `root` is a class, in the
// order of the bytes of their names; its images are the files in it and in its folders, in the
// order of folder and name. Links are followed. Names that begin with a dot are left out. A file is
// an image if it is named as one (.jpg, .png, ...) or begins as one of read_image()'s formats;
// others are left out and counted.
//
// Samples depend on (seed, epoch, index) and the files alone: a Loader gives the same for any
// number of workers. Copies share files, cache and the list of bad images; all is for several
// threads.
class WT_API ImageFolder {
 public:
  // Throws DataError for a root without classes, a class without images, folders that cannot be
  // read, links that lead nowhere or in a circle; UsageError for options that make no sense.
  explicit ImageFolder(const std::string& root, const ImageFolderOptions& o = {});

  // The number of images, good and bad.
  i64 size() const;
  // Images x, u8 or with a transform f32 [N, channels, H, W], and labels y, i64 [N]. Throws
  // DataError for bad images by `bad`, and whatever it says for files that vanished or changed
  // since they were listed; ShapeError for images of several sizes; IndexError.
  Batch batch(std::span<const i64> samples, i64 epoch = 0) const;

  // The names of the classes, by label.
  const std::vector<std::string>& classes() const;
  // The label of a class. Throws UsageError for a name that is no class.
  i64 class_index(const std::string& name) const;
  // The file of a sample. Throws IndexError.
  const std::string& path(i64 sample) const;
  // The label of a sample. Throws IndexError.
  i64 label(i64 sample) const;
  // The number of files that are no images.
  i64 left_out() const;

  // The bad images that were met so far, by sample.
  std::vector<BadImage> bad_images() const;
  // Decodes every image, one pass over the files, and gives those that are good:
  //   data::Subset{folder, folder.good_samples()}
  std::vector<i64> good_samples() const;
  // Bytes of the pixels that are kept by now, at most cache_bytes.
  u64 cached_bytes() const;

 private:
  struct Pixels;
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace wt::data
