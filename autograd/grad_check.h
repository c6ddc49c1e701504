// Checks derivatives against central differences. Public: whoever writes an operator needs it.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "warptape/core/tensor.h"

namespace wt {

using CheckedFunction = std::function<Tensor(std::span<const Tensor>)>;

struct GradCheckOptions {
  double eps = 1e-6;   // half the distance of the two evaluations
  double atol = 1e-5;  // |analytic - numeric| <= atol + rtol |numeric|
  double rtol = 1e-3;
  u64 seed = 1;  // of the weights that make the output one number
  // A second derivative that is identically zero fails unless this says that it must be (the
  // function is linear or piecewise linear).
  bool second_is_zero = false;
};

struct GradCheck {
  bool ok = true;
  double worst = 0;       // largest |analytic - numeric| / (atol + rtol |numeric|)
  std::string message{};  // of the first failure: input, index, analytic, numeric
  explicit operator bool() const { return ok; }
};

// d sum(w * f(x)) / d x for every input that requires grad, against central differences. Inputs
// must be f64 on the cpu, dense and without repeated elements (expand); f must be deterministic.
// Throws UsageError otherwise.
WT_API GradCheck grad_check(const CheckedFunction& f, std::vector<Tensor> inputs,
                            const GradCheckOptions& options = {});
// The same for the gradient itself, with respect to the inputs and to the gradient of the output.
WT_API GradCheck grad_grad_check(const CheckedFunction& f, std::vector<Tensor> inputs,
                                 const GradCheckOptions& options = {});

}  // namespace wt
