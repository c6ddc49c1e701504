// Tensors as the kernels of normalisation by channels take them. Internal to ops/channel_norm.cpp.
#pragma once
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/kernels/contract.h"

namespace wt {

// The geometry of [N, C, d...] as [N, C, S]. False where the last axes do not lie evenly.
inline bool merge_places(const Geometry& g, Geometry& to) {
  to = g;
  to.ndim = 3;
  i64 size = 1, step = 1;
  for (int d = g.ndim; d-- > 2;) {
    if (g.shape[d] == 1) continue;
    if (size == 1)
      step = g.strides[d];
    else if (g.numel > 0 && g.strides[d] != size * step)
      return false;
    size *= g.shape[d];
  }
  to.shape[2] = size;
  to.strides[2] = step;
  finish_geometry(to);
  return true;
}

// A tensor as [N, C, S], copied where it cannot be seen so. Lives as long as the view is used.
class Channels {
 public:
  explicit Channels(const TensorImpl* p) : impl_(p) {
    if (merge_places(p->geometry, seen_)) return;
    const NoGrad no_grad;
    copy_ = contiguous(Tensor(detail::retained(const_cast<TensorImpl*>(p))));
    impl_ = copy_.impl();
    merge_places(impl_->geometry, seen_);
  }
  Channels(const Channels&) = delete;
  Channels& operator=(const Channels&) = delete;
  View view() const { return {impl_->data, &seen_}; }
  bool copied() const { return copy_.defined(); }

 private:
  const TensorImpl* impl_;
  Tensor copy_;
  Geometry seen_;
};

// A new tensor of x's shape and dtype, in x's order of axes where that has one piece a channel.
inline Tensor new_like_channels(const TensorImpl* x) {
  Geometry merged;
  if (!merge_places(x->geometry, merged)) return Tensor(new_like(x));
  return Tensor(new_in_order(x, dtype_of(x)));
}
inline bool is_in_order_of(const Tensor& gy, const Tensor& like) {
  const Geometry &a = gy.impl()->geometry, &b = like.impl()->geometry;
  for (int d = 0; d < a.ndim; ++d)
    if (a.shape[d] != 1 && a.strides[d] != b.strides[d]) return false;
  return true;
}
// gy in the order of `like`: the fast kernels read both alike.
inline Tensor in_order_of(const Tensor& gy, const Tensor& like) {
  if (is_in_order_of(gy, like)) return gy;
  Tensor copy(new_in_order(like.impl(), gy.dtype()));
  detail::copy_into(copy.impl(), gy.impl());
  return copy;
}

inline i64 statistics_of(const Geometry& x, i64 groups) {
  return groups ? x.shape[0] * groups : x.shape[1];
}
inline i64 values_of(const Geometry& x, i64 groups) {  // that share a statistic
  const i64 statistics = statistics_of(x, groups);
  return statistics ? x.numel / statistics : 0;
}

}  // namespace wt
