#include "warptape/nn/recurrent.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "warptape/autograd/custom.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/nn/make_parameter.h"
#include "warptape/nn/recurrent/recurrent_steps.h"

namespace wt::nn {
namespace {

// Pieces of so many rows; `drop`: single rows, without their axis. The gradient is put together
// once, where that of slices would add up one whole tensor a slice.
struct SplitRows {
  std::vector<i64> sizes;
  bool drop = false;
  static constexpr OpInfo info{.name = "split_rows", .derivative = Derivative::linear};
  std::vector<Tensor> forward(Save&, const Tensor& x) const {
    std::vector<Tensor> pieces;
    i64 begin = 0;
    for (const i64 n : sizes) {
      pieces.push_back(clone(drop ? select(x, 0, begin) : slice(x, 0, {begin, begin + n})));
      begin += n;
    }
    return pieces;
  }
  Grads backward(const Saved&, const std::vector<Tensor>& gy) const {
    return {drop ? stack(gy, 0) : cat(gy, 0)};
  }
};
constexpr size_t kMostOutputs = 128;  // of a node: 255

std::vector<Tensor> split_rows(const Tensor& x, std::span<const i64> sizes, bool drop) {
  const size_t n = sizes.size();
  if (n <= kMostOutputs) return apply(SplitRows{{sizes.begin(), sizes.end()}, drop}, x);
  const size_t piece = std::max(kMostOutputs, (n + kMostOutputs - 1) / kMostOutputs);
  std::vector<i64> sums;
  for (size_t i = 0; i < n; i += piece) {
    const std::span<const i64> part = sizes.subspan(i, std::min(piece, n - i));
    sums.push_back(std::accumulate(part.begin(), part.end(), i64(0)));
  }
  std::vector<Tensor> all;
  size_t begin = 0;
  for (const Tensor& part : apply(SplitRows{sums}, x)) {
    const size_t count = std::min(piece, n - begin);
    for (Tensor& row : split_rows(part, sizes.subspan(begin, count), drop))
      all.push_back(std::move(row));
    begin += count;
  }
  return all;
}

// The states of the sequences that a step has. They are sorted by length: those that have ended are
// the last ones and keep theirs, those that begin (in the other direction) bring theirs.
class Active {
 public:
  explicit Active(std::vector<Tensor>& state) : now_(state), first_(state), ended_(state.size()) {}
  void fit(i64 n) {
    const i64 held = now_[0].size(0);
    for (size_t k = 0; k < now_.size() && n != held; ++k) {
      if (n > held) {
        now_[k] = cat({now_[k], slice(first_[k], 0, {held, n})}, 0);
        continue;
      }
      ended_[k].push_back(slice(now_[k], 0, {n, held}));
      now_[k] = slice(now_[k], 0, {0, n});
    }
  }
  // Of all sequences again.
  void finish() {
    if (now_[0].size(0) == first_[0].size(0)) return;
    for (size_t k = 0; k < now_.size(); ++k) {
      std::vector<Tensor> all{now_[k]};
      all.insert(all.end(), ended_[k].rbegin(), ended_[k].rend());
      now_[k] = cat(all, 0);
    }
  }

