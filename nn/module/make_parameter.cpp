#include "warptape/nn/make_parameter.h"

#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/nn/init.h"

namespace wt::nn::detail {

Tensor make_parameter(const Shape& shape, DType t, bool wanted) {
  if (!wanted) return {};
  const CategoryScope scope(Category::parameter);
  return empty(shape, {.dtype = t, .device = mode.default_device});
}

Tensor make_constant(const Shape& shape, DType t, double value, bool wanted) {
  Tensor p = make_parameter(shape, t, wanted);
  if (p.defined()) init::constant_(p, value);
  return p;
}

Tensor make_buffer(const Shape& shape, DType t, i64 value, bool wanted) {
  if (!wanted) return {};
  const CategoryScope scope(Category::buffer);
  return full(shape, value, {.dtype = t, .device = mode.default_device});
}

i64 at_least_1(const char* layer, const char* argument, i64 value) {
  if (value < 1)
    throw ShapeError(
        str("[", layer, "] ", argument, " must be at least 1, got ", value, at_line()));
  return value;
}

double probability(const char* layer, double p) {
  if (!(p >= 0 && p <= 1))
    throw UsageError(str("[", layer, "] p must be in [0, 1], got ", p, at_line()));
  return p;
}

}  // namespace wt::nn::detail
