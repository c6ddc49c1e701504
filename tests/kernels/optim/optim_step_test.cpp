// Every variant of a training step's own kernels on every device against plain loops: odd sizes,
// offsets that break 16-byte alignment, flags. Optimizers are in optim_rule_test.cpp.
#include "warptape/kernels/optim_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "warptape/kernels/grad_norm.h"
#include "warptape/tests/kernels/optim/optim_buffers.h"

using namespace wt;
using namespace wt_test;

TEST_CASE("any raised flag keeps a step from counting", "[wall][transaction]") {
  for (int which = 0; which < 3; ++which) {
    const auto flags = [&](const OnDevice<i32>& one, const OnDevice<i32>& zero) {
      StepFlags f{{zero.get(), nullptr, zero.get()}};
      f.flag[which] = one.get();
      return f;
    };
    for_each_variant<StepAdvanceArgs>([&](Device d, auto launch) {
      const OnDevice<OptimBlock> block(OptimBlock{.applied = 4, .attempted = 6}, d);
      const OnDevice<i32> one(1, d), zero(0, d);
      launch({block.get(), nullptr, true, flags(one, zero)});
      CHECK(block.read().applied == 4);
      CHECK(block.read().attempted == 7);
    });
  }
}

TEST_CASE("step_advance counts, derives the next rate and writes the record",
          "[wall][schedules][device_scalars]") {
  for_each_variant<StepAdvanceArgs>([&](Device d, auto launch) {
    const Tensor table = tensor({0.5, 0.25, 0.125}, {.dtype = f64}).to(d);
    const OnDevice<OptimBlock> block(
        OptimBlock{.lr = 2,
                   .lr_factor = 0.5,
                   .beta1 = 0.5,
                   .beta2 = 0.25,
                   .schedule = static_cast<const double*>(table.impl()->data),
                   .schedule_begin = 10,
                   .schedule_size = 3,
                   .applied = 10,
                   .attempted = kStepRing + 3,
                   .rate = 9},
        d);
    StepBlock start{};
    start.loss = 3;
    start.grad_norm = 4;
    start.found = 2;
    const OnDevice<StepBlock> step(start, d);
    const auto advance = [&](bool count) { launch({block.get(), step.get(), count, {}}); };
    advance(false);
    CHECK(block.read().rate == 0.5);
    CHECK(block.read().applied == 10);
    CHECK(std::abs(block.read().bias1 - (1 - std::pow(0.5, 11))) < 1e-15);
    CHECK(std::abs(block.read().bias2_sqrt - std::sqrt(1 - std::pow(0.25, 11))) < 1e-15);
    advance(true);
    CHECK(block.read().applied == 11);
    CHECK(block.read().attempted == kStepRing + 4);
    CHECK(block.read().rate == 0.25);
    const StepRecord r = step.read().ring[3];
    CHECK(r.loss == 3);
    CHECK(r.grad_norm == 4);
    CHECK(r.lr == 0.5);
    CHECK(r.attempt == kStepRing + 3);
    CHECK(r.applied == 11);
    CHECK(r.skipped == 0);
    CHECK(r.found == 2);
    for (int i = 0; i < 5; ++i) advance(true);
    CHECK(block.read().rate == 0.125);  // past the table: its last value
    // Dropout calls count unless the step is skipped.
    const OnDevice<i32> skip(1, d);
    launch({block.get(), step.get(), true, {}, 5});
    launch({block.get(), step.get(), true, {{skip.get(), nullptr, nullptr}}, 7});
    CHECK(step.read().call_base == 5);
  });
}

TEST_CASE(
    "step_advance derives the scalars of NAdam and RAdam, a skipped step multiplies nothing") {
  for_each_variant<StepAdvanceArgs>([&](Device d, auto launch) {
    const double beta1 = 0.9, beta2 = 0.99, base = 0.75;
    const OnDevice<OptimBlock> block(
        OptimBlock{.lr = 1, .beta1 = beta1, .beta2 = beta2, .mu_base = base}, d);
    const OnDevice<i32> skip(1, d);
    const auto advance = [&](bool count, const i32* flag) {
      launch({block.get(), nullptr, count, {{flag, nullptr, nullptr}}});
    };
    advance(false, nullptr);
    double product = 1;
    bool rectified = false;
    for (int t = 1; t <= 12; ++t) {
      CAPTURE(t);
      advance(false, nullptr);  // as often as one likes
      advance(true, skip.get());
      const OptimBlock b = block.read();
      const double mu = beta1 * (1 - 0.5 * std::pow(base, t));
      CHECK(std::abs(b.mu - mu) <= 1e-15);
      CHECK(std::abs(b.mu_next - beta1 * (1 - 0.5 * std::pow(base, t + 1))) <= 1e-15);
      CHECK(std::abs(b.mu_product - product) <= 1e-15);
      const double bias2 = 1 - std::pow(beta2, t), most = 2 / (1 - beta2) - 1;
      const double rho = most - 2 * t * std::pow(beta2, t) / bias2;
      const double r =
          rho > 5
              ? std::sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho) * bias2)
              : 0;
      CHECK(std::abs(b.rectify - r) <= 1e-13);
      CHECK(rectified <= (r > 0));
      rectified = r > 0;
      advance(true, nullptr);
      product *= mu;
    }
    CHECK(rectified);
  });
}

