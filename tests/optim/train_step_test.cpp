// TrainStep as a transaction: whatever goes wrong, everything is as before and the next step works.
#include "warptape/optim/train_step.h"

#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/stream.h"
#include "warptape/optim/clip.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/optim/train_step_net.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;

TEST_CASE("A step is a transaction: it trains, counts and reports", "[wall][transaction]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  const LeakGuard guard;
  Setup s(d);
  TrainStep step{s.net, *s.opt, {.clip_norm = 1, .schedule = optim::warmup(2)}};
  const Pair batch = data(16);  // on the cpu: the step moves it
  std::vector<double> losses;
  for (int i = 0; i < 30; ++i) {
    const StepResult r = step(batch, [&](const Pair& b) {
      CHECK(b.x.device() == d);
      return loss_of(s.net, b);
    });
    CHECK(r.attempt() == i);
    CHECK(r.applied() == i + 1);
    CHECK(!r.skipped());
    CHECK(r.grad_norm() > 0);
    CHECK(r.lr() == 0.05 * (i == 0 ? 1.0 / 3 : i == 1 ? 1.0 / 3 + (1 - 1.0 / 3) / 2 : 1));
    losses.push_back(r.loss());
  }
  CHECK(losses.back() < 0.5 * losses.front());
  CHECK(step.applied() == 30);
  CHECK(step.attempted() == 30);
}

TEST_CASE("a step is what the loop by hand does") {
  const LeakGuard guard;
  Setup a, b;
  const Pair batch = data(16);
  TrainStep step{a.net, *a.opt, {.clip_norm = 0.1}};
  for (int i = 0; i < 5; ++i) {
    const Generator before = generator();
    const StepResult r = step(batch, [&](const Pair& p) { return loss_of(a.net, p); });
    const Generator after = generator();
    generator() = before;  // the loop draws the same masks
    Tensor loss = mul(squares(b.net, batch), 1.0 / 16);
    b.opt->zero_grad();
    loss.backward();
    CHECK(std::abs(r.loss() - loss.item()) < 1e-14);
    b.opt->step({.grad_factor = optim::clip_factor(*b.opt, 0.1)});
    CHECK(generator() == after);
  }
  const auto x = a.net.w1.tensor().to_vector<double>(), y = b.net.w1.tensor().to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) CHECK(std::abs(x[i] - y[i]) < 1e-13);
}

TEST_CASE("Losses: micro-batches of unequal weight add up to the full batch", "[wall][losses]") {
  const LeakGuard guard;
  const i64 parts = GENERATE(2, 3, 7, 100);  // of 16 samples, some without weight
  const auto train = [&](i64 micro_batches) {
    Setup s;
    s.net.noisy = false;
    TrainStep step{s.net, *s.opt, {.micro_batches = micro_batches, .clip_norm = 0.5}};
    Pair batch = data(16);
    std::vector<double> results;
    for (int i = 0; i < 4; ++i) {
      const StepResult r = step(batch, [&](const Pair& b) {
        // Every sample weighs its own target.
        const Tensor e = add(s.net(b.x), mul(b.y, -1.0));
        return SumAndWeight{sum(mul(mul(e, e), b.y)), sum(b.y)};
      });
      results.push_back(r.loss());
      results.push_back(r.grad_norm());
    }
    for (double v : s.net.w1.tensor().to_vector<double>()) results.push_back(v);
    return results;
  };
  const std::vector<double> whole = train(1), split = train(parts);
  for (size_t i = 0; i < whole.size(); ++i) CHECK(std::abs(whole[i] - split[i]) < 1e-12);
}

TEST_CASE("Losses: a plain tensor is the loss of a whole batch only", "[wall][losses]") {
  Setup s;
  const Pair batch = data(6);
  TrainStep one{s.net, *s.opt};
  CHECK_NOTHROW(one(batch, [&](const Pair& b) { return squares(s.net, b); }));
  TrainStep two{s.net, *s.opt, {.micro_batches = 2}};
  const State before = state_of(s.net, *s.opt);
  CHECK(mentions(message_of([&] { two(batch, [&](const Pair& b) { return squares(s.net, b); }); }),
                 "Loss{t, weight}"));
  CHECK(state_of(s.net, *s.opt) == before);
}

