// Into a level of vmap() and out of it, as operators with derivatives. Internal; core/slices.h says
// what a sliced tensor is.
#pragma once
#include "warptape/core/slices.h"
#include "warptape/core/tensor.h"

namespace wt {

struct Node;

namespace detail {

// The slices of x along `axis` (in [0, ndim)), as a tensor of one slice's shape.
Tensor split_slices(const Tensor& x, int axis, const SliceAxis& level);
// All slices of x along a new axis (in [0, ndim]). What has one slice in the level is expanded.
Tensor join_slices(const Tensor& x, int axis, const SliceAxis& level);
// In a backward: the gradient `g` of an output of `n` (null: of a leaf), which was made before the
// levels that `g` has slices of and that have ended: what reached it is the sum over them.
void sum_closed_slices(Tensor& g, const Node* n);

}  // namespace detail
}  // namespace wt
