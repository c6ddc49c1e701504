// Batches of images in memory through the transform of their dataset. Internal.
#pragma once
#include <span>

#include "warptape/data/dataset.h"
#include "warptape/data/transforms.h"

namespace wt::data::detail {

// Throws what the transform throws for such images: now, and not in a worker at the first batch.
// Nothing for an empty one.
void check_transform(const ImageTransform& t, i64 channels, ImageSize image);
// Throws UsageError unless it is empty.
void refuse_resident_transform(const char* dataset, const ImageTransform& t);

struct TransformedRows {
  const ImageTransform& transform;  // not empty
  u64 seed;
  Tensor images;  // u8 [N, C, H, W]
  Tensor labels;  // u8 [N]
  bool flatten;   // x [n, C * h * w]
};
// Throws IndexError.
Batch transformed_rows(const char* dataset, const TransformedRows& rows,
                       std::span<const i64> samples, i64 epoch);

}  // namespace wt::data::detail
