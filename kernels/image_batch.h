// A training batch of images, out of a dataset that stays where it lies: gathered, cropped,
// mirrored, with holes, standardised and cast in one launch, labels included.
#pragma once
#include "warptape/kernels/contract.h"
#include "warptape/kernels/image/batch_order.h"
#include "warptape/kernels/image/image_draws.h"

namespace wt {

// Sample i of the batch, 0 <= i < n, is the row of the images that a BatchOrder of `order`,
// `cursor`, `shuffle`, `seed`, `epoch` and `place` says (image/batch_order.h).
//
// images: [N, C, H, W], u8 f16 bf16 or f32, any strides; out: [n, C, h, w], f32 f16 or bf16, C at
// most kImageChannels, contiguous or channels_last. A sample's ImageView (image_draws.h) says which
// pixel of its image is at a place of the output, mirrored or outside, or which are weighted there:
//   out = fma(pixel, scale[c], shift[c]), rounded once; 0 inside of a hole.
// labels: i64 [N], targets: i64 [n], or both null. Every value depends on (seed, epoch, row) alone;
// with `ids` (i64 [n]) on (seed, epoch, id) and the row's pixels.
inline constexpr int kImageChannels = 4;

struct ImageBatchArgs {
  View out{};
  View images{};
  i64* targets = nullptr;
  const i64* labels = nullptr;
  const i64* order = nullptr;
  const i64* ids = nullptr;
  const i64* cursor = nullptr;
  bool shuffle = false;
  u64 seed = 0;
  i64 epoch = 0, place = 0;
  ImageAugment augment{};
  float scale[kImageChannels] = {1, 1, 1, 1};
  float shift[kImageChannels] = {};

  i64 count() const { return out.size(0); }
  i64 bytes() const {
    return out.bytes() + out.numel() * item_size(images.dtype()) + (targets ? count() * 16 : 0) +
           (order ? count() * 8 : 0) + (ids ? count() * 8 : 0);
  }
  i64 flops() const { return 2 * out.numel(); }
};
WT_CONTRACT(image_batch, ImageBatchArgs);

namespace detail {

// Null, or what is wrong with the arguments, for all variants.
inline const char* bad_image_batch(const ImageBatchArgs& a) {
  const DType from = a.images.dtype(), to = a.out.dtype();
  if (from != DType::u8 && from != DType::f32 && from != DType::f16 && from != DType::bf16)
    return "images must be u8, f16, bf16 or f32";
  if (to != DType::f32 && to != DType::f16 && to != DType::bf16)
    return "the output must be f32, f16 or bf16";
  if (a.out.size(1) > kImageChannels) return "more than four channels";
  if (a.out.size(2) * a.out.size(3) > (i64{1} << 30) || a.images.size(2) > (1 << 20) ||
      a.images.size(3) > (1 << 20))
    return "images of more than 2^30 pixels, or 2^20 in a row";
  return nullptr;
}

// Which rows there are, and what a sample's draws are made from.
struct ImageSource {
  BatchOrder rows;
  const i64* ids;

  explicit ImageSource(const ImageBatchArgs& a)
      : rows{a.order, a.cursor, a.images.size(0), a.shuffle, a.seed, a.epoch, a.place},
        ids(a.ids) {}
  WT_HD i64 id(i64 sample, i64 row) const { return ids ? ids[sample] : row; }
};

}  // namespace detail
}  // namespace wt
