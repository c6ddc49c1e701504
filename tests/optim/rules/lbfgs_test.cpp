// L-BFGS against PyTorch over 50 steps, resumed in the middle; what throws changes nothing.
#include "warptape/optim/lbfgs.h"

#include <limits>

#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/optim/problem.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;

namespace {

// The quartic of tools/generators/make_reference.py.
Tensor loss_of(const Problem& p, const Tensor& x) {
  const Tensor e = sub(add(matmul(x, p.w), p.b), 1.0), f = sub(p.w, 0.5);
  const Tensor ee = mul(e, e), ff = mul(f, f), bb = mul(p.b, p.b);
  return add(add(sum(ee), sum(mul(ff, ff))), sum(mul(bb, bb)));
}

optim::LbfgsOptions options_of(const std::string& name, const Arrays& r) {
  return {.lr = option(r, "lr", 1),
          .max_iter = i64(option(r, "max_iter", 20)),
          .history_size = i64(option(r, "history_size", 100)),
          .line_search =
              name == "lbfgs_wolfe" ? optim::LineSearch::strong_wolfe : optim::LineSearch::none};
}

double one_step(optim::Lbfgs& opt, const Problem& p, const Tensor& x) {
  return opt.step([&] {
    opt.zero_grad();
    const Tensor loss = loss_of(p, x);
    loss.backward();
    return loss;
  });
}

std::vector<nn::NamedTensor> copy_of(const std::vector<nn::NamedTensor>& s) {
  std::vector<nn::NamedTensor> all;
  for (const nn::NamedTensor& t : s) all.push_back({t.name, t.tensor.clone()});
  return all;
}

}  // namespace

TEST_CASE("L-BFGS follows PyTorch for 50 steps, resumed in the middle") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  const LeakGuard guard;
  const std::string name = GENERATE("lbfgs_wolfe", "lbfgs_fixed");
  CAPTURE(to_string(d), name);
  const Arrays r = load_reference(reference_path(name));
  const Tensor x = from_reference(r.at("x"), f64, d);
  Problem p(f64, d);
  auto opt = std::make_unique<optim::Lbfgs>(p.parameters(), options_of(name, r));
  for (size_t step = 0; step < 50; ++step) {
    if (step == 4 || step == 25) {
      Problem other(f64, d);
      optim::LbfgsOptions o = options_of(name, r);
      o.lr = 9;  // comes from the state
      auto next = std::make_unique<optim::Lbfgs>(other.parameters(), o);
      next->load_state(copy_of(opt->state()));
      {
        const NoGrad no_grad;
        other.w.copy_(p.w);
        other.b.copy_(p.b);
      }
      opt = std::move(next);
      p = other;
    }
    CAPTURE(step);
    const double loss = one_step(*opt, p, x), want = r.at("loss").values[step];
    CHECK(std::abs(loss - want) <= 1e-9 * (1 + std::abs(want)));
    for (const auto& [what, t] : p.parameters()) {
      const std::vector<double> now = t.to_vector<double>();
      for (size_t i = 0; i < now.size(); ++i)
        CHECK(std::abs(now[i] - r.at(what).values[step * now.size() + i]) <= 1e-7);
    }
  }
  CHECK(opt->iterations() == i64(option(r, "iterations", 0)));
  CHECK(opt->evaluations() == i64(option(r, "evaluations", 0)));
}

TEST_CASE("L-BFGS: f32 reaches the same minimum with a short history") {
  const LeakGuard guard;
  const Arrays r = load_reference(reference_path("lbfgs_wolfe"));
  const Tensor x = from_reference(r.at("x"), f32, Device::cpu());
  const Problem p(f32, Device::cpu());
  optim::Lbfgs opt{p.parameters(),
                   {.history_size = 2, .line_search = optim::LineSearch::strong_wolfe}};
  double loss = 0;
  for (int i = 0; i < 10; ++i) loss = one_step(opt, p, x);
  CHECK(std::abs(loss - r.at("loss").values.back()) <= 1e-5);
}

