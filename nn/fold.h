// Images as patches: modules around the operators of autograd/ops/fold.h, which have formulas,
// shapes and errors.
#pragma once
#include "warptape/autograd/ops/fold.h"
#include "warptape/nn/module.h"

namespace wt::nn {

// From [.., C * r^2, H, W] to [.., C, H * r, W * r] with r the upscale_factor.
struct PixelShuffle : Module<PixelShuffle> {
  // r, the factor of both axes, at least 1: forward throws UsageError otherwise.
  WT_API explicit PixelShuffle(i64 upscale_factor);
  // As wt::pixel_shuffle. Throws ShapeError for fewer than three axes and channels that r^2 does
  // not divide.
  WT_API Tensor forward(Tensor x);

 private:
  i64 factor_;
};
// From [.., C, H * r, W * r] to [.., C * r^2, H, W] with r the downscale_factor.
struct PixelUnshuffle : Module<PixelUnshuffle> {
  // r, the divisor of both axes, at least 1: forward throws UsageError otherwise.
  WT_API explicit PixelUnshuffle(i64 downscale_factor);
  // As wt::pixel_unshuffle. Throws ShapeError for fewer than three axes and sizes that r does not
  // divide.
  WT_API Tensor forward(Tensor x);

 private:
  i64 factor_;
};
// The patches of an image [N, C, H, W] as columns [N, C * KH * KW, L] (wt::unfold2d).
struct Unfold : Module<Unfold> {
  // {KH, KW}, or one number for both. Numbers out of range are found by forward: UsageError.
  WT_API explicit Unfold(const PerAxis& kernel_size, const FoldOptions& o = {});
  // [N, C, H, W] to [N, C * KH * KW, OH * OW], or both without N. Throws ShapeError, DtypeError
  // unless x is floating.
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  FoldOptions options_;
};
// Columns [N, C * KH * KW, L] added up to an image [N, C, H, W] of output_size {H, W} (wt::fold).
struct Fold : Module<Fold> {
  // {H, W} and {KH, KW}, or one number for both axes. Numbers out of range are found by forward:
  // UsageError.
  WT_API Fold(const PerAxis& output_size, const PerAxis& kernel_size, const FoldOptions& o = {});
  // [N, C * KH * KW, L] to [N, C, H, W], or both without N. Throws ShapeError when L is not the
  // number of windows or the channels are no multiple of KH * KW, DtypeError unless x is floating.
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis size_, kernel_;
  FoldOptions options_;
};

}  // namespace wt::nn
