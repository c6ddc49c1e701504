// GradScaler in loops by hand: what it must not change, what it must skip, what it refuses.
#include "warptape/optim/grad_scaler.h"

#include <cmath>

#include "warptape/optim/clip.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/optim/scaled_net.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;

namespace {

struct Loop {
  ScaledNet net;
  optim::AdamW opt;
  Labelled batch;
  explicit Loop(Device d) : net(scaled_net(d)), opt(net, {.lr = 0.01}), batch(labelled(16, d)) {}
  Loss loss() { return cross_entropy(net(batch.x), batch.y); }
};
bool has_value(const Tensor& t) {
  for (const double v : t.to_vector<double>())
    if (v != 0) return true;
  return false;
}

}  // namespace

TEST_CASE("GradScaler: a power of two changes no bit of an f32 step", "[grad_scaler]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  Loop plain(d), scaled(d);
  optim::GradScaler scaler({.init_scale = 1024, .growth_interval = 2});
  for (int i = 0; i < 6; ++i) {
    plain.opt.zero_grad();
    plain.loss().backward();
    plain.opt.step();
    scaled.opt.zero_grad();
    scaler.scale(scaled.loss()).backward();
    if (i % 2) scaler.unscale_(scaled.opt);
    scaler.step(scaled.opt);
    scaler.update();
  }
  CHECK(values_of(plain.net) == values_of(scaled.net));
  CHECK(scaler.get_scale() == 8192);  // it grew three times
  CHECK(scaled.opt.applied() == 6);
}

TEST_CASE("GradScaler: inf skips a step of the optimizer that met it and lowers the scale once",
          "[grad_scaler]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const bool unscale = GENERATE(false, true);
  Loop a(d), b(d);
  optim::GradScaler scaler;
  Overflow bad(a.net.first.weight.tensor());
  const auto step = [&] {
    for (Loop* l : {&a, &b}) {
      l->opt.zero_grad();
      scaler.scale(l->loss()).backward();
      if (unscale) scaler.unscale_(l->opt);
      scaler.step(l->opt);
    }
    scaler.update();
  };
  step();
  const std::vector<double> before = values_of(a.net), before_b = values_of(b.net);
  bad.on = true;
  step();
  CHECK(values_of(a.net) == before);
  CHECK(values_of(b.net) != before_b);
  CHECK(a.opt.applied() == 1);
  CHECK(a.opt.attempted() == 2);
  CHECK(b.opt.applied() == 2);
  CHECK(scaler.get_scale() == 32768);
  CHECK(scaler.get_growth_tracker() == 0);
  bad.on = false;
  step();
  CHECK(values_of(a.net) != before);
  CHECK(scaler.get_scale() == 32768);
}

TEST_CASE("GradScaler: gradients that f16 alone loses arrive", "[grad_scaler]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  Loop l(d);
  const auto tiny = [&] {
    const AutocastScope autocast(DType::f16);
    return mul(l.loss().mean(), 1e-6);
  };
  optim::GradScaler scaler;
  scaler.scale(tiny()).backward();
  scaler.unscale_(l.opt);
  CHECK(has_value(l.net.first.weight.tensor().grad()));
  // Each as in f32, to what f16 holds.
  const std::vector<double> lifted = l.net.last.weight.tensor().grad().to_vector<double>();
  scaler.step(l.opt);
  scaler.update();
  Loop wide(d);
  mul(wide.loss().mean(), 1e-6).backward();
  const std::vector<double> exact = wide.net.last.weight.tensor().grad().to_vector<double>();
  double error = 0, norm = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    error += (lifted[i] - exact[i]) * (lifted[i] - exact[i]);
    norm += exact[i] * exact[i];
  }
  CHECK(error < 1e-4 * norm);
  // The planted failure: the same without a scale.
  Loop lost(d);
  {
    const AutocastScope autocast(DType::f16);
    mul(lost.loss().mean(), 1e-6).backward();
  }
  CHECK(!has_value(lost.net.first.weight.tensor().grad()));
}

