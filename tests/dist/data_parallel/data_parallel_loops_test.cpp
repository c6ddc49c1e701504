// ddp.backward() in loops without TrainStep.
#include <cmath>
#include <limits>

#include "warptape/tests/dist/data_parallel/data_parallel_ranks.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/tolerance.h"

using namespace wt_test;

namespace {

using Backward = std::function<void(DataParallel&, Mlp&, int rank, int ranks)>;

struct Result {
  Weights grads, weights;
};

// One step on every rank; all get the same bits.
Result step_on_ranks(int n, const Backward& backward, const DataParallelOptions& options = {}) {
  std::vector<Result> all(static_cast<size_t>(n));
  all_ranks(n, [&](Communicator& c) {
    manual_seed(7);
    Mlp net;
    optim::Sgd opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c, options};
    opt.zero_grad();
    backward(ddp, net, c.rank(), c.size());
    Result& r = all[size_t(c.rank())];
    for (const auto& p : net.named_parameters())
      r.grads.push_back(p.tensor.grad().to_vector<double>());
    opt.step();
    r.weights = weights_of(net);
  });
  for (const Result& r : all) {
    CHECK(r.grads == all.front().grads);
    CHECK(r.weights == all.front().weights);
  }
  return all.front();
}

Weights gradients_alone(const std::function<Tensor(Mlp&)>& loss) {
  manual_seed(7);
  Mlp net;
  loss(net).backward();
  Weights all;
  for (const auto& p : net.named_parameters()) all.push_back(p.tensor.grad().to_vector<double>());
  return all;
}

double largest_of(const Weights& w) {
  double m = 0;
  for (const auto& v : w)
    for (const double x : v) m = std::max(m, std::abs(x));
  return m;
}
// Sums over 16 samples in another order, behind three layers, and a division.
double bound_of(const Weights& w) {
  return (16 + 4 * kTermsOfGradient) * precision_of(DType::f32).u * largest_of(w);
}

}  // namespace

TEST_CASE("backward of a Loss gives the gradient of the whole batch's mean", "[dist]") {
  for (const i64 samples : {16, 13, 5}) {
    const Weights want =
        gradients_alone([&](Mlp& net) { return squares(net, Mlp::data(samples, 0)).mean(); });
    for (const int n : {1, 2, 4}) {
      CAPTURE(samples, n);
      const Result got = step_on_ranks(n, [&](DataParallel& ddp, Mlp& net, int r, int ranks) {
        ddp.backward(squares(net, part_of(Mlp::data(samples, 0), r, ranks)));
      });
      CHECK(largest_difference(got.grads, want) <= bound_of(want));
    }
  }
}

TEST_CASE("backward of a Tensor gives the mean of the ranks' gradients", "[dist]") {
  // Parts of unequal size: a mean of means, which is another thing than the mean of all.
  const auto part_mean = [](Mlp& net, int r) {
    return squares(net, part_of(Mlp::data(13, 0), r, 2)).mean();
  };
  const Weights want =
      gradients_alone([&](Mlp& net) { return (part_mean(net, 0) + part_mean(net, 1)) * 0.5; });
  const Result got = step_on_ranks(
      2, [&](DataParallel& ddp, Mlp& net, int r, int) { ddp.backward(part_mean(net, r)); });
  CHECK(largest_difference(got.grads, want) <= bound_of(want));
  const Weights whole =
      gradients_alone([&](Mlp& net) { return squares(net, Mlp::data(13, 0)).mean(); });
  CHECK(largest_difference(got.grads, whole) > bound_of(want));
}

TEST_CASE("no_sync() adds up on each rank and sums once", "[dist]") {
  const Weights want =
      gradients_alone([&](Mlp& net) { return squares(net, Mlp::data(13, 0)).mean(); });
  const Result got = step_on_ranks(3, [&](DataParallel& ddp, Mlp& net, int r, int ranks) {
    const Batch mine = part_of(Mlp::data(13, 0), r, ranks);
    const i64 cut = 1 + r;  // parts of unequal size on every rank
    {
      const auto guard = ddp.no_sync();
      ddp.backward(squares(net, mine.narrow(0, cut)));
      if (ddp.launched_early() != 0) throw std::runtime_error("summed inside no_sync()");
    }
    ddp.backward(squares(net, mine.narrow(cut, mine.size() - cut)));
  });
  CHECK(largest_difference(got.grads, want) <= bound_of(want));
}

TEST_CASE("gradients of a rank inside no_sync() are its own", "[dist]") {
  std::vector<Weights> grads(2);
  all_ranks(2, [&](Communicator& c) {
    manual_seed(7);
    Mlp net;
    optim::Sgd opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c};
    const auto guard = ddp.no_sync();
    ddp.backward(squares(net, part_of(Mlp::data(8, 0), c.rank(), 2)).mean());
    for (const auto& p : net.named_parameters())
      grads[size_t(c.rank())].push_back(p.tensor.grad().to_vector<double>());
  });
  CHECK(grads[0] != grads[1]);
}

