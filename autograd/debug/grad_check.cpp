#include "warptape/autograd/grad_check.h"

#include <cmath>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/philox.h"

namespace wt {
namespace {

// Fixed weights in [0.5, 1.5): a function whose output sums to a constant is still seen.
Tensor weights(const Tensor& like, u64 seed) {
  std::vector<double> w(static_cast<size_t>(like.numel()));
  const PhiloxKey key = philox_key(seed, RandomStream::user);
  for (size_t i = 0; i < w.size(); ++i) {
    const PhiloxBlock b = philox(key, i, 0);
    w[i] = 0.5 + uniform53(b.v[0], b.v[1]);
  }
  return reshape(tensor(w), like.shape());
}

void check_input(const Tensor& t, size_t i) {
  if (t.dtype() != DType::f64 || t.device() != Device::cpu())
    throw UsageError(str("[grad_check] input ", i, " must be f64 on cpu, it is ", describe(t)));
  if (!t.is_contiguous())
    throw UsageError(str("[grad_check] input ", i,
                         " must be contiguous (differences are taken one "
                         "element at a time)"));
}

// sum(w * f(x)) without recording.
double value(const CheckedFunction& f, std::span<const Tensor> inputs, u64 seed) {
  const NoGrad no_grad;
  const Tensor y = f(inputs);
  const std::vector<double> v = y.to_vector<double>(), w = weights(y, seed).to_vector<double>();
  double sum = 0;
  for (size_t i = 0; i < v.size(); ++i) sum += w[i] * v[i];
  return sum;
}

void compare(GradCheck& r, const GradCheckOptions& o, size_t input, i64 element, double analytic,
             double numeric) {
  const double error = std::fabs(analytic - numeric) / (o.atol + o.rtol * std::fabs(numeric));
  if (error <= r.worst) return;
  r.worst = error;
  if (error <= 1) return;
  r.ok = false;
  r.message =
      str("input ", input, ", element ", element, ": analytic ", analytic, ", numeric ", numeric);
}

}  // namespace

GradCheck grad_check(const CheckedFunction& f, std::vector<Tensor> inputs,
                     const GradCheckOptions& o) {
  std::vector<Tensor> wanted;
  std::vector<size_t> which;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    check_input(inputs[i], i);
    wanted.push_back(inputs[i]);
    which.push_back(i);
  }
  const Tensor y = f(inputs);
  if (!y.requires_grad()) throw UsageError("[grad_check] the result does not require grad");
  const std::vector<Tensor> analytic =
      grads({&y, 1}, wanted, {.grad_outputs = {weights(y, o.seed)}, .allow_unused = true});
  GradCheck r;
  for (size_t k = 0; k < wanted.size(); ++k) {
    const std::vector<double> a = analytic[k].defined()
                                      ? analytic[k].to_vector<double>()
                                      : std::vector<double>(size_t(wanted[k].numel()), 0.0);
    double* x = static_cast<double*>(wanted[k].impl()->data);  // the version must not change
    for (i64 i = 0; i < wanted[k].numel(); ++i) {
      const double before = x[i];
      x[i] = before + o.eps;
      const double up = value(f, inputs, o.seed);
      x[i] = before - o.eps;
      const double down = value(f, inputs, o.seed);
      x[i] = before;
      compare(r, o, which[k], i, a[size_t(i)], (up - down) / (2 * o.eps));
    }
  }
  return r;
}

GradCheck grad_grad_check(const CheckedFunction& f, std::vector<Tensor> inputs,
                          const GradCheckOptions& o) {
  Tensor y0;
  {
    const NoGrad no_grad;
    y0 = f(inputs);
  }
  const size_t n = inputs.size();
  std::vector<Tensor> all = inputs;
  all.push_back(weights(y0, o.seed + 1).set_requires_grad());
  // x, v -> every gradient of <v, f(x)>, flattened into one tensor.
  const CheckedFunction gradient = [&](std::span<const Tensor> in) {
    const EnableGrad on;
    const Tensor y = f(in.first(n));
    std::vector<Tensor> wanted, flat;
    for (const Tensor& t : in.first(n))
      if (t.requires_grad()) wanted.push_back(t);
    const std::vector<Tensor> g = grads(
        {&y, 1}, wanted, {.grad_outputs = {in[n]}, .create_graph = true, .allow_unused = true});
    for (size_t i = 0; i < g.size(); ++i)
      flat.push_back(reshape(g[i].defined() ? g[i] : zeros_like(wanted[i]), {-1}));
    return cat(flat);
  };
  GradCheck r = grad_check(gradient, all, o);
  if (!r.ok) return r;
  // The part with respect to x alone: is it zero where it should not be?
  const Tensor g = gradient(all);
  bool zero = true;
  if (g.requires_grad()) {
    std::vector<Tensor> wanted;
    for (const Tensor& t : inputs)
      if (t.requires_grad()) wanted.push_back(t);
    for (const Tensor& h :
         grads({&g, 1}, wanted, {.grad_outputs = {weights(g, o.seed)}, .allow_unused = true}))
      if (h.defined())
        for (double v : h.to_vector<double>()) zero &= v == 0;
  }
  if (zero != o.second_is_zero) {
    r.ok = false;
    r.message = zero ? "the second derivative is identically zero; say so if it must be"
                     : "the second derivative is said to be zero and is not";
  }
  return r;
}

}  // namespace wt