TEST_CASE("step_advance leaves what rules load, in both precisions", "[wall][device_scalars]") {
  for_each_variant<StepAdvanceArgs>([&](Device d, auto launch) {
    const OnDevice<OptimBlock> block(OptimBlock{.lr = 0.3,
                                                .momentum = 0.7,
                                                .dampening = 0.2,
                                                .weight_decay = 0.1,
                                                .beta1 = 0.9,
                                                .beta2 = 0.99,
                                                .eps = 1e-3,
                                                .alpha = 0.8,
                                                .lr_decay = 0.4,
                                                .mu_base = 0.75,
                                                .ema_decay = 0.6},
                                     d);
    for (int t = 1; t <= 8; ++t) {
      CAPTURE(t);
      launch({block.get(), nullptr, t > 1, {}});
      const OptimBlock b = block.read();
      const double mu = 0.9 * (1 - 0.5 * std::pow(0.75, t));
      const double next = 0.9 * (1 - 0.5 * std::pow(0.75, t + 1));
      double product = 1;
      for (int k = 1; k <= t; ++k) product *= 0.9 * (1 - 0.5 * std::pow(0.75, k));
      const Values want{1 - 0.3 * 0.1,
                        1e-3,
                        1 - 0.9,
                        1 - 0.99,
                        0.99,
                        0.3 / (1 - std::pow(0.9, t)),
                        1 / std::sqrt(1 - std::pow(0.99, t)),
                        0.3,
                        0.1,
                        0.7,
                        1 - 0.7,
                        t > 1 ? 1 - 0.2 : 1,
                        0.9,
                        0.8,
                        1 - 0.8,
                        0.3 / (1 + (t - 1) * 0.4),
                        0.3 * (1 - mu) / (1 - product),
                        0.3 * next / (1 - product * next),
                        b.rectify,
                        1 - 0.6};
      const auto* const is = reinterpret_cast<const double*>(&b.f64);
      const auto* const rounded = reinterpret_cast<const float*>(&b.f32);
      for (size_t k = 0; k < want.size(); ++k) {
        CAPTURE(k);
        CHECK(std::abs(is[k] - want[k]) <= 1e-13 * std::abs(want[k]));
        CHECK(rounded[k] == float(is[k]));
      }
    }
  });
}

