// TrainStep on a device with a queue: the host is ahead, and hears of what went wrong later.
#include <limits>

#include "warptape/tests/optim/devices.h"
#include "warptape/tests/optim/train_step_net.h"
#include "warptape/tests/simt/device_memory.h"

using namespace wt;
using namespace wt_test;

TEST_CASE("A step is a transaction: behind a queue it trains as on the cpu",
          "[wall][transaction]") {
  NEEDS_OPERATORS(Device::simt());
  const auto losses = [](Device d) {
    Setup s(d);
    TrainStep step{s.net, *s.opt, {.clip_norm = 1, .schedule = optim::cosine(300)}};
    std::vector<StepResult> results;
    const Pair batch = data(8);
    {
      const SyncGuard no_wait;
      for (int i = 0; i < 200; ++i)  // past a refill of the schedule's table
        results.push_back(step(batch, [&](const Pair& b) { return loss_of(s.net, b); }));
    }
    std::vector<double> values;
    for (const StepResult& r : results) {
      values.push_back(r.loss());
      values.push_back(r.lr());
    }
    return values;
  };
  const std::vector<double> cpu = losses(Device::cpu());
  for (const u64 seed : {1, 2}) {
    const WithStreams lazy(SimtStreams::lazy, seed);
    const std::vector<double> simt = losses(ready(Device::simt()));
    REQUIRE(simt.size() == cpu.size());
    double worst = 0;
    for (size_t i = 0; i < cpu.size(); ++i) worst = std::max(worst, std::abs(simt[i] - cpu[i]));
    CHECK(worst < 1e-9);
  }
}

TEST_CASE("A step is a transaction: behind a queue news of earlier steps come late, but they come",
          "[wall][transaction]") {
  NEEDS_OPERATORS(Device::simt());
  const WithStreams lazy(SimtStreams::lazy);
  const Device d = ready(Device::simt());
  Setup s(d);
  TrainStep step{s.net, *s.opt};
  const Pair batch = data(8);
  const auto good = [&](const Pair& b) { return loss_of(s.net, b); };
  SECTION("the loss was not finite, and steps followed") {
    step(batch, [&](const Pair& b) {
      const SumAndWeight l = loss_of(s.net, b);
      return SumAndWeight{mul(l.sum, std::numeric_limits<double>::infinity()), l.weight};
    });
    step(batch, good);
    const StepResult r = step(batch, good);
    CHECK(mentions(message_of([&] { (void)r.loss(); }), "the loss is not finite"));
    CHECK(s.opt->applied() == 0);  // they skipped
    CHECK(step(batch, good).applied() == 1);
  }
  SECTION("a bad label, and the next step's callback threw") {
    step(batch, [&](const Pair& b) {
      raise_mailbox(d);
      return loss_of(s.net, b);
    });
    CHECK_THROWS_AS(step(batch, [&](const Pair&) -> SumAndWeight { throw std::bad_alloc(); }),
                    std::bad_alloc);
    CHECK(mentions(message_of([&] { (void)step(batch, good).loss(); }), "label 17 at sample 3"));
    CHECK(step(batch, good).applied() == 1);
  }
}