TEST_CASE(
    "A step is a transaction: an allocation that fails at the n-th request of a step leaves all as "
    "before",
    "[wall][transaction]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  const LeakGuard guard;
  const i64 micro_batches = GENERATE(1, 2);
  Setup s(d), plain(d);
  const TrainStepOptions options{.micro_batches = micro_batches, .clip_norm = 1};
  TrainStep step{s.net, *s.opt, options}, plain_step{plain.net, *plain.opt, options};
  manual_seed(7);
  const Pair batch = data(8);
  const auto run_one = [&](TrainStep& t, Net& net) {
    return t(batch, [&](const Pair& b) { return loss_of(net, b); }).loss();
  };
  run_one(step, s.net);  // makes the snapshots
  u64 failures = 0;
  for (u64 n = 1;; ++n) {
    const State before = state_of(s.net, *s.opt);
    const auto live = memory::live_objects();
    memory::fail_nth_request(n);
    bool failed = false;
    try {
      run_one(step, s.net);
    } catch (const OutOfMemory&) {
      failed = true;
    }
    memory::fail_nth_request(0);
    if (!failed) break;
    ++failures;
    CAPTURE(n);
    REQUIRE(state_of(s.net, *s.opt) == before);
    REQUIRE(memory::live_objects() == live);
    CHECK(!s.net.w1.tensor().grad().defined());
    REQUIRE(n < 1000);
  }
  CHECK(failures > 10);
  // The step after all those failures is the one that a run without failures makes.
  manual_seed(7);
  run_one(plain_step, plain.net);
  run_one(plain_step, plain.net);
  CHECK(state_of(s.net, *s.opt) == state_of(plain.net, *plain.opt));
}

TEST_CASE(
    "A step is a transaction: a callback that throws leaves all as before, buffers that were "
    "replaced too",
    "[wall][transaction]") {
  const LeakGuard guard;
  Setup s;
  TrainStep step{s.net, *s.opt};
  const Pair batch = data(8);
  step(batch, [&](const Pair& b) { return loss_of(s.net, b); });
  const State before = state_of(s.net, *s.opt);
  const Tensor running = s.net.running.tensor();
  CHECK_THROWS_AS(step(batch,
                       [&](const Pair& b) -> SumAndWeight {
                         loss_of(s.net, b).sum.backward();
                         s.net.running = ones({8}, {.dtype = f64});
                         throw std::runtime_error("the user's");
                       }),
                  std::runtime_error);
  CHECK(state_of(s.net, *s.opt) == before);
  CHECK(s.net.running.tensor().same_as(running));
  CHECK_NOTHROW(step(batch, [&](const Pair& b) { return loss_of(s.net, b); }));
}

TEST_CASE(
    "A step is a transaction: a bad label does on simt what it does on cpu: IndexError, all as "
    "before",
    "[wall][transaction][run]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  manual_seed(3);
  struct Classifier : nn::Module<Classifier> {
    nn::Param w = add("w", rand({4, 10}));
    nn::Buffer mean_input = add_buffer("mean_input", zeros({4}));
    Tensor forward(Tensor x) {
      Tensor m = mean_input.tensor();
      m.copy_(mean(x, 0));
      return matmul(dropout(x, 0.1), w);  // random state moves too
    }
  } net;
  net.to(d);
  optim::Sgd opt{net, {.lr = 1, .momentum = 0.9}};  // beyond what dropout takes and gives
  TrainStep step{net, opt, {.micro_batches = 2}};
  const auto state = [&] {
    State s{{}, generator()};
    for (const auto& t : net.state_dict()) s.values.push_back(t.tensor.to_vector<double>());
    for (const auto& t : opt.state()) s.values.push_back(t.tensor.to_vector<double>());
    return s;
  };
  const Pair good{rand({6, 4}), tensor({0, 9, 3, 1, 2, 5})};
  const Pair bad{rand({6, 4}), tensor({0, 9, 3, 1, 17, 5})};
  const auto loss = [&](const Pair& b) { return cross_entropy(net(b.x), b.y); };
  const double first = step(good, loss).loss();
  const State before = state();
  const std::string text = message_of([&] { (void)step(bad, loss).loss(); });
  CHECK(mentions(text, "IndexError: [cross_entropy] label 17 at sample 1 is outside [0, 10)"));
  step.sync_random();
  CHECK(known_late(d, state(), before) == before);
  CHECK(step(good, loss).loss() < first);
  CHECK(opt.applied() == 2);
}

