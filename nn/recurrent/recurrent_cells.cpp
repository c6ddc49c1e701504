#include "warptape/nn/recurrent_cells.h"

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/nn/make_parameter.h"
#include "warptape/nn/recurrent/recurrent_steps.h"

namespace wt::nn {
namespace {

using detail::RecurrentWeights;

RecurrentWeights cell_weights(const char* type, int gates, i64 input, i64 hidden, bool bias,
                              DType t, const detail::AddParameter& add) {
  detail::at_least_1(type, "input_size", input);
  detail::at_least_1(type, "hidden_size", hidden);
  return detail::make_recurrent_weights(gates * hidden, input, hidden, bias, t, "", add);
}

void check_cell(const char* type, const RecurrentWeights& w, const Tensor& x,
                std::vector<Tensor>& state) {
  const i64 input = w.weight_ih.tensor().size(1), hidden = w.weight_hh.tensor().size(1);
  if (x.ndim() != 1 && x.ndim() != 2)
    throw ShapeError(str("[", type, "] x must have 1 or 2 axes, got ", x.shape(), at_line()));
  if (x.size(-1) != input)
    throw ShapeError(str("[", type, "] x ", x.shape(), " has ", x.size(-1), " features, needs ",
                         input, at_line()));
  const Shape wanted = x.ndim() == 1 ? Shape{hidden} : Shape{x.size(0), hidden};
  for (Tensor& s : state)
    if (!s.defined())
      s = zeros(wanted, {.dtype = x.dtype(), .device = x.device()});
    else if (s.shape() != wanted)
      throw ShapeError(
          str("[", type, "] the state must be ", wanted, ", got ", s.shape(), at_line()));
}

// The state after one step.
template <class Step>
std::vector<Tensor> run_cell(const char* type, const RecurrentWeights& w, Tensor x,
                             std::vector<Tensor> state, const Step& step) {
  check_cell(type, w, x, state);
  const bool alone = x.ndim() == 1;
  if (alone) {
    x = unsqueeze(std::move(x), 0);
    for (Tensor& s : state) s = unsqueeze(std::move(s), 0);
  }
  step(w, detail::gates_of(x, w.weight_ih, w.bias_ih), state);
  if (alone)
    for (Tensor& s : state) s = squeeze(std::move(s), 0);
  return state;
}

}  // namespace

RNNCell::RNNCell(i64 input_size, i64 hidden_size, const RnnCellOptions& o, const CallLine&)
    : weights(cell_weights(
          "RNNCell", 1, input_size, hidden_size, o.bias, o.dtype,
          [this](const std::string& name, const Tensor& t) { return add(name.c_str(), t); })),
      nonlinearity_(o.nonlinearity) {}
Tensor RNNCell::forward(Tensor x, const Tensor& h) {
  return run_cell(
      "RNNCell", weights, std::move(x), {h},
      [f = nonlinearity_](const RecurrentWeights& w, const Tensor& gates,
                          std::vector<Tensor>& now) { detail::rnn_step(f, w, gates, now); })[0];
}

LSTMCell::LSTMCell(i64 input_size, i64 hidden_size, const CellOptions& o, const CallLine&)
    : weights(cell_weights(
          "LSTMCell", 4, input_size, hidden_size, o.bias, o.dtype,
          [this](const std::string& name, const Tensor& t) { return add(name.c_str(), t); })) {}
LstmState LSTMCell::forward(Tensor x, const LstmState& s) {
  std::vector<Tensor> now =
      run_cell("LSTMCell", weights, std::move(x), {s.h, s.c}, detail::lstm_step);
  return {std::move(now[0]), std::move(now[1])};
}

GRUCell::GRUCell(i64 input_size, i64 hidden_size, const CellOptions& o, const CallLine&)
    : weights(cell_weights(
          "GRUCell", 3, input_size, hidden_size, o.bias, o.dtype,
          [this](const std::string& name, const Tensor& t) { return add(name.c_str(), t); })) {}
Tensor GRUCell::forward(Tensor x, const Tensor& h) {
  return run_cell("GRUCell", weights, std::move(x), {h}, detail::gru_step)[0];
}

}  // namespace wt::nn
