// Recurrent layers: names, order of gates and state are PyTorch's.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/nn/module.h"
#include "warptape/nn/packed_sequence.h"

namespace wt::nn {

// Options of LSTM and GRU; names and defaults are PyTorch's.
struct RecurrentOptions {
  i64 num_layers = 1;          // one on top of the other, at least 1
  bool bias = true;            // b and v of the formulas
  bool batch_first = false;    // [N, T, features] instead of [T, N, features]; states do not change
  double dropout = 0;          // in training, of what every layer but the last gives
  bool bidirectional = false;  // each layer also from the end on; both outputs side by side
  DType dtype = DType::f32;    // of the parameters
};

namespace detail {

// The parameters of a cell, or of one direction of a layer: [gates hidden, features], [gates
// hidden, hidden] and two of [gates hidden].
struct RecurrentWeights {
  Param weight_ih, weight_hh, bias_ih, bias_hh;
};
using AddParameter = std::function<Param(const std::string&, Tensor)>;

// weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, then those of the next direction
// (..._l0_reverse) and layer.
class WT_API Recurrent {
 public:
  Recurrent(const char* type, int gates, i64 input_size, i64 hidden_size, const RecurrentOptions& o,
            const AddParameter& add);

  // One step of a direction: the gates of x [N, gates hidden], the state, in which it leaves the
  // new one.
  using Step =
      std::function<void(const RecurrentWeights&, const Tensor& x, std::vector<Tensor>& state)>;
  // The outputs of the last layer. `state` has one tensor a kind ([layers directions, N, hidden],
  // or undefined: zeros), and then those after the last step of each sequence.
  Tensor run(Tensor x, std::vector<Tensor>& state, bool training, const Step& step) const;
  PackedSequence run(const PackedSequence& x, std::vector<Tensor>& state, bool training,
                     const Step& step) const;

  const RecurrentOptions& options() const { return options_; }
  i64 hidden_size() const { return hidden_; }
  const std::vector<RecurrentWeights>& directions() const { return directions_; }

 private:
  Tensor checked(const Tensor& x, std::vector<Tensor>& state) const;
  void check_features(const Tensor& x) const;
  void check_state(std::vector<Tensor>& state, const Tensor& x, i64 n, bool alone) const;
  // `sizes`: of the steps of packed data; null for [T, N, features].
  Tensor run_layers(Tensor x, const std::vector<i64>* sizes, std::vector<Tensor>& state,
                    bool training, const Step& step) const;
  Tensor run_direction(const RecurrentWeights& w, bool backwards, const Tensor& x,
                       const std::vector<i64>* sizes, std::vector<Tensor>& state,
                       const Step& step) const;

  const char* type_;
  i64 input_, hidden_;
  RecurrentOptions options_;
  std::vector<RecurrentWeights> directions_;
};

}  // namespace detail

// What an LSTM begins with, or an LSTMCell returns.
struct LstmState {
  // h: the outputs; c: the cells.
  Tensor h{}, c{};  // [layers directions, N, hidden], of a cell [N, hidden]; undefined: zeros
};
// What an LSTM returns for padded data.
struct LstmResult {
  Tensor output;  // [T, N, directions hidden]: h of the last layer at every step
  Tensor h, c;    // after the last step, [layers directions, N, hidden] each
};
// What an LSTM returns for packed data.
struct PackedLstmResult {
  PackedSequence output;  // data [sum of lengths, directions hidden], packed as x
  Tensor h, c;            // after the last step of each sequence, in the order of the batch
};
// Long short-term memory (Hochreiter and Schmidhuber 1997). At each step, with the gates i, f, g, o
// in this order in the rows of W and b:
//   i, f, o = sigmoid(W x + b + U h + v), g = tanh(...); c = f c + i g; h = o tanh(c).
// x is [T, N, input_size], or [T, input_size] (states then without N). All parameters are drawn
// from U(-b, b), b = 1 / sqrt(hidden_size). Throws ShapeError for other shapes and sizes below 1,
// UsageError for a dropout outside [0, 1].
//
// Of a PackedSequence every sequence ends, and in the other direction begins, with its own last
// step; states are in the order of the batch, whatever that of the packed data. Throws UsageError
// for one whose sizes do not fit its data.
class WT_API LSTM : public Module<LSTM> {
 public:
  // Features of x, and of the outputs; both at least 1.
  LSTM(i64 input_size, i64 hidden_size, const RecurrentOptions& o = {}, const CallLine& = {});
  // [T, N, input_size] to [T, N, directions hidden], batch_first: N and T change places. The state
  // is zeros where it is not given.
  LstmResult forward(Tensor x, const LstmState& state = {});
  PackedLstmResult forward(const PackedSequence& x, const LstmState& state = {});

 private:
  detail::Recurrent layers_;
};

// What a GRU or RNN returns for padded data.
struct GruResult {
  Tensor output;  // [T, N, directions hidden]: h of the last layer at every step
  Tensor h;       // [layers directions, N, hidden], after the last step
};
// What a GRU or RNN returns for packed data.
struct PackedGruResult {
  PackedSequence output;  // data [sum of lengths, directions hidden], packed as x
  Tensor h;               // after the last step of each sequence, in the order of the batch
};
// Gated recurrent unit (Cho et al. 2014, arXiv:1406.1078), with the gates r, z, n in this order:
//   r, z = sigmoid(W x + b + U h + v); n = tanh(W x + b + r (U h + v)); h = (1 - z) n + z h.
// Shapes, beginnings and errors as for LSTM; h is undefined for zeros.
class WT_API GRU : public Module<GRU> {
 public:
  // Features of x, and of the outputs; both at least 1.
  GRU(i64 input_size, i64 hidden_size, const RecurrentOptions& o = {}, const CallLine& = {});
  // [T, N, input_size] to [T, N, directions hidden], batch_first: N and T change places.
  GruResult forward(Tensor x, const Tensor& h = {});
  PackedGruResult forward(const PackedSequence& x, const Tensor& h = {});

 private:
  detail::Recurrent layers_;
};

// What an RNN's sum goes through: tanh or relu.
enum class RnnNonlinearity : u8 { tanh, relu };
// Options of RNN; names and defaults are PyTorch's.
struct RnnOptions {
  i64 num_layers = 1;                                    // one on top of the other, at least 1
  RnnNonlinearity nonlinearity = RnnNonlinearity::tanh;  // what the sum goes through
  bool bias = true;                                      // b and v of the formula
  bool batch_first = false;    // [N, T, features] instead of [T, N, features]; states do not change
  double dropout = 0;          // in training, of what every layer but the last gives
  bool bidirectional = false;  // each layer also from the end on; both outputs side by side
  DType dtype = DType::f32;    // of the parameters
};
// What an RNN returns for padded data: as GRU.
using RnnResult = GruResult;
// What an RNN returns for packed data: as GRU.
using PackedRnnResult = PackedGruResult;
// Elman's recurrent network (1990): h = tanh(W x + b + U h + v), or relu(...). Shapes, beginnings,
// packed sequences and errors as for LSTM; h is undefined for zeros.
class WT_API RNN : public Module<RNN> {
 public:
  // Features of x, and of the outputs; both at least 1.
  RNN(i64 input_size, i64 hidden_size, const RnnOptions& o = {}, const CallLine& = {});
  // [T, N, input_size] to [T, N, directions hidden], batch_first: N and T change places.
  RnnResult forward(Tensor x, const Tensor& h = {});
  PackedRnnResult forward(const PackedSequence& x, const Tensor& h = {});

 private:
  detail::Recurrent layers_;
  RnnNonlinearity nonlinearity_;
};

}  // namespace wt::nn
