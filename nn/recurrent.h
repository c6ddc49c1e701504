// Recurrent layers: names, order of gates and state are PyTorch's.
#pragma once
#include <vector>

#include "warptape/nn/module.h"

namespace wt::nn {

struct RecurrentOptions {
  i64 num_layers = 1;
  bool bias = true;
  bool batch_first = false;    // [N, T, features] instead of [T, N, features]; states do not change
  double dropout = 0;          // in training, of what every layer but the last gives
  bool bidirectional = false;  // each layer also from the end on; both outputs side by side
  DType dtype = DType::f32;
};

namespace detail {

// weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, then those of the next direction
// (..._l0_reverse) and layer: [gates hidden, features] or [gates hidden].
class WT_API Recurrent {
 public:
  struct Direction {
    Param weight_ih, weight_hh, bias_ih, bias_hh;
  };
  using Add = std::function<Param(const std::string&, Tensor)>;
  Recurrent(const char* type, int gates, i64 input_size, i64 hidden_size, const RecurrentOptions& o,
            const Add& add);

  // One step of a direction: the gates of x [N, gates hidden], the state, in which it leaves the
  // new one.
  using Step = std::function<void(const Direction&, const Tensor& x, std::vector<Tensor>& state)>;
  // The outputs of the last layer. `state` has one tensor a kind ([layers directions, N, hidden],
  // or undefined: zeros), and then those after the last step.
  Tensor run(Tensor x, std::vector<Tensor>& state, bool training, const Step& step) const;

  const RecurrentOptions& options() const { return options_; }
  i64 hidden_size() const { return hidden_; }
  const std::vector<Direction>& directions() const { return directions_; }

 private:
  Tensor checked(const Tensor& x, std::vector<Tensor>& state) const;
  Tensor run_direction(const Direction& d, bool backwards, const Tensor& x,
                       std::vector<Tensor>& state, const Step& step) const;

  const char* type_;
  i64 input_, hidden_;
  RecurrentOptions options_;
  std::vector<Direction> directions_;
};

}  // namespace detail

struct LstmState {
  Tensor h{}, c{};  // [layers directions, N, hidden]; undefined: zeros
};
struct LstmResult {
  Tensor output;  // [T, N, directions hidden]: h of the last layer at every step
  Tensor h, c;    // after the last step
};
// Long short-term memory (Hochreiter and Schmidhuber 1997). At each step, with the gates i, f, g, o
// in this order in the rows of W and b:
//   i, f, o = sigmoid(W x + b + U h + v), g = tanh(...); c = f c + i g; h = o tanh(c).
// x is [T, N, input_size], or [T, input_size] (states then without N). All parameters are drawn
// from U(-b, b), b = 1 / sqrt(hidden_size). Throws ShapeError for other shapes and sizes below 1.
class WT_API LSTM : public Module<LSTM> {
 public:
  LSTM(i64 input_size, i64 hidden_size, const RecurrentOptions& o = {}, const CallLine& = {});
  LstmResult forward(Tensor x, const LstmState& state = {});

 private:
  detail::Recurrent layers_;
};

struct GruResult {
  Tensor output;  // [T, N, directions hidden]
  Tensor h;       // [layers directions, N, hidden]
};
// Gated recurrent unit (Cho et al. 2014, arXiv:1406.1078), with the gates r, z, n in this order:
//   r, z = sigmoid(W x + b + U h + v); n = tanh(W x + b + r (U h + v)); h = (1 - z) n + z h.
// Shapes, beginnings and errors as for LSTM; h is undefined for zeros.
class WT_API GRU : public Module<GRU> {
 public:
  GRU(i64 input_size, i64 hidden_size, const RecurrentOptions& o = {}, const CallLine& = {});
  GruResult forward(Tensor x, const Tensor& h = {});

 private:
  detail::Recurrent layers_;
};

}  // namespace wt::nn
