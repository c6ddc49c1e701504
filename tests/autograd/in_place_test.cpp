// In place: what may be written while gradients are recorded, and what may not.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/conv.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/memory.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {
std::string at(int line) { return "in_place_test.cpp:" + std::to_string(line); }
}  // namespace

TEST_CASE(
    "In place: an in-place operator on a view while gradients are recorded throws and names "
    "both lines",
    "[wall][in_place]") {
  const LeakGuard guard;
  const Tensor w = leaf({1, 2});
  Tensor y = w * 2;
  const int made = __LINE__ + 1;
  Tensor view = y[{Slice{0, 1}}];
  const std::vector<std::pair<const char*, std::function<void()>>> writes{
      {"mul_", [&] { view.mul_(2); }},
      {"add_", [&] { view.add_(view); }},
      {"relu_", [&] { view.relu_(); }},
      {"fill_", [&] { view.fill_(0); }},
      {"copy_", [&] { view.copy_(view.clone()); }}};
  for (const auto& [name, write] : writes) {
    const std::string text = message_of(write);
    CHECK(mentions(text, str("[", name, "]")));
    CHECK(mentions(text, "a view"));
    CHECK(mentions(text, "made at " + at(made)));
    CHECK(mentions(text, "index_put_"));
  }
  const int line = __LINE__ + 1;
  CHECK(mentions(message_of([&] { view.mul_(2); }), "\n  at " + at(line)));
  CHECK(values(y) == Values{2, 4});
  CHECK(y.version() == 0);
  Tensor alias = y.detach();  // a view without gradient is still a view
  CHECK_THROWS_AS(alias.add_(y), InplaceError);
}

TEST_CASE("In place: a tensor with live views throws and names the view's line",
          "[wall][in_place]") {
  const LeakGuard guard;
  const Tensor w = leaf({1, 2});
  Tensor y = w * 2;
  {
    const int made = __LINE__ + 1;
    const Tensor view = y.reshape({2, 1});
    const int line = __LINE__ + 1;
    const std::string text = message_of([&] { y.mul_(3); });
    CHECK(mentions(text, "live views"));
    CHECK(mentions(text, at(made)));
    CHECK(mentions(text, at(line)));
  }
  y.mul_(3);  // no view lives any more
  y.sum().backward();
  CHECK(values(w.grad()) == Values{6, 6});
}

TEST_CASE("In place: a leaf that requires grad throws and names the line that made it one",
          "[wall][in_place]") {
  Tensor x = tensor({1.0, 2.0});
  const int made = __LINE__ + 1;
  x.set_requires_grad();
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { x.mul_(2); });
  CHECK(mentions(text, "leaf that requires grad, made at " + at(made)));
  CHECK(mentions(text, "\n  at " + at(line)));
  CHECK_THROWS_AS(x.zero_(), InplaceError);
  CHECK_THROWS_AS(x.index_put_({0}, tensor(1.0)), InplaceError);
  CHECK(values(x) == Values{1, 2});
  const NoGrad no_grad;
  x.mul_(2);
  x.index_put_({0}, tensor(7.0));
  CHECK(values(x) == Values{7, 4});
  CHECK(x.is_leaf());
}

TEST_CASE("In place: without recording, views may be written and the family's version tells",
          "[wall][in_place]") {
  const Tensor w = leaf({3, 4});
  Tensor x = tensor({1, 2}, {.dtype = f64});
  Tensor view = x[{Slice{0, 1}}];
  view.mul_(5);  // nobody wants a gradient here
  CHECK(values(x) == Values{5, 2});
  const Tensor y = w * x;  // saves x
  {
    const NoGrad no_grad;
    view.fill_(1);
  }
  CHECK(mentions(message_of([&] { y.backward(ones_like(y)); }), "modified in place"));
}

TEST_CASE("In place: a write is recorded and the gradient goes through it", "[wall][in_place]") {
  const LeakGuard guard;
  const Tensor w = leaf({1, -2}), v = leaf({3, 5});
  Tensor y = w * 2;
  y.add_(v);
  y.mul_(10);
  y.relu_();
  CHECK(values(y) == Values{50, 10});
  y.backward(ones_like(y));
  CHECK(values(w.grad()) == Values{20, 20});
  CHECK(values(v.grad()) == Values{10, 10});
  Tensor z = w * 2;
  z.copy_(v);  // nothing is left of w
  (z * 1).backward(ones_like(z));
  CHECK(values(w.grad()) == Values{20, 20});
  CHECK(values(v.grad()) == Values{11, 11});
  Tensor plain = zeros({2}, {.dtype = f64});
  plain.add_(v);  // becomes part of the graph
  CHECK(plain.requires_grad());
  CHECK_FALSE(plain.is_leaf());
}

