// evaluate(): the figures, and that it leaves everything as it was.
#include "warptape/nn/evaluate.h"

#include <atomic>
#include <cmath>
#include <memory>

#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/data/combine.h"
#include "warptape/data/loader.h"
#include "warptape/data/synthetic.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt::data;

namespace {

struct Net : nn::Module<Net> {
  nn::Linear fc = add("fc", nn::Linear{2, 3});
  nn::Dropout drop = add("drop", nn::Dropout{0.5});
  nn::Linear head = add("head", nn::Linear{3, 2});
  bool recorded = false;
  int fail_in = -1;  // calls
  Tensor forward(Tensor x) {
    if (fail_in-- == 0) throw DataError("the model fails");
    const Tensor y = head(drop(relu(fc(std::move(x)))));
    recorded |= y.requires_grad();
    return y;
  }
};

SyntheticPoints points(i64 n) { return SyntheticPoints({.samples = n, .noise = 0.5}); }

// All is as a training loop left it: one part frozen in eval mode.
struct Watch {
  Net& net;
  Loader<SyntheticPoints>& loader;
  LoaderState before = loader.state();
  ~Watch() {
    CHECK(mode.grad);
    CHECK(net.is_training());
    CHECK(net.fc.is_training());
    CHECK(!net.drop.is_training());
    CHECK(loader.state() == before);
    CHECK(!net.recorded);
  }
};

}  // namespace

TEST_CASE("evaluate: the figures of a plain loop, over the whole set, modes put back") {
  const LeakGuard leaks;
  manual_seed(1);
  Net net;
  Loader loader{points(53), {.batch = 8, .shuffle = true, .seed = 2}};
  std::vector<i64> all(53);
  for (size_t i = 0; i < all.size(); ++i) all[i] = i64(i);
  const Batch every = loader.dataset().batch(all);
  double loss = 0, right = 0;
  {
    const nn::EvalScope eval(net);
    const NoGrad no_grad;
    const Tensor logits = net(every.x);
    loss = cross_entropy(logits, every.y).item();
    const auto guess = logits.argmax(1).to_vector<i64>(), want = every.y.to_vector<i64>();
    for (size_t i = 0; i < guess.size(); ++i) right += guess[i] == want[i];
  }
  net.drop.eval();
  Batch batch;
  for (int i = 0; i < 3; ++i) REQUIRE(loader.next(batch));
  const std::vector<double> next_before = [&] {
    Loader copy{points(53), {.batch = 8, .shuffle = true, .seed = 2}};
    copy.set_state(loader.state());
    REQUIRE(copy.next(batch));
    return batch.x.to_vector<double>();
  }();
  {
    const Watch watch{net, loader};
    const Evaluation r = evaluate(net, loader, {"loss", "accuracy", "top2"});
    CHECK(std::abs(r["loss"] - loss) < 1e-6);
    CHECK(r["accuracy"] == right / 53);
    CHECK(r["top2"] == 1);
    CHECK(mentions(r.text(), ", top2 1.0000"));
    CHECK(mentions(message_of([&] { (void)r["accurasy"]; }), "did you mean 'accuracy'?"));
    metrics::Accuracy accuracy;
    metrics::ConfusionMatrix matrix(2);
    accuracy.update(rand({5, 2}), randint(0, 2, {5}, {.dtype = DType::i64}));  // reset before
    const Evaluation s = evaluate(net, loader, accuracy, matrix);
    CHECK(s["accuracy"] == right / 53);
    CHECK(s.values()[1].second == right / 53);
    CHECK(matrix.counts().sum().item() == 53);
  }
  REQUIRE(loader.next(batch));
  CHECK(batch.x.to_vector<double>() == next_before);
  CHECK(net(batch.x).requires_grad());
}

TEST_CASE("evaluate: also when it throws, in the model, in the data or in a metric") {
  const LeakGuard leaks;
  Net net;
  net.drop.eval();
  for (const int workers : {0, 2}) {
    Loader loader{points(40), {.batch = 8, .workers = workers}};
    Batch batch;
    REQUIRE(loader.next(batch));
    {
      const Watch watch{net, loader};
      net.fail_in = 2;
      CHECK_THROWS_AS(evaluate(net, loader, {"accuracy"}), DataError);
    }
    net.fail_in = -1;
    {
      const Watch watch{net, loader};
      metrics::ConfusionMatrix wrong(3);
      CHECK_THROWS_AS(evaluate(net, loader, wrong), ShapeError);
    }
    {
      const Watch watch{net, loader};
      CHECK_THROWS_AS(evaluate(net, loader, {"accuracy", "acuracy"}), UsageError);
    }
    CHECK(std::isfinite(evaluate(net, loader, {"loss"})["loss"]));
  }
}

TEST_CASE("evaluate: also when the dataset changes meanwhile, which is an error") {
  struct Shared {
    std::shared_ptr<std::atomic<i64>> n = std::make_shared<std::atomic<i64>>(40);
    i64 size() const { return *n; }
    Batch batch(std::span<const i64> i) const { return {ones({i64(i.size()), 2}), zeros({1})}; }
  };
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const Shared set;
    Loader loader{set, {.batch = 8, .workers = workers}};
    Batch batch;
    for (int i = 0; i < 4; ++i) REQUIRE(loader.next(batch));
    const LoaderState before = loader.state();
    const auto model = [&](const Tensor& x) {
      *set.n = 12;
      return x;
    };
    struct Ignore : metrics::Metric {
      Ignore() : Metric("ignore") {}
      double value() const override { return 0; }
      void reset() override {}
      void add(const Tensor&, const Tensor&) override {}
    } metric;
    CHECK(mentions(message_of([&] { evaluate(model, loader, metric); }), "has 12 samples, it had"));
    CHECK(loader.state() == before);
    *set.n = 40;
    CHECK(loader.next(batch));
  }
}

TEST_CASE("evaluate: batches that are arrays, and others made into pairs") {
  const auto identity = [](const Tensor& x) { return x; };
  const Tensor x = tensor({{1.0, 0.0}, {0.0, 1.0}, {1.0, 0.0}}), y = tensor({0, 1, 1});
  Loader two{TensorsDataset{x, y}, {.batch = 2}};
  CHECK(evaluate(identity, two, {"accuracy"})["accuracy"] == 2.0 / 3);
  Loader three{collate(TensorsDataset{x, ones({3}), y},
                       [](const std::array<Tensor, 3>& b) {
                         return Batch{b[0], b[2]};
                       }),
               {.batch = 2, .workers = 2}};
  CHECK(evaluate(identity, three, {"accuracy"})["accuracy"] == 2.0 / 3);
  CHECK(three.state() == LoaderState{});
}

TEST_CASE("evaluate: any callable, any range of pairs, an owned loader, nothing at all") {
  const std::vector<std::pair<Tensor, Tensor>> batches{
      {tensor({{1.0, 0.0}, {0.0, 1.0}}), tensor({0, 1})}, {tensor({{1.0, 0.0}}), tensor({1})}};
  const auto identity = [](const Tensor& x) { return x; };
  CHECK(evaluate(identity, batches, {"accuracy"})["accuracy"] == 2.0 / 3);
  Net net;
  metrics::Accuracy accuracy;
  (void)evaluate(net, Loader{points(10), {.batch = 3}}, accuracy);
  CHECK(accuracy.value() >= 0);
  CHECK(net.is_training());
  const std::vector<std::pair<Tensor, Tensor>> none;
  CHECK(std::isnan(evaluate(net, none, {"accuracy"})["accuracy"]));
}
