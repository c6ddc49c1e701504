// Images from files, as a model of images takes them.
#pragma once
#include <string>

#include "warptape/core/tensor.h"

namespace wt::tools {

class Recipe;

// All images of an IDX file (plain or .gz), a .npy file (u8 [H, W], [N, H, W], [N, C, H, W],
// [H, W, C] or [N, H, W, C]), or a PNG, JPEG, WebP, PPM or PGM file: u8 [N, C, H, W] with the
// channels of `image`, [channels, height, width]. Grey becomes colour by repetition, colour grey by
// luma, an alpha channel is dropped. `resize`: images of another size are resized (bilinear); else
// they are a DataError, as everything is that is no image.
Tensor read_images(const std::string& path, const Shape& image, bool resize);
// As the recipe's evaluation shows such a file to its model: by Recipe::fit() whatever the size,
// where there is one, else as above.
Tensor read_images(const std::string& path, const Recipe& recipe, bool resize);

}  // namespace wt::tools
