// Normalisation.
#pragma once
#include <optional>

#include "warptape/core/in.h"

namespace wt {

struct LayerNormOptions {
  double eps = 1e-5;
};
// Over the last axes of x, which must be normalized_shape: (x - mean) / sqrt(var + eps) * weight +
// bias, where var is the mean of (x - mean)^2 (Ba, Kiros, Hinton 2016, arXiv:1607.06450). weight
// and bias have normalized_shape. x: any strides; f64 f32 f16 bf16, one dtype for all operands (16
// bits compute in f32). Large offsets do not cancel. A backward adds in a fixed order. Throws
// ShapeError, DtypeError, and UsageError unless eps >= 0.
WT_API Tensor layer_norm(const In& x, const Shape& normalized_shape,
                         const LayerNormOptions& options = {});
WT_API Tensor layer_norm(const In& x, const Shape& normalized_shape, const In& weight,
                         const LayerNormOptions& options = {});
WT_API Tensor layer_norm(const In& x, const Shape& normalized_shape, const In& weight,
                         const In& bias, const LayerNormOptions& options = {});

struct RmsNormOptions {
  std::optional<double> eps{};  // none: the machine epsilon of what is computed in
};
// Over the last axes of x, which must be normalized_shape: x / sqrt(mean(x^2) + eps) * weight
// (Zhang and Sennrich 2019, arXiv:1910.07467). weight has normalized_shape. x: any strides; f64 f32
// f16 bf16, one dtype for both (16 bits compute in f32). Throws as layer_norm does.
WT_API Tensor rms_norm(const In& x, const Shape& normalized_shape,
                       const RmsNormOptions& options = {});
WT_API Tensor rms_norm(const In& x, const Shape& normalized_shape, const In& weight,
                       const RmsNormOptions& options = {});

}  // namespace wt