TEST_CASE("means of several backwards add up as in PyTorch", "[dist]") {
  const auto mean_of = [](Mlp& net, i64 step) { return squares(net, Mlp::data(8, step)).mean(); };
  const Weights want = gradients_alone([&](Mlp& net) { return mean_of(net, 0) + mean_of(net, 1); });
  for (const bool twice : {false, true}) {  // a sum of each, or one
    const Result got = step_on_ranks(2, [&](DataParallel& ddp, Mlp& net, int, int) {
      {
        const auto guard = twice ? DataParallel::NoSync() : ddp.no_sync();
        ddp.backward(mean_of(net, 0));
      }
      ddp.backward(mean_of(net, 1));
    });
    CHECK(largest_difference(got.grads, want) <= bound_of(want));
  }
}

TEST_CASE("a scaler's gradients are summed, found and skipped on all ranks", "[dist]") {
  const int zero = GENERATE(0, 1, 2);
  const bool unscales = GENERATE(false, true);  // before the step
  for (const bool weighted : {false, true}) {
    CAPTURE(zero, unscales, weighted);
    std::vector<Weights> first(2), skipped(2), last(2);
    std::vector<double> scale(2);
    all_ranks(2, [&](Communicator& c) {
      const auto r = size_t(c.rank());
      manual_seed(7);
      Mlp net;
      optim::Sgd opt{net, {.lr = 0.05}};
      DataParallel ddp{net, opt, c, {.zero = zero}};
      optim::GradScaler scaler({.init_scale = 256});
      for (i64 i = 0; i < 3; ++i) {
        opt.zero_grad();
        Loss loss = squares(net, part_of(Mlp::data(6, i), c.rank(), 2));
        if (i == 1 && r == 1) loss.sum = loss.sum * std::numeric_limits<float>::infinity();
        if (weighted)
          ddp.backward(loss, scaler);
        else
          ddp.backward(loss.mean(), scaler);
        if (unscales) scaler.unscale_(opt);
        scaler.step(opt);
        scaler.update();
        (i == 0 ? first : i == 1 ? skipped : last)[r] = weights_of(net);
      }
      scale[r] = scaler.get_scale();
    });
    CHECK(skipped[0] == first[0]);
    CHECK(last[0] != first[0]);
    CHECK(scale[0] == 128);
    for (size_t r = 0; r < 2; ++r) {
      CHECK(first[r] == first[0]);
      CHECK(skipped[r] == skipped[0]);
      CHECK(last[r] == last[0]);
      CHECK(scale[r] == scale[0]);
    }
    manual_seed(7);
    Mlp net;
    optim::Sgd opt{net, {.lr = 0.05}};
    squares(net, Mlp::data(6, 0)).backward();
    opt.step();
    CHECK(largest_difference(weights_of(net), first[0]) <= bound_of(first[0]));
  }
}

TEST_CASE("what would be divided wrongly is refused", "[dist]") {
  const auto world = dist::local_world(1);
  Mlp net;
  optim::Sgd opt{net, {.lr = 0.1}};
  DataParallel ddp{net, opt, *world[0]};
  const auto loss = [&] { return squares(net, Mlp::data(4, 0)); };
  ddp.backward(loss());
  CHECK(mentions(message_of([&] { ddp.backward(loss()); }),
                 "UsageError: [DataParallel] a Loss cannot be added to gradients that are a mean"));
  opt.zero_grad();
  {
    const auto guard = ddp.no_sync();
    ddp.backward(loss());
  }
  CHECK(mentions(message_of([&] { ddp.backward(loss().mean()); }),
                 "[DataParallel] a Loss and a Tensor in one step"));
  opt.zero_grad();
  loss().backward();
  CHECK(mentions(message_of([&] { ddp.backward(loss()); }), "a backward() of the loss itself"));
  opt.zero_grad({.set_to_none = false});  // zeros that stay
  ddp.backward(loss());
  opt.step();
  TrainStep step{net, opt, {.reducer = &ddp}};
  const auto guard = ddp.no_sync();
  CHECK(mentions(message_of([&] { step(Mlp::data(4, 0), [&](const Batch&) { return loss(); }); }),
                 "[DataParallel] a TrainStep inside no_sync()"));
}

TEST_CASE("a TrainStep and loops of one's own take turns with one DataParallel", "[dist]") {
  const int zero = GENERATE(0, 1, 2);
  CAPTURE(zero);
  std::vector<Weights> all(2);
  all_ranks(2, [&](Communicator& c) {
    manual_seed(7);
    Mlp net;
    optim::Sgd opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c, {.zero = zero}};
    TrainStep step{net, opt, {.reducer = &ddp}};
    for (i64 i = 0; i < 3; ++i) {
      opt.zero_grad();
      ddp.backward(squares(net, part_of(Mlp::data(8, 2 * i), c.rank(), 2)).mean());
      opt.step();
      step(part_of(Mlp::data(8, 2 * i + 1), c.rank(), 2),
           [&](const Batch& b) { return squares(net, b); });
    }
    all[size_t(c.rank())] = weights_of(net);
  });
  CHECK(all[0] == all[1]);
  manual_seed(7);
  Mlp net;
  optim::Sgd opt{net, {.lr = 0.1}};
  for (i64 i = 0; i < 6; ++i) {
    opt.zero_grad();
    squares(net, Mlp::data(8, i)).backward();
    opt.step();
  }
  CHECK(largest_difference(weights_of(net), all[0]) < 1e-5);
}
