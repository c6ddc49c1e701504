// Into a level of vmap() and out of it, as operators with derivatives. Internal; core/slices.h says
// what a sliced tensor is.
#pragma once
#include <optional>

#include "warptape/core/slices.h"
#include "warptape/core/tensor.h"

namespace wt {

struct Node;

namespace detail {

// The values of a tensor, of all slices where it has some, for checks that look at them on the
// host. While it lives, launches and allocations know nothing of slices.
class EverySlice {
 public:
  explicit EverySlice(const Tensor& t) {
    if (slices_of(t.impl())) unsliced_.emplace();
    values_ = unsliced_ ? Tensor(every_slice(t.impl())) : t;
  }
  const Tensor& values() const { return values_; }

 private:
  std::optional<Unsliced> unsliced_{};
  Tensor values_{};
};

// The slices of x along `axis` (in [0, ndim)), as a tensor of one slice's shape.
Tensor split_slices(const Tensor& x, int axis, const SliceAxis& level);
// All slices of x along a new axis (in [0, ndim]). What has one slice in the level is expanded.
Tensor join_slices(const Tensor& x, int axis, const SliceAxis& level);
// In a backward: the gradient `g` of an output of `n` (null: of a leaf), which was made before the
// levels that `g` has slices of and that have ended: what reached it is the sum over them.
void sum_closed_slices(Tensor& g, const Node* n);

}  // namespace detail
}  // namespace wt
