// Hidden cases of the lab on graphs: a student's steps beside eager ones, weight by weight, and the
// launches of each call counted.
#include <algorithm>
#include <cmath>

#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/profiler.h"
#include "warptape/labs/support/cases.h"
#include "whole_step.h"

using namespace wt;
using wt::lab::Draws;
using wt::lab::expect;

namespace {

const Device kSimt = Device::simt();
constexpr int kReplays = 5;  // calls before all of the first shape are replays

using Numbers = std::vector<float>;

class Net : public whole::Model {
 public:
  explicit Net(u64 seed) {
    Draws draws(seed);
    w1_ = tensor(draws.reals(6 * 8, -0.6, 0.6)).reshape({6, 8}).to(kSimt).requires_grad_();
    b1_ = tensor(draws.reals(8, -0.2, 0.2)).to(kSimt).requires_grad_();
    w2_ = tensor(draws.reals(8 * 3, -0.6, 0.6)).reshape({8, 3}).to(kSimt).requires_grad_();
  }
  Tensor loss(const Tensor& x, const Tensor& y) override {
    ++calls;
    return mean(square(matmul(tanh(matmul(x, w1_) + b1_), w2_) - y));
  }
  std::vector<Tensor> parameters() override { return {w1_, b1_, w2_}; }
  std::vector<Numbers> values() const {
    return {w1_.to_vector<float>(), b1_.to_vector<float>(), w2_.to_vector<float>()};
  }
  i64 calls = 0;

 private:
  Tensor w1_{}, b1_{}, w2_{};
};

whole::Batch batch_of(Draws& draws, i64 n) {
  return {tensor(draws.reals(n * 6, -1, 1)).reshape({n, 6}).to(kSimt),
          tensor(draws.reals(n * 3, -1, 1)).reshape({n, 3}).to(kSimt)};
}

// The step of whole_step.h, operator by operator.
class Eager {
 public:
  explicit Eager(Net& net) : net_(net) {
    for (const Tensor& p : net.parameters()) velocity_.push_back(zeros_like(p.detach()));
  }
  double run(const whole::Batch& b, double rate) {
    const Tensor loss = net_.loss(b.x, b.y);
    const std::vector<Tensor> all = net_.parameters();
    for (const Tensor& p : all) p.zero_grad();
    loss.backward();
    const NoGrad no_grad;
    for (size_t i = 0; i < all.size(); ++i) {
      velocity_[i].copy_(velocity_[i] * whole::kMomentum + all[i].grad());
      Tensor(all[i]) -= velocity_[i] * rate;
    }
    return loss.item();
  }

 private:
  Net& net_;
  std::vector<Tensor> velocity_{};
};

// A student's steps beside eager ones of the same start.
class Pair {
 public:
  explicit Pair(u64 seed)
      : net(seed), other(seed), eager(other), mine(whole::make_step(net, kSimt)) {
    expect(mine != nullptr, "make_step() returned nothing", "step");
  }
  // One step of both; the weights have to agree. `hint`: of what is tried here.
  void step(const whole::Batch& b, double rate, const char* hint) {
    const double want = eager.run(b, rate);
    const Tensor loss = mine->run(b, rate);
    ++steps;
    expect(loss.defined() && loss.numel() == 1, str("call ", steps, " returned no loss"), "loss");
    wt::lab::expect_close(str("the loss that call ", steps, " returned"), loss.item(), want,
                          1e-4 * (1 + std::fabs(want)), hint);
    losses.push_back(loss);
    wanted.push_back(want);
    const std::vector<Numbers> got = net.values(), right = other.values();
    for (size_t i = 0; i < got.size(); ++i)
      wt::lab::expect_close(str("after call ", steps, " weight ", i), got[i], right[i], 1e-4, hint);
  }
  Net net, other;
  Eager eager;
  std::unique_ptr<whole::Step> mine;
  std::vector<Tensor> losses{};
  std::vector<double> wanted{};
  i64 steps = 0;
};

}  // namespace

WT_LAB_CASE("every call is one step, with momentum, from the first one on", 16) {
  Pair pair(draws.seed);
  const whole::Batch b = batch_of(draws, draws.whole(3, 6));
  for (int k = 0; k < 9; ++k) pair.step(b, 0.05, "step");
}

