// The network of a physics-informed problem (Raissi et al. 2019): a smooth function of place and
// time whose derivatives the loss is made of, with the names and beginnings of DeepXDE's FNN.
//
//   models::Pinn u{{.features = {2, 20, 20, 20, 1}}};
//   Tensor y = u(xt), dy = grad(sum(y), xt, {.create_graph = true});
#pragma once
#include <vector>

#include "warptape/nn/containers.h"
#include "warptape/nn/linear.h"

namespace wt::models {

enum class PinnActivation : u8 { tanh, sin, silu, gelu };
struct PinnOptions {
  std::vector<i64> features{2, 20, 20, 20, 1};  // of the input, the hidden layers, the output
  PinnActivation activation = PinnActivation::tanh;
};
// x [.., features.front()] to [.., features.back()]. Weights begin as xavier_normal_, biases as 0.
// All derivatives exist. Throws ShapeError for fewer than two sizes and for sizes below 1.
class WT_API Pinn : public nn::Module<Pinn> {
 public:
  explicit Pinn(const PinnOptions& o = {});
  Tensor forward(Tensor x);
  nn::ModuleList<nn::Linear> linears;

 private:
  PinnActivation activation_;
};

}  // namespace wt::models
