// Batches whose images are mixed in pairs, and their labels with them: mixup (Zhang et al.,
// arXiv:1710.09412) and cutmix (Yun et al., arXiv:1905.04899), as torchvision.transforms.v2's MixUp
// and CutMix and timm's Mixup do it.
//
//   const data::MixUp mix{.alpha = 0.2, .classes = 10};
//   const auto [x, y] = mix(images, labels, {.seed = 1, .epoch = epoch, .batch = batch});
//   Tensor loss = cross_entropy(model(x), y);   // takes probabilities
//
// One launch on the images' device, soft labels included. A share of Beta(alpha, alpha) is drawn
// for the batch, or for each sample; partners are a random permutation of the batch. What is drawn
// depends on (seed, epoch, batch) alone and has the same bits on every device, and so have the f32
// results.
#pragma once
#include "warptape/core/tensor.h"
#include "warptape/kernels/image_mix.h"

namespace wt::data {

// What the draws for one batch depend on.
struct MixCall {
  u64 seed = 0;              // of the training
  i64 epoch = 0, batch = 0;  // the number of the batch in its epoch
  // i64 [2] on the images' device: epoch and batch are read from there when the launch runs, so
  // that a captured step mixes otherwise each time. Undefined: the two above.
  Tensor cursor = {};
};

// What a mix gives: new tensors on the images' device.
struct Mixed {
  Tensor images;   // as the images that were given
  Tensor targets;  // f32 [N, classes], rows that sum to 1
};

// Mixup: each image becomes share * image + (1 - share) * partner.
// images f32, f16 or bf16, [N, C, H, W]; labels i64 [N] below `classes`. The results are new
// tensors without gradients; channels_last stays so, other strides become contiguous. Throws
// ShapeError, DtypeError, PlacementError for labels on another device, UsageError for options out
// of range and, for a label outside [0, classes), IndexError: at once on the cpu, when the host
// next waits for a device.
struct WT_API MixUp {
  double alpha = 1;            // of Beta(alpha, alpha), in (0, 1000]
  i64 classes = 0;             // must be given
  double label_smoothing = 0;  // of the labels before they are mixed, in [0, 1]
  double p = 1;                // probability that a batch (or sample) is mixed at all
  bool per_sample = false;     // a share for each sample; false: one for the batch
  // images [N, C, H, W] and labels i64 [N] to images of that shape and targets f32 [N, classes].
  Mixed operator()(const Tensor& images, const Tensor& labels, const MixCall& call = {}) const;
};

// Cutmix: a box of a share of 1 - lambda of the area, anywhere, is the partner's; labels are mixed
// by the area that the box has within the image. Takes, gives and throws what MixUp does.
struct WT_API CutMix {
  double alpha = 1;            // lambda is drawn from Beta(alpha, alpha); in (0, 1000]
  i64 classes = 0;             // must be given
  double label_smoothing = 0;  // of the labels before they are mixed, in [0, 1]
  double p = 1;                // probability that a batch (or sample) is mixed at all
  bool per_sample = false;     // a box for each sample; false: one for the batch
  // images [N, C, H, W] and labels i64 [N] to images of that shape and targets f32 [N, classes].
  Mixed operator()(const Tensor& images, const Tensor& labels, const MixCall& call = {}) const;
};

// CutMix with probability switch_p, else MixUp: timm's Mixup with both alphas, and its defaults.
// Takes, gives and throws what MixUp does.
struct WT_API MixUpOrCutMix {
  double mixup_alpha = 0.8, cutmix_alpha = 1;  // of their Beta(alpha, alpha), in (0, 1000]
  i64 classes = 0;                             // must be given
  double switch_p = 0.5;                       // probability of CutMix, of what is mixed
  double label_smoothing = 0;                  // of the labels before they are mixed, in [0, 1]
  double p = 1;             // probability that a batch (or sample) is mixed at all
  bool per_sample = false;  // a choice and a share for each sample; false: for the batch
  // images [N, C, H, W] and labels i64 [N] to images of that shape and targets f32 [N, classes].
  Mixed operator()(const Tensor& images, const Tensor& labels, const MixCall& call = {}) const;
};

}  // namespace wt::data
