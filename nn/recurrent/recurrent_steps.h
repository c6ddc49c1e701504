// One step of each kind of recurrence, for layers and cells. Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/nn/recurrent.h"

namespace wt::nn::detail {

// weight_ih, weight_hh, bias_ih and bias_hh, each with the suffix, from U(-b, b) with
// b = 1 / sqrt(hidden).
RecurrentWeights make_recurrent_weights(i64 rows, i64 features, i64 hidden, bool bias, DType t,
                                        const std::string& suffix, const AddParameter& add);

// W x + b, without a bias W x.
Tensor gates_of(const Tensor& x, const Param& w, const Param& b);

// x: the gates of the input, [N, gates hidden]. The state becomes that after the step.
void lstm_step(const RecurrentWeights& w, const Tensor& x, std::vector<Tensor>& state);
void gru_step(const RecurrentWeights& w, const Tensor& x, std::vector<Tensor>& state);
void rnn_step(RnnNonlinearity f, const RecurrentWeights& w, const Tensor& x,
              std::vector<Tensor>& state);

}  // namespace wt::nn::detail
