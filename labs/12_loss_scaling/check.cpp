// Hidden cases of the lab on loss scaling: the numbers of f16 come from the library's own autocast,
// waits of the host are counted by SyncGuard and launches by an observer.
#include <cmath>
#include <limits>

#include "loss_scaling.h"
#include "warptape/autograd/autocast.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/profiler.h"
#include "warptape/labs/support/cases.h"

using namespace wt;
using scaling::Scaler;
using wt::lab::Draws;
using wt::lab::expect;

namespace {

const Device kDevice = Device::simt();
constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor numbers(Draws& draws, const Shape& shape, double low, double high, Device device = kDevice) {
  i64 n = 1;
  for (int i = 0; i < shape.ndim(); ++i) n *= shape[i];
  return tensor(draws.reals(n, low, high)).reshape(shape).to(device);
}
std::vector<float> values(const Tensor& t) { return t.to_vector<float>(); }
double value(const Tensor& t) { return t.to_vector<float>().at(0); }
std::string whole(double x) {
  return std::fabs(x) < 0x1p53 && x == std::floor(x) ? str(i64(x)) : str(x);
}
std::string power(double x) { return str("2^", std::log2(x)); }

// --- 1 ---

// A product, relu, and another product in f16; the loss is as small as `factor` makes it.
struct SmallNet {
  Tensor x, y, first, last;
  double factor;
  SmallNet(Draws& draws, Device device, double by)
      : x(numbers(draws, {16, 8}, -1, 1, device)),
        y(numbers(draws, {16, 1}, -1, 1, device)),
        first(numbers(draws, {8, 12}, -0.5, 0.5, device).requires_grad_()),
        last(numbers(draws, {12, 1}, -0.5, 0.5, device).requires_grad_()),
        factor(by) {}
  Tensor loss() const { return mean(square(matmul(relu(matmul(x, first)), last) - y)) * factor; }
  Tensor half_loss() const {
    const AutocastScope autocast(DType::f16);
    return loss();
  }
};

scaling::Cliffs expected_cliffs(const scaling::Gradient& gradient) {
  const std::vector<float> plain = values(gradient(1));
  scaling::Cliffs c;
  for (int k = 0; k <= 24; ++k) {
    const std::vector<float> g = values(gradient(std::ldexp(1.0, k)));
    double there = 0, lost = 0;
    for (size_t i = 0; i < g.size(); ++i) {
      if (!std::isfinite(g[i])) return c;
      there += g[i] != 0;
      lost += g[i] != 0 && plain[i] == 0;
    }
    c = {.largest = std::ldexp(1.0, k), .lost = there > 0 ? lost / there : 0};
  }
  return c;
}

void compare_cliffs(const scaling::Gradient& gradient) {
  int calls = 0;
  const scaling::Cliffs got = scaling::find_cliffs([&](double scale) {
    expect(++calls <= 60, "gradient() was called more than 60 times", "cliffs");
    expect(mode.grad, "gradient() was called under NoGrad, and is a backward", "tape");
    return gradient(scale);
  });
  const scaling::Cliffs want = expected_cliffs(gradient);
  expect(got.largest == want.largest,
         str("largest is ", whole(got.largest), ", not ", whole(want.largest),
             want.largest > 0 ? " (" + power(want.largest) + ")" : ""),
         "cliffs");
  wt::lab::expect_close("lost", got.lost, want.lost, 1e-9, "lost");
}

// Gradients of these sizes, had f16 room for them; every fourth is zero at any scale.
scaling::Gradient made_up(Draws& draws, int from, int to) {
  std::vector<double> true_gradient;
  for (int i = 0; i < 200; ++i)
    true_gradient.push_back(i % 4 == 0 ? 0 : std::exp2(draws.real(from, to)));
  return [true_gradient](double scale) {
    std::vector<float> g;
    for (const double x : true_gradient) g.push_back(float(x * scale));
    return tensor(g).to(DType::f16).to(DType::f32);
  };
}

}  // namespace

