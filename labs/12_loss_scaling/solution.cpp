#include "loss_scaling.h"

#include <cmath>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"

namespace scaling {

using namespace wt;

// What is finite at one scale is finite at all smaller ones: halving the exponents finds the edge.
Cliffs find_cliffs(const Gradient& gradient) {
  const std::vector<float> plain = gradient(1).to_vector<float>();
  const auto finite = [](const std::vector<float>& g) {
    for (const float x : g)
      if (!std::isfinite(x)) return false;
    return true;
  };
  if (!finite(plain)) return {};
  std::vector<float> best = plain;
  int low = 0, high = 25;  // finite at 2^low, not (or not asked for) at 2^high
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    std::vector<float> g = gradient(std::ldexp(1.0, middle)).to_vector<float>();
    if (finite(g)) {
      low = middle;
      best = std::move(g);
    } else {
      high = middle;
    }
  }
  double there = 0, lost = 0;
  for (size_t i = 0; i < best.size(); ++i) {
    there += best[i] != 0;
    lost += best[i] != 0 && plain[i] == 0;
  }
  return {.largest = std::ldexp(1.0, low), .lost = there > 0 ? lost / there : 0};
}

Scaler make_scaler(Device device, const Options& options) {
  const TensorOptions there{.dtype = DType::f32, .device = device};
  return {.scale = full({}, options.init_scale, there),
          .good_steps = zeros({}, there),
          .found = zeros({}, there)};
}

Tensor scale_loss(const Scaler& scaler, const Tensor& loss) { return loss * scaler.scale; }

// A product and a copy a gradient; looking for inf is two launches, however many there are.
void unscale_(Scaler& scaler, const std::vector<Tensor>& gradients) {
  const NoGrad no_grad;
  const Tensor factor = reciprocal(scaler.scale);
  std::vector<Tensor> flat;
  for (Tensor g : gradients) {
    g *= factor;
    flat.push_back(g.reshape({-1}));
  }
  scaler.found.copy_(logical_not(all(isfinite(cat(flat)))));
}

// Chosen, not multiplied: inf times zero is NaN.
void sgd_step_(const Scaler& scaler, const std::vector<Tensor>& weights,
               const std::vector<Tensor>& gradients, double rate) {
  const NoGrad no_grad;
  const Tensor skip = gt(scaler.found, 0);
  for (size_t i = 0; i < weights.size(); ++i) {
    Tensor w = weights[i];
    w.copy_(where(skip, w, w - rate * gradients[i]));
  }
}

void update_(Scaler& scaler, const Options& options) {
  const NoGrad no_grad;
  const Tensor skip = gt(scaler.found, 0);
  const Tensor count = scaler.good_steps + 1.0;
  const Tensor grow = logical_and(logical_not(skip), ge(count, options.growth_interval));
  const Tensor up = where(grow, scaler.scale * options.growth_factor, scaler.scale);
  const Tensor next = where(skip, scaler.scale * options.backoff_factor, up);
  scaler.scale.copy_(clamp(next, kLeast, kMost));
  scaler.good_steps.copy_(where(logical_or(skip, grow), zeros_like(count), count));
}

}  // namespace scaling
