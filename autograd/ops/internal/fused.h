// What operators with bias, residual and activation share. Internal to ops/fused_linear.cpp,
// ops/fused_conv.cpp and ops/channel_norm.cpp.
#pragma once
#include <initializer_list>
#include <optional>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/activation.h"
#include "warptape/core/in.h"
#include "warptape/kernels/pointwise.h"
#include "warptape/kernels/run.h"

namespace wt {

// x, the weights and what of the options is there.
struct OptionalOperands {
  std::optional<In> more[3];
  const In* list[6];
  int size = 0;
  i8 place[3];                                         // of each option in the list, or -1
  OptionalOperands(const OptionalOperands&) = delete;  // the list leads into it
  OptionalOperands(std::initializer_list<const In*> fixed,
                   std::initializer_list<const Tensor*> options) {
    for (const In* in : fixed) list[size++] = in;
    int k = 0;
    for (const Tensor* t : options) {
      place[k] = t->defined() ? i8(size) : i8(-1);
      if (t->defined()) list[size++] = &more[k].emplace(*t);
      ++k;
    }
  }
};

// Slots of a node. `told`: what the activation's derivative is told from. Bias and residual are,
// with x and the weight, what z is made of anew where a gradient is to have gradients; elsewhere
// they are empty.
enum FusedSlot : int { kSavedX, kSavedWeight, kSavedTold, kSavedBias, kSavedResidual };

inline bool is_told_from_sum(Activation f) {
  return f != Activation::none && !is_told_from_result(f);
}

// call(entry of kernels/pointwise.h); not for Activation::none.
template <class Call>
Tensor with_entry(Activation f, Call call) {
  switch (f) {
    case Activation::gelu:
      return call(pw::Gelu{});
    case Activation::gelu_tanh:
      return call(pw::GeluTanh{});
    case Activation::silu:
      return call(pw::Silu{});
    case Activation::relu6:
      return call(pw::Relu6{});
    case Activation::hardswish:
      return call(pw::Hardswish{});
    default:
      return call(pw::Relu{});
  }
}
inline Tensor activated(Activation f, const Tensor& z) {
  switch (f) {
    case Activation::none:
      return z;
    case Activation::relu:
      return relu(z);
    case Activation::gelu:
      return gelu(z);
    case Activation::gelu_tanh:
      return gelu_tanh(z);
    case Activation::silu:
      return silu(z);
    case Activation::relu6:
      return relu6(z);
    case Activation::hardswish:
      return hardswish(z);
  }
  return z;
}
// dy f'(z) by operators, for derivatives of it. y = f(z).
inline Tensor recorded_gradient(Activation f, const Tensor& dy, const Tensor& z, const Tensor& y) {
  if (f == Activation::none) return dy;
  return with_entry(f, [&]<class F>(F) -> Tensor { return F::d0(dy, z, y); });
}
// The same in one kernel, in the order of `saved`: the result or the sum.
inline Tensor activation_gradient(const Backward& g, Activation f, const Tensor& dy,
                                  const Tensor& saved) {
  if (f == Activation::none) return dy;
  Tensor dz(new_in_order(saved.impl(), dy.dtype()));
  return with_entry(f, [&]<class F>(F) -> Tensor {
    run(PointwiseArgs<pw::Grad0<F>>{view_of(dz.impl()),
                                    {view_of(dy.impl()), view_of(saved.impl())}},
        g.launch());
    return std::move(dz);
  });
}

}  // namespace wt
