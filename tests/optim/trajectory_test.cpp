// SGD and AdamW against PyTorch's numbers (tests/reference), on every device.
#include <cmath>
#include <limits>

#include "warptape/core/factories.h"
#include "warptape/optim/clip.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/optim/problem.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;

TEST_CASE("optimizers follow PyTorch for 50 steps") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  const DType t = GENERATE(f64, f32);
  const std::string suffix = t == f64 ? "_f64" : "_f32";
  CAPTURE(to_string(d), suffix);
  SECTION("SGD") {
    const std::string name = GENERATE("sgd_plain", "sgd_momentum", "sgd_momentum_decay");
    CAPTURE(name);
    const Arrays r = load_reference(reference_path(name + suffix));
    const Problem p(t, d);
    optim::Sgd opt{p.parameters(),
                   {.lr = option(r, "lr", 1e-3),
                    .momentum = option(r, "momentum", 0),
                    .weight_decay = option(r, "weight_decay", 0)}};
    CHECK(follow(p, opt, r) <= tolerance(t));
    CHECK(opt.applied() == 50);
  }
  SECTION("AdamW") {
    const std::string name = GENERATE("adamw_default", "adamw_decay", "adamw_betas");
    CAPTURE(name);
    const Arrays r = load_reference(reference_path(name + suffix));
    const Problem p(t, d);
    optim::AdamWOptions o{.lr = option(r, "lr", 1e-3),
                          .eps = option(r, "eps", 1e-8),
                          .weight_decay = option(r, "weight_decay", 1e-2)};
    o.betas = {option(r, "beta1", 0.9), option(r, "beta2", 0.999)};
    optim::AdamW opt{p.parameters(), o};
    CHECK(follow(p, opt, r) <= tolerance(t));
  }
}

TEST_CASE("variants of a step agree") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  const bool adam = GENERATE(false, true);
  const auto run_with = [&](const char* variant) {
    const VariantScope v{adam ? "adamw_step" : "sgd_step", variant};
    const Problem p(f32, d);
    std::unique_ptr<optim::Optimizer> opt;
    if (adam)
      opt = std::make_unique<optim::AdamW>(p.parameters());
    else
      opt = std::make_unique<optim::Sgd>(
          p.parameters(),
          optim::SgdOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
    for (size_t step = 0; step < 10; ++step) {
      p.set_grads(step);
      opt->step();
    }
    std::vector<double> all = p.w.to_vector<double>(), b = p.b.to_vector<double>();
    all.insert(all.end(), b.begin(), b.end());
    return all;
  };
  const bool cpu = d == Device::cpu();
  const std::vector<double> plain = run_with(cpu ? "reference" : "naive");
  const std::vector<double> good = run_with(cpu ? "avx2" : "vectorized");
  for (size_t i = 0; i < plain.size(); ++i)
    CHECK(std::abs(plain[i] - good[i]) <= 10 * 4 * 0x1p-24 * (1 + std::abs(plain[i])));
}

TEST_CASE("dampening counts from the second applied step, nesterov looks ahead") {
  const Tensor x = tensor({1.0}, {.dtype = f64, .requires_grad = true});
  const std::vector<nn::NamedTensor> one{{"x", x}};
  SECTION("dampening") {
    optim::Sgd opt{one, {.lr = 1, .momentum = 0.5, .dampening = 0.25}};
    x.set_grad(tensor({1.0}, {.dtype = f64}));
    opt.step();
    CHECK(x.item() == 0.0);  // the first buffer is the gradient itself
    x.set_grad(tensor({1.0}, {.dtype = f64}));
    opt.step();
    CHECK(x.item() == -(0.5 * 1 + 0.75 * 1));
  }
  SECTION("nesterov") {
    optim::Sgd opt{one, {.lr = 1, .momentum = 0.5, .nesterov = true}};
    x.set_grad(tensor({1.0}, {.dtype = f64}));
    opt.step();
    CHECK(x.item() == 1 - (1 + 0.5 * 1));
  }
  SECTION("options that make no sense") {
    CHECK_THROWS_AS((optim::Sgd{one, {.lr = -1}}), UsageError);
    CHECK_THROWS_AS((optim::Sgd{one, {.lr = 1, .nesterov = true}}), UsageError);
    CHECK_THROWS_AS((optim::AdamW{one, {.betas = {1.0, 0.9}}}), UsageError);
  }
}