TEST_CASE("A step is a transaction: a bare step skips while the mailbox is raised",
          "[wall][transaction]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  Setup s(d);
  const Pair batch{data(8).x.to(d), data(8).y.to(d)};
  squares(s.net, batch).backward();
  const std::vector<double> before = s.net.w1.tensor().to_vector<double>();
  raise_mailbox(d);
  s.opt->step();
  clear_mailbox(d);
  CHECK(s.net.w1.tensor().to_vector<double>() == before);
  CHECK(s.opt->applied() == 0);
  CHECK(s.opt->attempted() == 1);
  s.opt->zero_grad();
  squares(s.net, batch).backward();
  s.opt->step();
  CHECK(s.opt->applied() == 1);
}

TEST_CASE("A step is a transaction: losses and gradients that are not finite: stop, skip, ignore",
          "[wall][transaction]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  const LeakGuard guard;
  const bool bad_loss = GENERATE(false, true);
  CAPTURE(to_string(d), bad_loss);
  Setup s(d);
  const Pair batch = data(8);
  const auto good = [&](const Pair& b) { return loss_of(s.net, b); };
  const auto bad = [&](const Pair& b) {
    SumAndWeight l = loss_of(s.net, b);
    // 0 * inf in the loss, or only on the way back: the gradient of x * 1e300 * 1e300 * 0.
    const double inf = std::numeric_limits<double>::infinity();
    if (bad_loss) return SumAndWeight{mul(l.sum, inf), l.weight};
    const Tensor twist = mul(mul(sum(s.net.w2), 0.0), 1e300);
    return SumAndWeight{add(l.sum, mul(mul(twist, 1e300), 1e300)), l.weight};
  };
  SECTION("stop") {
    TrainStep step{s.net, *s.opt};
    step(batch, good);
    const State before = state_of(s.net, *s.opt);
    if (!bad_loss) return;  // below
    CHECK(mentions(message_of([&] { (void)step(batch, bad).loss(); }), "the loss is not finite"));
    CHECK(known_late(d, state_of(s.net, *s.opt), before) == before);
    const StepResult r = step(batch, good);
    CHECK(r.applied() == 2);
    CHECK(r.attempt() == (stream_backend(d) ? 2 : 1));
  }
  SECTION("stop names the gradient") {
    TrainStep step{s.net, *s.opt};
    const auto poisoned = [&](const Pair& b) {
      register_hook(s.net.w2.tensor(), [](const Tensor& g) { return mul(g, std::nan("")); });
      return loss_of(s.net, b);
    };
    const State before = state_of(s.net, *s.opt);
    const std::string text = message_of([&] { (void)step(batch, poisoned).loss(); });
    CHECK(mentions(text, "the gradient is not finite"));
    CHECK(mentions(text, "w2") == !stream_backend(d));  // its gradient is gone when the host hears
    CHECK(known_late(d, state_of(s.net, *s.opt), before) == before);
  }
  SECTION("skip") {
    if (!bad_loss) return;
    TrainStep step{s.net, *s.opt, {.on_nonfinite = NonFinite::skip}};
    step(batch, good);
    State before = state_of(s.net, *s.opt);
    const StepResult r = step(batch, bad);
    CHECK(r.skipped());
    CHECK(r.applied() == 1);
    CHECK(!std::isfinite(r.loss()));
    CHECK(step.attempted() == 2);
    State after = state_of(s.net, *s.opt);
    after.values.back() = before.values.back();  // optim.attempted alone has moved
    CHECK(known_late(d, after, before) == before);
    CHECK(step(batch, good).applied() == 2);
  }
  SECTION("skip and ignore look at gradients, not at the loss alone") {
    if (bad_loss) return;
    const u64 hook =
        register_hook(s.net.w2.tensor(), [](const Tensor& g) { return mul(g, std::nan("")); });
    const State before = state_of(s.net, *s.opt);
    TrainStep skip{s.net, *s.opt, {.on_nonfinite = NonFinite::skip}};
    const StepResult r = skip(batch, good);
    CHECK(std::isfinite(r.loss()));
    CHECK(r.skipped());
    State after = state_of(s.net, *s.opt);
    after.values.back() = before.values.back();
    CHECK(known_late(d, after, before) == before);
    TrainStep ignore{s.net, *s.opt, {.on_nonfinite = NonFinite::ignore}};
    CHECK(!ignore(batch, good).skipped());
    CHECK(std::isnan(s.net.w2.tensor().to_vector<double>()[0]));
    remove_hook(s.net.w2.tensor(), hook);
  }
  SECTION("ignore") {
    if (!bad_loss) return;
    TrainStep step{s.net, *s.opt, {.on_nonfinite = NonFinite::ignore}};
    CHECK(!step(batch, bad).skipped());
    CHECK(!std::isfinite(s.net.w1.tensor().to_vector<double>()[0]));
  }
}

