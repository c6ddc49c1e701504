// functional_call(): a module with other tensors in the places of its parameters.
#include "warptape/nn/functional_call.h"

#include "warptape/autograd/functional.h"
#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/nn/containers.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

struct FunctionalNet : nn::Module<FunctionalNet> {
  nn::Linear a = add("a", nn::Linear{2, 3, {.dtype = f64}});
  nn::Linear b = add("b", nn::Linear{3, 1, {.dtype = f64}});
  Tensor forward(Tensor x) { return b(tanh(a(std::move(x)))); }
};

}  // namespace

TEST_CASE("functional_call: computes with the given tensors and leaves the module as it was") {
  const LeakGuard guard;
  FunctionalNet net;
  const Tensor x = rand({4, 2}, {.dtype = f64});
  const Values own = values(net(x));
  std::vector<Tensor> doubled;
  for (const Tensor& p : net.parameters()) doubled.push_back((p * 2).detach());
  FunctionalNet other = net.clone();
  for (size_t i = 0; i < doubled.size(); ++i) {
    const NoGrad no_grad;
    other.parameters()[i].copy_(doubled[i]);
  }
  CHECK(values(functional_call(net, doubled, x)) == values(other(x)));
  CHECK(values(net(x)) == own);
  std::vector<nn::NamedTensor> named = net.named_parameters();
  std::swap(named.front(), named.back());  // the order does not matter
  CHECK(values(functional_call(net, named, x)) == own);
}

TEST_CASE("functional_call: gradients flow to the given tensors, to any order") {
  const LeakGuard guard;
  const FunctionalNet net;
  const Tensor x = rand({4, 2}, {.dtype = f64});
  std::vector<Tensor> inputs;
  for (const Tensor& p : net.parameters()) inputs.push_back(p.detach().clone().set_requires_grad());
  const auto f = [&](std::span<const Tensor> in) { return functional_call(net, in, x); };
  CHECK(grad_check(f, inputs));
  CHECK(grad_grad_check(f, inputs));
  for (const Tensor& p : net.parameters()) CHECK_FALSE(p.grad().defined());
}

// One inner step of MAML: the outer gradient goes through the inner one.
TEST_CASE("functional_call: an inner step of gradient descent is differentiated through") {
  const LeakGuard guard;
  const FunctionalNet net;
  const Tensor x = rand({4, 2}, {.dtype = f64}), y = rand({4, 1}, {.dtype = f64});
  const auto adapted_loss = [&](std::span<const Tensor> p) {
    const EnableGrad recording;  // the differences are evaluated without
    std::vector<Tensor> own;
    for (const Tensor& t : p) own.push_back(t.requires_grad() ? t : t.detach().set_requires_grad());
    const std::vector<Tensor> g =
        grads(mse_loss(functional_call(net, own, x), y).mean(), own, {.create_graph = true});
    std::vector<Tensor> fast;
    for (size_t i = 0; i < own.size(); ++i) fast.push_back(own[i] - 0.3 * g[i]);
    return mse_loss(functional_call(net, fast, x), y).mean();
  };
  std::vector<Tensor> inputs;
  for (const Tensor& p : net.parameters()) inputs.push_back(p.detach().clone().set_requires_grad());
  CHECK(grad_check(adapted_loss, inputs));
}

TEST_CASE("functional_call: names what is missing, unexpected or misshapen, and swaps nothing") {
  FunctionalNet net;
  const Tensor x = rand({4, 2}, {.dtype = f64});
  const Values own = values(net(x));
  std::vector<nn::NamedTensor> named = net.named_parameters();
  named[0].name = "a.weigth";
  named[1].tensor = zeros({4}, {.dtype = f64});
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)functional_call(net, named, x); });
  CHECK(mentions(text, "missing: a.weight"));
  CHECK(mentions(text, "unexpected: a.weigth; did you mean 'a.weight'?"));
  CHECK(mentions(text, "misshapen: a.bias: [4] for [3]"));
  CHECK(mentions(text, "functional_call_test.cpp:" + str(line)));
  CHECK(mentions(message_of([&] { (void)functional_call(net, std::vector<Tensor>{x}, x); }),
                 "has 4 parameters, these are 1 tensors"));
  std::vector<Tensor> undefined(4);
  CHECK_THROWS_AS(functional_call(net, undefined, x), UsageError);
  // The call itself throws: the module has its own again.
  CHECK_THROWS_AS(functional_call(net, net.parameters(), rand({4, 5}, {.dtype = f64})), ShapeError);
  CHECK(values(net(x)) == own);
}

TEST_CASE("functional_call: tied parameters change together, buffers may be given") {
  const LeakGuard guard;
  nn::Linear first{2, 2}, second{2, 2};
  second.weight = first.weight;
  const nn::Sequential tied{first, second};
  std::vector<nn::NamedTensor> named = tied.named_parameters();
  for (nn::NamedTensor& t : named) t.tensor = t.name == "0.weight" ? eye(2) * 3 : zeros({2});
  CHECK(values(functional_call(tied, named, ones({1, 2}))) == Values{9, 9});

  const nn::BatchNorm1d norm{2};
  norm.eval();
  named = norm.named_parameters();
  named.push_back({"running_mean", full({2}, 1.0)});
  CHECK(values(functional_call(norm, named, ones({1, 2}))) == Values{0, 0});
  CHECK(values(norm.running_mean) == Values{0, 0});
}