TEST_CASE("In place: over a saved input, or a saved output, backward throws and names the line",
          "[wall][in_place][saved]") {
  const LeakGuard guard;
  const Tensor w = leaf({2});
  Tensor x = w * 1;
  const int needs = __LINE__ + 1;
  const Tensor y = x * x;
  x.mul_(3);
  const std::string text = message_of([&] { y.backward(); });
  CHECK(mentions(text,
                 " was modified in place: it is at version 1, version 0 is "
                 "needed"));
  CHECK(mentions(text, "needed by mul <- " + at(needs)));
  const int output = __LINE__ + 1;
  Tensor e = exp(w);
  e.mul_(2);
  const std::string over = message_of([&] { e.backward(); });
  CHECK(mentions(over, "[exp.backward] its output was overwritten in place"));
  CHECK(mentions(over, "exp <- " + at(output)));
}

TEST_CASE(
    "trap T17: relu_ is legal where backward asks for its output, refused where its input "
    "was saved",
    "[in_place][trap]") {
  const LeakGuard guard;
  // square saved its input, which relu_ then overwrote: both lines are named.
  const Tensor w = leaf({-1, 2});
  Tensor x = w * 1;
  const int saved = __LINE__ + 1;
  const Tensor y = square(x);
  const int written = __LINE__ + 1;
  x.relu_();
  const std::string text = message_of([&] { sum(y).backward(); });
  CHECK(mentions(text, "[square.backward] saved tensor 0 was modified in place"));
  CHECK(mentions(text, "written at " + at(written)));
  CHECK(mentions(text, "needed by square <- " + at(saved)));
  CHECK(!w.grad().defined());
  // Behind a convolution, which needs its input and its weight, it costs nothing.
  const Tensor kernel = ones({1, 1, 2}, {.dtype = f64}).set_requires_grad();
  const Tensor in = tensor({1, -3, 2}, {.dtype = f64}).reshape({1, 1, 3});
  const auto gradient = [&](bool in_place) {
    Tensor out = conv1d(in, kernel);  // -2, -1
    out = add(out, 1.5);              // -0.5, 0.5
    if (in_place)
      out.relu_();
    else
      out = relu(out);
    return values(grad(sum(out), kernel));
  };
  CHECK(gradient(true) == Values{-3, 2});
  CHECK(gradient(false) == Values{-3, 2});
}

TEST_CASE("In place: what cannot be written in place is refused before anything is",
          "[wall][in_place]") {
  Tensor x = tensor({1, 2});
  CHECK_THROWS_AS(x.add_(tensor({0.5, 0.5})), DtypeError);  // the dtype would change
  CHECK_THROWS_AS(x.mul_(0.5), DtypeError);
  CHECK_THROWS_AS(x.add_(zeros({2, 2}, {.dtype = DType::i64})), ShapeError);
  CHECK_THROWS_AS(x.copy_(zeros({3})), ShapeError);
  CHECK_THROWS_AS(x.add_(tensor({1, 1}, {.device = Device::simt()})), PlacementError);
  Tensor repeated = tensor({1}).expand({3});
  CHECK(mentions(message_of([&] { repeated.add_(tensor({1, 2, 3})); }), "expand"));
  CHECK_THROWS_AS(repeated.mul_(2), InplaceError);
  CHECK(values(x) == Values{1, 2});
  CHECK(x.version() == 0);
}

TEST_CASE("In place: members on an rvalue return a value, on an lvalue the tensor itself",
          "[wall][in_place]") {
  const LeakGuard guard;
  Tensor x = tensor({-1.0, 2.0});
  Tensor& same = x.relu_();
  CHECK(&same == &x);
  const Tensor y = add(x, x).relu_();
  CHECK(values(y) == Values{0, 4});
  const Tensor z = (x * 2).add_(x).mul_(10);
  CHECK(values(z) == Values{0, 60});
}
