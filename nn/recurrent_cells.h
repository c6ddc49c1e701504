// Recurrent cells, one step each: names, order of gates and state are PyTorch's.
#pragma once
#include "warptape/nn/recurrent.h"

namespace wt::nn {

struct CellOptions {
  bool bias = true;
  DType dtype = DType::f32;
};
struct RnnCellOptions {
  bool bias = true;
  RnnNonlinearity nonlinearity = RnnNonlinearity::tanh;
  DType dtype = DType::f32;
};

// One step of RNN, LSTM or GRU, whose formulas and initialisation they have; parameters are
// weight_ih, weight_hh, bias_ih and bias_hh. x is [N, input_size], or [input_size]; the state has
// x's axes with hidden_size in place of input_size, undefined: zeros. They return the new state, of
// an LSTMCell both tensors, which is no result that hooks can be about. Throw ShapeError for other
// shapes and sizes below 1.
//
//   Tensor h;
//   for (const Tensor& x : unbind(steps)) h = cell(x, h);
class WT_API RNNCell : public Module<RNNCell> {
 public:
  RNNCell(i64 input_size, i64 hidden_size, const RnnCellOptions& o = {}, const CallLine& = {});
  Tensor forward(Tensor x, const Tensor& h = {});
  detail::RecurrentWeights weights;

 private:
  RnnNonlinearity nonlinearity_;
};
class WT_API LSTMCell : public Module<LSTMCell> {
 public:
  LSTMCell(i64 input_size, i64 hidden_size, const CellOptions& o = {}, const CallLine& = {});
  LstmState forward(Tensor x, const LstmState& state = {});
  detail::RecurrentWeights weights;
};
class WT_API GRUCell : public Module<GRUCell> {
 public:
  GRUCell(i64 input_size, i64 hidden_size, const CellOptions& o = {}, const CallLine& = {});
  Tensor forward(Tensor x, const Tensor& h = {});
  detail::RecurrentWeights weights;
};

}  // namespace wt::nn
