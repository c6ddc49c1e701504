#include "warptape/nn/pinn.h"

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/at_line.h"
#include "warptape/nn/init.h"

namespace wt::models {
namespace {

Tensor pinn_activate(PinnActivation f, Tensor x) {
  switch (f) {
    case PinnActivation::sin:
      return sin(std::move(x));
    case PinnActivation::silu:
      return silu(std::move(x));
    case PinnActivation::gelu:
      return gelu(std::move(x));
    case PinnActivation::tanh:
      break;
  }
  return tanh(std::move(x));
}

}  // namespace

Pinn::Pinn(const PinnOptions& o) : activation_(o.activation) {
  if (o.features.size() < 2)
    throw ShapeError(str("[Pinn] .features must have the sizes of input and output, got ",
                         o.features.size(), " sizes", at_line()));
  for (size_t i = 0; i + 1 < o.features.size(); ++i) {
    const nn::Linear layer{o.features[i], o.features[i + 1]};
    nn::init::xavier_normal_(layer.weight);
    nn::init::zeros_(layer.bias);
    linears.push_back(layer);
  }
  add("linears", linears);
}

Tensor Pinn::forward(Tensor x) {
  for (size_t i = 0; i + 1 < linears.size(); ++i)
    x = pinn_activate(activation_, linears[i](std::move(x)));
  return linears[linears.size() - 1](std::move(x));
}

}  // namespace wt::models
