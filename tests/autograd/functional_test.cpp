// jvp, vjp, hvp, jacobian and hessian against closed forms and finite differences.
#include "warptape/autograd/functional.h"

#include "warptape/autograd/compare.h"

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/sort.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;
using wt_test::kernel_devices;

namespace {
Tensor numbers(std::initializer_list<Scalar> v) { return tensor(v, {.dtype = f64}); }
bool near(const Tensor& a, const Tensor& b) {
  return allclose(a, b, {.rtol = 1e-12, .atol = 1e-12});
}
// x^T A x with an A that is not symmetric: the hessian is A + A^T.
const Tensor& form() {
  static const Tensor a =
      tensor({{1.0, 2.0, 0.5}, {-1.0, 3.0, 4.0}, {0.0, 2.0, -2.0}}, {.dtype = f64});
  return a;
}
Tensor quadratic(const Tensor& x) { return sum(x * matmul(form(), x)); }
}  // namespace

TEST_CASE("functional: a Jacobian of vectors and matrices, against the closed form") {
  (void)form();  // stays
  const LeakGuard guard;
  const Tensor x = numbers({1, 2, 3});
  CHECK(near(jacobian([](const Tensor& t) { return matmul(form(), t); }, x), form()));
  const Tensor j = jacobian([](const Tensor& t) { return t.unsqueeze(1) * t * t; }, x);
  REQUIRE(j.shape() == Shape{3, 3, 3});  // d(x_i x_j^2)/dx_k
  for (int i = 0; i < 3; ++i)
    for (int k = 0; k < 3; ++k)
      for (int l = 0; l < 3; ++l) {
        const double xi = i + 1, xk = k + 1;
        CHECK(j[{i, k, l}].item() == (i == l ? xk * xk : 0) + (k == l ? 2 * xi * xk : 0));
      }
  CHECK_FALSE(j.requires_grad());
  CHECK(jacobian([](const Tensor& t) { return t[{Slice{0, 0}}]; }, x).shape() == Shape{0, 3});
}

TEST_CASE("functional: products with v are those of the Jacobian, on every device") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const LeakGuard guard;
    const Tensor x = numbers({0.5, -1, 2}).to(d), v = numbers({1, 3, -2}).to(d);
    const auto f = [&](const Tensor& t) { return tanh(t) * sum(t * t); };
    const Tensor j = jacobian(f, x);
    const ProductResult forward = jvp(f, x, v), backward = vjp(f, x, v);
    CHECK(near(forward.output, f(x)));
    CHECK(near(forward.product, matmul(j, v)));
    CHECK(near(backward.product, matmul(v, j)));
    const double h = 1e-6;
    CHECK(allclose(forward.product, (f(x + v * h) - f(x - v * h)) / (2 * h), {.rtol = 1e-6}));
  }
}

TEST_CASE("functional: a Hessian and its product with v") {
  (void)form();
  const LeakGuard guard;
  const Tensor x = numbers({1, 2, 3}), v = numbers({1, 0, -1});
  const Tensor wanted = form() + form().t();
  CHECK(near(hessian(quadratic, x), wanted));
  const ProductResult p = hvp(quadratic, x, v);
  CHECK(near(p.product, matmul(wanted, v)));
  CHECK(p.output.item() == quadratic(x).item());
  const std::vector<Tensor> in{numbers({2, 3}), numbers({5})};
  const auto blocks =
      hessian([](std::span<const Tensor> t) { return sum(t[0] * t[0] * t[1]); }, in);
  CHECK(near(blocks[0][0], tensor({{10.0, 0.0}, {0.0, 10.0}}, {.dtype = f64})));
  CHECK(near(blocks[0][1], tensor({{4.0}, {6.0}}, {.dtype = f64})));
  CHECK(near(blocks[1][0], tensor({{4.0, 6.0}}, {.dtype = f64})));
  CHECK(values(blocks[1][1]) == Values{0});
}

