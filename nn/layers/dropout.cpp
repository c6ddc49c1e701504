#include "warptape/nn/dropout.h"

#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/nn/make_parameter.h"
#include "warptape/nn/module_state.h"

namespace wt::nn {

Dropout::Dropout(double p, const CallLine&) : p_(detail::probability("Dropout", p)) {}
Tensor Dropout::forward(Tensor x) { return dropout(std::move(x), p_, is_training()); }

DropoutNd::DropoutNd(const char* type, int axes, double p)
    : axes_(axes), p_(detail::probability(type, p)) {
  set_type(type);
}

Tensor DropoutNd::forward(Tensor x) {
  if (x.ndim() != axes_ + 1 && x.ndim() != axes_ + 2)
    throw ShapeError(str("[", state_->type, "] x must have ", axes_ + 1, " or ", axes_ + 2,
                         " axes, got ", x.shape(), at_line()));
  if (!is_training() || p_ == 0) return x;
  Shape channels = x.shape();
  for (int d = x.ndim() - axes_; d < x.ndim(); ++d) channels[d] = 1;
  const Tensor kept = ones(channels, {.dtype = x.dtype(), .device = x.device()});
  return mul(std::move(x), dropout(kept, p_, true));
}

StochasticDepth::StochasticDepth(double p, const CallLine&)
    : p_(detail::probability("StochasticDepth", p)) {}

Tensor StochasticDepth::forward(Tensor x) {
  if (x.ndim() == 0)
    throw ShapeError(str("[StochasticDepth] x must have an axis of samples", at_line()));
  if (!is_training() || p_ == 0) return x;
  Shape samples = x.shape();
  for (int d = 1; d < x.ndim(); ++d) samples[d] = 1;
  const Tensor kept = ones(samples, {.dtype = x.dtype(), .device = x.device()});
  return mul(std::move(x), dropout(kept, p_, true));
}

}  // namespace wt::nn
