#include "warptape/data/image_transform.h"

#include "warptape/core/factories.h"
#include "warptape/core/str.h"
#include "warptape/data/dataset.h"
#include "warptape/data/transformed_rows.h"
#include "warptape/data/transforms.h"

namespace wt::data {

ImageTransform::ImageTransform(const Compose& c) : compose_(std::make_shared<const Compose>(c)) {}

void detail::check_transform(const ImageTransform& t, i64 channels, ImageSize image) {
  if (t.empty()) return;
  const Shape one{1, channels, image.height, image.width};
  // Shapes and types alone: nothing is computed there.
  (void)(*t)(empty(one, {.dtype = DType::u8, .device = Device::meta()}));
}

void detail::refuse_resident_transform(const char* dataset, const ImageTransform& t) {
  if (t.empty()) return;
  throw UsageError(str(
      "[", dataset, "::resident] the set has a transform, ", t->text(),
      ", which data on the device does not run\n  Try ResidentImagesOptions (.augment, .height, "
      ".width) of a set without .transform, or a data::Loader with .device"));
}

Batch detail::transformed_rows(const char* dataset, const TransformedRows& rows,
                               std::span<const i64> samples, i64 epoch) {
  const i64 n = i64(samples.size());
  Tensor x = (*rows.transform)(gather_rows(dataset, rows.images, samples),
                               {.samples = samples, .epoch = epoch, .seed = rows.seed});
  if (rows.flatten) x = x.view({n, x.size(1) * x.size(2) * x.size(3)});
  return {x, gather_rows(dataset, rows.labels, samples).to(DType::i64)};
}

}  // namespace wt::data
