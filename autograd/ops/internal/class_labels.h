// Labels and weights of classes, as losses take them. Internal.
#pragma once
#include "warptape/autograd/ops/internal/loss_checks.h"
#include "warptape/core/factories.h"

namespace wt {

// `name` is the user's name for operand 0.
inline void check_labels(const OpScope& s, int axis, const char* name) {
  detail::require_floating(s, 0);
  const Geometry &x = s.geometry(0), &labels = s.geometry(1);
  if (x.ndim == 0)
    s.fail<ShapeError>(str(name, " must be [N, C], [N, C, ...] or [C], got 0 dimensions"));
  if (labels.dtype != DType::i64)
    s.fail<DtypeError>(str("labels must be i64, got ", dtype_name(labels.dtype)),
                       ".to(DType::i64)");
  Shape want(x.shape, x.ndim);
  want.erase(axis);
  if (const Shape got(labels.shape, labels.ndim); got != want)
    s.fail<ShapeError>(str("labels must have the shape of the ", name,
                           " without the class axis: expected ", want, ", got ", got));
  if (x.shape[axis] == 0 && labels.numel > 0)
    s.fail<ShapeError>(str(labels.numel, " labels but no class"));
}
inline int class_axis(const Geometry& x) { return x.ndim == 1 ? 0 : 1; }

// The class weights in the dtype that the loss adds up in, without gradient; undefined for none.
inline Tensor class_weights(const OpScope& s, const Tensor& weight, int axis) {
  if (!weight.defined()) return {};
  const Geometry& x = s.geometry(0);
  if (weight.shape() != Shape{x.shape[axis]})
    s.fail<ShapeError>(
        str("weight must be [", x.shape[axis], "], one a class, got ", weight.shape()));
  if (!is_floating(weight.dtype()))
    s.fail<DtypeError>(str("weight must be floating, got ", dtype_name(weight.dtype())));
  if (weight.device() != s.device())
    s.fail<PlacementError>(str("weight is on ", to_string(weight.device()), ", the operands on ",
                               to_string(s.device())),
                           ".to(Device) on it");
  const NoGrad no_grad;
  return to_dtype(weight, loss_dtype(x.dtype));
}
// [C] along `axis` of a tensor of `ndim` axes.
inline Tensor along_axis(const Tensor& v, int axis, int ndim) {
  Shape shape;
  for (int d = 0; d < ndim; ++d) shape.push_back(d == axis ? v.numel() : 1);
  return v.reshape(shape);
}
// 1 where the label of an element's sample is its class.
inline Tensor hits(const Tensor& labels, i64 classes, int axis) {
  const Tensor numbers = arange(0, classes, 1, {.dtype = DType::i64, .device = labels.device()});
  return eq(labels.unsqueeze(axis), along_axis(numbers, axis, labels.ndim() + 1));
}

}  // namespace wt
