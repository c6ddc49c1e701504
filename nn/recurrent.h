// Recurrent layers: names, order of gates and state are PyTorch's.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "warptape/nn/module.h"
#include "warptape/nn/packed_sequence.h"

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

struct LstmState {
  Tensor h{}, c{};  // [layers directions, N, hidden]; undefined: zeros
};
struct LstmResult {
  Tensor output;  // [T, N, directions hidden]: h of the last layer at every step
  Tensor h, c;    // after the last step
};
struct PackedLstmResult {
  PackedSequence output;
  Tensor h, c;  // after the last step of each sequence, in the order of the batch
};
// Long short-term memory (Hochreiter and Schmidhuber 1997). At each step, with the gates i, f, g, o
// in this order in the rows of W and b:
//   i, f, o = sigmoid(W x + b + U h + v), g = tanh(...); c = f c + i g; h = o tanh(c).
// x is [T, N, input_size], or [T, input_size] (states then without N). All parameters are drawn
// from U(-b, b), b = 1 / sqrt(hidden_size). Throws ShapeError for other shapes and sizes below 1.
//
// Of a PackedSequence every sequence ends, and in the other direction begins, with its own last
// step; states are in the order of the batch, whatever that of the packed data. Throws UsageError
// for one whose sizes do not fit its data.
class WT_API LSTM : public Module<LSTM> {
 public:
  LSTM(i64 input_size, i64 hidden_size, const RecurrentOptions& o = {}, const CallLine& = {});
  LstmResult forward(Tensor x, const LstmState& state = {});
  PackedLstmResult forward(const PackedSequence& x, const LstmState& state = {});

 private:
  detail::Recurrent layers_;
};

struct GruResult {
  Tensor output;  // [T, N, directions hidden]
  Tensor h;       // [layers directions, N, hidden]
};
struct PackedGruResult {
  PackedSequence output;
  Tensor h;
};
// Gated recurrent unit (Cho et al. 2014, arXiv:1406.1078), with the gates r, z, n in this order:
//   r, z = sigmoid(W x + b + U h + v); n = tanh(W x + b + r (U h + v)); h = (1 - z) n + z h.
// Shapes, beginnings and errors as for LSTM; h is undefined for zeros.
class WT_API GRU : public Module<GRU> {
 public:
  GRU(i64 input_size, i64 hidden_size, const RecurrentOptions& o = {}, const CallLine& = {});
  GruResult forward(Tensor x, const Tensor& h = {});
  PackedGruResult forward(const PackedSequence& x, const Tensor& h = {});

 private:
  detail::Recurrent layers_;
};

enum class RnnNonlinearity : u8 { tanh, relu };
struct RnnOptions {
  i64 num_layers = 1;
  RnnNonlinearity nonlinearity = RnnNonlinearity::tanh;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
  DType dtype = DType::f32;
};
using RnnResult = GruResult;
using PackedRnnResult = PackedGruResult;
// Elman's recurrent network (1990): h = tanh(W x + b + U h + v), or relu(...). Shapes, beginnings,
// packed sequences and errors as for LSTM; h is undefined for zeros.
class WT_API RNN : public Module<RNN> {
 public:
  RNN(i64 input_size, i64 hidden_size, const RnnOptions& o = {}, const CallLine& = {});
  RnnResult forward(Tensor x, const Tensor& h = {});
  PackedRnnResult forward(const PackedSequence& x, const Tensor& h = {});

 private:
  detail::Recurrent layers_;
  RnnNonlinearity nonlinearity_;
};

}  // namespace wt::nn
