// Leaks that are planted, and loops that have none.
#include "warptape/autograd/leak_watch.h"

#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using memory::LeakWatch;

namespace {

constexpr int kSteps = 8;

struct Training {
  nn::Sequential net{nn::Linear{16, 32}, nn::ReLU{}, nn::Linear{32, 4}};
  optim::Sgd opt{net};
  TrainStep step{net, opt};
  Tensor x = ones({8, 16});
  int loss_line = 0;

  // `keep` gets each step's loss.
  template <class F>
  void run(LeakWatch& watch, const F& keep) {
    for (int i = 0; i < kSteps; ++i) {
      step(x, [&](const Tensor& in) {
        loss_line = __LINE__ + 1;
        const Tensor loss = mean(square(net(in)));
        keep(loss);
        return loss;
      });
      watch.step();
    }
  }
  std::string mean_line() const {
    return "mean <- leak_watch_test.cpp:" + std::to_string(loss_line);
  }
};

}  // namespace

TEST_CASE("leak watch: a history of losses is named with operator and line", "[memory]") {
  const LeakGuard guard;
  Training t;
  LeakWatch watch;
  std::vector<Tensor> history;
  t.run(watch, [&](const Tensor& loss) { history.push_back(loss); });
  const auto leaks = watch.leaks();
  REQUIRE(leaks.size() == 1);
  CHECK(leaks[0].what == t.mean_line());
  CHECK(leaks[0].graph);
  CHECK(leaks[0].results == kSteps);
  CHECK(mentions(watch.report(),
                 "leak: " + t.mean_line() + ": 8 results are kept with their graphs"));
  CHECK(mentions(watch.report(), "Try keeping item()"));
}

TEST_CASE("leak watch: a sum of losses is one graph that grows", "[memory]") {
  const LeakGuard guard;
  Training t;
  LeakWatch watch;
  Tensor total = zeros({1});
  int line = 0;
  t.run(watch, [&](const Tensor& loss) {
    line = __LINE__ + 1;
    total = total + loss;
  });
  const auto leaks = watch.leaks();
  REQUIRE(leaks.size() == 1);
  CHECK(leaks[0].what == "add <- leak_watch_test.cpp:" + std::to_string(line));
  CHECK(leaks[0].results == 1);
  CHECK(leaks[0].nodes > kSteps);
}

TEST_CASE("leak watch: losses of an evaluation keep all that was saved", "[memory]") {
  const LeakGuard guard;
  nn::Linear fc{16, 4};
  const Tensor x = ones({1000, 16});
  LeakWatch watch({.steps = 3});
  std::vector<Tensor> history;
  for (int i = 0; i < 5; ++i) {
    history.push_back(mean(square(fc(x))));
    watch.step();
  }
  const auto leaks = watch.leaks();
  REQUIRE(leaks.size() == 1);
  CHECK(leaks[0].bytes_a_step >= 1000 * 4 * 4);
  CHECK(leaks[0].bytes >= 5 * 1000 * 4 * 4);
  CHECK(leaks[0].nodes >= 15);
}

TEST_CASE("leak watch: tensors without a graph are found too", "[memory]") {
  const LeakGuard guard;
  Training t;
  LeakWatch watch;
  std::vector<Tensor> history;
  int line = 0;
  t.run(watch, [&](const Tensor& loss) {
    const NoGrad no_grad;
    line = __LINE__ + 1;
    history.push_back(loss * 2);
  });
  const auto leaks = watch.leaks();
  REQUIRE(leaks.size() == 1);
  CHECK(!leaks[0].graph);
  CHECK(leaks[0].what == "mul <- leak_watch_test.cpp:" + std::to_string(line));
  CHECK(leaks[0].results == kSteps);
  CHECK(leaks[0].bytes == kSteps * 4);
}

TEST_CASE("leak watch: training as it should be has no leak", "[memory]") {
  const LeakGuard guard;
  {
    Training t;
    LeakWatch watch;
    double sum = 0;
    Tensor last;
    t.run(watch, [&](const Tensor& loss) {
      sum += loss.item();
      last = loss;  // the newest one is no history
    });
    CHECK(watch.leaks().empty());
    CHECK(watch.report().empty());
  }
  CHECK(
      mentions(message_of([] { const LeakWatch none({.steps = 0}); }), "steps must be at least 1"));
}
