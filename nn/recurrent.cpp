#include "warptape/nn/recurrent.h"

#include <algorithm>
#include <cmath>

#include "warptape/autograd/custom.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/nn/init.h"
#include "warptape/nn/make_parameter.h"

namespace wt::nn {
namespace {

// Pieces of `rows` rows each (the last may have fewer); rows 0: single rows without their axis. Its
// gradient is put together once, where that of slices would add up one whole tensor a slice.
struct SplitRows {
  i64 rows = 0;
  static constexpr OpInfo info{.name = "split_rows", .derivative = Derivative::linear};
  std::vector<Tensor> forward(Save&, const Tensor& x) const {
    std::vector<Tensor> pieces;
    for (i64 i = 0; i < x.size(0); i += std::max<i64>(rows, 1))
      pieces.push_back(clone(rows ? slice(x, 0, {i, i + rows}) : select(x, 0, i)));
    return pieces;
  }
  Grads backward(const Saved&, const std::vector<Tensor>& gy) const {
    return {rows ? cat(gy, 0) : stack(gy, 0)};
  }
};
constexpr i64 kMostOutputs = 128;  // of a node: 255

std::vector<Tensor> rows_of(const Tensor& x) {
  if (x.size(0) <= kMostOutputs) return apply(SplitRows{}, x);
  std::vector<Tensor> all;
  const i64 piece = std::max(kMostOutputs, (x.size(0) + kMostOutputs - 1) / kMostOutputs);
  for (const Tensor& part : apply(SplitRows{piece}, x))
    for (Tensor& row : rows_of(part)) all.push_back(std::move(row));
  return all;
}

// Column block i of n.
Tensor block(const Tensor& t, i64 i, i64 n) { return slice(t, 1, {i * n, (i + 1) * n}); }

// (gates [N, 4 H], c [N, H]) to (h, c). The backward computes the gates again: one node a step, and
// nothing saved but its operands.
struct LstmCell {
  static constexpr OpInfo info{.name = "lstm_cell", .autocast = Autocast::promote};
  std::vector<Tensor> forward(Save& save, const Tensor& gates, const Tensor& c) const {
    save(gates);
    save(c);
    const i64 n = c.size(1);
    const Tensor s = sigmoid(gates), g = tanh(block(gates, 2, n));
    const Tensor next = block(s, 1, n) * c + block(s, 0, n) * g;
    return {block(s, 3, n) * tanh(next), next};
  }
  Grads backward(const Saved& saved, const std::vector<Tensor>& gy) const {
    const Tensor &gates = saved[0], &c = saved[1];
    const i64 n = c.size(1);
    const Tensor s = sigmoid(gates), g = tanh(block(gates, 2, n));
    const Tensor i = block(s, 0, n), f = block(s, 1, n), o = block(s, 3, n);
    const Tensor t = tanh(f * c + i * g);
    const Tensor gc = gy[1] + gy[0] * o * (1 - t * t);
    return {cat({gc * g * i * (1 - i), gc * c * f * (1 - f), gc * i * (1 - g * g),
                 gy[0] * t * o * (1 - o)},
                1),
            gc * f};
  }
};

// (gates of x [N, 3 H], gates of h [N, 3 H], h [N, H]) to h.
struct GruCell {
  static constexpr OpInfo info{.name = "gru_cell", .autocast = Autocast::promote};
  struct Gates {
    Tensor r, z, n;
  };
  static Gates gates_of(const Tensor& x, const Tensor& u, i64 size) {
    const Tensor r = sigmoid(block(x, 0, size) + block(u, 0, size));
    const Tensor z = sigmoid(block(x, 1, size) + block(u, 1, size));
    return {r, z, tanh(block(x, 2, size) + r * block(u, 2, size))};
  }
  Tensor forward(Save& save, const Tensor& x, const Tensor& u, const Tensor& h) const {
    save(x);
    save(u);
    save(h);
    const Gates g = gates_of(x, u, h.size(1));
    return g.n + g.z * (h - g.n);
  }
  Grads backward(const Saved& saved, const Tensor& gy) const {
    const Tensor &x = saved[0], &u = saved[1], &h = saved[2];
    const i64 size = h.size(1);
    const auto [r, z, n] = gates_of(x, u, size);
    const Tensor gn = gy * (1 - z) * (1 - n * n);
    const Tensor gr = gn * block(u, 2, size) * r * (1 - r);
    const Tensor gz = gy * (h - n) * z * (1 - z);
    return {cat({gr, gz, gn}, 1), cat({gr, gz, gn * r}, 1), gy * z};
  }
};

Tensor product(const Tensor& x, const Param& w, const Param& b) {
  return b.defined() ? linear(x, w, b) : linear(x, w);
}

}  // namespace

namespace detail {

Recurrent::Recurrent(const char* type, int gates, i64 input_size, i64 hidden_size,
                     const RecurrentOptions& o, const Add& add)
    : type_(type),
      input_(at_least_1(type, "input_size", input_size)),
      hidden_(at_least_1(type, "hidden_size", hidden_size)),
      options_(o) {
  at_least_1(type, "num_layers", o.num_layers);
  probability(type, o.dropout);
  const double bound = 1 / std::sqrt(double(hidden_));
  const int sides = o.bidirectional ? 2 : 1;
  for (i64 layer = 0; layer < o.num_layers; ++layer)
    for (int side = 0; side < sides; ++side) {
      const std::string suffix = str("_l", layer, side ? "_reverse" : "");
      const i64 rows = gates * hidden_, features = layer ? sides * hidden_ : input_;
      const auto make = [&](const char* name, const Shape& shape, bool wanted) {
        const Tensor t = make_parameter(shape, o.dtype, wanted);
        if (wanted) init::uniform_(t, -bound, bound);
        return add(name + suffix, t);
      };
      Param weight_ih = make("weight_ih", {rows, features}, true);
      Param weight_hh = make("weight_hh", {rows, hidden_}, true);
      Param bias_ih = make("bias_ih", {rows}, o.bias);
      directions_.push_back({weight_ih, weight_hh, bias_ih, make("bias_hh", {rows}, o.bias)});
    }
}

// x as [T, N, features]; states as [layers directions, N, hidden].
Tensor Recurrent::checked(const Tensor& x, std::vector<Tensor>& state) const {
  if (x.ndim() != 2 && x.ndim() != 3)
    throw ShapeError(str("[", type_, "] x must have 2 or 3 axes, got ", x.shape(), at_line()));
  if (x.size(-1) != input_)
    throw ShapeError(str("[", type_, "] x ", x.shape(), " has ", x.size(-1), " features, needs ",
                         input_, at_line()));
  const bool alone = x.ndim() == 2;
  Tensor t = alone ? unsqueeze(x, 1) : options_.batch_first ? transpose(x, 0, 1) : x;
  if (t.size(0) < 1) throw ShapeError(str("[", type_, "] x has no step: ", x.shape(), at_line()));
  const Shape wanted{i64(directions_.size()), t.size(1), hidden_};
  for (Tensor& s : state) {
    if (!s.defined()) {
      s = zeros(wanted, {.dtype = t.dtype(), .device = t.device()});
      continue;
    }
    const Shape given = s.shape();
    if (alone && s.ndim() == 2) s = unsqueeze(s, 1);
    if (s.shape() != wanted || (alone && given.ndim() != 2))
      throw ShapeError(str("[", type_, "] the state must be ",
                           alone ? Shape{wanted[0], hidden_} : wanted, ", got ", given, at_line()));
  }
  return t;
}

Tensor Recurrent::run_direction(const Direction& d, bool backwards, const Tensor& x,
                                std::vector<Tensor>& state, const Step& step) const {
  std::vector<Tensor> rows = rows_of(product(x, d.weight_ih, d.bias_ih));
  if (backwards) std::reverse(rows.begin(), rows.end());
  for (Tensor& row : rows) {
    step(d, row, state);
    row = state[0];
  }
  if (backwards) std::reverse(rows.begin(), rows.end());
  return stack(rows, 0);
}

Tensor Recurrent::run(Tensor x, std::vector<Tensor>& state, bool training, const Step& step) const {
  const bool alone = x.ndim() == 2;
  Tensor y = checked(x, state);
  const size_t sides = options_.bidirectional ? 2 : 1;
  std::vector<std::vector<Tensor>> last(state.size());  // by kind, then by direction
  for (size_t k = 0; k < directions_.size(); k += sides) {
    if (k > 0 && options_.dropout > 0) y = dropout(std::move(y), options_.dropout, training);
    std::vector<Tensor> outputs;
    for (size_t side = 0; side < sides; ++side) {
      std::vector<Tensor> now;
      for (const Tensor& s : state) now.push_back(select(s, 0, i64(k + side)));
      outputs.push_back(run_direction(directions_[k + side], side == 1, y, now, step));
      for (size_t kind = 0; kind < now.size(); ++kind) last[kind].push_back(std::move(now[kind]));
    }
    y = sides == 1 ? std::move(outputs[0]) : cat(outputs, 2);
  }
  for (size_t kind = 0; kind < state.size(); ++kind) {
    state[kind] = stack(last[kind], 0);
    if (alone) state[kind] = squeeze(std::move(state[kind]), 1);
  }
  if (alone) return squeeze(std::move(y), 1);
  return options_.batch_first ? transpose(std::move(y), 0, 1) : y;
}

}  // namespace detail

LSTM::LSTM(i64 input_size, i64 hidden_size, const RecurrentOptions& o, const CallLine&)
    : layers_("LSTM", 4, input_size, hidden_size, o,
              [this](const std::string& name, const Tensor& t) { return add(name.c_str(), t); }) {}

LstmResult LSTM::forward(Tensor x, const LstmState& s) {
  std::vector<Tensor> state{s.h, s.c};
  Tensor y = layers_.run(
      std::move(x), state, is_training(),
      [](const detail::Recurrent::Direction& d, const Tensor& gates, std::vector<Tensor>& now) {
        now = apply(LstmCell{}, gates + product(now[0], d.weight_hh, d.bias_hh), now[1]);
      });
  return {std::move(y), std::move(state[0]), std::move(state[1])};
}

GRU::GRU(i64 input_size, i64 hidden_size, const RecurrentOptions& o, const CallLine&)
    : layers_("GRU", 3, input_size, hidden_size, o,
              [this](const std::string& name, const Tensor& t) { return add(name.c_str(), t); }) {}

GruResult GRU::forward(Tensor x, const Tensor& h) {
  std::vector<Tensor> state{h};
  Tensor y = layers_.run(
      std::move(x), state, is_training(),
      [](const detail::Recurrent::Direction& d, const Tensor& gates, std::vector<Tensor>& now) {
        now[0] = apply(GruCell{}, gates, product(now[0], d.weight_hh, d.bias_hh), now[0]);
      });
  return {std::move(y), std::move(state[0])};
}

}  // namespace wt::nn
