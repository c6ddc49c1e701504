// Saved slots, versions, in-place rules and the taking of rvalues.
#include <cmath>
#include "warptape/autograd/custom.h"
#include "warptape/autograd/grads.h"

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;

namespace {
Tensor leaf(std::initializer_list<Scalar> v) {
  return tensor(v, {.dtype = f64, .requires_grad = true});
}
using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }
}  // namespace

TEST_CASE("Saved: a gradient that is set or added to counts as written", "[wall]") {
  for (const bool added : {false, true}) {
    CAPTURE(added);
    const Tensor w = leaf({1, 2}), v = leaf({3, 4});
    w.set_grad(tensor({5, 6}, {.dtype = f64}));
    const Tensor y = v * w.grad();
    if (added)
      (w * 2).sum().backward();
    else
      w.set_grad(tensor({7, 8}, {.dtype = f64}));
    CHECK(mentions(message_of([&] { y.sum().backward(); }), "modified in place"));
  }
}

TEST_CASE("Saved: a write after saving is found, and the message names the needing line",
          "[wall][saved]") {
  const Tensor w = leaf({3});
  Tensor x = tensor({2.0}, {.dtype = f64});
  const Tensor y = mul(w, x);
  x.fill_(5);
  const std::string text = message_of([&] { y.backward(); });
  CHECK(mentions(text, "modified in place"));
  CHECK(mentions(text, "saved_test.cpp:"));
}

TEST_CASE("Saved: a write through a view counts", "[wall][saved]") {
  const Tensor w = leaf({3, 4});
  Tensor x = tensor({1, 2}, {.dtype = f64});
  const Tensor y = mul(w, x);
  x.index_put_({0}, tensor(9.0, {.dtype = f64}));
  CHECK(mentions(message_of([&] { y.backward(ones_like(y)); }), "modified in place"));
}

TEST_CASE("Saved: an output saved by its producer and, as an rvalue, by its consumer",
          "[wall][saved]") {
  const LeakGuard guard;
  const Tensor x = leaf({-1, 2}), w = leaf({5, 7});
  Tensor r = relu(x);                     // saves its output
  const Tensor y = mul(std::move(r), w);  // saves the same tensor as input
  const Tensor z = mul(y, y);
  const std::vector<Tensor> g =
      grads({z}, {x, w}, {.grad_outputs = {ones_like(z)}, .create_graph = true});
  CHECK(values(g[0]) == Values{0, 2 * 2 * 49});
  CHECK(values(g[1]) == Values{0, 2 * 7 * 4});
  const Tensor h = grad(g[1], w, {.grad_outputs = {ones_like(w)}});
  CHECK(values(h) == Values{0, 2 * 4});
}

TEST_CASE("Saved: no cycle keeps a graph alive", "[wall][saved]") {
  const LeakGuard guard;
  const Tensor w = leaf({3});
  Tensor x = tensor({2.0}, {.dtype = f64});
  const Tensor y = mul(x, w);  // saves x
  x.add_(y);                   // x's producer is now above y
  Tensor r = relu(w);
  r.add_(w);  // over a saved output
}

TEST_CASE("In place: over a saved output is an error when it is needed", "[wall][in_place]") {
  const Tensor w = leaf({3});
  Tensor r = relu(w);
  r.mul_(2);
  const std::string text = message_of([&] { r.backward(); });
  CHECK(mentions(text, "[relu.backward]"));
}

TEST_CASE("In place: leaves, views and viewed tensors are refused while recording",
          "[wall][in_place]") {
  Tensor x = leaf({1, 2});
  CHECK(mentions(message_of([&] { x.mul_(2); }), "leaf that requires grad"));
  {
    const NoGrad no_grad;
    x.mul_(2);
  }
  CHECK(values(x) == Values{2, 4});
  Tensor y = mul(x, 1);
  Tensor v = y[0];
  const std::string view = message_of([&] { v.mul_(3); });
  CHECK(mentions(view, "on a view"));
  const std::string viewed = message_of([&] { y.mul_(3); });
  CHECK(mentions(viewed, "live views"));
  v = Tensor();
  y.mul_(3);
  y.backward(ones_like(y));
  CHECK(values(x.grad()) == Values{3, 3});
}

TEST_CASE("In place: an rvalue is reused only when nobody else can see it",
          "[wall][operands][in_place]") {
  const LeakGuard guard;
  Tensor a = tensor({1, 2}, {.dtype = f64});
  const void* home = a.impl()->data;
  Tensor b = relu(std::move(a));
  CHECK_FALSE(a.defined());
  CHECK(b.impl()->data == home);
  Tensor kept = b;
  Tensor c = relu(std::move(b));
  CHECK(c.impl()->data != home);
  CHECK(values(kept) == Values{1, 2});
  Tensor whole = tensor({1, 2, 3}, {.dtype = f64});
  Tensor part = whole[{Slice{0, 2}}];
  Tensor d = mul(std::move(part), 10);
  CHECK(values(whole) == Values{1, 2, 3});
}

TEST_CASE("In place: an rvalue is untouched when the operator throws",
          "[wall][operands][in_place]") {
  Tensor a = tensor({1, 2});
  CHECK_THROWS_AS((void)add(std::move(a), tensor({1, 2, 3})), ShapeError);
  REQUIRE(a.defined());
  CHECK(values(a) == Values{1, 2});
  Tensor f = tensor({1.0, 2.0});
  const Tensor wide = tensor({{1.0, 1.0}, {2.0, 2.0}});
  memory::fail_nth_request(1);
  CHECK_THROWS_AS((void)mul(std::move(f), wide), OutOfMemory);
  memory::fail_nth_request(0);
  CHECK(f.defined());
}

TEST_CASE("In place: f(std::move(x), x) takes nothing", "[wall][operands][in_place]") {
  const Tensor w = leaf({3});
  Tensor x = mul(w, 2);
  const Tensor y = mul(std::move(x), x);
  y.backward();
  CHECK(w.grad().item() == 2 * 6 * 2);
}

TEST_CASE("In place: a borrowed block is never overwritten", "[wall][operands][in_place]") {
  double data[2] = {1, 2};
  Tensor t = from_blob(data, {2}, borrow, {.dtype = f64});
  const Tensor y = mul(std::move(t), 10);
  CHECK(data[0] == 1);
  CHECK(values(y) == Values{10, 20});
}

TEST_CASE("Operands: an rvalue leaf keeps its gradient state", "[wall][operands]") {
  Tensor x = leaf({2});
  const Tensor same = x;
  const Tensor y = mul(std::move(x), 3);
  y.backward();
  CHECK(same.grad().item() == 3);
}
