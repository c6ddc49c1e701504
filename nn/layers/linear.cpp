#include "warptape/nn/linear.h"

#include <cmath>

#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/nn/init.h"
#include "warptape/nn/make_parameter.h"

namespace wt::nn {
namespace {

void check_sizes(const char* layer, i64 a, i64 b) {
  if (a < 1 || b < 1)
    throw ShapeError(str("[", layer, "] sizes must be at least 1, got ", a, " and ", b, at_line()));
}

}  // namespace

Linear::Linear(i64 in, i64 out, const LinearOptions& o, const CallLine&)
    : weight((check_sizes("Linear", in, out),
              add("weight", detail::make_parameter({out, in}, o.dtype)))),
      bias(add("bias", detail::make_parameter({out}, o.dtype, o.bias))) {
  const double bound = 1 / std::sqrt(double(in));
  init::uniform_(weight.tensor(), -bound, bound);
  if (o.bias) init::uniform_(bias.tensor(), -bound, bound);
}

Tensor Linear::forward(Tensor x) {
  return bias.defined() ? linear(std::move(x), weight, bias) : linear(std::move(x), weight);
}

Tensor Flatten::forward(Tensor x) { return flatten(std::move(x), first_, last_); }

Tensor Unflatten::forward(Tensor x) {
  const int at = normalize_axis("Unflatten", axis_, x.ndim());
  i64 known = 1;
  int open = 0;
  for (const i64 n : sizes_) n == -1 ? void(++open) : void(known = checked_mul(known, n));
  const i64 size = x.size(at);
  if (open > 1 || known < 0 || (open ? known == 0 || size % known != 0 : known != size))
    throw ShapeError(str("[Unflatten] axis ", axis_, " of ", x.shape(), " has ", size,
                         " elements, which do not fit ", sizes_, at_line()));
  Shape shape;
  for (int d = 0; d < x.ndim(); ++d) {
    if (d != at)
      shape.push_back(x.size(d));
    else
      for (const i64 n : sizes_) shape.push_back(n == -1 ? size / known : n);
  }
  return reshape(std::move(x), shape);
}

Flatten::Flatten(i64 first, i64 last) : first_(first), last_(last) {}
Unflatten::Unflatten(i64 axis, const Shape& sizes) : axis_(axis), sizes_(sizes) {}

}  // namespace wt::nn
