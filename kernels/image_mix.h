// Mixup and cutmix of a batch of images, with the soft labels that belong to it, in one launch.
#pragma once
#include "warptape/core/mailbox.h"
#include "warptape/kernels/contract.h"
#include "warptape/kernels/image/image_layout.h"
#include "warptape/kernels/image/mix_draws.h"

namespace wt {

// images, out: [n, C, H, W] of one dtype, f32 f16 or bf16, both contiguous or both channels_last;
// labels: i64 [n]; targets: f32 [n, classes], contiguous, or both of them empty. A
// Mixture (mix_draws.h) says what becomes of sample i with its partner j:
//   out[i] = fma(share, images[i], (1 - share) * images[j]), rounded once,   or of a cut one
//   out[i] = images[j] inside of the box, images[i] outside
//   targets[i, c] = share * soft(labels[i], c) + (1 - share) * soft(labels[j], c)
//   soft(l, c) = smoothing / classes, and 1 - smoothing more where c is l.
// With `cursor`, epoch and batch are cursor[0] and cursor[1] in memory of the device: a captured
// launch mixes otherwise at each replay. A label outside [0, classes) goes to the mailbox. `out`
// must not be `images`: a partner may have been mixed before it is read.
struct ImageMixArgs {
  View out{}, images{};
  View targets{}, labels{};
  const i64* cursor = nullptr;
  MixRule rule{};
  float smoothing = 0;
  u64 seed = 0;
  i64 epoch = 0, batch = 0;
  MailboxRecord* mailbox = nullptr;
  u32 op_id = 0;

  i64 count() const { return out.size(0); }
  i64 bytes() const { return 3 * out.bytes() + targets.bytes() + 2 * labels.bytes(); }
  i64 flops() const { return 2 * out.numel(); }
};
WT_CONTRACT(image_mix, ImageMixArgs);

namespace detail {

// Null, or what is wrong with the arguments, for all variants.
inline const char* bad_image_mix(const ImageMixArgs& a) {
  const View &o = a.out, &in = a.images;
  if (o.dtype() != DType::f32 && o.dtype() != DType::f16 && o.dtype() != DType::bf16)
    return "images must be f32, f16 or bf16";
  if (o.dtype() != in.dtype()) return "images and output must be of one dtype";
  for (int k = 0; k < 4; ++k)
    if (o.size(k) != in.size(k)) return "images and output must have the same shape";
  if (image_layout(o) == ImageLayout::other || image_layout(o) != image_layout(in))
    return "images and output must both be contiguous or both channels_last";
  if (o.size(2) * o.size(3) > (i64{1} << 30)) return "images of more than 2^30 pixels";
  return nullptr;
}

}  // namespace detail
}  // namespace wt
