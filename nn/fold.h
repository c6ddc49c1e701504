// Images as patches: modules around the operators of autograd/ops/fold.h, which have formulas,
// shapes and errors.
#pragma once
#include "warptape/autograd/ops/fold.h"
#include "warptape/nn/module.h"

namespace wt::nn {

// From [.., C * r^2, H, W] to [.., C, H * r, W * r] with r the upscale_factor.
struct PixelShuffle : Module<PixelShuffle> {
  WT_API explicit PixelShuffle(i64 upscale_factor);
  WT_API Tensor forward(Tensor x);

 private:
  i64 factor_;
};
// From [.., C, H * r, W * r] to [.., C * r^2, H, W] with r the downscale_factor.
struct PixelUnshuffle : Module<PixelUnshuffle> {
  WT_API explicit PixelUnshuffle(i64 downscale_factor);
  WT_API Tensor forward(Tensor x);

 private:
  i64 factor_;
};
// The patches of an image [N, C, H, W] as columns [N, C * KH * KW, L] (wt::unfold2d).
struct Unfold : Module<Unfold> {
  WT_API explicit Unfold(const PerAxis& kernel_size, const FoldOptions& o = {});
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  FoldOptions options_;
};
// Columns [N, C * KH * KW, L] added up to an image [N, C, H, W] of output_size {H, W} (wt::fold).
struct Fold : Module<Fold> {
  WT_API Fold(const PerAxis& output_size, const PerAxis& kernel_size, const FoldOptions& o = {});
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis size_, kernel_;
  FoldOptions options_;
};

}  // namespace wt::nn
