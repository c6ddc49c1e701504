// Recurrent cells, one step each: names, order of gates and state are PyTorch's.
#pragma once
#include "warptape/nn/recurrent.h"

namespace wt::nn {

// Options of LSTMCell and GRUCell.
struct CellOptions {
  bool bias = true;          // b and v of the formulas
  DType dtype = DType::f32;  // of the parameters
};
// Options of RNNCell.
struct RnnCellOptions {
  bool bias = true;                                      // b and v of the formula
  RnnNonlinearity nonlinearity = RnnNonlinearity::tanh;  // what the sum goes through
  DType dtype = DType::f32;                              // of the parameters
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
  // Features of x, and of the state; both at least 1.
  RNNCell(i64 input_size, i64 hidden_size, const RnnCellOptions& o = {}, const CallLine& = {});
  // x [N, input_size] and h [N, hidden_size] to the next h; or both without N.
  Tensor forward(Tensor x, const Tensor& h = {});
  // weight_ih [hidden, input], weight_hh [hidden, hidden], bias_ih and bias_hh [hidden].
  detail::RecurrentWeights weights;

 private:
  RnnNonlinearity nonlinearity_;
};
// One step of LSTM: x and (h, c) to the next (h, c). All else as for RNNCell.
class WT_API LSTMCell : public Module<LSTMCell> {
 public:
  // Features of x, and of the state; both at least 1.
  LSTMCell(i64 input_size, i64 hidden_size, const CellOptions& o = {}, const CallLine& = {});
  // x [N, input_size], h and c [N, hidden_size] to the next h and c; or all without N.
  LstmState forward(Tensor x, const LstmState& state = {});
  // weight_ih [4 hidden, input], weight_hh [4 hidden, hidden], bias_ih and bias_hh [4 hidden];
  // gates in LSTM's order.
  detail::RecurrentWeights weights;
};
// One step of GRU: x and h to the next h. All else as for RNNCell.
class WT_API GRUCell : public Module<GRUCell> {
 public:
  // Features of x, and of the state; both at least 1.
  GRUCell(i64 input_size, i64 hidden_size, const CellOptions& o = {}, const CallLine& = {});
  // x [N, input_size] and h [N, hidden_size] to the next h; or both without N.
  Tensor forward(Tensor x, const Tensor& h = {});
  // weight_ih [3 hidden, input], weight_hh [3 hidden, hidden], bias_ih and bias_hh [3 hidden];
  // gates in GRU's order.
  detail::RecurrentWeights weights;
};

}  // namespace wt::nn
