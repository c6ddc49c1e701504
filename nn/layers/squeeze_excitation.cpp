#include "warptape/nn/squeeze_excitation.h"

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/pool.h"

namespace wt::nn {

SqueezeExcitation::SqueezeExcitation(i64 channels, i64 squeezed, const SqueezeExcitationOptions& o,
                                     const CallLine&)
    : fc1(add("fc1", Conv2d{channels, squeezed, {.kernel = 1}})),
      fc2(add("fc2", Conv2d{squeezed, channels, {.kernel = 1}})),
      options_(o) {}

Tensor SqueezeExcitation::forward(Tensor x) {
  Tensor s = fc1(adaptive_avg_pool2d(x, 1));
  s = options_.activation == SqueezeActivation::relu ? relu(std::move(s)) : silu(std::move(s));
  s = fc2(std::move(s));
  s = options_.gate == SqueezeGate::sigmoid ? sigmoid(std::move(s)) : hardsigmoid(std::move(s));
  return x * s;
}

}  // namespace wt::nn
