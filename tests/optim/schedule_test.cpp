// Schedules: pure functions, against PyTorch's rates, and read by the step kernel from its table.
#include "warptape/optim/schedule.h"

#include <cmath>

#include "warptape/core/factories.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using reference::load_reference;
using reference::reference_path;

TEST_CASE("Schedules: warm-up and cosine agree with PyTorch", "[wall][schedules]") {
  const std::string name = GENERATE("schedule_cosine", "schedule_cosine_floor",
                                    "schedule_warmup_cosine", "schedule_warmup_tenth");
  CAPTURE(name);
  const auto r = load_reference(reference_path(name));
  const auto number = [&](const char* what) { return r.at(what).values.at(0); };
  const double lr = number("base_lr");
  optim::Schedule s = optim::cosine(i64(number("cosine_steps")), number("min_lr") / lr);
  if (const i64 steps = i64(number("warmup"))) s = optim::warmup(steps, s, number("start_factor"));
  const std::vector<double>& want = r.at("lr").values;
  for (size_t k = 0; k < want.size(); ++k) {
    CAPTURE(k);
    CHECK(std::abs(lr * s.at(i64(k)) - want[k]) <= 1e-15);
  }
}

TEST_CASE("Schedules: they compose", "[wall][schedules]") {
  const optim::Schedule w = optim::warmup(3, optim::cosine(4));
  CHECK(w.at(0) == 0.25);
  CHECK(w.at(1) == 0.5);
  CHECK(w.at(3) == 1.0);
  CHECK(w.at(7) == 0.0);
  CHECK(w.at(1000) == 0.0);
  CHECK(optim::warmup(1).at(5) == 1.0);
  const optim::Schedule c = optim::chain({{2, optim::constant(0.5)}, {1, optim::linear(2, 1, 0)}});
  CHECK(c.at(1) == 0.5);
  CHECK(c.at(2) == 1.0);
  CHECK(c.at(3) == 0.5);
  CHECK(c.at(9) == 0.0);
  const optim::Schedule r = optim::restarts(2, optim::linear(4, 1, 0), 2);
  CHECK(r.at(1) == 0.75);
  CHECK(r.at(2) == 1.0);  // the second period has four steps
  CHECK(r.at(5) == 0.25);
  CHECK(r.at(6) == 1.0);
  CHECK(optim::restarts(3, optim::linear(3, 3, 0)).at(7) == 2.0);
  CHECK_THROWS_AS(optim::cosine(0), UsageError);
  CHECK_THROWS_AS(optim::chain({}), UsageError);
}

// 600 steps are more than two tables of 256; some are skipped, which must not move the schedule.
TEST_CASE("Schedules: the step kernel reads the schedule by the device's own count",
          "[wall][schedules][device_scalars]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  const Tensor x = zeros({1}, {.dtype = f64, .device = d, .requires_grad = true});
  const Tensor one = ones({1}, {.dtype = f64, .device = d});
  const std::vector<nn::NamedTensor> only{{"x", x}};
  optim::Sgd opt{only, {.lr = 2}};
  const optim::Schedule s = optim::warmup(100, optim::cosine(700));
  opt.set_schedule(s);
  CHECK(opt.rate() == 2 * s.at(0));
  const Tensor skip = tensor({1}, {.dtype = DType::i32, .device = d});
  double expected = 0;
  i64 applied = 0;
  x.set_grad(one);
  for (int step = 0; step < 600; ++step) {
    const bool skipped = step % 7 == 3;
    if (skipped) {
      opt.step({.skip = skip});
    } else {
      expected -= 2 * s.at(applied++);
      opt.step();
    }
  }
  CHECK(opt.applied() == applied);
  CHECK(opt.attempted() == 600);
  CHECK(std::abs(x.item() - expected) <= 1e-12 * std::abs(expected));
  opt.set_schedule({});
  CHECK(opt.rate() == 2);
  opt.set_lr(0.5);
  CHECK(opt.rate() == 0.5);
  opt.set_lr_factor(0.25);
  CHECK(opt.rate() == 0.125);
}