WT_LAB_CASE("where gradients vanish in f16, and where they overflow", 10) {
  const SmallNet net(draws, Device::cpu(), std::exp2(-double(draws.whole(14, 18))));
  compare_cliffs([&](double scale) {
    return grad(net.half_loss() * scale, net.first).reshape({-1}).to(DType::f32);
  });
  compare_cliffs(made_up(draws, -40, -12));
  compare_cliffs(made_up(draws, -44, -26));  // finite at 2^24 too
  compare_cliffs(made_up(draws, 10, 17));    // inf at once
  compare_cliffs([](double) { return zeros({5}); });
}

// --- 2 ---

WT_LAB_CASE("the loss times the scale, as it is at the call", 5) {
  Scaler s = scaling::make_scaler(kDevice, {.init_scale = 1024});
  expect(value(s.scale) == 1024 && value(s.found) == 0 && value(s.good_steps) == 0,
         "make_scaler() does not begin with init_scale, nothing found and no good steps", "begin");
  const Tensor w = numbers(draws, {5}, -2, 2).requires_grad_();
  for (const double scale : {1024.0, 8.0}) {
    s.scale.copy_(full({}, scale));
    const Tensor scaled = scaling::scale_loss(s, sum(square(w)));
    expect(scaled.requires_grad(), "what scale_loss() returns has no place on the tape", "begin");
    const std::vector<float> g = values(grad(scaled, w)), x = values(w);
    for (size_t i = 0; i < x.size(); ++i)
      wt::lab::expect_close(str("the gradient of the scaled loss at a scale of ", scale), g[i],
                            2 * x[i] * scale, 0, "begin");
  }
}

namespace {

std::vector<Tensor> some_gradients(Draws& draws, i64 count) {
  std::vector<Tensor> all;
  for (i64 i = 0; i < count; ++i)
    all.push_back(numbers(draws, {draws.whole(1, 4), draws.whole(1, 40)}, -100, 100));
  return all;
}

// One element of a tensor on the device becomes x.
void put(Draws& draws, const Tensor& t, float x) {
  Tensor row = t.select(0, draws.whole(0, t.size(0) - 1));
  row.narrow(0, draws.whole(0, t.size(1) - 1), 1).fill_(x);
}

constexpr float kBad[] = {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()};

}  // namespace

WT_LAB_CASE("unscale_ divides in place, and finds one inf or NaN among many", 14) {
  const double scale = std::exp2(double(draws.whole(4, 16)));
  Scaler s = scaling::make_scaler(kDevice, {.init_scale = scale});
  for (int round = 0; round < 8; ++round) {
    const std::vector<Tensor> gradients = some_gradients(draws, 5);
    std::vector<std::vector<float>> before;
    for (const Tensor& g : gradients) before.push_back(values(g));
    // All orders of good and bad ones: 0, 3 and 6 are clean.
    const i64 where = round % 3 == 0 ? -1 : draws.whole(0, 4);
    if (where >= 0) put(draws, gradients[size_t(where)], kBad[draws.whole(0, 2)]);
    scaling::unscale_(s, gradients);
    const double found = value(s.found);
    if (where < 0)
      expect(found == 0,
             str("found is ", found, " after gradients that are all finite",
                 round ? ", those before them were not" : ""),
             "found");
    else
      expect(found == 1,
             str("found is ", found, ", and gradient ", where, " of 5 has an element that is inf ",
                 "or NaN"),
             "found");
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (i64(i) == where) continue;
      const std::vector<float> g = values(gradients[i]);
      for (size_t k = 0; k < g.size(); ++k)
        wt::lab::expect_close(str("gradient ", i, ", element ", k, ", at a scale of ", scale), g[k],
                              before[i][k] / scale, 0, "divide");
    }
  }
}

