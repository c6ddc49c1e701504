// Pictures for people to look at: some of what a file or folder of images has.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/tensor.h"

namespace wt::tools {

struct Picture {
  Tensor pixels;      // u8 [C, H, W], C = 1 or 3
  std::string label;  // its class, or the file's name
  i64 sample = 0;     // its number in the set
};

struct PictureSet {
  std::string what;  // "Fashion-MNIST, 60000 images"
  std::vector<Picture> pictures;
  std::vector<std::string> refused;  // files that could not be read, with the reason
};

struct PictureOptions {
  i64 count = 48;        // at most
  bool shuffle = false;  // drawn by `seed`; else the first ones
  u64 seed = 0;
  bool digits = false;  // Fashion-MNIST's files hold MNIST, whose classes are the digits
};

// Some pictures of `path`: a folder of Fashion-MNIST, MNIST or CIFAR-10 (its first file), a folder
// of image files or of folders of them, whose names are classes, an IDX or CIFAR-10 file, .npy
// (u8), or an image file. Files of a folder that are no images are refused one by one; DataError
// where nothing is left, or for one file.
PictureSet read_pictures(const std::string& path, const PictureOptions& o);

}  // namespace wt::tools