 private:
  std::vector<Tensor>& now_;
  const std::vector<Tensor> first_;
  std::vector<std::vector<Tensor>> ended_;
};

}  // namespace

namespace detail {

Recurrent::Recurrent(const char* type, int gates, i64 input_size, i64 hidden_size,
                     const RecurrentOptions& o, const AddParameter& add)
    : type_(type),
      input_(at_least_1(type, "input_size", input_size)),
      hidden_(at_least_1(type, "hidden_size", hidden_size)),
      options_(o) {
  at_least_1(type, "num_layers", o.num_layers);
  probability(type, o.dropout);
  const int sides = o.bidirectional ? 2 : 1;
  for (i64 layer = 0; layer < o.num_layers; ++layer)
    for (int side = 0; side < sides; ++side)
      directions_.push_back(
          make_recurrent_weights(gates * hidden_, layer ? sides * hidden_ : input_, hidden_, o.bias,
                                 o.dtype, str("_l", layer, side ? "_reverse" : ""), add));
}

void Recurrent::check_features(const Tensor& x) const {
  if (x.size(-1) != input_)
    throw ShapeError(str("[", type_, "] x ", x.shape(), " has ", x.size(-1), " features, needs ",
                         input_, at_line()));
}

// States as [layers directions, n, hidden]; `alone`: given without n.
void Recurrent::check_state(std::vector<Tensor>& state, const Tensor& x, i64 n, bool alone) const {
  const Shape wanted{i64(directions_.size()), n, hidden_};
  for (Tensor& s : state) {
    if (!s.defined()) {
      s = zeros(wanted, {.dtype = x.dtype(), .device = x.device()});
      continue;
    }
    const Shape given = s.shape();
    if (alone && s.ndim() == 2) s = unsqueeze(s, 1);
    if (s.shape() != wanted || (alone && given.ndim() != 2))
      throw ShapeError(str("[", type_, "] the state must be ",
                           alone ? Shape{wanted[0], hidden_} : wanted, ", got ", given, at_line()));
  }
}

// x as [T, N, features]; states as [layers directions, N, hidden].
Tensor Recurrent::checked(const Tensor& x, std::vector<Tensor>& state) const {
  if (x.ndim() != 2 && x.ndim() != 3)
    throw ShapeError(str("[", type_, "] x must have 2 or 3 axes, got ", x.shape(), at_line()));
  check_features(x);
  const bool alone = x.ndim() == 2;
  Tensor t = alone ? unsqueeze(x, 1) : options_.batch_first ? transpose(x, 0, 1) : x;
  if (t.size(0) < 1) throw ShapeError(str("[", type_, "] x has no step: ", x.shape(), at_line()));
  check_state(state, t, t.size(1), alone);
  return t;
}

Tensor Recurrent::run_direction(const RecurrentWeights& w, bool backwards, const Tensor& x,
                                const std::vector<i64>* sizes, std::vector<Tensor>& state,
                                const Step& step) const {
  const Tensor gates = gates_of(x, w.weight_ih, w.bias_ih);
  std::vector<Tensor> rows = sizes
                                 ? split_rows(gates, *sizes, false)
                                 : split_rows(gates, std::vector<i64>(size_t(x.size(0)), 1), true);
  if (backwards) std::reverse(rows.begin(), rows.end());
  Active active(state);
  for (Tensor& row : rows) {
    active.fit(row.size(0));
    step(w, row, state);
    row = state[0];
  }
  active.finish();
  if (backwards) std::reverse(rows.begin(), rows.end());
  return sizes ? cat(rows, 0) : stack(rows, 0);
}

Tensor Recurrent::run_layers(Tensor y, const std::vector<i64>* sizes, std::vector<Tensor>& state,
                             bool training, const Step& step) const {
  const size_t sides = options_.bidirectional ? 2 : 1;
  std::vector<std::vector<Tensor>> last(state.size());  // by kind, then by direction
  for (size_t k = 0; k < directions_.size(); k += sides) {
    if (k > 0 && options_.dropout > 0) y = dropout(std::move(y), options_.dropout, training);
    std::vector<Tensor> outputs;
    for (size_t side = 0; side < sides; ++side) {
      std::vector<Tensor> now;
      for (const Tensor& s : state) now.push_back(select(s, 0, i64(k + side)));
      outputs.push_back(run_direction(directions_[k + side], side == 1, y, sizes, now, step));
      for (size_t kind = 0; kind < now.size(); ++kind) last[kind].push_back(std::move(now[kind]));
    }
    y = sides == 1 ? std::move(outputs[0]) : cat(outputs, -1);
  }
  for (size_t kind = 0; kind < state.size(); ++kind) state[kind] = stack(last[kind], 0);
  return y;
}

Tensor Recurrent::run(Tensor x, std::vector<Tensor>& state, bool training, const Step& step) const {
  const bool alone = x.ndim() == 2;
  Tensor y = checked(x, state);
  y = run_layers(std::move(y), nullptr, state, training, step);
  if (alone) {
    for (Tensor& s : state) s = squeeze(std::move(s), 1);
    return squeeze(std::move(y), 1);
  }
  return options_.batch_first ? transpose(std::move(y), 0, 1) : y;
}

PackedSequence Recurrent::run(const PackedSequence& x, std::vector<Tensor>& state, bool training,
                              const Step& step) const {
  check_packed(type_, x);
  if (x.data.ndim() != 2)
    throw ShapeError(
        str("[", type_, "] packed data must have 2 axes, got ", x.data.shape(), at_line()));
  check_features(x.data);
  std::vector<bool> given;
  for (const Tensor& s : state) given.push_back(s.defined());
  check_state(state, x.data, x.batch_sizes[0], false);
  if (x.sorted_indices.defined())
    for (size_t k = 0; k < state.size(); ++k)
      if (given[k]) state[k] = index_select(state[k], 1, x.sorted_indices);
  PackedSequence y = x;
  y.data = run_layers(x.data, &x.batch_sizes, state, training, step);
  if (x.unsorted_indices.defined())
    for (Tensor& s : state) s = index_select(s, 1, x.unsorted_indices);
  return y;
}

}  // namespace detail

LSTM::LSTM(i64 input_size, i64 hidden_size, const RecurrentOptions& o, const CallLine&)
    : layers_("LSTM", 4, input_size, hidden_size, o,
              [this](const std::string& name, const Tensor& t) { return add(name.c_str(), t); }) {}

LstmResult LSTM::forward(Tensor x, const LstmState& s) {
  std::vector<Tensor> state{s.h, s.c};
  Tensor y = layers_.run(std::move(x), state, is_training(), detail::lstm_step);
  return {std::move(y), std::move(state[0]), std::move(state[1])};
}
PackedLstmResult LSTM::forward(const PackedSequence& x, const LstmState& s) {
  std::vector<Tensor> state{s.h, s.c};
  PackedSequence y = layers_.run(x, state, is_training(), detail::lstm_step);
  return {std::move(y), std::move(state[0]), std::move(state[1])};
}

GRU::GRU(i64 input_size, i64 hidden_size, const RecurrentOptions& o, const CallLine&)
    : layers_("GRU", 3, input_size, hidden_size, o,
              [this](const std::string& name, const Tensor& t) { return add(name.c_str(), t); }) {}

GruResult GRU::forward(Tensor x, const Tensor& h) {
  std::vector<Tensor> state{h};
  Tensor y = layers_.run(std::move(x), state, is_training(), detail::gru_step);
  return {std::move(y), std::move(state[0])};
}
PackedGruResult GRU::forward(const PackedSequence& x, const Tensor& h) {
  std::vector<Tensor> state{h};
  PackedSequence y = layers_.run(x, state, is_training(), detail::gru_step);
  return {std::move(y), std::move(state[0])};
}

static RecurrentOptions layers_of(const RnnOptions& o) {
  return {.num_layers = o.num_layers,
          .bias = o.bias,
          .batch_first = o.batch_first,
          .dropout = o.dropout,
          .bidirectional = o.bidirectional,
          .dtype = o.dtype};
}
RNN::RNN(i64 input_size, i64 hidden_size, const RnnOptions& o, const CallLine&)
    : layers_("RNN", 1, input_size, hidden_size, layers_of(o),
              [this](const std::string& name, const Tensor& t) { return add(name.c_str(), t); }),
      nonlinearity_(o.nonlinearity) {}

static auto step_of(RnnNonlinearity f) {
  return [f](const detail::RecurrentWeights& w, const Tensor& x, std::vector<Tensor>& state) {
    detail::rnn_step(f, w, x, state);
  };
}
RnnResult RNN::forward(Tensor x, const Tensor& h) {
  std::vector<Tensor> state{h};
  Tensor y = layers_.run(std::move(x), state, is_training(), step_of(nonlinearity_));
  return {std::move(y), std::move(state[0])};
}
PackedRnnResult RNN::forward(const PackedSequence& x, const Tensor& h) {
  std::vector<Tensor> state{h};
  PackedSequence y = layers_.run(x, state, is_training(), step_of(nonlinearity_));
  return {std::move(y), std::move(state[0])};
}

}  // namespace wt::nn