TEST_CASE("step_advance counts cohorts for themselves", "[wall][device_scalars]") {
  constexpr size_t kCohorts = 300;  // more than a block has threads
  using Table = std::array<Cohort, kCohorts>;
  for_each_variant<StepAdvanceArgs>([&](Device d, auto launch) {
    const OptimBlock start{
        .lr = 0.3, .dampening = 0.2, .beta1 = 0.9, .beta2 = 0.99, .lr_decay = 0.4, .mu_base = 0.75};
    const OnDevice<OptimBlock> block(start, d);
    Table empty{};
    for (size_t k = 0; k < kCohorts; ++k) empty[k].source = k < 2 ? 1 - i64(k) : -1;
    Table before{};
    before[0].applied = 5, before[0].mu_product = 0.5;
    before[1].applied = 7, before[1].mu_product = 0.25;
    const OnDevice<Table> table(empty, d), earlier(before, d);
    const OnDevice<i32> skip(1, d);
    StepAdvanceArgs a{block.get(), nullptr, false, {}};
    a.cohorts = table.get()->data();
    a.n_cohorts = kCohorts;
    const auto advance = [&](bool count, std::vector<CohortRange> ranges, bool alone = false,
                             bool skipped = false) {
      StepAdvanceArgs now = a;
      now.count = count;
      now.flags = {{skipped ? skip.get() : nullptr, nullptr, nullptr}};
      now.cohorts_alone = alone;
      std::copy(ranges.begin(), ranges.end(), now.stepped);
      launch(now);
    };
    StepAdvanceArgs first = a;
    first.lays_out = true;
    first.earlier = earlier.get()->data();
    launch(first);
    advance(true, {{1, 3}, {290, 300}});
    advance(true, {{1, 2}}, false, true);
    advance(true, {{0, 1}}, true);  // of this one alone
    CHECK(block.read().applied == 1);
    CHECK(block.read().attempted == 2);
    const Table got = table.read();
    const auto check = [&](size_t k, i64 applied, double product) {
      CAPTURE(k);
      OptimBlock want = start;
      want.rate = 0.3;
      want.applied = applied;
      const double mu = 0.9 * (1 - 0.5 * std::pow(0.75, applied + 1));
      want.mu_product = product;
      want.mu = mu;
      want.mu_next = 0.9 * (1 - 0.5 * std::pow(0.75, applied + 2));
      want.bias1 = 1 - std::pow(0.9, applied + 1);
      want.bias2_sqrt = std::sqrt(1 - std::pow(0.99, applied + 1));
      want.rectify = got[k].f64.rectify;
      wt::detail::pack(want);
      CHECK(got[k].applied == applied);
      CHECK(std::abs(got[k].mu_product - product) <= 1e-15);
      const auto* const is = reinterpret_cast<const double*>(&got[k].f64);
      const auto* const wanted = reinterpret_cast<const double*>(&want.f64);
      const auto* const rounded = reinterpret_cast<const float*>(&got[k].f32);
      for (size_t i = 0; i < sizeof want.f64 / sizeof(double); ++i) {
        CAPTURE(i);
        CHECK(std::abs(is[i] - wanted[i]) <= 1e-13 * std::abs(wanted[i]));
        CHECK(rounded[i] == float(is[i]));
      }
    };
    const auto mu = [](i64 applied) { return 0.9 * (1 - 0.5 * std::pow(0.75, applied + 1)); };
    check(0, 8, 0.25 * mu(7));
    check(1, 6, 0.5 * mu(5));
    check(2, 1, mu(0));
    check(3, 0, 1);
    check(289, 0, 1);
    check(299, 1, mu(0));
  });
}

TEST_CASE("step_restore: every variant, only under a flag", "[wall][transaction]") {
  for (const i64 n : {0, 1, 16, 37, 5000})
    for (const bool raised : {false, true})
      for_each_variant<StepRestoreArgs>([&](Device d, auto launch) {
        CAPTURE(n, raised);
        const Buffer to(Values(size_t(n), 1.0), DType::u8, d, 0),
            from(Values(size_t(n), 2.0), DType::u8, d, 0);
        const OnDevice<i32> flag(raised, d);
        launch({to.data(), from.data(), n, {{flag.get(), nullptr, nullptr}}});
        CHECK(to.values() == Values(size_t(n), raised ? 2.0 : 1.0));
      });
}

TEST_CASE("grad_norm and step_decide: every variant") {
  for (const DType t : {f32, f64})
    for (const Sizes s :
         {Sizes{0, 0}, {1, 0}, {300, 0}, {kNormChunk, 0}, {3 * kNormChunk + 5, 0}, {300, 1}}) {
      CAPTURE(dtype_name(t), s.n, s.skip);
      for_each_variant<GradNormArgs>([&](Device d, auto launch) {
        const Buffer g(numbers(s.n, 9), t, d, s.skip);
        const i64 chunks = norm_chunks(s.n);
        const Tensor partials = full({chunks + 1}, 77, {.dtype = f64}).to(d);
        if (!launch({g.data(), s.n, t, static_cast<double*>(partials.impl()->data)})) return;
        const Values got = partials.to_vector<double>(), v = g.values();
        CHECK(got.back() == 77);
        for (i64 k = 0; k < chunks; ++k) {
          double sum = 0;
          for (i64 i = k * kNormChunk; i < std::min(s.n, (k + 1) * kNormChunk); ++i)
            sum += v[size_t(i)] * v[size_t(i)];
          CHECK(std::abs(got[size_t(k)] - sum) <= 1e-12 * sum);
        }
      });
    }
  const auto decide = [](auto launch, Device d, const Values& squares, double max_norm) {
    const Tensor partials = tensor(squares).to(d), out = zeros({2}, {.dtype = f64}).to(d);
    auto* p = static_cast<double*>(out.impl()->data);
    launch({static_cast<const double*>(partials.impl()->data), i64(squares.size()), max_norm, p,
            p + 1, nullptr, NonFinite::ignore, nullptr});
    return out.to_vector<double>();
  };
  for_each_variant<StepDecideArgs>([&](Device d, auto launch) {
    Values many(1000, 0.009);
    CHECK(std::abs(decide(launch, d, many, 0)[0] - 3) < 1e-12);
    CHECK(decide(launch, d, many, 0)[1] == 1);
    CHECK(decide(launch, d, many, 5)[1] == 1);
    CHECK(std::abs(decide(launch, d, many, 1.5)[1] - 1.5 / (3 + 1e-6)) < 1e-12);
    CHECK(decide(launch, d, {INFINITY}, 1)[1] == 0);
    CHECK(std::isnan(decide(launch, d, {NAN}, 1)[1]));
  });
}

