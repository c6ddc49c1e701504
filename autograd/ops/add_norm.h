// A residual and the norm behind it, in one kernel.
#pragma once
#include <optional>

#include "warptape/core/in.h"

namespace wt {

struct AddNormResult {
  Tensor y;    // the norm of the sum
  Tensor sum;  // x + residual, which the next residual is
};

struct AddLayerNormOptions {
  Tensor weight{}, bias{};  // normalized_shape, or none: 1 and 0
  double eps = 1e-5;
};
// sum = x + residual and y = layer_norm(sum), over the last axes, which must be normalized_shape. x
// and residual: one shape, any strides; f64 f32 f16 bf16, one dtype for all operands. The values
// are those of add, whose result is rounded to the dtype, and of layer_norm. Saved are the sum and
// its rows' statistics, neither x nor residual; backward takes the gradients of both results and
// makes one, which x and residual share. Either result may be left alone. An x that nobody else
// sees gives its memory to the sum. Throws as layer_norm does, and ShapeError where x and residual
// differ in shape.
WT_API AddNormResult add_layer_norm(const In& x, const In& residual, const Shape& normalized_shape,
                                    const AddLayerNormOptions& options = {});
inline AddNormResult add_layer_norm(const In& x, const In& residual, const Shape& normalized_shape,
                                    const Tensor& weight, const Tensor& bias,
                                    AddLayerNormOptions options = {}) {
  options.weight = weight, options.bias = bias;
  return add_layer_norm(x, residual, normalized_shape, options);
}

struct AddRmsNormOptions {
  Tensor weight{};              // normalized_shape, or none: 1
  std::optional<double> eps{};  // none: the machine epsilon of what is computed in
};
// sum = x + residual and y = rms_norm(sum). What add_layer_norm says holds for it too.
WT_API AddNormResult add_rms_norm(const In& x, const In& residual, const Shape& normalized_shape,
                                  const AddRmsNormOptions& options = {});
inline AddNormResult add_rms_norm(const In& x, const In& residual, const Shape& normalized_shape,
                                  const Tensor& weight, AddRmsNormOptions options = {}) {
  options.weight = weight;
  return add_rms_norm(x, residual, normalized_shape, options);
}

}  // namespace wt
