// What tape.cpp and the hidden cases share. The operators are given: they record what they did, by
// the functions that you write.
#pragma once
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "warptape/autograd/ops.h"
#include "warptape/core/mode.h"
#include "warptape/core/tensor.h"

namespace lab {

struct Node;
using Var = std::shared_ptr<Node>;
using Hook = std::function<wt::Tensor(const wt::Tensor& gradient)>;

// A value on the tape, and how it came to be.
struct Node {
  wt::Tensor value;
  wt::Tensor grad;          // of a leaf, after backward(); undefined before
  std::vector<Var> inputs;  // none: a leaf
  std::string op = "leaf";
  // From the complete gradient of this value to those of its inputs, in their order.
  std::function<std::vector<wt::Tensor>(const wt::Tensor& gradient)> pull;
  std::vector<Hook> hooks;

  // A long chain would be destroyed by a recursion as deep as it is long.
  ~Node() {
    std::vector<Var> left = std::move(inputs);
    while (!left.empty()) {
      const Var v = std::move(left.back());
      left.pop_back();
      if (v.use_count() > 1) continue;
      for (Var& i : v->inputs) left.push_back(std::move(i));
      v->inputs.clear();
      v->pull = nullptr;
    }
  }
};

// A tensor that backward will read, as it was when it was saved.
struct Saved {
  wt::Tensor tensor;
  wt::u32 version = 0;
  std::string op;
};
// What open() throws.
struct StaleValue : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// --- yours: tape.cpp ---

// Remembers `t` for the backward of an operator of this name.
Saved save(const wt::Tensor& t, const std::string& op);
// The tensor; StaleValue, with the operator's name in its text, if it was written into since.
const wt::Tensor& open(const Saved& s);
// Calls `hook` with the gradient of v in every backward; what it gives takes the gradient's place.
void on_gradient(const Var& v, Hook hook);
// Adds d(root)/d(leaf) to the grad of every leaf that root was computed from. `root` has one
// element.
void backward(const Var& root);

// --- given ---

inline Var leaf(wt::Tensor value) {
  auto v = std::make_shared<Node>();
  v->value = std::move(value);
  return v;
}

namespace detail {
inline Var recorded(std::string op, std::vector<Var> inputs, wt::Tensor value) {
  auto v = leaf(std::move(value));
  v->op = std::move(op), v->inputs = std::move(inputs);
  return v;
}
}  // namespace detail

inline Var add(const Var& a, const Var& b) {
  const wt::NoGrad no_grad;
  Var v = detail::recorded("add", {a, b}, a->value + b->value);
  v->pull = [](const wt::Tensor& g) { return std::vector<wt::Tensor>{g, g}; };
  return v;
}
inline Var mul(const Var& a, const Var& b) {
  const wt::NoGrad no_grad;
  Var v = detail::recorded("mul", {a, b}, a->value * b->value);
  const Saved left = save(a->value, "mul"), right = save(b->value, "mul");
  v->pull = [left, right](const wt::Tensor& g) {
    return std::vector<wt::Tensor>{g * open(right), g * open(left)};
  };
  return v;
}
inline Var tanh(const Var& a) {
  const wt::NoGrad no_grad;
  Var v = detail::recorded("tanh", {a}, wt::tanh(a->value));
  const Saved result = save(v->value, "tanh");
  v->pull = [result](const wt::Tensor& g) {
    const wt::Tensor& y = open(result);
    return std::vector<wt::Tensor>{g * (1.0 - y * y)};
  };
  return v;
}
inline Var scale(const Var& a, double by) {
  const wt::NoGrad no_grad;
  Var v = detail::recorded("scale", {a}, a->value * by);
  v->pull = [by](const wt::Tensor& g) { return std::vector<wt::Tensor>{g * by}; };
  return v;
}
inline Var sum(const Var& a) {
  const wt::NoGrad no_grad;
  Var v = detail::recorded("sum", {a}, wt::sum(a->value));
  const wt::Shape shape = a->value.shape();
  v->pull = [shape](const wt::Tensor& g) {
    return std::vector<wt::Tensor>{wt::contiguous(wt::expand(g, shape))};
  };
  return v;
}

}  // namespace lab