TEST_CASE("L-BFGS: a step that throws leaves parameters and state as before") {
  const LeakGuard guard;
  const Arrays r = load_reference(reference_path("lbfgs_wolfe"));
  const Tensor x = from_reference(r.at("x"), f64, Device::cpu());
  const Problem p(f64, Device::cpu());
  optim::Lbfgs opt{p.parameters(), {.max_iter = 3, .line_search = optim::LineSearch::strong_wolfe}};
  one_step(opt, p, x);
  const std::vector<double> w = p.w.to_vector<double>();
  const i64 iterations = opt.iterations(), evaluations = opt.evaluations();
  const auto as_before = [&] {
    CHECK(p.w.to_vector<double>() == w);
    CHECK(opt.iterations() == iterations);
    CHECK(opt.evaluations() == evaluations);
  };
  int calls = 0;
  const auto failing_at = [&](int call, bool is_nan) {
    calls = 0;
    opt.step([&]() -> double {
      opt.zero_grad();
      const Tensor loss = loss_of(p, x);
      loss.backward();
      if (++calls < call) return loss.item();
      if (!is_nan) throw DataError("no more data");
      return std::numeric_limits<double>::quiet_NaN();
    });
  };
  CHECK_THROWS_AS(failing_at(3, false), DataError);
  as_before();
  CHECK_THROWS_AS(failing_at(1, true), NumericError);
  as_before();
  // Too far in the line search is no failure.
  failing_at(2, true);
  CHECK(calls > 2);
  CHECK(opt.iterations() > iterations);
  optim::Lbfgs wild{p.parameters(), {.lr = 1e300}};
  const std::vector<double> at = p.w.to_vector<double>();
  CHECK_THROWS_AS(one_step(wild, p, x), NumericError);
  CHECK(p.w.to_vector<double>() == at);
}

TEST_CASE("L-BFGS: a parameter without a gradient stays; options and states are checked") {
  const LeakGuard guard;
  const Problem p(f64, Device::cpu());
  optim::Lbfgs opt{p.parameters()};
  const std::vector<double> b = p.b.to_vector<double>();
  for (int i = 0; i < 3; ++i)
    opt.step([&] {
      opt.zero_grad();
      const Tensor loss = sum(mul(p.w, p.w));
      loss.backward();
      return loss;
    });
  CHECK(p.b.to_vector<double>() == b);
  for (const double w : p.w.to_vector<double>()) CHECK(std::abs(w) < 1e-6);
  const Problem q(f64, Device::cpu());
  optim::Adam adam{q.parameters()};
  CHECK_THROWS_AS(opt.load_state(copy_of(adam.state())), UsageError);
  CHECK_THROWS_AS(adam.load_state(copy_of(opt.state())), UsageError);
  // A history that is longer than this one keeps, before room is made for it.
  const Problem again(f64, Device::cpu());
  optim::Lbfgs brief{again.parameters(), {.history_size = 1}};
  std::vector<nn::NamedTensor> state = copy_of(brief.state());
  for (int i = 0; i < 2; ++i) state.push_back({str("optim.ro.", i), tensor(1.0)});
  CHECK(mentions(message_of([&] { brief.load_state(state); }),
                 "[load_state] the state has a history of 2, history_size is 1"));
  const auto params = p.parameters();
  CHECK_THROWS_AS((optim::Lbfgs{params, {.lr = -1}}), UsageError);
  CHECK_THROWS_AS((optim::Lbfgs{params, {.max_iter = 0}}), UsageError);
  CHECK_THROWS_AS((optim::Lbfgs{params, {.history_size = 0}}), UsageError);
  const Problem small(f32, Device::cpu());
  const std::vector<nn::NamedTensor> mixed{{"w", p.w}, {"b", small.b}};
  CHECK_THROWS_AS(optim::Lbfgs{mixed}, UsageError);
}
