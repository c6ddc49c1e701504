#include "warptape/nn/recurrent/recurrent_steps.h"

#include <cmath>

#include "warptape/autograd/custom.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/nn/init.h"
#include "warptape/nn/make_parameter.h"

namespace wt::nn {
namespace {

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

}  // namespace

namespace detail {

RecurrentWeights make_recurrent_weights(i64 rows, i64 features, i64 hidden, bool bias, DType t,
                                        const std::string& suffix, const AddParameter& add) {
  const double bound = 1 / std::sqrt(double(hidden));
  const auto make = [&](const char* name, const Shape& shape, bool wanted) {
    const Tensor p = make_parameter(shape, t, wanted);
    if (wanted) init::uniform_(p, -bound, bound);
    return add(name + suffix, p);
  };
  Param weight_ih = make("weight_ih", {rows, features}, true);
  Param weight_hh = make("weight_hh", {rows, hidden}, true);
  Param bias_ih = make("bias_ih", {rows}, bias);
  return {weight_ih, weight_hh, bias_ih, make("bias_hh", {rows}, bias)};
}

Tensor gates_of(const Tensor& x, const Param& w, const Param& b) {
  return b.defined() ? linear(x, w, b) : linear(x, w);
}

void lstm_step(const RecurrentWeights& w, const Tensor& x, std::vector<Tensor>& state) {
  state = apply(LstmCell{}, x + gates_of(state[0], w.weight_hh, w.bias_hh), state[1]);
}

void gru_step(const RecurrentWeights& w, const Tensor& x, std::vector<Tensor>& state) {
  state[0] = apply(GruCell{}, x, gates_of(state[0], w.weight_hh, w.bias_hh), state[0]);
}

void rnn_step(RnnNonlinearity f, const RecurrentWeights& w, const Tensor& x,
              std::vector<Tensor>& state) {
  Tensor h = x + gates_of(state[0], w.weight_hh, w.bias_hh);
  state[0] = f == RnnNonlinearity::tanh ? tanh(std::move(h)) : relu(std::move(h));
}

}  // namespace detail
}  // namespace wt::nn
