// hint: order
// The chain rule, written down as it is spoken: a recursion. It is right, sums included; but a node
// with two users is walked twice, one below twelve such nodes 4096 times, and a long chain ends the
// stack.
#include "tape.h"

namespace lab {

Saved save(const wt::Tensor& t, const std::string& op) {
  return {.tensor = t, .version = t.version(), .op = op};
}

const wt::Tensor& open(const Saved& s) {
  if (s.tensor.version() != s.version)
    throw StaleValue("what " + s.op + " saved for backward was written into since");
  return s.tensor;
}

void on_gradient(const Var& v, Hook hook) { v->hooks.push_back(std::move(hook)); }

static void add_to(wt::Tensor& sum, const wt::Tensor& part) {
  sum = sum.defined() ? sum + part : part;
}

// From a value to its inputs, along every path.
static void push(Node* n, wt::Tensor g) {
  for (const Hook& hook : n->hooks) g = hook(g);
  if (n->inputs.empty()) return add_to(n->grad, g);
  const std::vector<wt::Tensor> parts = n->pull(g);
  for (size_t i = 0; i < parts.size(); ++i) push(n->inputs[i].get(), parts[i]);
}

void backward(const Var& root) {
  const wt::NoGrad no_grad;
  push(root.get(), wt::ones_like(root->value));
}

}  // namespace lab
