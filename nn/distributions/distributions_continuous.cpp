// Distributions of numbers.
#include <cmath>
#include <numbers>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/nn/distributions.h"

namespace wt::distributions {
namespace {

const double kHalfLogTwoPi = 0.5 * std::log(2 * std::numbers::pi);

Tensor normal_cdf(const Tensor& z) {
  return mul(add(erf(mul(z, std::numbers::sqrt2 / 2)), 1.0), 0.5);
}

}  // namespace

// --- Normal ---

Normal::Normal(const char* name, const Value& loc, const Value& scale)
    : Reparametrised(name, {&loc, &scale}) {
  refuse(logical_not(gt(parameter(1), 0.0)), "scale must be above 0");
}
Normal::Normal(const Value& loc, const Value& scale, const CallLine&)
    : Normal("Normal", loc, scale) {}

Tensor Normal::drawn(const Shape& shape) const {
  return add(parameter(0), mul(parameter(1), randn(shape, options())));
}
Tensor Normal::log_density(const Tensor& value) const {
  const Tensor z = div(sub(value, parameter(0)), parameter(1));
  return sub(sub(mul(square(z), -0.5), log(parameter(1))), kHalfLogTwoPi);
}
Tensor Normal::entropy_of() const { return add(log(parameter(1)), 0.5 + kHalfLogTwoPi); }
Tensor Normal::mean_of() const { return parameter(0); }
Tensor Normal::variance_of() const { return square(parameter(1)); }
Tensor Normal::cdf(const Value& value, const CallLine&) const {
  return normal_cdf(div(sub(value.tensor(options()), parameter(0)), parameter(1)));
}

// --- LogNormal ---

LogNormal::LogNormal(const Value& loc, const Value& scale, const CallLine&)
    : Normal("LogNormal", loc, scale) {}

Tensor LogNormal::drawn(const Shape& shape) const { return exp(Normal::drawn(shape)); }
Tensor LogNormal::log_density(const Tensor& value) const {
  const Tensor x = log(value);
  return sub(Normal::log_density(x), x);
}
Tensor LogNormal::entropy_of() const { return add(Normal::entropy_of(), parameter(0)); }
Tensor LogNormal::mean_of() const { return exp(add(parameter(0), mul(square(parameter(1)), 0.5))); }
Tensor LogNormal::variance_of() const {
  const Tensor s = square(parameter(1));
  return mul(expm1(s), exp(add(mul(parameter(0), 2.0), s)));
}
Tensor LogNormal::cdf(const Value& value, const CallLine&) const {
  return normal_cdf(div(sub(log(value.tensor(options())), parameter(0)), parameter(1)));
}

// --- Uniform ---

Uniform::Uniform(const Value& low, const Value& high, const CallLine&)
    : Reparametrised("Uniform", {&low, &high}) {
  refuse(logical_not(lt(parameter(0), parameter(1))), "low must be below high");
}
Tensor Uniform::drawn(const Shape& shape) const {
  return add(parameter(0), mul(sub(parameter(1), parameter(0)), rand(shape, options())));
}
Tensor Uniform::log_density(const Tensor& value) const {
  const Tensor inside = logical_and(ge(value, parameter(0)), lt(value, parameter(1)));
  return where(inside, neg(entropy_of()), -INFINITY);
}
Tensor Uniform::entropy_of() const { return log(sub(parameter(1), parameter(0))); }
Tensor Uniform::mean_of() const { return mul(add(parameter(0), parameter(1)), 0.5); }
Tensor Uniform::variance_of() const {
  return mul(square(sub(parameter(1), parameter(0))), 1.0 / 12);
}
Tensor Uniform::cdf(const Value& value, const CallLine&) const {
  const Tensor from = sub(value.tensor(options()), parameter(0));
  return clamp(div(from, sub(parameter(1), parameter(0))), 0.0, 1.0);
}

// --- Exponential ---

Exponential::Exponential(const Value& rate, const CallLine&)
    : Reparametrised("Exponential", {&rate}) {
  refuse(logical_not(gt(parameter(0), 0.0)), "rate must be above 0");
}
Tensor Exponential::drawn(const Shape& shape) const {  // rand() is below 1
  return div(neg(log1p(neg(rand(shape, options())))), parameter(0));
}
Tensor Exponential::log_density(const Tensor& value) const {
  return sub(log(parameter(0)), mul(parameter(0), value));
}
Tensor Exponential::entropy_of() const { return sub(1.0, log(parameter(0))); }
Tensor Exponential::mean_of() const { return reciprocal(parameter(0)); }
Tensor Exponential::variance_of() const { return square(reciprocal(parameter(0))); }
Tensor Exponential::cdf(const Value& value, const CallLine&) const {
  return neg(expm1(neg(mul(parameter(0), value.tensor(options())))));
}

// --- divergences ---

Tensor kl_divergence(const Normal& p, const Normal& q, const CallLine&) {
  const Tensor ratio = square(div(p.scale(), q.scale()));
  const Tensor apart = square(div(sub(p.loc(), q.loc()), q.scale()));
  return mul(sub(sub(add(ratio, apart), 1.0), log(ratio)), 0.5);
}
Tensor kl_divergence(const Uniform& p, const Uniform& q, const CallLine&) {
  const Tensor ratio = log(div(sub(q.high(), q.low()), sub(p.high(), p.low())));
  return where(logical_or(gt(q.low(), p.low()), lt(q.high(), p.high())), INFINITY, ratio);
}
Tensor kl_divergence(const Exponential& p, const Exponential& q, const CallLine&) {
  const Tensor ratio = div(q.rate(), p.rate());
  return sub(sub(ratio, log(ratio)), 1.0);
}

}  // namespace wt::distributions
