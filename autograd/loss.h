// What losses return: a sum and the weight it stands for.
#pragma once
#include "warptape/core/in.h"
#include "warptape/core/misnamed.h"

namespace wt {

// A loss over samples. As an operand it stands for its mean: `loss.backward()`, `loss.item()`,
// `loss + penalty` and `grad(loss, x)` work as with a mean loss elsewhere. TrainStep uses
// both numbers, so that micro-batches of unequal weight add up exactly.
//
//   Loss loss = cross_entropy(net(x), y);
//   loss.backward();
//   Loss mine{per_sample.sum(), per_sample.numel()};   // from a plain tensor
struct WT_GUARD Loss {
  Tensor sum;     // 0-d: the sum over the samples that count
  Tensor weight;  // 0-d, the same dtype and device, no gradient: their number (or sum of weights)

  Loss(Tensor sum_of_losses, Tensor its_weight)
      : sum(std::move(sum_of_losses)), weight(std::move(its_weight)) {}
  WT_API Loss(Tensor sum_of_losses, Scalar its_weight);

  // sum / weight; NaN when nothing counts.
  WT_API Tensor mean(Frame at = Frame::here()) const;
  // The mean as a number; waits for the device.
  WT_API double item(Frame at = Frame::here()) const;
  // Gradients of the mean, like mean().backward() with one node less.
  WT_API void backward(BackwardOptions options = {}, Frame at = Frame::here()) const;
};

// What a loss takes before its options to give the losses one by one, as a tensor that nothing has
// added up yet: PyTorch's reduction="none".
//
//   Tensor losses = cross_entropy(net(x), y, unreduced, {.label_smoothing = 0.1});   // [N]
//
// They are f32 (f64 of f64 operands), weighted as in the sum, and 0 where nothing counts.
struct Unreduced {
  struct Token {};
  explicit constexpr Unreduced(Token) {}  // `{}` stands for the options
};
inline constexpr Unreduced unreduced{Unreduced::Token{}};

namespace detail {
// Of the options of losses.
struct LossNames {
  WT_MISNAMED_SAYS(reduction,
                   "a loss is a sum and a weight: reduction=\"sum\" is loss.sum, \"none\" is "
                   "`unreduced` before the options, \"mean\" is the loss itself");
};
WT_API Loss scaled(const Loss& loss, Scalar factor);
}  // namespace detail
// The sum scaled, the weight kept.
template <Number T>
Loss operator*(T factor, const Loss& loss) {
  return detail::scaled(loss, factor);
}
template <Number T>
Loss operator*(const Loss& loss, T factor) {
  return detail::scaled(loss, factor);
}
template <Number T>
Loss operator/(const Loss& loss, T divisor) {
  return detail::scaled(loss, 1.0 / double(divisor));
}

}  // namespace wt
