// Losses that are likelihoods: what the rows cannot say.
#include "warptape/autograd/ops/likelihood_loss.h"

#include <cmath>

#include "warptape/autograd/grads.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/values.h"

using namespace wt;

TEST_CASE("gaussian_nll_loss: a variance below eps counts as eps and keeps a gradient") {
  const Tensor mean = zeros({2}, {.dtype = f64}), target = ones({2}, {.dtype = f64});
  const Tensor var = tensor({0.0, 0.25}, {.dtype = f64, .requires_grad = true});
  const Tensor y = gaussian_nll_loss(mean, target, var, unreduced, {.eps = 0.5});
  for (const double v : values(y)) CHECK(std::abs(v - 0.5 * (std::log(0.5) + 1 / 0.5)) < 1e-12);
  // d/dvar of (log var + 1 / var) / 2 at 0.5, PyTorch's.
  CHECK(values(grad(y, var, {.grad_outputs = {ones({2}, {.dtype = f64})}})) == Values{-1, -1});
}