TEST_CASE("step_decide: the one predicate of a training step", "[wall][transaction]") {
  struct Case {
    double loss_sum, squares;
    NonFinite on_found;
    i32 mailbox, stop;
    i32 found, want_stop, skip;
    double weight = 2;
  };
  const double inf = INFINITY;
  constexpr i32 kNoItems = kFoundNoWeight | kFoundBadLoss | kFoundBadGradient;
  const std::vector<Case> cases{
      {8, 16, NonFinite::stop, 0, 0, 0, 0, 0},
      {inf, 16, NonFinite::stop, 0, 0, kFoundBadLoss, kFoundBadLoss, 1},
      {8, inf, NonFinite::stop, 0, 0, kFoundBadGradient, kFoundBadGradient, 1},
      {8, inf, NonFinite::stop, 0, kFoundBadLoss, kFoundBadGradient, kFoundBadLoss, 1},
      {NAN, NAN, NonFinite::skip, 0, 0, kFoundBadLoss | kFoundBadGradient, 0, 1},
      {inf, 16, NonFinite::ignore, 0, 0, kFoundBadLoss, 0, 0},
      {8, 16, NonFinite::ignore, 1, 0, 0, 0, 1},
      {inf, 16, NonFinite::stop, 1, 0, kFoundBadLoss, 0, 1},  // a bad label's own garbage
      {8, 16, NonFinite::skip, 0, 1, 0, 1, 1},
      {0, 0, NonFinite::stop, 0, 0, kNoItems, kNoItems, 1, 0},
      {0, 0, NonFinite::skip, 0, 0, kNoItems, 0, 2, 0},  // refused: no scale is lowered
      {0, 0, NonFinite::ignore, 0, 0, kNoItems, 0, 0, 0},
  };
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    CAPTURE(i);
    for_each_variant<StepDecideArgs>([&](Device d, auto launch) {
      StepBlock start{};
      start.loss_sum = c.loss_sum;
      start.weight = c.weight;
      start.stop = c.stop;
      const OnDevice<StepBlock> step(start, d);
      const OnDevice<i32> mailbox(c.mailbox, d);
      const OnDevice<double> partial(c.squares, d);
      launch({partial.get(), 1, 1, nullptr, nullptr, step.get(), c.on_found, mailbox.get()});
      const StepBlock s = step.read();
      CHECK(s.found == c.found);
      CHECK(s.stop == c.want_stop);
      CHECK((s.skip != kSkipNot) == (c.skip != 0));
      CHECK((s.skip == kSkipRefused) ==
            (c.skip && (c.mailbox || c.want_stop || (c.found & kFoundNoWeight))));
      if (c.found == 0) {
        CHECK(s.loss == 4);
        CHECK(s.grad_norm == 2);
        CHECK(std::abs(s.factor - 0.5 / (2 + 1e-6)) < 1e-15);
      }
    });
  }
}

TEST_CASE("grad_scale and loss_add") {
  for (const DType t : {f32, f64})
    for_each_variant<GradScaleArgs>([&](Device d, auto launch) {
      const Buffer x(numbers(300, 3), t, d, 0);
      const OnDevice<double> factor(0.5, d);
      Values want = x.values();
      launch({x.data(), 300, t, factor.get()});
      for (double& v : want) v /= 2;
      CHECK(x.values() == want);
    });
  for_each_variant<LossAddArgs>([&](Device d, auto launch) {
    StepBlock start{};
    start.loss_sum = start.weight = NAN;  // of an earlier step
    const OnDevice<StepBlock> step(start, d);
    const OnDevice<float> s(1.5f, d);
    const OnDevice<i64> n(3, d);
    launch({s.get(), f32, n.get(), DType::i64, 0, step.get(), true});
    launch({s.get(), f32, nullptr, f64, 0.25, step.get(), false});
    CHECK(step.read().loss_sum == 3);
    CHECK(step.read().weight == 3.25);
  });
}
