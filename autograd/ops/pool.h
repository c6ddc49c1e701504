// Pooling over one, two or three spatial axes.
#pragma once
#include <optional>

#include "warptape/autograd/ops/per_axis.h"
#include "warptape/core/in.h"
#include "warptape/core/misnamed.h"

namespace wt {

struct MaxPoolOptions {
  std::optional<PerAxis> stride{};  // unset: the kernel's sizes
  PerAxis padding = 0;              // at most half the kernel; what lies there is never chosen
  PerAxis dilation = 1;
  bool ceil_mode = false;  // one more window where the last one would leave elements over
  WT_MISNAMED_SAYS(return_indices, "places too: max_pool2d_with_indices(x, kernel)");
  WT_MISNAMED_SAYS(kernel_size, "the kernel is an argument before the options: max_pool2d(x, 2)");
};
// The largest element of each window of `kernel` elements, `dilation` apart, that begins at a
// multiple of the stride less the padding; NaN where a window has one. x is [N, C, L] or [C, L] in
// any strides; the result is [N, C, M] or [C, M], M = (L + 2 * padding - dilation * (kernel - 1) -
// 1) / stride + 1, rounded down (up with ceil_mode, but the last window begins inside of x or its
// left padding), in x's order in memory. f64 f32 f16 bf16. The gradient goes to the first of equal
// elements; a byte for each result is saved (four where windows have more than 256 elements).
// Throws ShapeError, DtypeError, UsageError.
WT_API Tensor max_pool1d(const In& x, const PerAxis& kernel, const MaxPoolOptions& options = {});
// max_pool1d over two axes: x is [N, C, H, W] or [C, H, W].
WT_API Tensor max_pool2d(const In& x, const PerAxis& kernel, const MaxPoolOptions& options = {});
// max_pool1d over three axes: x is [N, C, D, H, W] or [C, D, H, W].
WT_API Tensor max_pool3d(const In& x, const PerAxis& kernel, const MaxPoolOptions& options = {});
struct MaxPool {
  Tensor values, indices;
};
// max_pool1d and the places of what was chosen: i64, counted in C order over the spatial axes of x
// (return_indices=True in PyTorch). indices have no gradient.
WT_API MaxPool max_pool1d_with_indices(const In& x, const PerAxis& kernel,
                                       const MaxPoolOptions& options = {});
// max_pool2d and the places of what was chosen, as max_pool1d_with_indices gives them.
WT_API MaxPool max_pool2d_with_indices(const In& x, const PerAxis& kernel,
                                       const MaxPoolOptions& options = {});
// max_pool3d and the places of what was chosen, as max_pool1d_with_indices gives them.
WT_API MaxPool max_pool3d_with_indices(const In& x, const PerAxis& kernel,
                                       const MaxPoolOptions& options = {});

struct AvgPoolOptions {
  std::optional<PerAxis> stride{};  // unset: the kernel's sizes
  PerAxis padding = 0;              // at most half the kernel
  bool ceil_mode = false;
  bool count_include_pad = true;          // the padding's zeros count as elements
  std::optional<i64> divisor_override{};  // divides the sum instead of the number of elements
  WT_MISNAMED_SAYS(kernel_size, "the kernel is an argument before the options: avg_pool2d(x, 2)");
};
// The mean of each window. Shapes, strides, dtypes and errors as for max_pool1d; 16-bit types are
// summed in f32. What a window with ceil_mode has beyond the padding never counts. Nothing is
// saved.
WT_API Tensor avg_pool1d(const In& x, const PerAxis& kernel, const AvgPoolOptions& options = {});
// avg_pool1d over two axes: x is [N, C, H, W] or [C, H, W].
WT_API Tensor avg_pool2d(const In& x, const PerAxis& kernel, const AvgPoolOptions& options = {});
// avg_pool1d over three axes: x is [N, C, D, H, W] or [C, D, H, W].
WT_API Tensor avg_pool3d(const In& x, const PerAxis& kernel, const AvgPoolOptions& options = {});

// The mean of each of `sizes` windows of nearly equal length: element q of an axis stands for the
// positions from q * L / size, rounded down, to (q + 1) * L / size, rounded up. x is [N, C, L] or
// [C, L]. Throws ShapeError, DtypeError, UsageError.
WT_API Tensor adaptive_avg_pool1d(const In& x, const PerAxis& sizes);
// adaptive_avg_pool1d over two axes: x is [N, C, H, W] or [C, H, W]; size 1 is the global average.
WT_API Tensor adaptive_avg_pool2d(const In& x, const PerAxis& sizes);
// adaptive_avg_pool1d over three axes: x is [N, C, D, H, W] or [C, D, H, W].
WT_API Tensor adaptive_avg_pool3d(const In& x, const PerAxis& sizes);
// The largest element of each such window; NaN and gradient as for max_pool2d. x is [N, C, H, W] or
// [C, H, W].
WT_API Tensor adaptive_max_pool2d(const In& x, const PerAxis& sizes);

}  // namespace wt
