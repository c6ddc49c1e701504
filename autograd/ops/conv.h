// Convolution over one, two or three spatial axes.
#pragma once
#include "warptape/autograd/ops/per_axis.h"
#include "warptape/core/in.h"

namespace wt {

// valid: none. same: so much that with stride 1 the output has x's sizes; where that is odd, the
// larger half lies behind.
enum class Padding : u8 { valid, same };
class ConvPadding {
 public:
  template <Integer T>
  constexpr ConvPadding(T value) : numbers_(value) {}  // NOLINT: implicit by design
  constexpr ConvPadding(std::initializer_list<Dim> values) : numbers_(values) {}
  constexpr ConvPadding(PerAxis values) : numbers_(values) {}                       // NOLINT
  constexpr ConvPadding(Padding how) : numbers_(0), same_(how == Padding::same) {}  // NOLINT
  constexpr bool is_same() const { return same_; }
  constexpr const PerAxis& numbers() const { return numbers_; }

 private:
  PerAxis numbers_;
  bool same_ = false;
};

struct ConvOptions {
  PerAxis stride = 1;
  ConvPadding padding = 0;  // zeros on both sides of an axis
  PerAxis dilation = 1;     // between neighbouring elements of the kernel
  i64 groups = 1;           // of channels, each with output channels of its own
};
struct ConvTransposeOptions {
  PerAxis stride = 1;
  PerAxis padding = 0;
  PerAxis output_padding = 0;  // further elements at the end of an axis
  i64 groups = 1;
  PerAxis dilation = 1;
};

// y[n, o, q] = bias[o] + sum over c, k of x[n, c, q * stride - padding + k * dilation] *
// weight[o, c, k], where x is zero outside of its axes (a cross-correlation, as everywhere in the
// field). x is [N, C, L] or [C, L], weight [O, C / groups, K], bias [O]; y is [N, O, M] or [O, M]
// with M = (L + 2 * padding - dilation * (K - 1) - 1) / stride + 1, rounded down. x may have any
// strides; y has its order in memory. f64 f32 f16 bf16, one dtype for all (16 bits are summed in
// f32). Sums have an order that does not depend on the number of threads. Throws ShapeError,
// DtypeError, and UsageError for numbers out of range and Padding::same with another stride than 1.
WT_API Tensor conv1d(const In& x, const In& weight, const ConvOptions& options = {});
WT_API Tensor conv1d(const In& x, const In& weight, const In& bias,
                     const ConvOptions& options = {});
// conv1d over two axes: x is [N, C, H, W] or [C, H, W], weight [O, C / groups, KH, KW]. In
// channels_last order x, and y then, are worked on as they lie.
WT_API Tensor conv2d(const In& x, const In& weight, const ConvOptions& options = {});
WT_API Tensor conv2d(const In& x, const In& weight, const In& bias,
                     const ConvOptions& options = {});
// conv1d over three axes: x is [N, C, D, H, W] or [C, D, H, W], weight [O, C / groups, KD, KH, KW].
WT_API Tensor conv3d(const In& x, const In& weight, const ConvOptions& options = {});
WT_API Tensor conv3d(const In& x, const In& weight, const In& bias,
                     const ConvOptions& options = {});

// The transposed convolution, the gradient of conv1d with respect to its x: every x[n, c, q] adds
// x[n, c, q] * weight[c, o, k] to y[n, o, q * stride - padding + k * dilation]; then bias[o] is
// added. x is [N, C, L] or [C, L], weight [C, O / groups, K], bias [O]; y is [N, O, M] or [O, M]
// with M = (L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1. Strides,
// dtypes and errors as for conv1d; output_padding is less than the stride or the dilation.
WT_API Tensor conv_transpose1d(const In& x, const In& weight,
                               const ConvTransposeOptions& options = {});
WT_API Tensor conv_transpose1d(const In& x, const In& weight, const In& bias,
                               const ConvTransposeOptions& options = {});
// conv_transpose1d over two axes: x is [N, C, H, W] or [C, H, W], weight [C, O / groups, KH, KW].
WT_API Tensor conv_transpose2d(const In& x, const In& weight,
                               const ConvTransposeOptions& options = {});
WT_API Tensor conv_transpose2d(const In& x, const In& weight, const In& bias,
                               const ConvTransposeOptions& options = {});
// conv_transpose1d over three axes: x is [N, C, D, H, W] or [C, D, H, W], weight [C, O / groups,
// KD, KH, KW].
WT_API Tensor conv_transpose3d(const In& x, const In& weight,
                               const ConvTransposeOptions& options = {});
WT_API Tensor conv_transpose3d(const In& x, const In& weight, const In& bias,
                               const ConvTransposeOptions& options = {});

// The gradient of a convolution's weight: w[o, c, k] = sum over n, q of gy[n, o, q] * x[n, c,
// q * stride - padding + k * dilation]. The number of spatial axes is that of `weight`, its shape;
// gy has the shape of the convolution's result (torch.nn.grad.conv2d_weight in PyTorch). Throws
// ShapeError, DtypeError, UsageError.
WT_API Tensor conv_weight_grad(const In& gy, const In& x, const Shape& weight,
                               const ConvOptions& options = {});

}  // namespace wt
