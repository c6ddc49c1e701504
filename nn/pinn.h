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

// What stands behind each hidden layer of a Pinn: a function all of whose derivatives exist.
enum class PinnActivation : u8 { tanh, sin, silu, gelu };
// What a Pinn is made with: by default a function of two numbers with one value.
struct PinnOptions {
  std::vector<i64> features{2, 20, 20, 20, 1};       // of the input, the hidden layers, the output
  PinnActivation activation = PinnActivation::tanh;  // behind each hidden layer
};
// Linear layers with an activation between them, from x [..., features.front()] to [...,
// features.back()]. Weights begin as xavier_normal_, biases as 0.
// All derivatives exist. Throws ShapeError for fewer than two sizes and for sizes below 1.
class WT_API Pinn : public nn::Module<Pinn> {
 public:
  // By default 2 inputs, three hidden layers of 20 and one output.
  explicit Pinn(const PinnOptions& o = {});
  // [..., features.front()] to [..., features.back()]; no activation behind the last layer.
  Tensor forward(Tensor x);
  nn::ModuleList<nn::Linear> linears;  // one fewer than there are sizes

 private:
  PinnActivation activation_;
};

}  // namespace wt::models
