// What TrainStep asks of other ranks, and when.
#include "warptape/optim/reducer.h"

#include "warptape/autograd/ops.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

namespace {

struct Net : nn::Module<Net> {
  nn::Linear used = add("used", nn::Linear{3, 2});
  nn::Linear idle = add("idle", nn::Linear{3, 2});
  Tensor forward(const Tensor& x) { return used(x); }
};

// The only rank, which may be told what others reached.
struct Alone : optim::Reducer {
  std::vector<std::string> calls;
  std::vector<char> seen, others;
  bool sums_itself = false;
  void sum(const Tensor&) override { calls.push_back("sum"); }
  void max(const Tensor&) override { calls.push_back("max"); }
  void any(std::span<char> reached) override {
    calls.push_back("any");
    seen.assign(reached.begin(), reached.end());
    for (size_t i = 0; i < others.size(); ++i) reached[i] = char(reached[i] | others[i]);
  }
  void begin_backward(bool last) override { calls.push_back(last ? "last" : "backward"); }
  bool sum_gradients() override {
    calls.push_back("gradients");
    return sums_itself;
  }
};

using Calls = std::vector<std::string>;

Tensor some_batch() {
  manual_seed(2);
  return rand({4, 3});
}
auto loss_of(Net& net) {
  return [&net](const Tensor& x) {
    const Tensor y = net(x);
    return Loss{square(y).sum(), double(y.numel())};
  };
}

}  // namespace

TEST_CASE("Reducer: the calls of a step, in order") {
  manual_seed(1);
  Net net;
  optim::Sgd opt{net, {.lr = 0.1}};
  Alone ranks;
  TrainStep step{net, opt, {.micro_batches = 2, .reducer = &ranks}};
  step(some_batch(), loss_of(net));
  CHECK(ranks.calls == Calls{"backward", "last", "any", "gradients", "sum", "sum", "max"});
  CHECK(ranks.seen == std::vector<char>{1, 1, 0, 0});
  ranks.calls.clear();
  ranks.sums_itself = true;
  step(some_batch(), loss_of(net));
  CHECK(ranks.calls == Calls{"backward", "last", "any", "gradients", "sum", "max"});
}

TEST_CASE("Reducer: what is only looked at is not summed") {
  manual_seed(1);
  Net net;
  optim::Sgd opt{net, {.lr = 0.1}};
  Alone ranks;
  TrainStep step{net, opt, {.micro_batches = 2, .reducer = &ranks}};
  CHECK(step.verify(some_batch(), loss_of(net)).agrees);
  step.explain(some_batch(), loss_of(net));
  CHECK(ranks.calls == Calls{"backward", "backward", "backward", "backward", "backward"});
  step(some_batch(), loss_of(net));
  CHECK(std::count(ranks.calls.begin(), ranks.calls.end(), "last") == 1);
}

TEST_CASE("Reducer: a parameter that only another rank reached is stepped here, too") {
  manual_seed(1);
  Net net;
  // Decay and momentum move a parameter whose gradient is zero.
  optim::Sgd opt{net, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.5}};
  Alone ranks;
  TrainStep step{net, opt, {.reducer = &ranks}};
  const Tensor weight = net.idle.weight, bias = net.idle.bias;
  const auto w = weight.to_vector<float>(), b = bias.to_vector<float>();
  step(some_batch(), loss_of(net));
  CHECK(weight.to_vector<float>() == w);  // nobody did
  CHECK(bias.to_vector<float>() == b);
  ranks.others = {0, 0, 1, 0};
  step(some_batch(), loss_of(net));
  const auto after = weight.to_vector<float>();
  for (size_t i = 0; i < w.size(); ++i) CHECK(after[i] == w[i] - 0.1f * (0.5f * w[i]));
  CHECK(bias.to_vector<float>() == b);
}