WT_LAB_CASE("a skipped step changes no bit, and another one is SGD", 21) {
  Scaler s = scaling::make_scaler(kDevice, {.init_scale = 64});
  std::vector<Tensor> weights;
  for (int i = 0; i < 3; ++i) weights.push_back(numbers(draws, {4, 9}, -1, 1).requires_grad_());
  const double rate = 0.25;
  for (int round = 0; round < 9; ++round) {
    std::vector<Tensor> gradients;
    for (int i = 0; i < 3; ++i) gradients.push_back(numbers(draws, {4, 9}, -50, 50));
    const bool bad = round % 3 == 1;
    if (bad) put(draws, gradients[size_t(draws.whole(0, 2))], kBad[round / 3]);
    std::vector<std::vector<float>> before, step;
    for (const Tensor& w : weights) before.push_back(values(w));
    // As unscale_ should leave it: this case is about the step.
    for (Tensor g : gradients) g *= 1.0 / 64;
    for (const Tensor& g : gradients) step.push_back(values(g));
    s.found.fill_(bad ? 1 : 0);
    scaling::sgd_step_(s, weights, gradients, rate);
    for (size_t i = 0; i < weights.size(); ++i) {
      expect(weights[i].requires_grad(), str("weight ", i, " is no leaf of the tape any more"),
             "in_place");
      const std::vector<float> w = values(weights[i]);
      for (size_t k = 0; k < w.size(); ++k) {
        const double want = bad ? before[i][k] : before[i][k] - rate * step[i][k];
        const std::string what =
            str("weight ", i, ", element ", k, ", after a ", bad ? "skipped" : "good", " step");
        if (std::isnan(w[k])) wt::lab::fail(what + " is NaN", bad ? "inf_times_zero" : "in_place");
        wt::lab::expect_close(what, w[k], want, bad ? 0 : 1e-6, bad ? "skip" : "in_place");
      }
    }
  }
}

namespace {

struct Rule {
  double scale, good = 0;
  void step(bool found, const scaling::Options& o) {
    const bool grow = !found && good + 1 >= o.growth_interval;
    if (found) scale *= o.backoff_factor;
    if (grow) scale *= o.growth_factor;
    good = found || grow ? 0 : good + 1;
    scale = std::fmin(std::fmax(scale, scaling::kLeast), scaling::kMost);
  }
};

// Steps that found something as `pattern` says; `what` names the trace.
void follow(const std::vector<bool>& pattern, const scaling::Options& options, const char* what,
            const char* hint) {
  Scaler s = scaling::make_scaler(kDevice, options);
  Rule rule{options.init_scale};
  for (size_t i = 0; i < pattern.size(); ++i) {
    s.found.fill_(pattern[i] ? 1 : 0);
    scaling::update_(s, options);
    rule.step(pattern[i], options);
    const double got = value(s.scale);
    expect(got == rule.scale,
           str(what, ", growth_interval ", options.growth_interval, ": after step ", i + 1,
               " the scale is ", got, ", not ", rule.scale),
           hint);
  }
}

}  // namespace

WT_LAB_CASE("the scale falls, grows, and counts good steps in a row", 21) {
  const double n = double(draws.whole(3, 6));
  const scaling::Options o{.init_scale = 1024, .growth_interval = n};
  follow(std::vector<bool>(4, true), o, "only steps with inf", "backoff");
  follow(std::vector<bool>(size_t(3 * n + 1), false), o, "only good steps", "growth");
  std::vector<bool> mixed;  // one good step too few, each time
  for (int k = 0; k < 3; ++k) {
    mixed.insert(mixed.end(), size_t(n - 1), false);
    mixed.push_back(true);
  }
  follow(mixed, o, "a skipped step before the count is full", "reset");
  std::vector<bool> random;
  for (int k = 0; k < 60; ++k) random.push_back(draws.whole(0, 5) == 0);
  follow(random, o, "good and skipped steps mixed", "reset");
  follow(random,
         {.init_scale = 3e5, .growth_factor = 4, .backoff_factor = 0.25, .growth_interval = 2},
         "other factors", "growth");
  follow(std::vector<bool>(3, true), {.init_scale = 2}, "at the lower bound", "least");
  follow(std::vector<bool>(4, false), {.init_scale = 0x1p126, .growth_interval = 1},
         "at the upper bound", "bounds");
}

