// The rule of loss scaling, on the host and in every variant on every device: one table. The
// kernels around it against plain loops.
#include "warptape/kernels/loss_scale.h"

#include <cmath>
#include <limits>

#include "warptape/kernels/grad_norm.h"
#include "warptape/tests/kernels/optim/optim_buffers.h"

using namespace wt;
using namespace wt_test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Row {
  LossScale before;
  bool found;
  double scale;
  i64 tracker;
  bool exhausted;
};
LossScale at(double scale, i64 tracker, LossScale s = {}) {
  wt::detail::set_scale(s, scale);
  s.growth_tracker = tracker;
  return s;
}
const std::vector<Row>& rule() {
  static const std::vector<Row> rows{
      // A good step counts; the interval's last one makes the scale grow and the count start anew.
      {at(65536, 0), false, 65536, 1, false},
      {at(65536, 1998), false, 65536, 1999, false},
      {at(65536, 1999), false, 131072, 0, false},
      {at(8, 0, {.growth_factor = 3, .growth_interval = 1}), false, 24, 0, false},
      // inf halves it and the count starts anew.
      {at(65536, 0), true, 32768, 0, false},
      {at(65536, 1999), true, 32768, 0, false},
      {at(1000, 7, {.backoff_factor = 0.25}), true, 250, 0, false},
      // Not below the floor; there, inf is nothing that a scale could help.
      {at(1.5, 3), true, 1, 0, false},
      {at(1, 3), true, 1, 0, true},
      {at(1, 3), false, 1, 4, false},
      {at(0.25, 0, {.min_scale = 0.125}), true, 0.125, 0, false},
      {at(0.125, 0, {.min_scale = 0.125}), true, 0.125, 0, true},
      // As an f32 the scale stays finite.
      {at(0x1p127, 1999), false, 0x1p127, 0, false},
      {at(0x1p126, 1999), false, 0x1p127, 0, false},
  };
  return rows;
}
void check_row(const Row& r, const LossScale& after) {
  CAPTURE(r.before.scale, r.before.growth_tracker, r.found);
  CHECK(after.scale == r.scale);
  CHECK(after.inverse == 1 / r.scale);
  CHECK(after.scale_f32 == float(r.scale));
  CHECK(after.growth_tracker == r.tracker);
  CHECK(after.found == 0);
}

}  // namespace

TEST_CASE("the scale's rule: a table, on the host and on every device", "[loss_scale]") {
  for (const Row& r : rule()) {
    LossScale host = r.before;
    wt::detail::next_scale(host, r.found);
    check_row(r, host);
    for_each_variant<LossScaleUpdateArgs>([&](Device d, auto launch) {
      LossScale before = r.before;
      before.found = r.found;
      const OnDevice<LossScale> scaler(before, d);
      launch({scaler.get()});
      check_row(r, scaler.read());
      CHECK(bool(scaler.read().exhausted) == r.exhausted);
    });
    // A TrainStep's last kernel.
    for_each_variant<StepAdvanceArgs>([&](Device d, auto launch) {
      StepBlock start{};
      start.skip = r.found ? kSkipFound : kSkipNot;
      const OnDevice<OptimBlock> block(OptimBlock{}, d);
      const OnDevice<StepBlock> step(start, d);
      const OnDevice<LossScale> scaler(r.before, d);
      launch({block.get(), step.get(), true, {}, 0, scaler.get()});
      check_row(r, scaler.read());
      CHECK(!scaler.read().exhausted);                     // it stops by itself
      CHECK(step.read().ring[0].scale == r.before.scale);  // the one that the step used
    });
  }
}

TEST_CASE("a refused step leaves the scale", "[loss_scale][transaction]") {
  for_each_variant<StepAdvanceArgs>([&](Device d, auto launch) {
    StepBlock start{};
    start.skip = kSkipRefused;
    const OnDevice<OptimBlock> block(OptimBlock{}, d);
    const OnDevice<StepBlock> step(start, d);
    const OnDevice<LossScale> scaler(at(512, 3), d);
    launch({block.get(), step.get(), true, {}, 0, scaler.get()});
    CHECK(scaler.read().scale == 512);
    CHECK(scaler.read().growth_tracker == 3);
    launch({block.get(), nullptr, true, {}, 0, scaler.get()});  // not a TrainStep's
    CHECK(scaler.read().growth_tracker == 3);
  });
}

TEST_CASE("loss_seed: the scale over a power of two above the weight", "[loss_scale]") {
  struct SeedRow {
    double weight;
    i64 parts;
    i32 power;
  };
  for (const SeedRow& r : {SeedRow{1, 1, 0},
                           {2, 1, 1},
                           {64, 1, 6},
                           {65, 1, 7},
                           {17, 4, 7},
                           {0.25, 1, -2},
                           {0.3, 1, -1},
                           {kInf, 1, 126},
                           {1e-300, 1, -126},
                           // Without a weight: 20 samples.
                           {0, 4, 5},
                           {-3, 1, 5},
                           {std::nan(""), 1, 5}})
    for_each_variant<LossSeedArgs>([&](Device d, auto launch) {
      CAPTURE(r.weight, r.parts);
      StepBlock start{};
      start.weight = r.weight;
      const OnDevice<StepBlock> step(start, d);
      const OnDevice<LossScale> scaler(at(1024, 0), d);
      launch({step.get(), scaler.get(), r.parts, 20});
      CHECK(step.read().seed_power == r.power);
      CHECK(step.read().seed == std::ldexp(1024.0, -r.power));
      CHECK(step.read().seed_f32 == float(std::ldexp(1024.0, -r.power)));
    });
  // In two halves, with a reduction over ranks in between.
  for_each_variant<LossSeedArgs>([&](Device d, auto launch) {
    StepBlock start{};
    start.weight = 8;
    start.seed = 5;
    const OnDevice<StepBlock> step(start, d);
    const OnDevice<LossScale> scaler(at(1024, 0), d);
    launch({step.get(), scaler.get(), 1, 20, true, false});
    CHECK(step.read().seed_power == 3);
    CHECK(step.read().seed == 5);
    StepBlock agreed = step.read();
    agreed.seed_power = 5;
    const OnDevice<StepBlock> other(agreed, d);
    launch({other.get(), scaler.get(), 1, 20, false, true});
    CHECK(other.read().seed == 32);
  });
}

