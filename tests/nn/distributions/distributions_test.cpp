// Distributions: PyTorch's densities, entropies, moments, divergences and gradients; draws by their
// moments and seeds; refusals.
#include "warptape/nn/distributions.h"

#include <cmath>
#include <functional>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/random.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/tolerance.h"

using namespace wt;
namespace dist = wt::distributions;
using wt::reference::Arrays;

namespace {

Tensor on_device(const wt::reference::Array& a, Device d, bool grad = false) {
  Shape shape;
  for (const i64 n : a.shape) shape.push_back(n);
  return tensor(a.values)
      .reshape(shape)
      .to(a.dtype == "i64" ? DType::i64 : f64)
      .to(d)
      .detach()
      .set_requires_grad(grad);
}
void check_numbers(const std::string& what, const Tensor& got, const wt::reference::Array& want) {
  INFO(what);
  const Values v = values(got);
  REQUIRE(v.size() == want.values.size());
  REQUIRE(got.ndim() == int(want.shape.size()));
  double largest = 1;
  for (const double w : want.values) largest = std::max(largest, std::fabs(w));
  for (size_t i = 0; i < v.size(); ++i) {
    const double bound = wt_test::gradient_bound(
        f64, 2 * wt_test::kTermsOfFormula + double(v.size()), want.values[i], largest);
    INFO(i << ": " << v[i] << ", PyTorch: " << want.values[i]);
    CHECK(wt_test::within(v[i], want.values[i], bound));
  }
}

// `make` takes the parameters in the order of `names`.
template <class D>
void check_against_torch(const std::string& name, const std::vector<std::string>& names,
                         const std::function<D(const std::vector<Tensor>&)>& make) {
  const Arrays ref =
      wt::reference::load_reference(wt::reference::reference_path("distributions_" + name));
  for (const Device d : {Device::cpu(), Device::simt()}) {
    INFO(name << " on " << d);
    std::vector<Tensor> own, others;
    for (const std::string& n : names) own.push_back(on_device(ref.at(n), d, true));
    const D p = make(own);
    const Tensor log_prob = p.log_prob(on_device(ref.at("value"), d));
    check_numbers("log_prob", log_prob, ref.at("log_prob"));
    check_numbers("entropy", p.entropy(), ref.at("entropy"));
    Tensor total = sum(p.entropy()) + sum(log_prob * on_device(ref.at("weight"), d));
    if (ref.count("mean")) {
      check_numbers("mean", p.mean(), ref.at("mean"));
      check_numbers("variance", p.variance(), ref.at("variance"));
      check_numbers("stddev", square(p.stddev()), ref.at("variance"));
    }
    if constexpr (requires { p.cdf(0.5); })
      if (ref.count("cdf"))
        check_numbers("cdf", p.cdf(on_device(ref.at("value"), d)), ref.at("cdf"));
    if (ref.count("kl")) {
      for (const std::string& n : names) others.push_back(on_device(ref.at("other_" + n), d));
      const Tensor kl = dist::kl_divergence(p, make(others));
      check_numbers("kl", kl, ref.at("kl"));
      total = total + sum(kl);
    }
    total.backward();
    for (size_t i = 0; i < names.size(); ++i)
      check_numbers("gradient of " + names[i], own[i].grad(), ref.at("grad_" + names[i]));
  }
}

// Mean and variance of n draws, within five standard deviations of each. kurtosis: the fourth
// central moment over the square of the variance.
void check_moments(const dist::Distribution& d, double mean, double variance, double kurtosis) {
  manual_seed(7);
  constexpr i64 kDraws = 20000;
  const Values v = values(d.sample({kDraws}).to(f64));
  double sum = 0, squares = 0;
  for (const double x : v) sum += x;
  const double got = sum / kDraws;
  for (const double x : v) squares += (x - got) * (x - got);
  INFO(got << " and " << squares / kDraws << ", expected " << mean << " and " << variance);
  CHECK(std::fabs(got - mean) <= 5 * std::sqrt(variance / kDraws));
  CHECK(std::fabs(squares / kDraws - variance) <=
        5 * variance * std::sqrt((kurtosis - 1) / kDraws));
}

const TensorOptions kF64{.dtype = f64};

}  // namespace