TEST_CASE("clipping agrees with PyTorch") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  const std::string name = GENERATE("clip_norm", "clip_norm_below");
  const DType t = GENERATE(f64, f32);
  CAPTURE(to_string(d), name);
  const Arrays r = load_reference(reference_path(name));
  const double max_norm = r.at("max_norm").values[0], eps = t == f64 ? 1e-14 : 1e-6;
  const auto make = [&](const char* what) {
    const Tensor g = from_reference(r.at(what), t, d);
    Tensor p = zeros(g.shape(), {.dtype = t, .device = d, .requires_grad = true});
    p.set_grad(g);
    return p;
  };
  const Tensor w = make("grad_w"), b = make("grad_b");
  const auto near = [&](double a, double e) { return std::abs(a - e) <= eps * (1 + std::abs(e)); };
  SECTION("in place") {
    const std::vector<Tensor> both{w, b};
    const Tensor norm = optim::clip_grad_norm_(both, max_norm);
    CHECK(near(norm.item(), r.at("norm").values[0]));
    for (const auto& [p, what] : {std::pair{w, "clipped_w"}, std::pair{b, "clipped_b"}}) {
      const std::vector<double> now = p.grad().to_vector<double>();
      for (size_t i = 0; i < now.size(); ++i) CHECK(near(now[i], r.at(what).values[i]));
    }
  }
  SECTION("as a device scalar: .grad is not edited, the step is scaled") {
    const std::vector<nn::NamedTensor> both{{"w", w}, {"b", b}};
    optim::Sgd opt{both, {.lr = 1}};
    const Tensor factor = optim::clip_factor(opt, max_norm);
    CHECK(near(factor.item(), r.at("factor").values[0]));
    opt.step({.grad_factor = factor});
    const std::vector<double> now = w.to_vector<double>(), g = w.grad().to_vector<double>();
    for (size_t i = 0; i < now.size(); ++i) {
      CHECK(near(-now[i], r.at("clipped_w").values[i]));
      CHECK(near(g[i], r.at("grad_w").values[i]));
    }
    CHECK_THROWS_AS(optim::clip_factor(opt, 0), UsageError);
  }
}

TEST_CASE("clipping by other norms agrees with PyTorch") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  const LeakGuard guard;
  const Arrays r = load_reference(reference_path("clip_p_norms"));
  const double max_norm = r.at("max_norm").values[0];
  for (const auto& [name, p] : {std::pair{"one", 1.0}, std::pair{"three", 3.0},
                                std::pair{"inf", std::numeric_limits<double>::infinity()}}) {
    CAPTURE(to_string(d), name);
    std::vector<Tensor> both;
    for (const char* what : {"grad_w", "grad_b"}) {
      const Tensor g = from_reference(r.at(what), f64, d);
      both.push_back(zeros(g.shape(), {.dtype = f64, .device = d, .requires_grad = true}));
      both.back().set_grad(g);
    }
    const Tensor norm = optim::clip_grad_norm_(both, max_norm, {.norm_type = p});
    CHECK(std::abs(norm.item() - r.at(std::string("norm_") + name).values[0]) <= 1e-14);
    for (size_t k = 0; k < 2; ++k) {
      const std::vector<double> now = both[k].grad().to_vector<double>();
      const std::vector<double>& want = r.at(std::string(k == 0 ? "w_" : "b_") + name).values;
      for (size_t i = 0; i < now.size(); ++i) CHECK(std::abs(now[i] - want[i]) <= 1e-14);
    }
    CHECK_THROWS_AS(optim::clip_grad_norm_(both, max_norm, {.norm_type = 0}), UsageError);
    both[0].set_grad(
        full({2, 3}, std::numeric_limits<double>::infinity(), {.dtype = f64, .device = d}));
    const std::vector<double> b = both[1].grad().to_vector<double>();
    CHECK_THROWS_AS(
        optim::clip_grad_norm_(both, max_norm, {.norm_type = p, .error_if_nonfinite = true}),
        NumericError);
    CHECK(both[1].grad().to_vector<double>() == b);
  }
}
