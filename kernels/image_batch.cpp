// Batches of images on the cpu: the reference, pixel by pixel.
#include "warptape/kernels/image_batch.h"

#include <cmath>

#include "warptape/kernels/common/number.h"
#include "warptape/kernels/cpu/image_batch.h"

namespace wt {
namespace {

float pixel_at(const View& images, i64 row, i64 c, i64 y, i64 x) {
  const i64 at =
      row * images.stride(0) + c * images.stride(1) + y * images.stride(2) + x * images.stride(3);
  if (images.dtype() == DType::u8) return float(images.as<const u8>()[at]);
  return float(HostNumbers::at(images.dtype(), images.data, at));
}

void image_batch_reference(const ImageBatchArgs& a, const Launch&) {
  const detail::ImageSource source(a);
  const i64 epoch = source.epoch_now(), channels = a.out.size(1);
  const i32 h = i32(a.out.size(2)), w = i32(a.out.size(3)), rows = i32(a.images.size(2)),
            columns = i32(a.images.size(3));
  for (i64 i = 0; i < a.count(); ++i) {
    const i64 row = source.row(i, epoch);
    if (a.targets) a.targets[i] = a.labels[row];
    const ImageView v = draw_image_view(a.augment, a.seed, epoch, row, rows, columns, h, w);
    for (i64 c = 0; c < channels; ++c)
      for (i32 y = 0; y < h; ++y)
        for (i32 x = 0; x < w; ++x) {
          const i32 from_y = padded_place(v.top + y, rows, a.augment.reflect);
          const i32 from_x =
              padded_place(v.left + (v.mirrored ? w - 1 - x : x), columns, a.augment.reflect);
          const bool inside = from_y >= 0 && from_x >= 0;
          const float pixel = inside ? pixel_at(a.images, row, c, from_y, from_x) : 0;
          const bool hole = y >= v.hole_top && y < v.hole_top + a.augment.hole &&
                            x >= v.hole_left && x < v.hole_left + a.augment.hole;
          HostNumbers::put(
              a.out.dtype(), a.out.data,
              i * a.out.stride(0) + c * a.out.stride(1) + y * a.out.stride(2) + x * a.out.stride(3),
              hole ? 0.0 : double(std::fmaf(pixel, a.scale[c], a.shift[c])));
        }
  }
}

}  // namespace

WT_VARIANTS(
    cpu, image_batch, ImageBatchArgs,
    {.name = "rows", .rank = 10, .why_not = image_batch_rows_refusal, .launch = image_batch_rows},
    {.name = "reference", .why_not = detail::bad_image_batch, .launch = image_batch_reference});

}  // namespace wt
