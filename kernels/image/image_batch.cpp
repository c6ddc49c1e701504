// Batches of images on the cpu: the reference, pixel by pixel.
#include "warptape/kernels/image_batch.h"

#include <cmath>

#include "warptape/kernels/common/number.h"
#include "warptape/kernels/image/image_batch_cpu.h"

namespace wt {
namespace {

float pixel_at(const View& images, i64 row, i64 c, i64 y, i64 x) {
  const i64 at =
      row * images.stride(0) + c * images.stride(1) + y * images.stride(2) + x * images.stride(3);
  if (images.dtype() == DType::u8) return float(images.as<const u8>()[at]);
  return float(HostNumbers::at(images.dtype(), images.data, at));
}

// In double: what the float weights of the other variants are compared with.
double resized_pixel(const ImageBatchArgs& a, const ImageView& v, i64 row, i64 c, i32 y, i32 x) {
  const bool antialias = a.augment.antialias;
  const ImageTaps down = image_taps(y, v.height, i32(a.out.size(2)), antialias),
                  along = image_taps(x, v.width, i32(a.out.size(3)), antialias);
  double sum = 0, weights = 0;
  for (i32 i = down.begin; i < down.end; ++i)
    for (i32 k = along.begin; k < along.end; ++k) {
      const double weight = double(down.weight(i)) * double(along.weight(k));
      sum += weight * double(pixel_at(a.images, row, c, v.top + i, v.left + k));
      weights += weight;
    }
  return sum / weights;
}

double pixel_of(const ImageBatchArgs& a, const ImageView& v, i64 row, i64 c, i32 y, i32 x) {
  if (v.mirrored) x = i32(a.out.size(3)) - 1 - x;
  if (a.augment.fit != ImageFit::window) return resized_pixel(a, v, row, c, y, x);
  const i32 from_y = padded_place(v.top + y, i32(a.images.size(2)), a.augment.reflect),
            from_x = padded_place(v.left + x, i32(a.images.size(3)), a.augment.reflect);
  return from_y >= 0 && from_x >= 0 ? double(pixel_at(a.images, row, c, from_y, from_x)) : 0;
}

void sample_reference(const ImageBatchArgs& a, i64 i, i64 row, const ImageView& v) {
  for (i64 c = 0; c < a.out.size(1); ++c)
    for (i32 y = 0; y < i32(a.out.size(2)); ++y)
      for (i32 x = 0; x < i32(a.out.size(3)); ++x) {
        const bool hole = y >= v.hole_top && y < v.hole_top + a.augment.hole && x >= v.hole_left &&
                          x < v.hole_left + a.augment.hole;
        const float pixel = float(pixel_of(a, v, row, c, y, x));
        HostNumbers::put(
            a.out.dtype(), a.out.data,
            i * a.out.stride(0) + c * a.out.stride(1) + y * a.out.stride(2) + x * a.out.stride(3),
            hole ? 0.0 : double(std::fmaf(pixel, a.scale[c], a.shift[c])));
      }
}

void image_batch_reference(const ImageBatchArgs& a, const Launch&) {
  const detail::ImageSource source(a);
  const i64 epoch = source.rows.epoch_now();
  for (i64 i = 0; i < a.count(); ++i) {
    const i64 row = source.rows.row(i, epoch);
    if (a.targets) a.targets[i] = a.labels[row];
    sample_reference(
        a, i, row,
        draw_image_view(a.augment, a.seed, epoch, source.id(i, row), i32(a.images.size(2)),
                        i32(a.images.size(3)), i32(a.out.size(2)), i32(a.out.size(3))));
  }
}

}  // namespace

WT_VARIANTS(
    cpu, image_batch, ImageBatchArgs,
    {.name = "rows", .rank = 10, .why_not = image_batch_rows_refusal, .launch = image_batch_rows},
    {.name = "reference", .why_not = detail::bad_image_batch, .launch = image_batch_reference});

}  // namespace wt
