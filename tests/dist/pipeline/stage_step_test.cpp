// One update of a model on several ranks: its norm, its clip factor and whether it is skipped.
#include "warptape/dist/stage_step.h"

#include <cmath>
#include <limits>
#include <set>

#include "warptape/core/mailbox.h"
#include "warptape/tests/dist/pipeline/pipeline_net.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/optim/train_step_net.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;

namespace {

// {grad_norm, grad_factor, skip} of the net in one process.
struct Whole {
  double norm, factor;
};
Whole of_one_process(double max_norm) {
  const Samples s = samples();
  nn::Sequential net = mlp();
  optim::Sgd opt{net, {.lr = 0.1}};
  const Loss loss = class_loss(net(s.x), s.y);
  loss.backward();  // of the mean
  double squares = 0;
  for (const Tensor& p : net.parameters())
    for (const double g : p.grad().to_vector<double>()) squares += g * g;
  const double norm = std::sqrt(squares);
  const double clip = max_norm > 0 ? std::min(1.0, max_norm / (norm + 1e-6)) : 1;
  return {norm, clip / loss.weight.item()};
}

}  // namespace

TEST_CASE("agree_on_step: the norm is that of all stages' gradients, the same bits on every rank") {
  const LeakGuard guard;
  const double max_norm = GENERATE(0.0, 0.01, 100.0);
  const Whole whole = of_one_process(max_norm);
  Expect expect;
  std::mutex mutex;
  std::set<std::pair<double, double>> seen;
  dist::spawn(3, [&](dist::Communicator& comm) {
    nn::Sequential stage = dist::partition(mlp(), 3)[size_t(comm.rank())];
    optim::Sgd opt{stage, {.lr = 0.1}};
    dist::Pipeline pipe{stage, comm};
    const Samples s = samples();
    const dist::StageStep step =
        dist::agree_on_step(&opt, comm, pipe.backward(s.x, s.y, class_loss), max_norm);
    // The gradients are f32 of another division; the norm of them is made in f64.
    const double norm = step.grad_norm.item(), factor = step.options.grad_factor.item();
    expect(std::abs(norm - whole.norm) < 1e-5 * whole.norm, "the norm");
    expect(std::abs(factor - whole.factor) < 1e-5 * whole.factor, "the factor");
    expect(step.options.skip.item() == 0, "nothing is wrong");
    const std::lock_guard lock(mutex);
    seen.insert({norm, factor});
  });
  expect.report();
  CHECK(seen.size() == 1);
}

TEST_CASE("agree_on_step: a gradient or loss that is not finite on one rank skips all") {
  const LeakGuard guard;
  const int bad = GENERATE(0, 1, 2, 3);  // 3: the loss
  const float value = GENERATE(std::numeric_limits<float>::infinity(), std::nanf(""));
  Expect expect;
  dist::spawn(3, [&](dist::Communicator& comm) {
    nn::Sequential stage = dist::partition(mlp(), 3)[size_t(comm.rank())];
    optim::AdamW opt{stage, {.lr = 0.1}};
    dist::Pipeline pipe{stage, comm, {.micro_batches = 2}};
    const Samples s = samples();
    const auto train = [&](bool broken) {
      opt.zero_grad();
      Loss loss = pipe.backward(s.x, s.y, class_loss);
      if (broken && bad == comm.rank()) {
        const Tensor p = stage.parameters()[0];
        Tensor g = p.grad().clone();
        p.set_grad(g * value);
      }
      if (broken && bad == 3) loss = Loss(loss.sum * value, loss.weight);
      opt.step(dist::agree_on_step(&opt, comm, loss, 1.0).options);
    };
    Trained before, after, moved;
    before.add(stage);
    train(true);
    after.add(stage);
    expect(after == before, "no parameter moved");
    expect(opt.applied() == 0 && opt.attempted() == 1, "the step was tried and not made");
    train(false);
    moved.add(stage);
    expect(moved != before && opt.applied() == 1, "the next one is made");
  });
  expect.report();
}

TEST_CASE("agree_on_step: a rank without parameters takes part; no weight at all is skipped") {
  const LeakGuard guard;
  Expect expect;
  dist::spawn(2, [&](dist::Communicator& comm) {
    manual_seed(1);
    nn::Linear layer{6, 4};
    optim::Sgd opt{layer, {.lr = 0.1}};
    const Samples s = samples();
    const bool first = comm.rank() == 0;
    dist::Pipeline pipe =
        first ? dist::Pipeline{layer, comm} : dist::Pipeline{[](Tensor t) { return t; }, comm};
    const Loss loss = pipe.backward(s.x, s.y, class_loss);
    const auto step = dist::agree_on_step(first ? &opt : nullptr, comm, loss);
    expect(step.grad_norm.item() > 0 && step.options.skip.item() == 0, "the other rank's norm");
    const auto negative = dist::agree_on_step(first ? &opt : nullptr, comm, Loss(loss.sum, -2.0));
    expect(negative.grad_norm.item() > 0, "a norm is not negative");
    opt.zero_grad();
    const Loss none = pipe.backward(s.x, full_like(s.y, -100), class_loss);
    expect(dist::agree_on_step(first ? &opt : nullptr, comm, none).options.skip.item() == 1,
           "0 / 0 is no loss");
    const std::string text =
        message_of([&] { (void)dist::agree_on_step(nullptr, comm, loss, -1); });
    expect(text.find("[agree_on_step] max_norm must be at least 0, got -1") != text.npos, text);
  });
  expect.report();
}

TEST_CASE("agree_on_step: a raised mailbox of one rank's device skips all") {
  const Device d = ready(Device::cpu());
  const LeakGuard guard;
  Expect expect;
  dist::spawn(2, [&](dist::Communicator& comm) {
    nn::Sequential stage = dist::partition(mlp(), 2)[size_t(comm.rank())];
    optim::Sgd opt{stage, {.lr = 0.1}};
    dist::Pipeline pipe{stage, comm};
    const Samples s = samples();
    const Loss loss = pipe.backward(s.x, s.y, class_loss);
    if (comm.rank() == 0) raise_mailbox(d);
    comm.barrier();
    const dist::StageStep step = dist::agree_on_step(&opt, comm, loss);
    comm.barrier();
    if (comm.rank() == 0) clear_mailbox(d);
    comm.barrier();  // reading a value would throw what the mailbox has
    expect(step.options.skip.item() == 1, "all skip");
  });
  expect.report();
}