TEST_CASE("A step is a transaction: the average of the weights is part of it",
          "[wall][transaction]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  const LeakGuard guard;
  Setup s(d);
  const Pair batch = data(16);
  CHECK_THROWS_AS((TrainStep{s.net, *s.opt, {.ema_decay = 1}}), UsageError);
  CHECK(!s.opt->has_ema());
  TrainStep step{s.net, *s.opt, {.on_nonfinite = NonFinite::skip, .ema_decay = 0.5}};
  const auto good = [&](const Pair& b) { return loss_of(s.net, b); };
  const std::vector<double> w0 = s.net.w1.tensor().to_vector<double>();
  step(batch, good);
  const std::vector<double> w1 = s.net.w1.tensor().to_vector<double>(),
                            average = s.opt->ema()[0].tensor.to_vector<double>();
  for (size_t i = 0; i < w0.size(); ++i) CHECK(std::abs(average[i] - (w0[i] + w1[i]) / 2) <= 1e-15);
  const StepResult r = step(batch, [&](const Pair& b) {
    SumAndWeight l = loss_of(s.net, b);
    l.sum = mul(l.sum, std::numeric_limits<double>::quiet_NaN());
    return l;
  });
  CHECK(r.skipped());
  CHECK(s.opt->ema()[0].tensor.to_vector<double>() == average);
  const auto in_scope = [&] {
    const optim::EmaScope averaged{*s.opt};
    CHECK(s.net.w1.tensor().to_vector<double>() == average);
    step(batch, good);
  };
  CHECK_THROWS_AS(in_scope(), UsageError);
  CHECK(s.net.w1.tensor().to_vector<double>() == w1);
  CHECK(step(batch, good).applied() == 2);
}

TEST_CASE("Random: the same seed gives the same bits", "[wall][random]") {
  const auto train = [](Device d) {
    Setup s(d, 3);
    TrainStep step{s.net, *s.opt, {.micro_batches = 3, .clip_norm = 1}};
    const Pair batch = data(10);
    for (int i = 0; i < 5; ++i) step(batch, [&](const Pair& b) { return loss_of(s.net, b); });
    return state_of(s.net, *s.opt);
  };
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  CHECK(train(d) == train(d));
}

TEST_CASE("A step is a transaction: it follows its model to another device",
          "[wall][transaction]") {
  NEEDS_OPERATORS(ready(Device::simt()));
  const LeakGuard guard;
  const auto train = [](bool move) {
    Setup s;
    TrainStep step{s.net, *s.opt};
    const Pair batch = data(8);
    double loss = 0;
    for (int i = 0; i < 4; ++i) {
      if (move && i == 2) s.net.to(Device::simt());
      const StepResult r = step(batch, [&](const Pair& b) { return loss_of(s.net, b); });
      CHECK(r.applied() == i + 1);
      loss = r.loss();
    }
    return loss;
  };
  CHECK(std::abs(train(true) - train(false)) < 1e-12);
}

TEST_CASE("Meta: on the meta device a step has its memory and no values", "[wall][meta]") {
  const LeakGuard guard;
  const auto live_and_peak = [](Device d) {
    memory::reset_peak(d);
    const auto before = memory::stats(d).live;
    Setup s;
    s.net.noisy = false;
    s.net.to(d);
    TrainStep step{s.net, *s.opt, {.micro_batches = 2, .clip_norm = 1}};
    Pair batch{empty({8, 4}, {.dtype = f64, .device = d}),
               empty({8, 1}, {.dtype = f64, .device = d})};
    StepResult r;
    for (int i = 0; i < 3; ++i)
      r = step(batch, [&](const Pair& b) {
        const Tensor e = add(s.net(b.x), mul(b.y, -1.0));
        return SumAndWeight{sum(mul(e, e)), empty({}, {.dtype = f64, .device = d})};
      });
    CHECK(r.attempt() == 2);
    if (d.is_meta) CHECK_THROWS_AS(r.loss(), PlacementError);
    const auto m = memory::stats(d);
    return std::pair{m.live - before, m.peak - before};
  };
  const auto real = live_and_peak(Device::cpu()), meta = live_and_peak(Device::meta());
  CHECK(real.first > 0);
  // The cpu also held the model before it moved.
  CHECK(meta == real);
}

