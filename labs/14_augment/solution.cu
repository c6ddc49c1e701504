// A batch of pictures, gathered, cropped, mirrored, standardised and cast in one launch.
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

// A block has a picture of the batch. A thread has places of it, in all channels, so that the view
// is drawn once a thread; neighbouring lanes have neighbouring columns.
__global__ void __launch_bounds__(kThreads) augment(Batch a) {
  const i64 k = blockIdx.x, row = a.order.row(k);
  if (threadIdx.x == 0 && a.targets) a.targets[k] = a.labels[row];
  const ImageView v = view_of(a, row);
  const int inside = a.height * a.width;
  const u8* const image = a.images + row * a.channels * a.rows * a.columns;
  float* const out = a.out + k * a.channels * inside;
  for (int e = int(threadIdx.x); e < inside; e += kThreads) {
    const int i = e / a.width, j = e % a.width;
    const int y = padded_place(v.top + i, a.rows, a.augment.reflect);
    // What is mirrored is the window: its columns come from the right.
    const int x =
        padded_place(v.left + (v.mirrored ? a.width - 1 - j : j), a.columns, a.augment.reflect);
    for (int c = 0; c < a.channels; ++c) {
      const bool there = y >= 0 && x >= 0;
      const float pixel = there ? float(image[(i64(c) * a.rows + y) * a.columns + x]) : 0;
      out[c * inside + e] = __fmaf_rn(pixel, a.scale[c], a.shift[c]);
    }
  }
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
