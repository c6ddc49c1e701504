// What layers make their parameters and buffers with. Internal.
#pragma once
#include "warptape/core/dtype.h"
#include "warptape/core/shape.h"
#include "warptape/core/tensor.h"

namespace wt::nn::detail {

// On the mode's default device, owned by Category::parameter. Not filled; undefined unless wanted.
Tensor make_parameter(const Shape& shape, DType t, bool wanted = true);
// The same, filled.
Tensor make_constant(const Shape& shape, DType t, double value, bool wanted = true);
// Owned by Category::buffer, filled.
Tensor make_buffer(const Shape& shape, DType t, i64 value, bool wanted = true);

// `value` if it is at least 1. Throws ShapeError naming layer and argument.
i64 at_least_1(const char* layer, const char* argument, i64 value);
// `p` if it is in [0, 1]. Throws UsageError.
double probability(const char* layer, double p);

}  // namespace wt::nn::detail