TEST_CASE("distributions: PyTorch's numbers", "[distributions]") {
  using Ts = const std::vector<Tensor>&;
  check_against_torch<dist::Normal>("normal", {"loc", "scale"},
                                    [](Ts p) { return dist::Normal(p[0], p[1]); });
  check_against_torch<dist::Uniform>("uniform", {"low", "high"},
                                     [](Ts p) { return dist::Uniform(p[0], p[1]); });
  check_against_torch<dist::Exponential>("exponential", {"rate"},
                                         [](Ts p) { return dist::Exponential(p[0]); });
  check_against_torch<dist::LogNormal>("log_normal", {"loc", "scale"},
                                       [](Ts p) { return dist::LogNormal(p[0], p[1]); });
  check_against_torch<dist::Bernoulli>("bernoulli_probs", {"probs"},
                                       [](Ts p) { return dist::Bernoulli({.probs = p[0]}); });
  check_against_torch<dist::Bernoulli>("bernoulli_logits", {"logits"},
                                       [](Ts p) { return dist::Bernoulli({.logits = p[0]}); });
  check_against_torch<dist::Categorical>("categorical_probs", {"probs"},
                                         [](Ts p) { return dist::Categorical({.probs = p[0]}); });
  check_against_torch<dist::Categorical>("categorical_logits", {"logits"},
                                         [](Ts p) { return dist::Categorical({.logits = p[0]}); });
}

TEST_CASE("distributions: draws have their moments", "[distributions]") {
  check_moments(dist::Normal(-1.5, 0.5), -1.5, 0.25, 3);
  check_moments(dist::Uniform(-1, 3), 1, 16.0 / 12, 1.8);
  check_moments(dist::Exponential(4), 0.25, 1.0 / 16, 9);
  const double p = 0.3, variance = p * (1 - p);
  check_moments(dist::Bernoulli({.probs = p}), p, variance, (1 - 3 * variance) / variance);
  // log of which is 0.1 N(0, 1): the kurtosis by w = exp(0.01), w^4 + 2 w^3 + 3 w^2 - 3
  const double w = std::exp(0.01);
  check_moments(dist::LogNormal(0, 0.1), std::sqrt(w), (w - 1) * w,
                w * w * w * w + 2 * w * w * w + 3 * w * w - 3);

  manual_seed(11);
  const Tensor weights = tensor({1, 0, 2, 5}, kF64);
  const Values drawn = values(dist::Categorical({.probs = weights}).sample({8000}));
  double counts[4] = {};
  for (const double c : drawn) ++counts[size_t(c)];
  for (const int c : {0, 1, 2, 3}) {
    const double share = values(weights)[size_t(c)] / 8, expected = 8000 * share;
    INFO(counts[c] << " of class " << c << ", expected " << expected);
    CHECK(std::fabs(counts[c] - expected) <= 5 * std::sqrt(expected * (1 - share)));
  }
}

TEST_CASE("distributions: shapes, seeds and gradients of draws", "[distributions]") {
  const Tensor loc = leaf({1, 2, 3}), scale = leaf({0.5});
  const dist::Normal normal(loc, scale);
  CHECK(normal.batch_shape() == Shape{3});
  manual_seed(5);
  const Tensor first = normal.sample({2});
  CHECK(first.shape() == Shape{2, 3});
  CHECK(first.dtype() == f64);
  CHECK_FALSE(first.requires_grad());
  manual_seed(5);
  CHECK(values(normal.sample({2})) == values(first));
  CHECK(values(normal.sample({2})) != values(first));

  manual_seed(5);
  const Tensor same = normal.rsample({2});
  CHECK(values(same.detach()) == values(first));
  same.backward(ones({2, 3}, kF64));
  CHECK(values(loc.grad()) == Values{2, 2, 2});
  double noise = 0;
  for (size_t i = 0; i < 6; ++i)
    noise += (values(first)[i] - values(loc)[i % 3]) / values(scale)[0];
  CHECK(std::fabs(values(scale.grad())[0] - noise) < 1e-12);  // six numbers of about 1

  const dist::Categorical classes({.logits = zeros({2, 3, 4})});
  CHECK(classes.batch_shape() == Shape{2, 3});
  CHECK(classes.sample().shape() == Shape{2, 3});
  CHECK(classes.sample({5, 2}).shape() == Shape{5, 2, 2, 3});
  CHECK(classes.sample({0}).shape() == Shape{0, 2, 3});
  CHECK(classes.sample().dtype() == DType::i64);
  CHECK(classes.log_prob(zeros({2, 3}, {.dtype = DType::i64})).shape() == Shape{2, 3});
  CHECK(dist::Categorical({.probs = tensor({0.25, 0.75})}).sample().shape() == Shape{});
  CHECK(dist::Bernoulli({.probs = 0.5}).sample({4}).shape() == Shape{4});
  CHECK(dist::Normal(0, 1).sample().dtype() == f32);
}

