// gumbel_softmax: what its row cannot say.
#include <cmath>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/random.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/operators.h"
#include "warptape/core/random.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

TEST_CASE("gumbel_softmax: a hard draw has the gradient of the soft one", "[random]") {
  const LeakGuard guard;
  manual_seed(3);
  Tensor x = randn({4, 5}, {.dtype = f64});
  x.set_requires_grad();
  const Tensor sent = randn({4, 5}, {.dtype = f64});
  const auto drawn = [&](bool hard) {
    manual_seed(9);
    return gumbel_softmax(x, {.tau = 0.7, .hard = hard});
  };
  const Tensor soft = drawn(false), hard = drawn(true);
  CHECK(values(argmax(hard, 1)) == values(argmax(soft, 1)));
  CHECK(values(sum(hard, 1)) == Values(4, 1));
  CHECK(values(grad(hard, x, {.grad_outputs = {sent}})) ==
        values(grad(soft, x, {.grad_outputs = {sent}})));
}

TEST_CASE("gumbel_softmax draws each category with its probability", "[random]") {
  const LeakGuard guard;
  manual_seed(4);
  constexpr i64 kDraws = 40000;
  const Tensor p = tensor({0.1, 0.2, 0.7}, {.dtype = f64});
  const Tensor draws = gumbel_softmax(expand(log(p), {kDraws, 3}), {.hard = true});
  const Values share = values(mean(draws, 0));
  for (size_t c = 0; c < 3; ++c) {
    const double expected = values(p)[c];
    const double sigma = std::sqrt(expected * (1 - expected) / double(kDraws));
    CHECK(std::fabs(share[c] - expected) < 5 * sigma);
  }
}

TEST_CASE("gumbel_softmax: categories of no probability, NaN, one call of the stream", "[random]") {
  const LeakGuard guard;
  manual_seed(5);
  const Tensor x = tensor({{-INFINITY, 1.0, 2.0}, {NAN, 1.0, 2.0}});
  const Values v = values(gumbel_softmax(x));
  CHECK(v[0] == 0);
  CHECK(std::fabs(v[1] + v[2] - 1) < 1e-6);
  for (size_t i = 3; i < 6; ++i) CHECK(std::isnan(v[i]));
  // One call of the user stream; one that throws is none.
  manual_seed(6);
  (void)gumbel_softmax(ones({3}));
  const Values after = values(rand({4}));
  manual_seed(6);
  (void)rand({1});
  CHECK_THROWS_AS(gumbel_softmax(ones({3}), {.tau = -1}), UsageError);
  CHECK(values(rand({4})) == after);
}
