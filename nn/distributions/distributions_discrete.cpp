// Distributions of classes.
#include <cmath>
#include <limits>

#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/random.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/autograd/ops/sort.h"
#include "warptape/nn/distributions.h"

namespace wt::distributions {
namespace {

// The one that is given.
const Value& given(const char* name, const ProbsOrLogits& p) {
  if (p.probs.has_value() == p.logits.has_value())
    throw UsageError(str("[", name, "] give either probs or logits, not ",
                         p.probs ? "both" : "neither", at_line()));
  return p.probs ? *p.probs : *p.logits;
}

// The distance from 1 to the next number.
double eps_of(DType t) {
  switch (t) {
    case DType::f64:
      return std::numeric_limits<double>::epsilon();
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    default:
      return std::numeric_limits<float>::epsilon();
  }
}
// Away from both ends by that, so that logarithms are finite.
Tensor inner(const Tensor& probs) {
  const double eps = eps_of(probs.dtype());
  return clamp(probs, eps, 1 - eps);
}

// log(1 + exp(x)); beyond 40 even an f64 is x.
Tensor log1p_exp(const Tensor& x) { return softplus(x, 1, 40); }
// p (log p - log q), 0 for p = 0, infinite for q = 0 beside another p.
Tensor surplus(const Tensor& p, const Tensor& q, const Tensor& ratio) {
  return where(eq(p, 0.0), 0.0, where(eq(q, 0.0), INFINITY, mul(p, ratio)));
}

}  // namespace

// --- Bernoulli ---

Bernoulli::Bernoulli(const ProbsOrLogits& p, const CallLine&)
    : Distribution("Bernoulli", {&given("Bernoulli", p)}), has_logits_(p.logits.has_value()) {
  const Tensor& t = parameter(0);
  if (!has_logits_)
    refuse(logical_not(logical_and(ge(t, 0.0), le(t, 1.0))), "probs must lie in [0, 1]");
}
Tensor Bernoulli::probs() const { return has_logits_ ? sigmoid(parameter(0)) : parameter(0); }
Tensor Bernoulli::logits() const {
  if (has_logits_) return parameter(0);
  const Tensor p = inner(parameter(0));
  return sub(log(p), log1p(neg(p)));
}
Tensor Bernoulli::drawn(const Shape& shape) const { return bernoulli(probs().expand(shape)); }
Tensor Bernoulli::log_density(const Tensor& value) const {
  const Tensor x = logits();
  return sub(mul(value.to(x.dtype()), x), log1p_exp(x));
}
Tensor Bernoulli::entropy_of() const {
  const Tensor x = logits();
  return sub(log1p_exp(x), mul(probs(), x));
}
Tensor Bernoulli::mean_of() const { return probs(); }
Tensor Bernoulli::variance_of() const {
  const Tensor p = probs();
  return mul(p, sub(1.0, p));
}

// --- Categorical ---

Categorical::Categorical(const ProbsOrLogits& p, const CallLine&)
    : Distribution("Categorical", {&given("Categorical", p)}), has_logits_(p.logits.has_value()) {
  const Tensor& t = parameter(0);
  if (t.ndim() < 1 || t.size(-1) < 1)
    throw ShapeError(str("[Categorical] needs at least one class along the last axis, got ",
                         t.shape(), at_line()));
  if (!has_logits_) {
    refuse(logical_not(ge(t, 0.0)), "probs must be at least 0");
    refuse(logical_not(gt(sum(t, -1), 0.0)), "the probs of all classes are 0");
  }
  batch_.erase(batch_.ndim() - 1);
}
Tensor Categorical::probs() const {
  const Tensor& t = parameter(0);
  return has_logits_ ? softmax(t, -1) : div(t, sum(t, -1, {.keep_dim = true}));
}
Tensor Categorical::logits() const {
  return has_logits_ ? log_softmax(parameter(0), -1) : log(inner(probs()));
}
Tensor Categorical::drawn(const Shape& shape) const {
  const Tensor p = probs();
  const i64 classes = p.size(-1), rows = numel_of(batch_), all = numel_of(shape);
  if (all == 0) return zeros(shape, {.dtype = DType::i64, .device = p.device()});
  const Tensor drawn = multinomial(p.reshape({rows, classes}), all / rows, {.replacement = true});
  return drawn.transpose(0, 1).reshape(shape);
}
Tensor Categorical::log_density(const Tensor& value) const {
  const Shape shape = broadcast_shapes("Categorical", value.shape(), batch_);
  Shape with_classes = shape;
  const Tensor x = logits();
  with_classes.push_back(x.size(-1));
  const Tensor index = value.to(DType::i64).expand(shape).unsqueeze(-1);
  return gather(x.expand(with_classes), -1, index).squeeze(-1);
}
Tensor Categorical::entropy_of() const {
  // Classes that are never drawn add nothing, though their logit is infinite.
  const double least = -std::numeric_limits<float>::max();
  return neg(sum(mul(clamp(logits(), least, INFINITY), probs()), -1));
}
Tensor Categorical::mean_of() const {
  throw UsageError(str("[Categorical] a class has no mean", at_line()));
}
Tensor Categorical::variance_of() const {
  throw UsageError(str("[Categorical] a class has no variance", at_line()));
}

// --- divergences ---

Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q, const CallLine&) {
  const Tensor a = p.probs(), b = q.probs(), x = p.logits(), y = q.logits();
  const Tensor of_one = surplus(a, b, sub(log1p_exp(neg(y)), log1p_exp(neg(x))));
  const Tensor of_zero = surplus(sub(1.0, a), sub(1.0, b), sub(log1p_exp(y), log1p_exp(x)));
  return add(of_one, of_zero);
}
Tensor kl_divergence(const Categorical& p, const Categorical& q, const CallLine&) {
  return sum(surplus(p.probs(), q.probs(), sub(p.logits(), q.logits())), -1);
}

}  // namespace wt::distributions