TEST_CASE("functional: what does not depend on x has derivatives of zero") {
  const LeakGuard guard;
  const Tensor x = numbers({1, 2}), v = numbers({1, 1}), constant = numbers({3, 4});
  const auto f = [&](const Tensor&) { return constant; };
  CHECK(values(jvp(f, x, v).product) == Values{0, 0});
  CHECK(values(vjp(f, x, v).product) == Values{0, 0});
  CHECK(values(jacobian(f, x)) == Values{0, 0, 0, 0});
  const auto linear = [](const Tensor& t) { return sum(t * 3); };
  CHECK(values(hessian(linear, x)) == Values{0, 0, 0, 0});
  CHECK(values(hvp(linear, x, v).product) == Values{0, 0});
  CHECK(values(jvp(linear, x, v).product) == Values{6});
  CHECK(values(jvp([](const Tensor& t) { return sign(t); }, x, v).product) == Values{0, 0});
}

TEST_CASE("functional: with create_graph the results are differentiated again") {
  const LeakGuard guard;
  const Tensor x = leaf({1, 2}), w = leaf({3, 5});
  const auto f = [&](const Tensor& t) { return w * t * t; };
  const Tensor j = jacobian(f, x, {.create_graph = true});  // diag(2 w x)
  CHECK(values(grad(sum(j), w, {.retain_graph = true})) == Values{2, 4});
  CHECK(values(grad(sum(j), x)) == Values{6, 10});
  const Tensor v = numbers({1, 1});
  CHECK(values(grad(sum(jvp(f, x, v, {.create_graph = true}).product), x)) == Values{6, 10});
  CHECK(values(grad(sum(vjp(f, x, v, {.create_graph = true}).product), w)) == Values{2, 4});
  const Tensor h =
      hessian([&](const Tensor& t) { return sum(w * t * t * t); }, x, {.create_graph = true});
  CHECK(values(grad(sum(h), w)) == Values{6, 12});
  CHECK_FALSE(x.grad().defined());
  CHECK_FALSE(jvp(f, x, v).product.requires_grad());
  CHECK_FALSE(vjp(f, x, v).output.requires_grad());
}

TEST_CASE("functional: recording is on inside, whatever it is outside") {
  const NoGrad no_grad;
  const Tensor x = numbers({2, 3});
  CHECK(values(jacobian([](const Tensor& t) { return sum(t * t); }, x)) == Values{4, 6});
  CHECK_FALSE(mode.grad);
}

TEST_CASE("functional: wrong inputs are refused with the user's line") {
  const Tensor x = numbers({1, 2});
  const auto f = [](const Tensor& t) { return t * t; };
  CHECK_THROWS_AS(jacobian(f, arange(3)), DtypeError);
  CHECK_THROWS_AS(jvp(f, x, numbers({1, 2, 3})), ShapeError);
  CHECK_THROWS_AS(vjp(f, x, numbers({1})), ShapeError);
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)hessian(f, x); });
  CHECK(mentions(text, "[hessian] f must give one element, it gave [2] f64 cpu"));
  CHECK(mentions(text, "functional_test.cpp:" + str(line)));
  CHECK_THROWS_AS(hvp(f, x, x), ShapeError);
  CHECK_THROWS_AS(jacobian([](const Tensor&) { return Tensor(); }, x), UsageError);
}

// The gradient of a step is 0 for any incoming gradient, also for one of 0: so is its derivative.
TEST_CASE("functional: the gradient of a step is constant in what comes in") {
  const LeakGuard guard;
  const Tensor x = leaf({1, -2, 3}), incoming = leaf({0, 0, 5});
  for (const auto step : {sign, floor, round, ceil, trunc}) {
    const Tensor g = grads(step(x), x, {.grad_outputs = {incoming}, .create_graph = true})[0];
    CHECK(values(g) == Values{0, 0, 0});
    CHECK(values(grad(sum(g), incoming)) == Values{0, 0, 0});
  }
}