WT_LAB_CASE("each call steps on its own batch", 14) {
  Pair pair(draws.seed);
  const i64 n = draws.whole(3, 6);
  for (int k = 0; k < 10; ++k) pair.step(batch_of(draws, n), 0.05, "address");
}

WT_LAB_CASE("the rate of each call is the one it was given", 21) {
  Pair pair(draws.seed);
  const whole::Batch b = batch_of(draws, 4);
  for (int k = 0; k < 10; ++k) pair.step(b, 0.1 / (k + 1), "rate");
}

WT_LAB_CASE("a loss stays what it was when later steps have run", 9) {
  Pair pair(draws.seed);
  for (int k = 0; k < 10; ++k) pair.step(batch_of(draws, 5), 0.1, "address");
  for (size_t k = 0; k < pair.losses.size(); ++k)
    wt::lab::expect_close(str("after ten calls the loss of call ", k + 1), pair.losses[k].item(),
                          pair.wanted[k], 1e-4, "loss");
}

namespace {

struct Launches : profiler::Observer {
  i64 kernels = 0, graphs = 0;
  void begin(const profiler::Range& r) noexcept override {
    if (r.kind != profiler::Kind::kernel) return;
    ++kernels;
    graphs += std::string_view(r.name) == "graph";
  }
};

// What a call launches.
Launches launches_of(Pair& pair, const whole::Batch& b) {
  Launches launches;
  const profiler::ObserverScope watch(launches);
  (void)pair.mine->run(b, 0.05);
  return launches;
}

void expect_replay(const Launches& l, const std::string& which) {
  expect(l.graphs == 1,
         str(which, " replayed ", l.graphs, " graphs, and launched ", l.kernels,
             " kernels one by one"),
         "launches");
  expect(l.kernels <= 8, str(which, " launched ", l.kernels - 1, " kernels beside the graph"),
         "launches");
}

}  // namespace

WT_LAB_CASE("from the sixth call on a step is one graph", 21) {
  Pair pair(draws.seed);
  const i64 n = draws.whole(3, 6);
  for (int k = 0; k < kReplays; ++k) pair.step(batch_of(draws, n), 0.05, "address");
  for (int k = kReplays; k < kReplays + 3; ++k) {
    const i64 calls = pair.net.calls;
    expect_replay(launches_of(pair, batch_of(draws, n)), str("call ", k + 1));
    expect(pair.net.calls == calls, str("call ", k + 1, " called the model again"), "launches");
  }
}

WT_LAB_CASE("a batch of another shape in between", 9) {
  Pair pair(draws.seed);
  const i64 n = draws.whole(5, 7);
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (int k = 0; k < 4; ++k) pair.step(batch_of(draws, n), 0.05, "shape");
    pair.step(batch_of(draws, draws.whole(1, 4)), 0.05, "shape");
  }
  expect_replay(launches_of(pair, batch_of(draws, n)), "a call after batches of other shapes");
}

WT_LAB_CASE("the host waits for nothing", 10) {
  Pair pair(draws.seed);
  std::vector<whole::Batch> batches;
  for (int k = 0; k < 8; ++k) batches.push_back(batch_of(draws, 4));
  for (int k = 0; k < kReplays; ++k) pair.step(batches[size_t(k)], 0.05, "address");
  const SyncGuard guard(OnSync::count);
  for (int k = kReplays; k < 8; ++k) (void)pair.mine->run(batches[size_t(k)], 0.05);
  expect(guard.count() == 0,
         str("in three calls the host waited ", guard.count(), " times: ", guard.describe()),
         "sync");
  expect(pair.net.calls <= kReplays + 1, "the model was called in each step: nothing is replayed",
         "launches");
}

WT_LAB_CHALLENGE("two shapes in turn: each has a graph of its own") {
  Pair pair(draws.seed);
  const i64 n = draws.whole(3, 5);
  for (int k = 0; k < 14; ++k) pair.step(batch_of(draws, k % 2 ? n : 2 * n), 0.05, "shape");
  for (const i64 size : {n, 2 * n})
    expect_replay(launches_of(pair, batch_of(draws, size)), str("a call with ", size, " samples"));
}
