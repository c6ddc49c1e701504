// Schedules: pure functions, against PyTorch's rates, and read by the step kernel from its table.
#include "warptape/optim/schedule.h"

#include <cmath>
#include <memory>

#include "warptape/core/factories.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/plateau.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
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
  // PyTorch's CosineAnnealingLR(opt, 4) with eta_min of a tenth: down, up, and down again.
  const optim::Schedule whole = optim::cosine_annealing(4, 0.1);
  for (i64 k = 0; k <= 20; ++k)
    CHECK(std::abs(whole.at(k) - (0.1 + 0.9 * (1 + std::cos(M_PI * double(k) / 4)) / 2)) <= 1e-15);
  CHECK(whole.at(4) == 0.1);
  CHECK(whole.at(8) == 1.0);
  CHECK_THROWS_AS(optim::cosine_annealing(0), UsageError);
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
  const auto own = [](i64 k) { return 1.0 / double(k + 1); };
  CHECK(optim::warmup(2, own).at(4) == 1.0 / 3);
  CHECK(optim::Schedule(own).at(3) == 0.25);
  CHECK(!optim::Schedule{});
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
  for (int step = 0; step < 600; ++step) {
    x.set_grad(one);
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

TEST_CASE("Schedules: every rule follows PyTorch for 50 steps", "[schedules]") {
  using namespace wt::optim;
  const auto r = load_reference(reference_path("schedule_rules"));
  const std::vector<std::pair<const char*, Schedule>> rules{
      {"step_lr", step_lr(7, 0.5)},
      {"multi_step", multi_step({5, 20, 20, 33}, 0.5)},
      {"exponential", exponential(0.95)},
      {"polynomial", polynomial(40, 1.5)},
      {"linear", linear(30, 0.25, 0.75)},
      {"warm_restarts", cosine_warm_restarts(10, 1, 0.1)},
      {"warm_restarts_2", cosine_warm_restarts(6, 2)},
      {"one_cycle", one_cycle(51)},
      {"one_cycle_linear",
       one_cycle(51,
                 {.pct_start = 0.4, .div_factor = 10, .final_div_factor = 100, .linear = true})},
      {"one_cycle_three", one_cycle(51, {.three_phase = true})},
      {"product", product({linear(10, 0.1, 1), exponential(0.9)})},
      {"sequential", chain({{15, constant(0.5)}, {1, step_lr(8)}})}};
  CHECK(r.size() == rules.size());
  for (const auto& [name, s] : rules) {
    const std::vector<double>& want = r.at(name).values;
    CHECK(want.size() == 50);
    for (size_t k = 0; k < want.size(); ++k) {
      CAPTURE(name, k, s.at(i64(k)), want[k]);
      // PyTorch multiplies step by step: a rounding a step.
      CHECK(std::abs(s.at(i64(k)) - want[k]) <= 50 * 0x1p-52);
    }
  }
  CHECK(one_cycle(51).at(1000) == one_cycle(51).at(50));
  CHECK(one_cycle(1).at(0) == 1 / 25.0 / 1e4);
}

TEST_CASE("Schedules: by_epoch is PyTorch's scheduler.step() once an epoch", "[schedules]") {
  using namespace wt::optim;
  const auto r = load_reference(reference_path("schedule_epochs"));
  const i64 n = i64(r.at("steps_per_epoch").values.at(0));
  const std::vector<std::pair<const char*, Schedule>> rules{
      {"step_lr", by_epoch(n, step_lr(3, 0.5))},
      {"multi_step", by_epoch(n, multi_step({2, 5}, 0.5))},
      {"warmup_cosine", by_epoch(n, chain({{2, linear(2, 0.25, 1)}, {1, cosine_annealing(5)}}))},
      {"steps_and_epochs", product({linear(10, 0.1, 1), by_epoch(n, exponential(0.5))})}};
  CHECK(r.size() == rules.size() + 1);
  for (const auto& [name, s] : rules) {
    const std::vector<double>& want = r.at(name).values;
    CHECK(i64(want.size()) == 8 * n);
    for (size_t k = 0; k < want.size(); ++k) {
      CAPTURE(name, k, s.at(i64(k)), want[k]);
      CHECK(std::abs(s.at(i64(k)) - want[k]) <= 50 * 0x1p-52);
    }
  }
  CHECK_THROWS_AS(by_epoch(0, step_lr(3)), UsageError);
}

TEST_CASE("Schedules: lr_at lists the rates of steps and epochs", "[schedules]") {
  using namespace wt::optim;
  const Schedule s = by_epoch(10, step_lr(2, 0.5));
  const LrTable by_step = lr_at(s, {0, 19, 20, 45}, {.lr = 0.4});
  CHECK(by_step.at == std::vector<i64>{0, 19, 20, 45});
  CHECK(by_step.lr == std::vector<double>{0.4, 0.4, 0.2, 0.1});
  CHECK(by_step.text() == "step  lr\n   0  0.4\n  19  0.4\n  20  0.2\n  45  0.1\n");
  const LrTable by_number = lr_at(s, steps(0, 5, 2), {.lr = 0.4, .steps_per_epoch = 10});
  CHECK(by_number.lr == std::vector<double>{0.4, 0.2, 0.1});
  CHECK(str(by_number) == "epoch  lr\n    0  0.4\n    2  0.2\n    4  0.1\n");
  CHECK(lr_at({}, {7}).lr == std::vector<double>{1});
  CHECK(lr_at(s, {}).text() == "step  lr\n");
  CHECK(steps(3, 3).empty());
  CHECK(steps(INT64_MAX - 5, INT64_MAX, 4) == std::vector<i64>{INT64_MAX - 5, INT64_MAX - 1});
  CHECK_THROWS_AS(steps(0, 3, 0), UsageError);
  const std::string all = message_of([&] {
    (void)lr_at(s, {3, -1, INT64_MAX}, {.lr = NAN, .steps_per_epoch = 10});
  });
  for (const char* part : {"lr must be at least 0 and finite, got nan", "number 1 is -1",
                           "number 2 is 9223372036854775807"})
    CHECK(mentions(all, part));
  CHECK_THROWS_AS(lr_at(s, {0}, {.steps_per_epoch = -1}), UsageError);
}

TEST_CASE("Schedules: an optimizer's rate stays for an epoch's applied steps", "[schedules]") {
  const LeakGuard guard;
  const Tensor x = zeros({1}, {.dtype = f64, .requires_grad = true});
  const std::vector<nn::NamedTensor> only{{"x", x}};
  optim::Sgd opt{only, {.lr = 1}};
  opt.set_schedule(optim::by_epoch(3, optim::exponential(0.5)));
  std::vector<double> rates;
  for (int i = 0; i < 7; ++i) {
    rates.push_back(opt.rate());
    x.set_grad(ones({1}, {.dtype = f64}));
    opt.step();
  }
  CHECK(rates == std::vector<double>{1, 1, 1, 0.5, 0.5, 0.5, 0.25});
  CHECK(x.item() == -4.75);
}

TEST_CASE("Schedules: options that make no sense are refused", "[schedules]") {
  using namespace wt::optim;
  CHECK_THROWS_AS(step_lr(0), UsageError);
  CHECK_THROWS_AS(step_lr(3, -0.5), UsageError);
  CHECK_THROWS_AS(multi_step({5, 4}), UsageError);
  CHECK_THROWS_AS(multi_step({-1}), UsageError);
  CHECK_THROWS_AS(exponential(NAN), UsageError);
  CHECK_THROWS_AS(polynomial(0), UsageError);
  CHECK_THROWS_AS(polynomial(5, 0), UsageError);
  CHECK_THROWS_AS(cosine_warm_restarts(5, 0), UsageError);
  CHECK_THROWS_AS(one_cycle(0), UsageError);
  CHECK_THROWS_AS(one_cycle(9, {.pct_start = 1.5}), UsageError);
  CHECK_THROWS_AS(one_cycle(9, {.div_factor = 0}), UsageError);
}

TEST_CASE("Schedules: a resumed optimizer goes on where the schedule was", "[schedules]") {
  const LeakGuard guard;
  const auto make = [](const Tensor& x) {
    const std::vector<nn::NamedTensor> only{{"x", x}};
    auto opt = std::make_unique<optim::Sgd>(only, optim::SgdOptions{.lr = 0.5});
    opt->set_schedule(optim::one_cycle(51));
    return opt;
  };
  const Tensor x = zeros({1}, {.dtype = f64, .requires_grad = true});
  const auto opt = make(x);
  for (int i = 0; i < 25; ++i) {
    x.set_grad(ones({1}, {.dtype = f64}));
    opt->step();
  }
  std::vector<nn::NamedTensor> saved;
  for (const nn::NamedTensor& t : opt->state()) saved.push_back({t.name, t.tensor.clone()});
  const Tensor y = zeros({1}, {.dtype = f64, .requires_grad = true});
  const auto resumed = make(y);
  resumed->load_state(saved);
  CHECK(resumed->rate() == 0.5 * optim::one_cycle(51).at(25));
  CHECK(resumed->rate() == opt->rate());
}

TEST_CASE("ReduceLROnPlateau follows PyTorch, resumed in the middle", "[schedules]") {
  using optim::ReduceLROnPlateau;
  using Options = optim::ReduceLROnPlateauOptions;
  const LeakGuard guard;
  const auto r = load_reference(reference_path("schedule_plateau"));
  const std::vector<std::pair<const char*, Options>> cases{
      {"min", {.factor = 0.5, .patience = 2}},
      {"max",
       {.mode = optim::PlateauMode::max,
        .factor = 0.5,
        .patience = 1,
        .cooldown = 3,
        .min_lr = 0.01}},
      {"abs",
       {.patience = 0,
        .threshold = 0.05,
        .threshold_mode = optim::ThresholdMode::abs,
        .min_lr = 1e-3}}};
  for (const auto& [name, options] : cases) {
    const Tensor x = zeros({2}, {.dtype = f64, .requires_grad = true});
    const std::vector<nn::NamedTensor> two{{"x", x}};
    optim::Sgd opt{two, {.lr = 0.5, .groups = {{.names = {"x"}, .lr = 0.25}}}};
    auto plateau = std::make_unique<ReduceLROnPlateau>(opt, options);
    for (size_t k = 0; k < 50; ++k) {
      CAPTURE(name, k);
      if (k == 23) {
        const auto state = plateau->state();
        plateau = std::make_unique<ReduceLROnPlateau>(opt, options);
        plateau->load_state(state);
      }
      plateau->step(r.at("metric").values[k]);
      const double want = r.at(name).values[k];
      CHECK(std::abs(opt.rate() - want) <= 1e-15);
      CHECK(std::abs(opt.rate(1) - std::max(want / 2, options.min_lr)) <= 1e-15);
    }
    CHECK_THROWS_AS(plateau->load_state({}), UsageError);
    for (const Tensor& count : {tensor(std::nan(""), {.dtype = f64}), tensor(1e300, {.dtype = f64}),
                                tensor(i64{-1}, {.dtype = DType::i64})}) {
      auto damaged = plateau->state();
      damaged[1].tensor = count;
      CHECK_THROWS_AS(plateau->load_state(damaged), UsageError);
    }
    CHECK_THROWS_AS((ReduceLROnPlateau{opt, {.factor = 1}}), UsageError);
    CHECK_THROWS_AS((ReduceLROnPlateau{opt, {.patience = -1}}), UsageError);
  }
}
