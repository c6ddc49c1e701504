// What cannot be where gradients are in parts, and what others see of them.
#include <stdexcept>

#include "warptape/autograd/grads.h"
#include "warptape/optim/clip.h"
#include "warptape/optim/gradient_exponents.h"
#include "warptape/tests/dist/data_parallel/data_parallel_ranks.h"
#include "warptape/tests/support/catch.h"

using namespace wt_test;

TEST_CASE("zero 2: nobody reads a whole gradient, and nobody makes one behind its back", "[dist]") {
  const auto thrown = on_ranks(2, [](Communicator& c) {
    manual_seed(7);
    Mlp net;
    optim::Sgd opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c, {.zero = 2}};
    TrainStep step{net, opt, {.micro_batches = 2, .reducer = &ddp}};
    const auto loss = [&](const Batch& b) { return squares(net, b); };
    const Tensor weight = net.fc1.weight.tensor();
    std::string all;
    const auto refused = [&](const auto& f) { all += message_of(f) + "\n"; };
    if (weight.grad().defined()) throw std::runtime_error("a gradient before the first step");
    step(Mlp::data(4, 0), loss);
    refused([&] { return weight.grad(); });
    refused([&] { weight.set_grad(weight.detach()); });
    refused([&] { return optim::clip_grad_norm_(net, 1.0); });
    refused([&] { optim::gradient_exponents(opt); });
    const Weights before = weights_of(net);
    opt.zero_grad();
    refused([&] { loss(Mlp::data(4, 0)).backward(); });
    opt.zero_grad();
    refused([&] { step.verify(Mlp::data(4, 0), loss); });
    refused([&] { step.explain(Mlp::data(4, 0), loss); });
    refused([&] { TrainStep(net, opt, {.graph = true}); });
    if (weights_of(net) != before) throw std::runtime_error("the weights have changed");
    step(Mlp::data(4, 1), loss);  // and it goes on
    throw UsageError(all);
  });
  for (const auto& e : thrown) {
    const std::string text = text_of(e);
    CHECK(mentions(text, "UsageError: [grad] no rank has the whole gradient"));
    CHECK(mentions(text, "UsageError: [set_grad] no rank has the whole gradient"));
    CHECK(mentions(text, "[gradient_exponents] the optimizer's state is in parts"));
    CHECK(mentions(text, "UsageError: [DataParallel] a backward() of the loss itself reaches fc"));
    CHECK(mentions(text, "NotAvailable: [TrainStep] verify() makes a backward of this rank alone"));
    CHECK(mentions(text, "NotAvailable: [TrainStep] explain() makes a backward"));
    CHECK(mentions(text, "NotAvailable: [TrainStep] graph = true with gradients in parts"));
  }
}

TEST_CASE("zero 2: gradients that are there already, and a DataParallel that has ended", "[dist]") {
  const auto thrown = on_ranks(2, [](Communicator& c) {
    manual_seed(7);
    Mlp net;
    optim::Sgd opt{net, {.lr = 0.1}};
    squares(net, Mlp::data(4, 0)).backward();
    std::string all = message_of([&] { DataParallel(net, opt, c, {.zero = 2}); });
    opt.zero_grad();
    {
      DataParallel ddp{net, opt, c, {.zero = 2}};
      TrainStep step{net, opt, {.reducer = &ddp}};
      step(Mlp::data(4, 0), [&](const Batch& b) { return squares(net, b); });
    }
    opt.zero_grad();
    squares(net, Mlp::data(4, 0)).backward();
    all += message_of([&] { opt.step(); });
    opt.zero_grad();
    opt.shard(nullptr);  // as an optimizer that is alone
    squares(net, Mlp::data(4, 0)).backward();
    opt.step();
    throw UsageError(all);
  });
  for (const auto& e : thrown) {
    const std::string text = text_of(e);
    const std::string part = "[optimizer] parameter fc1.weight has a gradient of this rank alone";
    CHECK(mentions(text, part));
    CHECK(text.find(part) != text.rfind(part));
  }
}

TEST_CASE("zero 2: a hook on a parameter sees this rank's gradient", "[dist]") {
  std::vector<double> seen(2), alone(2);
  std::vector<Weights> weights(2);
  const auto sum_of = [](const Tensor& t) { return t.to(DType::f64).sum().item(); };
  all_ranks(2, [&](Communicator& c) {
    const auto r = size_t(c.rank());
    const Batch mine = part_of(Mlp::data(8, 0), c.rank(), 2);
    manual_seed(7);
    Mlp net, other;
    other.load_state_dict(net.state_dict());
    squares(other, mine).sum.backward();
    alone[r] = sum_of(other.fc2.weight.tensor().grad());
    optim::Sgd opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c, {.zero = 2}};
    register_hook(net.fc2.weight.tensor(), [&](const Tensor& g) {
      seen[r] = sum_of(g);
      return Tensor();
    });
    TrainStep step{net, opt, {.reducer = &ddp}};
    step(mine, [&](const Batch& b) { return squares(net, b); });
    weights[r] = weights_of(net);
  });
  CHECK(seen == alone);
  CHECK(seen[0] != seen[1]);
  CHECK(weights[0] == weights[1]);
}
