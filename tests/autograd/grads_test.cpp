// What grad() and grads() take and give, and where their errors point.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/loss.h"
#include "warptape/autograd/ops/elementwise_loss.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/nn/linear.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

TEST_CASE("grads: one output or several, of inputs in a list, a vector or alone", "[grads]") {
  const LeakGuard guard;
  const Tensor x = leaf({2, 3}), w = leaf({5, 7});
  const auto y = [&] { return sum(x * w); };
  const std::vector<Tensor> inputs{x, w};
  for (const std::vector<Tensor>& g :
       {grads(y(), {x, w}), grads(y(), inputs), grads({y()}, {x, w}), grads({y()}, inputs)}) {
    REQUIRE(g.size() == 2);
    CHECK(values(g[0]) == Values{5, 7});
    CHECK(values(g[1]) == Values{2, 3});
  }
  const std::vector<Tensor> one = grads(y(), {x}), alone = grads(y(), x);
  REQUIRE(one.size() == 1);
  REQUIRE(alone.size() == 1);
  CHECK(values(one[0]) == Values{5, 7});
  CHECK(values(alone[0]) == Values{5, 7});
  CHECK(values(grad(y(), {x})) == Values{5, 7});
  CHECK(values(grads({y(), sum(x)}, x)[0]) == Values{6, 8});
  CHECK_FALSE(grads(sum(x), {x, w}, {.allow_unused = true})[1].defined());
  CHECK_FALSE(x.grad().defined());
  const std::vector<Tensor> g = grads(y(), inputs, {.create_graph = true});
  CHECK(values(grads(g, inputs, {.grad_outputs = {ones_like(x), ones_like(w)}})[0]) ==
        Values{1, 1});
}

TEST_CASE("grads: a loss stands for its mean, a parameter for its tensor", "[grads]") {
  const LeakGuard guard;
  const nn::Linear net{2, 1, {.dtype = f64}};
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 5.0}}, {.dtype = f64});
  const auto loss = [&] { return mse_loss(net(x), zeros({2, 1}, {.dtype = f64})); };
  const Values weight = values(grad(loss().mean(), net.weight));
  const Values bias = values(grad(loss().mean(), net.bias));
  CHECK(values(grad(loss(), net.weight)) == weight);
  for (const std::vector<Tensor>& g :
       {grads(loss(), net.parameters()), grads(loss(), {net.weight, net.bias}),
        grads({loss()}, net.parameters())}) {
    REQUIRE(g.size() == 2);
    CHECK(values(g[0]) == weight);
    CHECK(values(g[1]) == bias);
  }
  CHECK(values(grads(loss(), net.bias)[0]) == bias);
}

TEST_CASE("grads: errors have the line of the call, whatever it was given", "[grads]") {
  const Tensor x = leaf({2, 3}), other = leaf({1});
  const std::vector<Tensor> inputs{other};
  const auto says = [](int line, const std::string& text, const std::string& what) {
    CHECK(mentions(text, what));
    CHECK(mentions(text, "\n  at grads_test.cpp:" + std::to_string(line)));
  };
  const char* const unused = "[grads] no output depends on input 0";
  const std::string list = message_of([&] { (void)grads(sum(x), {other}); });
  says(__LINE__ - 1, list, unused);
  const std::string vector = message_of([&] { (void)grads(sum(x), inputs); });
  says(__LINE__ - 1, vector, unused);
  const Loss l = mse_loss(x, zeros_like(x)), k = mse_loss(x, zeros_like(x));
  const std::string loss = message_of([&] { (void)grads(l, inputs); });
  says(__LINE__ - 1, loss, unused);
  const std::string one = message_of([&] { (void)grad(k, other); });
  says(__LINE__ - 1, one, unused);
  const std::string empty = message_of([&] { (void)grads(Tensor(), x); });
  says(__LINE__ - 1, empty, "[grads] the tensor is undefined");
  const Loss undefined{Tensor(), Tensor()};
  const std::string mean = message_of([&] { (void)grads(undefined, x); });
  says(__LINE__ - 1, mean, "undefined");
}
