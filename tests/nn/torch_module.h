// A module beside PyTorch's numbers: tests/reference/nn, which
// tools/generators/make_nn_reference.py writes.
#pragma once
#include <algorithm>
#include <cmath>
#include <functional>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/loss.h"
#include "warptape/nn/module.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/tolerance.h"

namespace wt_test {

using Tensors = std::vector<wt::Tensor>;

inline std::string numbered(const std::string& name, size_t i) {
  return i == 0 ? name : name + std::to_string(i);
}

inline wt::Tensor tensor_of(const wt::reference::Array& a) {
  return wt::tensor(a.values)
      .to(a.dtype == "i64" ? wt::DType::i64 : wt::DType::f64)
      .reshape(wt::Shape(a.shape));
}

inline void check_close(const std::string& what, const wt::Tensor& got,
                        const wt::reference::Array& want, double terms) {
  INFO(what);
  CHECK(got.shape() == wt::Shape(want.shape));
  const Values v = values(got);
  REQUIRE(v.size() == want.values.size());
  double largest = 1;
  for (const double w : want.values)
    if (std::isfinite(w)) largest = std::max(largest, std::fabs(w));
  for (size_t i = 0; i < v.size(); ++i) {
    const double bound = 2 * gradient_bound(wt::DType::f64, terms, want.values[i], largest);
    if (within(v[i], want.values[i], bound)) continue;
    CAPTURE(i, v[i], want.values[i], bound);
    FAIL_CHECK("not PyTorch's number");
  }
}

// The arrays of the file in order: x, x1, ...
inline Tensors numbered_inputs(const wt::reference::Arrays& arrays) {
  Tensors xs;
  for (size_t i = 0;; ++i) {
    const auto at = arrays.find(numbered("x", i));
    if (at == arrays.end()) return xs;
    xs.push_back(tensor_of(at->second));
    if (xs.back().dtype() == wt::DType::f64) xs.back().set_requires_grad();
  }
}

// Loads the state by PyTorch's names, calls the module, and compares outputs, the gradients of
// inputs and parameters, and the buffers afterwards.
inline void check_torch(const std::string& name, const wt::nn::ModuleBase& m,
                        const std::function<Tensors(const Tensors&)>& call) {
  INFO(name);
  const wt::reference::Arrays arrays =
      wt::reference::load_reference(wt::reference::reference_path("nn/" + name));
  std::vector<wt::nn::NamedTensor> state;
  double terms = 8;  // no sum is longer than all that goes in
  for (const auto& [key, a] : arrays) {
    if (key.starts_with("state.")) state.push_back({key.substr(6), tensor_of(a)});
    if (key.starts_with("state.") || key[0] == 'x') terms += double(a.values.size());
  }
  REQUIRE_NOTHROW(m.load_state_dict(state));
  const Tensors xs = numbered_inputs(arrays), outs = call(xs);
  Tensors sent, differentiable;
  for (size_t i = 0; i < outs.size(); ++i) {
    REQUIRE(arrays.contains(numbered("out", i)));
    check_close(numbered("out", i), outs[i], arrays.at(numbered("out", i)), terms);
    if (!outs[i].requires_grad()) continue;
    differentiable.push_back(outs[i]);
    sent.push_back(tensor_of(arrays.at(numbered("grad_out", i))));
  }
  CHECK_FALSE(arrays.contains(numbered("out", outs.size())));
  Tensors wanted;
  std::vector<std::string> names;
  for (size_t i = 0; i < xs.size(); ++i)
    if (xs[i].requires_grad()) wanted.push_back(xs[i]), names.push_back(numbered("grad_x", i));
  for (const auto& p : m.named_parameters())
    wanted.push_back(p.tensor), names.push_back("grad." + p.name);
  const Tensors g = wt::grads(differentiable, wanted, {.grad_outputs = sent, .allow_unused = true});
  for (size_t i = 0; i < g.size(); ++i) {
    INFO(names[i]);
    REQUIRE(arrays.contains(names[i]));
    check_close(names[i], g[i].defined() ? g[i] : wt::zeros_like(wanted[i]), arrays.at(names[i]),
                terms);
  }
  for (const auto& b : m.named_buffers())
    if (arrays.contains("after." + b.name))
      check_close("after." + b.name, b.tensor, arrays.at("after." + b.name), terms);
}

inline wt::Tensor as_tensor(wt::Tensor t) { return t; }
inline wt::Tensor as_tensor(const wt::Loss& loss) { return loss.mean(); }

// A module of N arguments and one output.
template <int N = 1, class M>
void check_torch(const std::string& name, M m) {
  check_torch(name, m, [m](const Tensors& x) mutable -> Tensors {
    if constexpr (N == 3)
      return {as_tensor(m(x[0], x[1], x[2]))};
    else if constexpr (N == 2)
      return {as_tensor(m(x[0], x[1]))};
    else
      return {as_tensor(m(x[0]))};
  });
}
template <class M>
void check_torch_eval(const std::string& name, M m) {
  m.eval();
  check_torch(name, m);
}

}  // namespace wt_test
