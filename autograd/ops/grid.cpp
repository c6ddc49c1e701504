// Grids of places in an image, made of other operators: linear in theta.
#include "warptape/autograd/ops/grid.h"

#include "warptape/autograd/composite_scope.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/dtype_checks.h"
#include "warptape/autograd/ops/internal/loss_checks.h"
#include "warptape/autograd/ops/internal/shape_checks.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"

namespace wt {
namespace info {
constexpr OpInfo affine_grid{
    .name = "affine_grid", .derivative = Derivative::linear, .composite = true};
}  // namespace info

namespace {

// Of the n pixels along an axis, between -1 and 1.
Tensor pixel_places(i64 n, bool align_corners, Device d) {
  const Tensor i = arange(0, n, 1, {.dtype = DType::f64, .device = d});
  if (!align_corners) return sub(mul(add(mul(i, 2.0), 1.0), 1 / double(n)), 1.0);
  return n > 1 ? sub(mul(i, 2 / double(n - 1)), 1.0) : i;
}

}  // namespace

Tensor affine_grid(const In& theta, const Shape& size, const AffineGridOptions& options) {
  CompositeScope s(info::affine_grid, theta);
  detail::require_floating(s);
  const int axes = size.ndim() - 2;
  if (axes != 2 && axes != 3)
    s.fail<ShapeError>(str("the size must be {N, C, H, W} or {N, C, D, H, W}, got ", size));
  check_shape(s, size);
  const Shape wanted{size[0], axes, axes + 1}, given = shape_of(s.geometry(0));
  if (given != wanted)
    s.fail<ShapeError>(str("theta must be ", wanted, " for size ", size, ", got ", given));
  for (int k = 0; k < axes; ++k)
    if (size[2 + k] < 1) s.fail<ShapeError>(str("axis ", 2 + k, " of the size has no elements"));
  Shape result(size.data(), 1);
  for (int k = 0; k < axes; ++k) result.push_back(size[2 + k]);
  result.push_back(axes);
  check_numel(s, result);
  Shape one(result);
  for (int k = 1; k <= axes; ++k) one[k] = 1;
  const Tensor t = widened(s, 0);
  const auto column = [&](int k) { return reshape(select(t, 2, k), one); };
  Tensor y = expand(column(axes), result);
  for (int k = 0; k < axes; ++k) {  // column k goes with the axis k from the last
    const int axis = axes - k;
    Shape line;
    for (int d = 0; d < result.ndim(); ++d) line.push_back(d == axis ? result[axis] : 1);
    const Tensor places = pixel_places(result[axis], options.align_corners, t.device());
    y = add(y, mul(reshape(to_dtype(places, t.dtype()), line), column(k)));
  }
  return s.finish(to_dtype(std::move(y), s.dtype()));
}

namespace detail {
OpInfos grid_ops() {
  static constexpr const OpInfo* kOps[] = {&info::affine_grid};
  return kOps;
}
}  // namespace detail

}  // namespace wt
