// Lab 14: a batch of pictures that never leaves the device. page.md has the task; what is to be
// written says "Yours", the rest is given and may be changed.
#include "warptape/kernels/simt/simt.h"
//
#include "warptape/kernels/device/row_kernels.cuh"
#include "warptape/kernels/image_batch.h"

namespace wt {
inline namespace WT_DEVICE_NS {
namespace {

constexpr int kThreads = 256;

// A batch out of a dataset. images: [pictures, channels, rows, columns] of bytes, out: [count,
// channels, height, width] of floats, both C order and both on the device.
struct Batch {
  float* out;
  i64* targets;  // [count], or null
  const u8* images;
  const i64* labels;  // [pictures]
  BatchOrder order;   // order.row(k): which picture the k-th of the batch is
  ImageAugment augment;
  u64 seed;
  int channels, rows, columns, height, width;
  float scale[kImageChannels], shift[kImageChannels];
  template <class F>
  void visit_pointers(F&& f) const {
    f(out), f(targets), f(images), f(labels), f(order.list), f(order.cursor);
  }
};

// How picture `row` is seen: drawn from (seed, epoch, row) alone, so that every thread draws the
// same.
__device__ ImageView view_of(const Batch& a, i64 row) {
  return draw_image_view<false>(a.augment, a.seed, a.order.epoch_now(), row, a.rows, a.columns,
                                a.height, a.width);
}

// Block k has picture k of the batch, and its label.
__global__ void __launch_bounds__(kThreads) augment(Batch a) {
  // Yours: which picture, how it is seen, and for each place of the output the pixel that stands
  // there, times scale[c], plus shift[c]. padded_place(at, n, reflect) is -1 in black padding.
}

Batch batch_of(const ImageBatchArgs& a) {
  Batch b{a.out.as<float>(),
          a.targets,
          a.images.as<const u8>(),
          a.labels,
          {a.order, a.cursor, a.images.size(0), a.shuffle, a.seed, a.epoch, a.place},
          a.augment,
          a.seed,
          int(a.images.size(1)),
          int(a.images.size(2)),
          int(a.images.size(3)),
          int(a.out.size(2)),
          int(a.out.size(3)),
          {},
          {}};
  for (int c = 0; c < kImageChannels; ++c) b.scale[c] = a.scale[c], b.shift[c] = a.shift[c];
  return b;
}
void pictures(const ImageBatchArgs& a, const Launch& l) {
  launch<augment>(grid_of(l, a.count(), kThreads), batch_of(a));
}
const char* why_not(const ImageBatchArgs& a) {
  if (const char* const why = detail::bad_image_batch(a)) return why;
  if (a.images.dtype() != DType::u8 || a.out.dtype() != DType::f32)
    return "other dtypes than u8 and f32";
  if (!a.images.dense() || !a.out.dense()) return "anything but contiguous pictures";
  if (a.augment.fit != ImageFit::window) return "pictures that are resized";
  return a.augment.hole || a.ids ? "holes, or numbers for the draws" : nullptr;
}

}  // namespace
}  // namespace WT_DEVICE_NS

WT_VARIANTS(WT_DEVICE_NS, image_batch, ImageBatchArgs,
            {.name = "mine", .why_not = why_not, .launch = pictures});

}  // namespace wt
