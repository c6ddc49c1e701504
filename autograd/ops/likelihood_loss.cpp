// Negative log-likelihoods. Both are made of other operators.
#include "warptape/autograd/ops/likelihood_loss.h"
#include "warptape/autograd/ops/internal/count_true.h"

#include <numbers>

#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/internal/loss_checks.h"
#include "warptape/autograd/ops/internal/loss_ends.h"

namespace wt {
namespace info {
constexpr OpInfo poisson_nll_loss{
    .name = "poisson_nll_loss", .autocast = Autocast::f32, .composite = true};
constexpr OpInfo gaussian_nll_loss{
    .name = "gaussian_nll_loss", .autocast = Autocast::f32, .composite = true};
}  // namespace info

namespace {

void check_eps(const OpScope& s, double eps) {
  if (!(eps > 0)) s.fail<UsageError>(str("eps must be greater than 0, got ", eps));
}

// --- Poisson ---

// t log(t) - t + log(2 pi t) / 2 where t > 1, else 0.
Tensor stirling(const Tensor& t) {
  const Tensor large = gt(t, 1.0), x = where(large, t, 1.0);
  const Tensor term = add(sub(mul(x, log(x)), x), mul(log(mul(x, 2 * std::numbers::pi)), 0.5));
  return where_or_zero(large, term);
}

Tensor poisson_losses(const CompositeScope& s, const PoissonNllOptions& o) {
  detail::require_floating(s, 0);
  require_one_shape(s, "input", "target");
  check_eps(s, o.eps);
  const Tensor x = widened(s, 0), t = widened(s, 1);
  const Tensor losses = o.log_input ? sub(exp(x), mul(t, x)) : sub(x, mul(t, log(add(x, o.eps))));
  return o.full ? add(losses, stirling(t)) : losses;
}

// --- Gauss ---

// Operand 2 in the input's shape.
Tensor variances(const CompositeScope& s) {
  const Shape x = shape_of(s.geometry(0)), v = shape_of(s.geometry(2));
  const Tensor var = widened(s, 2);
  if (v == x) return var;
  Shape rows = x, columns = x;
  if (!x.empty()) {
    rows.erase(x.ndim() - 1);
    columns[x.ndim() - 1] = 1;
    if (v == columns) return expand(var, x);
    if (v == rows) return expand(unsqueeze(var, -1), x);
  }
  s.fail<ShapeError>(str("var must have the input's shape ", x,
                         ", or 1 in place of its last axis, or lack that axis, got ", v));
}

// The cpu has the values at hand; on other devices asking for them would wait.
void require_no_negative(const CompositeScope& s, const Tensor& var) {
  if (!(s.device() == Device::cpu())) return;
  const NoGrad no_grad;
  const i64 negative = detail::count_true(lt(var, 0.0));
  if (negative > 0)
    s.fail<UsageError>(
        str("var must be at least 0: ", negative, " of ", var.numel(), " elements are negative"));
}

Tensor gaussian_losses(const CompositeScope& s, const GaussianNllOptions& o) {
  detail::require_floating(s, 0);
  require_one_shape(s, "input", "target");
  check_eps(s, o.eps);
  const Tensor var = variances(s);
  require_no_negative(s, var);
  // The value of the clamped variance, the gradient of the variance itself: PyTorch's.
  const Tensor fixed = detach(var);
  const Tensor v = add(var, sub(at_least(fixed, o.eps), fixed));
  const Tensor d = sub(widened(s, 0), widened(s, 1));
  const Tensor losses = mul(add(log(v), div(square(d), v)), 0.5);
  return o.full ? add(losses, 0.5 * std::log(2 * std::numbers::pi)) : losses;
}

}  // namespace

Loss poisson_nll_loss(const In& input, const In& target, const PoissonNllOptions& options) {
  CompositeScope s(info::poisson_nll_loss, input, target, Types::promote);
  return finish_loss(s, poisson_losses(s, options));
}
Tensor poisson_nll_loss(const In& input, const In& target, Unreduced,
                        const PoissonNllOptions& options) {
  CompositeScope s(info::poisson_nll_loss, input, target, Types::promote);
  return s.finish(poisson_losses(s, options));
}

Loss gaussian_nll_loss(const In& input, const In& target, const In& var,
                       const GaussianNllOptions& options) {
  CompositeScope s(info::gaussian_nll_loss, input, target, var, Types::promote);
  return finish_loss(s, gaussian_losses(s, options));
}
Tensor gaussian_nll_loss(const In& input, const In& target, const In& var, Unreduced,
                         const GaussianNllOptions& options) {
  CompositeScope s(info::gaussian_nll_loss, input, target, var, Types::promote);
  return s.finish(gaussian_losses(s, options));
}

namespace detail {
OpInfos likelihood_loss_ops() {
  static constexpr const OpInfo* kOps[] = {&info::poisson_nll_loss, &info::gaussian_nll_loss};
  return kOps;
}
}  // namespace detail

}  // namespace wt