TEST_CASE("GradScaler: clipping between unscale_ and step", "[grad_scaler]") {
  Loop by_factor(Device::cpu()), in_place(Device::cpu()), plain(Device::cpu());
  optim::GradScaler scaler;
  for (Loop* l : {&by_factor, &in_place}) {
    scaler.scale(l->loss()).backward();
    scaler.unscale_(l->opt);
  }
  scaler.step(by_factor.opt, {.grad_factor = optim::clip_factor(by_factor.opt, 0.05)});
  (void)optim::clip_grad_norm_(in_place.net, 0.05);
  scaler.step(in_place.opt);
  scaler.update();
  plain.loss().backward();
  plain.opt.step({.grad_factor = optim::clip_factor(plain.opt, 0.05)});
  CHECK(values_of(by_factor.net) == values_of(plain.net));
  const std::vector<double> want = values_of(plain.net), got = values_of(in_place.net);
  for (size_t i = 0; i < want.size(); ++i) CHECK(std::abs(got[i] - want[i]) < 1e-6);
}

TEST_CASE("GradScaler: state_dict carries scale and count to another scaler", "[grad_scaler]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  Loop l(d);
  optim::GradScaler scaler({.init_scale = 256, .growth_interval = 50});
  for (int i = 0; i < 3; ++i) {
    l.opt.zero_grad();
    scaler.scale(l.loss()).backward();
    scaler.step(l.opt);
    scaler.update();
  }
  const std::vector<nn::NamedTensor> state = scaler.state_dict();
  optim::GradScaler other;
  other.load_state_dict(state);
  CHECK(other.get_scale() == 256);
  CHECK(other.get_growth_tracker() == 3);
  std::vector<std::string> names;
  for (const auto& t : other.state_dict()) names.push_back(t.name);
  CHECK(names == std::vector<std::string>{"scaler.scale", "scaler.growth_factor",
                                          "scaler.backoff_factor", "scaler.min_scale",
                                          "scaler.growth_interval", "scaler.growth_tracker"});
  std::vector<nn::NamedTensor> bad = state;
  bad.pop_back();
  CHECK(mentions(message_of([&] { other.load_state_dict(bad); }), "without scaler.growth_tracker"));
  bad = state;
  bad[0].tensor = tensor(-1.0, {.dtype = f64});
  CHECK(mentions(message_of([&] { other.load_state_dict(bad); }), "init_scale must be"));
  CHECK(other.get_scale() == 256);
}

TEST_CASE("GradScaler: inf at the floor stops, with advice", "[grad_scaler]") {
  Loop l(Device::cpu());
  optim::GradScaler scaler({.init_scale = 4});
  Overflow bad(l.net.first.weight.tensor());
  bad.on = true;
  int updates = 0;
  const std::string text = message_of([&] {
    for (; updates < 10; ++updates) {
      l.opt.zero_grad();
      scaler.scale(l.loss()).backward();
      scaler.step(l.opt);
      scaler.update();
    }
  });
  CHECK(updates == 2);  // 4, 2, 1: the third is the one that cannot be helped
  CHECK(mentions(text, "at the smallest scale, 1"));
  CHECK(mentions(text, "Try bf16"));
  CHECK(l.opt.applied() == 0);
  CHECK(scaler.get_scale() == 1);  // it is said once
}

TEST_CASE("GradScaler: disabled it neither scales nor skips", "[grad_scaler]") {
  Loop plain(Device::cpu()), off(Device::cpu());
  optim::GradScaler scaler({.enabled = false});
  plain.loss().backward();
  plain.opt.step();
  scaler.scale(off.loss()).backward();
  scaler.step(off.opt);
  scaler.update();
  CHECK(values_of(plain.net) == values_of(off.net));
  CHECK(scaler.get_scale() == 1);
}

TEST_CASE("GradScaler: options out of range", "[grad_scaler]") {
  const auto message = [](const optim::GradScalerOptions& o) {
    return message_of([&] { const optim::GradScaler s(o); });
  };
  CHECK(mentions(message({.init_scale = 0}), "init_scale must be from min_scale to 2^127, got 0"));
  CHECK(mentions(message({.growth_factor = 1}), "growth_factor must be above 1, got 1"));
  CHECK(mentions(message({.backoff_factor = 1}), "backoff_factor must be in (0, 1), got 1"));
  CHECK(mentions(message({.growth_interval = 0}), "growth_interval must be at least 1, got 0"));
  CHECK(mentions(message({.min_scale = 0}), "min_scale must be above 0, got 0"));
}
