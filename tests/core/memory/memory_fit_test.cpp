// What a computation will take, the batch that fits, limits, and what is known of a failure.
#include "warptape/core/memory_fit.h"

#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory_limit.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;

namespace {

void train(i64 batch) {
  nn::Sequential net{nn::Linear{64, 128}, nn::ReLU{}, nn::Linear{128, 8}};
  optim::Adam opt{net};
  TrainStep step{net, opt};
  for (int i = 0; i < 2; ++i) step(ones({batch, 64}), [&](const Tensor& x) { return sum(net(x)); });
}

i64 measured(Device d, i64 batch) {
  const DefaultDevice there(d);
  memory::reset_peak(d);
  const i64 before = memory::stats(d).live;
  train(batch);
  return memory::stats(d).peak - before;
}

}  // namespace

TEST_CASE("predict: the peak of training steps before any byte is taken", "[memory]") {
  for (const Device d : wt_test::kernel_devices()) {
    CAPTURE(to_string(d));
    (void)measured(d, 32);  // the device has started, with what it keeps
    const LeakGuard guard;
    const i64 there = measured(d, 32);
    const u64 requests = memory::stats(d).requests, on_cpu = memory::stats(Device::cpu()).requests;
    const Generator random = generator();
    const memory::Prediction p = memory::predict(d, [] { train(32); });
    CHECK(memory::stats(d).requests == requests);
    CHECK(memory::stats(Device::cpu()).requests == on_cpu);
    CHECK(generator() == random);
    CAPTURE(p.peak, there);
    CHECK(double(p.peak) > 0.97 * double(there));
    CHECK(double(p.peak) < 1.03 * double(there));
    i64 sum = 0;
    for (const i64 bytes : p.by_category) sum += bytes;
    CHECK(sum == p.peak);
    CHECK(p.by_category[int(Category::parameter)] >= (64 * 128 + 128 + 128 * 8 + 8) * 4);
  }
}

TEST_CASE("predict: what was on the meta device before does not count", "[memory]") {
  const Tensor other = empty({1 << 20}, {.device = Device::meta()});
  CHECK(memory::predict(Device::cpu(), [] { (void)empty({10}); }).peak == 40);
}

TEST_CASE("fit_batch: the batch fits and the next one does not", "[memory]") {
  const LeakGuard guard;
  const auto peak = [](i64 n) { return memory::predict(Device::cpu(), [&] { train(n); }).peak; };
  for (const i64 batch : {1, 2, 37, 300}) {
    const i64 room = peak(batch);
    const memory::BatchFit fit = memory::fit_batch(train, {.bytes = room, .device = Device::cpu()});
    CAPTURE(batch, fit.batch);
    CHECK(fit.batch >= batch);
    CHECK(fit.bytes == peak(fit.batch));
    CHECK(fit.bytes <= room);
    CHECK(peak(fit.batch + 1) > room);
    // And it does fit.
    const memory::LimitScope limit(Device::cpu(), memory::stats(Device::cpu()).live + room);
    CHECK_NOTHROW(train(fit.batch));
  }
}

TEST_CASE("fit_batch: the ends of what can be asked", "[memory]") {
  using memory::fit_batch_by;
  int asked = 0;
  const auto linear = [&](i64 n) {
    ++asked;
    return 1000 + 10 * n;
  };
  CHECK(fit_batch_by(linear, 1009, 100).batch == 0);
  CHECK(fit_batch_by(linear, 1009, 100).bytes == 1010);
  CHECK(fit_batch_by(linear, 1010, 100).batch == 1);
  CHECK(fit_batch_by(linear, 1099, 100).batch == 9);
  CHECK(fit_batch_by(linear, 1 << 30, 100).batch == 100);
  CHECK(fit_batch_by(linear, 1 << 30, 1).batch == 1);
  asked = 0;
  CHECK(fit_batch_by(linear, 1'000'000, 1 << 20).batch == 99'900);
  CHECK(asked < 40);
  CHECK(mentions(message_of([&] { (void)fit_batch_by(linear, 0, 1); }),
                 "bytes must be at least 1, got 0"));
  CHECK(mentions(message_of([&] { (void)fit_batch_by(linear, 1, 0); }),
                 "most must be at least 1, got 0"));
}

TEST_CASE("limit: more than it is out of memory, and less is as before", "[memory]") {
  const LeakGuard guard;
  for (const Device d : {Device::cpu(), Device::simt(), Device::meta()}) {
    CAPTURE(to_string(d));
    const Tensor held = empty({1000}, {.device = d});
    const i64 live = memory::stats(d).live;
    {
      const memory::LimitScope limit(d, live + 400);
      CHECK(memory::limit(d) == live + 400);
      CHECK_NOTHROW((void)empty({100}, {.device = d}));
      const std::string text = message_of([&] { (void)empty({101}, {.device = d}); });
      CHECK(mentions(text, "asked for 404 bytes on " + to_string(d) + ", and the limit is "));
      const memory::Failure f = memory::last_failure();
      CHECK(f.device == d);
      CHECK(f.asked == 404);
      CHECK(f.held == live);
      CHECK(f.room == 400);
      const Device other = d == Device::cpu() ? Device::simt() : Device::cpu();
      CHECK_NOTHROW((void)empty({100'000}, {.device = other}));
    }
    CHECK(memory::limit(d) == 0);
    CHECK_NOTHROW((void)empty({100'000}, {.device = d}));
  }
}

TEST_CASE("out of memory in a step: which step, and that nothing was changed", "[memory]") {
  const LeakGuard guard;
  nn::Sequential net{nn::Linear{64, 128}, nn::ReLU{}, nn::Linear{128, 8}};
  optim::Adam opt{net};
  TrainStep step{net, opt};
  const auto one = [&](const Tensor& batch) {
    step(batch, [&](const Tensor& x) { return sum(net(x)); });
  };
  one(ones({4, 64}));
  one(ones({4, 64}));
  const Tensor large = ones({512, 64});
  memory::fail_requests_above(100'000);
  const std::string text = message_of([&] { one(large); });
  memory::fail_requests_above(0);
  CHECK(mentions(text, "OutOfMemory: [0.linear] asked for 256 KiB on cpu, and tests allow 97 KiB"));
  CHECK(mentions(text, "optimizer state are as before step 3\n"));
  CHECK(mentions(text, "Try micro_batches = 2"));
  CHECK(step.attempted() == 2);
}
