// Images as patches: pixels moved between channels and space, and the patches under a window.
#pragma once
#include "warptape/autograd/ops/per_axis.h"
#include "warptape/core/in.h"

namespace wt {

// y[.., c, h * r + i, w * r + j] = x[.., (c * r + i) * r + j, h, w] with r the upscale_factor: from
// [.., C * r^2, H, W] to [.., C, H * r, W * r]. Any dtype, a copy. Shi et al. 2016 (sub-pixel
// convolution); PyTorch: F.pixel_shuffle; ONNX: DepthToSpace, mode CRD. Throws ShapeError for fewer
// than three axes and channels that r^2 does not divide, UsageError unless r >= 1.
WT_API Tensor pixel_shuffle(const In& x, i64 upscale_factor);
// The reverse: from [.., C, H * r, W * r] to [.., C * r^2, H, W], with r the downscale_factor. Any
// dtype, a copy. Throws ShapeError for fewer than three axes and sizes that r does not divide,
// UsageError unless r >= 1.
WT_API Tensor pixel_unshuffle(const In& x, i64 downscale_factor);

struct FoldOptions {
  PerAxis dilation = 1;  // between neighbouring elements of a window
  PerAxis padding = 0;   // zeros on both sides of an axis
  PerAxis stride = 1;    // between windows
};
// The patches of an image as columns (im2col): y[n, (c * KH + i) * KW + j, l] = x[n, c, h * stride
// - padding + i * dilation, w * stride - padding + j * dilation], where x is zero outside of its
// axes and window l = h * OW + w. x is [N, C, H, W] or [C, H, W]; y is [N, C * KH * KW, OH * OW] or
// without N, with OH and OW as those of conv2d. A convolution is the product of its weight [O, C *
// KH * KW] and this. Floating dtypes. PyTorch: F.unfold, nn.Unfold (unfold() here is
// Tensor.unfold). Throws ShapeError, DtypeError, and UsageError for numbers out of range.
WT_API Tensor unfold2d(const In& x, const PerAxis& kernel_size, const FoldOptions& options = {});
// The transpose of unfold2d (col2im): columns [N, C * KH * KW, L] or [C * KH * KW, L] added up to
// an image [N, C, H, W] or [C, H, W] of output_size {H, W}. Where windows overlap the sum is over
// all of them, always in the same order and in f32 for 16-bit floats. Floating dtypes. PyTorch:
// F.fold. Throws ShapeError when L is not the number of windows or the channels are no multiple of
// KH * KW, DtypeError, and UsageError for numbers out of range.
WT_API Tensor fold(const In& x, const PerAxis& output_size, const PerAxis& kernel_size,
                   const FoldOptions& options = {});

}  // namespace wt