TEST_CASE("grad_unscale: every variant divides and sums the squares in one pass", "[loss_scale]") {
  for (const DType t : {f32, f64})
    for (const Sizes s :
         {Sizes{0, 0}, {1, 0}, {300, 0}, {kNormChunk, 0}, {3 * kNormChunk + 5, 0}, {300, 1}})
      for_each_variant<GradUnscaleArgs>([&](Device d, auto launch) {
        CAPTURE(dtype_name(t), s.n, s.skip);
        const Buffer g(numbers(s.n, 9), t, d, s.skip);
        const Values before = g.values();
        const i64 chunks = norm_chunks(s.n);
        const Tensor partials = full({chunks + 1}, 77, {.dtype = f64}).to(d);
        const OnDevice<LossScale> scaler(at(1024, 0), d);
        if (!launch({g.data(), s.n, t, scaler.get(), static_cast<double*>(partials.impl()->data)}))
          return;
        const Values after = g.values(), got = partials.to_vector<double>();
        CHECK(got.back() == 77);
        for (i64 k = 0; k < chunks; ++k) {
          double sum = 0;
          for (i64 i = k * kNormChunk; i < std::min(s.n, (k + 1) * kNormChunk); ++i) {
            CHECK(after[size_t(i)] == before[size_t(i)] / 1024);
            sum += after[size_t(i)] * after[size_t(i)];
          }
          CHECK(std::abs(got[size_t(k)] - sum) <= 1e-12 * sum);
        }
      });
}

TEST_CASE("step_decide with a scaler: unscaled norm, found, and where it may stop",
          "[loss_scale]") {
  for_each_variant<StepDecideArgs>([&](Device d, auto launch) {
    const auto decide = [&](double squares, const LossScale& s, StepBlock start, NonFinite policy) {
      const Tensor partials = tensor({squares}, {.dtype = f64}).to(d);
      const OnDevice<LossScale> scaler(s, d);
      const OnDevice<StepBlock> step(start, d);
      StepDecideArgs a{};
      a.partials = static_cast<const double*>(partials.impl()->data);
      a.count = 1;
      a.max_norm = 1;
      a.step = step.get();
      a.on_found = policy;
      a.scaler = scaler.get();
      launch(a);
      return step.read();
    };
    StepBlock start{};
    start.loss_sum = 6, start.weight = 4, start.seed = 256;
    StepBlock s = decide(2048.0 * 2048, at(1024, 0), start, NonFinite::stop);
    CHECK(s.grad_norm == 2);  // 2048 / (4 * 256)
    CHECK(s.loss == 1.5);
    CHECK(std::abs(s.factor * 4 * 256 - 0.5) < 1e-6);
    CHECK(s.skip == kSkipNot);
    // inf is the scale's business until there is none left to lower.
    for (const NonFinite policy : {NonFinite::stop, NonFinite::skip}) {
      s = decide(kInf, at(1024, 0), start, policy);
      CHECK(s.found == kFoundBadGradient);
      CHECK(s.skip == kSkipFound);
      CHECK(s.stop == 0);
      s = decide(kInf, at(1, 0), start, policy);
      const bool stops = policy == NonFinite::stop;
      CHECK(s.stop == (stops ? kFoundBadGradient : 0));
      CHECK(s.skip == (stops ? kSkipRefused : kSkipFound));
    }
  });
  // Raw loops: the norm alone.
  for_each_variant<StepDecideArgs>([&](Device d, auto launch) {
    for (const bool unscaled : {false, true})
      for (const bool bad : {false, true}) {
        const Tensor partials = tensor({bad ? kInf : 64.0 * 64}, {.dtype = f64}).to(d),
                     out = zeros({2}, {.dtype = f64}).to(d);
        const OnDevice<LossScale> scaler(at(32, 0), d);
        const OnDevice<i32> found(5, d);
        auto* p = static_cast<double*>(out.impl()->data);
        StepDecideArgs a{};
        a.partials = static_cast<const double*>(partials.impl()->data);
        a.count = 1;
        a.norm = p, a.factor = p + 1;
        a.scaler = scaler.get(), a.unscaled = unscaled, a.found = found.get();
        launch(a);
        CHECK(found.read() == bad);
        CHECK(scaler.read().found == bad);
        if (bad) continue;
        CHECK(out.to_vector<double>() == Values{unscaled ? 64.0 : 2.0, unscaled ? 1.0 : 1.0 / 32});
      }
  });
}
