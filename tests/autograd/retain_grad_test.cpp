// retain_grad() and the order of hooks.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;

namespace {
using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }
Tensor leaf(double v) { return tensor({v}, {.dtype = f64, .requires_grad = true}); }
}  // namespace

TEST_CASE("retain_grad: a tensor that is no leaf keeps its gradient, a tensor of its own") {
  const LeakGuard guard;
  const Tensor x = leaf(3);
  const Tensor h = square(x), other = mul(x, 2);
  h.retain_grad();
  h.retain_grad();  // asking twice is asking once
  CHECK_FALSE(h.grad().defined());
  const Tensor y = mul(mul(h, 5), other);
  y.backward({.retain_graph = true});
  CHECK(values(h.grad()) == Values{5 * 6});
  CHECK_FALSE(h.grad().requires_grad());
  CHECK_FALSE(other.grad().defined());
  CHECK(values(x.grad()) == Values{9 * 10 * 3});
  y.backward();  // adds up, as a leaf's does
  CHECK(values(h.grad()) == Values{2 * 5 * 6});
  h.zero_grad();
  CHECK_FALSE(h.grad().defined());
}

TEST_CASE("retain_grad: sees the gradient after all hooks, whenever they were registered") {
  const LeakGuard guard;
  const Tensor x = leaf(1);
  const Tensor h = mul(x, 1);
  std::vector<int> order;
  register_hook(h, [&](const Tensor& g) {
    order.push_back(1);
    return mul(g, 10);
  });
  h.retain_grad();
  register_hook(h, [&](const Tensor& g) {
    order.push_back(2);
    CHECK(values(g) == Values{10});
    CHECK_FALSE(h.grad().defined());
    return add(g, 1);
  });
  register_hook(x, [&](const Tensor& g) {
    order.push_back(3);
    return g;
  });
  h.sum().backward();
  CHECK(order == std::vector<int>{1, 2, 3});
  CHECK(values(h.grad()) == Values{11});
  CHECK(values(x.grad()) == Values{11});
}

TEST_CASE("retain_grad: only backward() fills it") {
  const Tensor x = leaf(2);
  const Tensor h = square(x);
  h.retain_grad();
  const Tensor y = square(h);
  const Tensor g = grad(y, h, {.retain_graph = true});
  CHECK(values(g) == Values{8});
  CHECK_FALSE(h.grad().defined());
}

TEST_CASE("retain_grad: leaves, tensors without gradient, outputs of in-place operators") {
  const LeakGuard guard;
  const Tensor x = leaf(2);
  x.retain_grad();  // has one anyway
  const Tensor plain = tensor({1.0});
  CHECK(mentions(message_of([&] { plain.retain_grad(); }), "[retain_grad]"));
  Tensor h = mul(x, 3);
  h.retain_grad();
  h.mul_(4);  // the wish is the tensor's: of what it holds now
  square(h).sum().backward();
  CHECK(values(h.grad()) == Values{2 * 24});
  const std::vector<Tensor> parts = split(mul(leaf(1), 2), 1);
  parts[0].retain_grad();
  mul(parts[0], 7).sum().backward();
  CHECK(values(parts[0].grad()) == Values{7});
}