WT_LAB_CASE("the host waits for nothing", 21) {
  const scaling::Options o{.init_scale = 256, .growth_interval = 2};
  const SmallNet net(draws, kDevice, 1);
  const std::vector<Tensor> weights{net.first, net.last};
  Scaler s = scaling::make_scaler(kDevice, o);
  const SyncGuard guard(OnSync::count);
  for (int step = 0; step < 3; ++step) {
    const Tensor loss = scaling::scale_loss(s, net.half_loss());
    const std::vector<Tensor> gradients = grads(loss, weights);
    scaling::unscale_(s, gradients);
    scaling::sgd_step_(s, weights, gradients, 0.01);
    scaling::update_(s, o);
  }
  expect(guard.count() == 0,
         str("in three steps the host waited for the device ", guard.count(),
             " times: ", guard.describe()),
         "sync");
  const SyncGuard over(OnSync::allow);
  expect(
      value(s.scale) == 2 * o.init_scale,
      str("it waits for nothing, which counts for a right rule alone: after three good steps with "
          "growth_interval 2 the scale is ",
          value(s.scale), ", not ", 2 * o.init_scale),
      "right_step");
}

WT_LAB_CASE("training in f16 arrives where f32 does", 8) {
  const double factor = 0x1p-20, rate = 0.2 / factor;  // without a scale there is no gradient
  Draws again(draws.seed);
  SmallNet half(draws, kDevice, factor), full(again, kDevice, factor);
  const scaling::Options o{.init_scale = 0x1p46, .growth_interval = 10};
  Scaler s = scaling::make_scaler(kDevice, o);
  const double begin = value(full.loss()) / factor;
  const std::vector<Tensor> weights{half.first, half.last}, others{full.first, full.last};
  for (int step = 0; step < 50; ++step) {
    const std::vector<Tensor> gradients = grads(scaling::scale_loss(s, half.half_loss()), weights);
    scaling::unscale_(s, gradients);
    scaling::sgd_step_(s, weights, gradients, rate);
    scaling::update_(s, o);
    if (value(s.found) != 0) continue;
    const std::vector<Tensor> exact = grads(full.loss(), others);
    const NoGrad no_grad;
    for (size_t i = 0; i < others.size(); ++i) Tensor(others[i]) -= rate * exact[i];
  }
  const double f32 = value(full.loss()) / factor, f16 = value(half.loss()) / factor;
  expect(value(s.scale) < 0x1p45,
         str("after 50 steps from 2^46 the scale is still ", power(value(s.scale)),
             ", where gradients overflow"),
         "train");
  expect(std::isfinite(f16) && std::fabs(f16 - f32) <= 0.02 * begin,
         str("the loss went from ", begin, " to ", f16, ", in f32 to ", f32), "train");
}

namespace {
struct Launches : profiler::Observer {
  int count = 0;
  void begin(const profiler::Range& r) noexcept override {
    count += r.kind == profiler::Kind::kernel;
  }
};
}  // namespace

WT_LAB_CHALLENGE("unscale_ of 32 gradients launches at most 72 kernels") {
  Scaler s = scaling::make_scaler(kDevice, {.init_scale = 256});
  for (const bool bad : {true, false}) {
    const std::vector<Tensor> gradients = some_gradients(draws, 32);
    if (bad) put(draws, gradients[size_t(draws.whole(0, 31))], kInf);
    Launches launches;
    {
      const profiler::ObserverScope watch(launches);
      scaling::unscale_(s, gradients);
    }
    expect(value(s.found) == (bad ? 1 : 0), "found is wrong", "found");
    expect(launches.count <= 72, str("it launched ", launches.count, " kernels"), "launches");
  }
}
