// Lab 10, a solution: an order in which each node comes before its inputs, then one walk along it.
#include <unordered_map>

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

// How many inputs of others, below root, each node is: it may go when it has heard from all.
static std::unordered_map<Node*, int> users_below(Node* root) {
  std::unordered_map<Node*, int> users{{root, 0}};
  std::vector<Node*> open_ends{root};
  while (!open_ends.empty()) {
    Node* const n = open_ends.back();
    open_ends.pop_back();
    for (const Var& i : n->inputs)
      if (users[i.get()]++ == 0) open_ends.push_back(i.get());
  }
  return users;
}

static void add_to(wt::Tensor& sum, const wt::Tensor& part) {
  sum = sum.defined() ? sum + part : part;
}

void backward(const Var& root) {
  const wt::NoGrad no_grad;
  std::unordered_map<Node*, int> users = users_below(root.get());
  std::unordered_map<Node*, wt::Tensor> gradients{{root.get(), wt::ones_like(root->value)}};
  std::vector<Node*> ready{root.get()};
  while (!ready.empty()) {
    Node* const n = ready.back();
    ready.pop_back();
    wt::Tensor g = std::move(gradients[n]);
    gradients.erase(n);
    for (const Hook& hook : n->hooks) g = hook(g);
    if (n->inputs.empty()) {
      add_to(n->grad, g);
      continue;
    }
    std::vector<wt::Tensor> parts = n->pull(g);
    g = {};
    for (size_t i = 0; i < parts.size(); ++i) {
      Node* const input = n->inputs[i].get();
      add_to(gradients[input], parts[i]);
      parts[i] = {};
      if (--users[input] == 0) ready.push_back(input);
    }
  }
}

}  // namespace lab
