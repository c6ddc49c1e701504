// What loading a folder of images costs: decoding, resizing and making batches of it.
#pragma once
#include <string>
#include <vector>

#include "warptape/bench/loader.h"

namespace wt::bench {

struct ImageLoaderOptions {
  std::string root;  // classes of images
  i64 size = 224;    // height and width that they are cut and resized to
  i64 batch = 32;
  std::vector<int> workers{0, 1, 2};
  int epochs = 3;
  bool fast_downscale = false, keep_encoded = false;
};

// Shuffled u8 batches of a data::ImageFolder; `bytes` are those of the batches, `check` is the mean
// of x + the mean of y. Throws DataError.
std::vector<LoaderRow> image_loader(const ImageLoaderOptions& o);

}  // namespace wt::bench
