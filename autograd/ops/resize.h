// Resizing.
#pragma once
#include <vector>

#include "warptape/core/in.h"
#include "warptape/core/misnamed.h"
#include "warptape/kernels/resize_mode.h"

namespace wt {

struct ResizeOptions {
  ResizeMode mode = ResizeMode::nearest;
  bool align_corners = false;
  double scale = 0;  // new size / old size where it is not the quotient of the two; 0: it is
};
// One axis of x with `size` elements instead of n. nearest: y[i] = x[floor(i * n / size)],
// nearest_exact: y[i] = x[floor((i + 1/2) * n / size)], both in whole numbers; linear: between its
// two neighbours, y[i] = (1 - w) x[k] + w x[k + 1] with k + w = (i + 1/2) * n / size - 1/2, not
// below 0, or with align_corners i * (n - 1) / (size - 1); beyond the last element it is the last
// one. With `scale`, 1 / scale takes the place of n / size. Floating dtypes; the order of the axes
// in memory is kept. Throws ShapeError for sizes below 1 and for a 0-d tensor.
WT_API Tensor resize_axis(const In& x, i64 axis, i64 size, const ResizeOptions& options = {});
// The transpose of resize_axis, and its gradient: from gout, the gradient of the resized tensor, to
// that of the tensor whose axis had `size` elements. Sums have one order.
WT_API Tensor resize_axis_backward(const In& gout, i64 axis, i64 size,
                                   const ResizeOptions& options = {});

// linear: along all axes there are; bilinear and trilinear are the same for two and three of them.
// nearest_exact: the element at floor((i + 1/2) n / size), where nearest has floor(i n / size).
// bicubic: of two axes, by the four neighbours of (i + 1/2) n / size - 1/2, or of i (n - 1) / (size
// - 1) with align_corners, weighed by Keys' cubic kernel (1981) with a = -0.75; beyond the border
// the border's elements stand.
enum class UpsampleMode : u8 { nearest, linear, bilinear, trilinear, nearest_exact, bicubic };
struct UpsampleOptions {
  Shape size{};                 // of the resized axes; one number for all
  std::vector<double> scale{};  // or how many times their size; one number for all
  UpsampleMode mode = UpsampleMode::nearest;
  bool align_corners = false;  // not for nearest and nearest_exact
  // Of bilinear and bicubic: where an axis shrinks, the filter is as much wider, so that every
  // element counts: a triangle, or Keys' kernel with a = -0.5, over elements inside the axis and
  // divided by the sum of its weights, as in Pillow.
  bool antialias = false;
  WT_MISNAMED(scale_factor, scale);
};
// x [N, C, L], [N, C, H, W] or [N, C, D, H, W] with its axes after the second resized one after the
// other (see resize_axis) to `size`, or to floor(n * scale), 1 / scale then being the step between
// neighbours. 16-bit floats are computed in f32 in between. The order of the axes in memory is
// kept. PyTorch: F.interpolate, nn.Upsample, whose definitions hold. ONNX: Resize with
// coordinate_transformation_mode half_pixel or align_corners (nearest: asymmetric, floor),
// cubic_coeff_a = -0.75, antialias (there with the same a, here with -0.5). Throws ShapeError for
// other ranks, sizes below 1 and scales that are not above 0, UsageError unless one of size and
// scale is given, for align_corners with nearest, and for antialias with other modes than bilinear
// and bicubic.
WT_API Tensor upsample(const In& x, const UpsampleOptions& options);

}  // namespace wt