TEST_CASE("A step is a transaction: the host waits for none, only for its result",
          "[wall][transaction][mode]") {
  const Device d = ready(Device::simt());
  NEEDS_OPERATORS(d);
  Setup s(d);
  TrainStep step{s.net, *s.opt, {.micro_batches = 2, .clip_norm = 1}};
  const Pair batch = data(8);
  const SyncGuard guard;
  StepResult r;
  for (int i = 0; i < 3; ++i) r = step(batch, [&](const Pair& b) { return loss_of(s.net, b); });
  CHECK(mentions(message_of([&] { (void)r.loss(); }), "[StepResult] the host would wait"));
  const SyncGuard off(false);
  CHECK(r.applied() == 3);
}

TEST_CASE("results are kept for a while") {
  Setup s;
  TrainStep step{s.net, *s.opt};
  const Pair batch = data(2);
  const auto once = [&] { return step(batch, [&](const Pair& b) { return loss_of(s.net, b); }); };
  const StepResult first = once();
  for (i64 i = 1; i < kStepRing; ++i) once();
  CHECK(first.applied() == 1);
  once();
  CHECK_THROWS_AS(first.loss(), UsageError);
  CHECK_THROWS_AS(StepResult().loss(), UsageError);
}

TEST_CASE(
    "A step is a transaction: other ranks: sums of gradients, losses and weights, one predicate",
    "[wall][transaction]") {
  const LeakGuard guard;
  struct Twice : optim::Reducer {  // a second rank with the same batch
    bool other_skips = false;
    void any(std::span<char>) override {}
    void sum(const Tensor& t) override {
      const NoGrad no_grad;
      Tensor x = t;
      x.copy_(mul(t, 2.0));
    }
    void max(const Tensor& t) override {
      Tensor x = t;
      if (other_skips) x.fill_(1);
    }
  } ranks;
  Setup a, b;
  a.net.noisy = b.net.noisy = false;
  TrainStep alone{a.net, *a.opt}, together{b.net, *b.opt, {.reducer = &ranks}};
  const Pair batch = data(8);
  const StepResult x = alone(batch, [&](const Pair& p) { return loss_of(a.net, p); });
  const StepResult y = together(batch, [&](const Pair& p) { return loss_of(b.net, p); });
  CHECK(std::abs(x.loss() - y.loss()) < 1e-14);
  CHECK(std::abs(x.grad_norm() - y.grad_norm()) < 1e-12);
  ranks.other_skips = true;
  const std::vector<double> before = b.net.w1.tensor().to_vector<double>();
  CHECK(together(batch, [&](const Pair& p) { return loss_of(b.net, p); }).skipped());
  CHECK(b.net.w1.tensor().to_vector<double>() == before);
}

TEST_CASE("what is not there yet says so") {
  Setup s;
  CHECK_NOTHROW((TrainStep{s.net, *s.opt, {.graph = true}}));
  CHECK_THROWS_AS((TrainStep{s.net, *s.opt, {.micro_batches = 0}}), UsageError);
  CHECK_THROWS_AS((TrainStep{s.net, *s.opt, {.clip_norm = -1}}), UsageError);
}

TEST_CASE("Random: a draw belongs to its step, later its graph cannot be walked",
          "[wall][random][transaction]") {
  for (const Device d : {Device::cpu(), Device::simt()}) {
    CAPTURE(to_string(d));
    Net net;
    net.noisy = false;
    net.to(d);
    optim::Sgd opt{net, {.lr = 0.01}};
    TrainStep step{net, opt};
    Tensor kept;
    const Tensor x = ones({8}, {.dtype = f64, .device = d, .requires_grad = true});
    const auto loss = [&](const Pair& p) {
      kept = sum(dropout(x, 0.5));
      (void)grad(kept, x, {.retain_graph = true});  // inside the step it is as ever
      return loss_of(net, p);
    };
    step(data(4), loss);
    CHECK_THROWS_AS(kept.backward(), InplaceError);
    CHECK(generator().calls(RandomStream::dropout) > 0);
  }
}