TEST_CASE("distributions: edges", "[distributions]") {
  // Both ends of what a Bernoulli and a Categorical can be, where one side is never drawn.
  const Tensor ends = tensor({0.0, 1.0}, kF64);
  const dist::Bernoulli sure({.probs = ends}), even({.probs = 0.5});
  CHECK(values(sure.sample()) == Values{0, 1});
  CHECK(
      values(dist::kl_divergence(sure, dist::Bernoulli({.probs = tensor({0.5, 0.5}, kF64)})))[0] ==
      Approx(std::log(2.0)));
  const Values infinite =
      values(dist::kl_divergence(dist::Bernoulli({.probs = tensor({0.5, 0.5}, kF64)}), sure));
  CHECK((std::isinf(infinite[0]) && std::isinf(infinite[1])));
  const dist::Categorical one({.probs = tensor({0, 1, 0}, kF64)});
  CHECK_THROWS_AS(one.log_prob(tensor(i64{1} << 32)), IndexError);  // no class 0
  CHECK(values(one.sample({3})) == Values{1, 1, 1});
  CHECK(std::fabs(values(one.entropy())[0]) < 1e-13);
  const dist::Categorical never({.logits = tensor({0.0, -INFINITY}, kF64)});
  CHECK(values(never.entropy()) == Values{0});

  const dist::Uniform unit(tensor(0.0, kF64), 1);
  CHECK(values(unit.log_prob(0)) == Values{0});  // low belongs to it, high does not
  CHECK(values(unit.log_prob(1)) == Values{-INFINITY});
  CHECK(values(unit.cdf(-1)) == Values{0});
  CHECK(values(unit.cdf(2)) == Values{1});
  const Values apart = values(dist::kl_divergence(dist::Uniform(0, 2), dist::Uniform(0, 1)));
  CHECK(std::isinf(apart[0]));
}

TEST_CASE("distributions: what they refuse", "[distributions]") {
  const auto refuses = [](const char* text, const std::function<void()>& f) {
    CHECK(mentions(message_of(f), text));
  };
  refuses("[Normal] scale must be above 0", [] { dist::Normal(0, 0); });
  refuses("[LogNormal] scale must be above 0", [] { dist::LogNormal(0, NAN); });
  refuses("distributions_test.cpp", [] { dist::Normal(0, -1); });
  refuses("[Uniform] low must be below high", [] { dist::Uniform(1, 1); });
  refuses("[Exponential] rate must be above 0", [] { dist::Exponential(0); });
  refuses("[Bernoulli] probs must lie in [0, 1]", [] { dist::Bernoulli({.probs = 1.5}); });
  refuses("[Bernoulli] give either probs or logits, not neither", [] { dist::Bernoulli({}); });
  refuses("[Categorical] give either probs or logits, not both",
          [] { dist::Categorical({.probs = ones({2}), .logits = ones({2})}); });
  refuses("[Categorical] probs must be at least 0", [] {
    dist::Categorical({.probs = tensor({0.5, -0.5})});
  });
  refuses("[Categorical] the probs of all classes are 0", [] {
    dist::Categorical({.probs = zeros({2, 3})});
  });
  refuses("[Categorical] needs at least one class", [] { dist::Categorical({.probs = 1.0}); });
  refuses("[Categorical] a class has no mean",
          [] { (void)dist::Categorical({.probs = ones({2})}).mean(); });
  refuses("[Categorical] a class has no variance",
          [] { (void)dist::Categorical({.probs = ones({2})}).stddev(); });
  refuses("[Normal] expected floating parameters, got [2] i64", [] {
    dist::Normal(tensor({1, 2}), 1);
  });
  refuses("[Normal] parameters of two dtypes", [] { dist::Normal(ones({2}), ones({2}, kF64)); });
  refuses("[Normal] parameters on two devices",
          [] { dist::Normal(ones({2}), ones({2}, {.device = Device::simt()})); });
  refuses("[Normal]", [] { dist::Normal(ones({2}), ones({3})); });
}

TEST_CASE("distributions: parameters that are numbers go with any device") {
  const Tensor x = tensor({-1.0, 0.5, 2.0}), there = x.to(Device::simt());
  const auto agree = [&](const char* name, const auto& d, const Tensor& at) {
    INFO(name);
    const Tensor got = d.log_prob(at.to(Device::simt()));
    CHECK(got.device() == Device::simt());
    const Values v = values(got), want = values(d.log_prob(at));
    for (size_t i = 0; i < v.size(); ++i)
      CHECK(std::fabs(v[i] - want[i]) <= 1e-6 * std::fabs(want[i]));
  };
  const Tensor positive = x * x + 0.25;
  agree("Normal", dist::Normal(0.0, 1.0), x);
  agree("LogNormal", dist::LogNormal(0.0, 1.0), positive);
  agree("Uniform", dist::Uniform(-2.0, 3.0), x);
  agree("Exponential", dist::Exponential(1.5), positive);
  agree("Bernoulli", dist::Bernoulli({.probs = 0.25}), ones({3}));
  const Tensor scale = tensor(2.0, {.requires_grad = true});
  sum(dist::Normal(0.0, scale).log_prob(there)).backward();
  CHECK(scale.grad().device() == Device::cpu());
}
