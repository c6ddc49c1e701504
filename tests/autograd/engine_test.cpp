// The engine: reachability, fan-in, re-entrance, freeing, hooks, slots, claims, sizes.
#include "warptape/autograd/grads.h"

#include <cmath>
#include <thread>

#include "warptape/autograd/ops/conv.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/random.h"
#include "warptape/autograd/ops/reduce.h"
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
std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }
using Values = std::vector<double>;

}  // namespace

TEST_CASE("Engine: fan-in adds every path's gradient", "[wall][engine]") {
  const LeakGuard guard;
  const Tensor x = leaf({2, 3});
  const Tensor a = mul(x, x), b = mul(a, x), y = add(add(a, b), mul(a, b));
  // y = x^2 + x^3 + x^5
  y.backward(ones_like(y));
  CHECK(values(x.grad()) == Values{2 * 2 + 3 * 4 + 5 * 16, 2 * 3 + 3 * 9 + 5 * 81});
}

TEST_CASE("Engine: gradients of windows add up in one buffer, never in another's", "[engine]") {
  const LeakGuard guard;
  const Tensor x = leaf({1, 2, 3, 4, 5, 6});
  const Tensor w = tensor({1, 10, 100, 1000, 10000, 100000}, {.dtype = f64});
  {  // overlapping, with steps, beside a use of the whole, and one that selects nothing
    const Tensor h = mul(x, 2);
    const Tensor y = add(add(sum(mul(slice(h, 0, {0, 4}), slice(w, 0, {0, 4}))),
                             sum(mul(slice(h, 0, {1, 6, 2}), slice(w, 0, {1, 6, 2})))),
                         add(sum(mul(slice(h, 0, {5, 5}), slice(w, 0, {5, 5}))), sum(h)));
    y.backward();
    CHECK(values(x.grad()) == Values{4, 42, 202, 4002, 2, 200002});
    x.zero_grad();
  }
  {  // the sum hands one gradient to both of its operands: a window of one is not of the other
    const Tensor h = mul(x, 2), k = mul(x, 3);
    const Tensor part = slice(h, 0, {0, 2});
    const Tensor y = sum(mul(add(h, k), w));
    add(y, sum(part)).backward();
    CHECK(values(x.grad()) == Values{7, 52, 500, 5000, 50000, 500000});
    x.zero_grad();
  }
  {  // nor is it the user's: an average of what retain_grad and a hook saw
    const Tensor h = mul(x, 2);
    h.retain_grad();
    const Tensor part = slice(h, 0, {0, 1});
    Tensor seen;
    register_hook(h, [&](const Tensor& g) {
      seen = g;
      return Tensor();
    });
    add(sum(h), sum(part)).backward();
    CHECK(values(seen) == Values{2, 1, 1, 1, 1, 1});
    CHECK(values(h.grad()) == values(seen));
    x.zero_grad();
  }
  // And of higher order.
  const Tensor h = mul(x, x);
  const Tensor y = add(sum(mul(slice(h, 0, {0, 3}), slice(h, 0, {3, 6}))), sum(h));
  const Tensor g = grad(y, x, {.create_graph = true});
  const Tensor gg = grad(sum(g), x);
  // y = sum x_i^2 x_j^2 + sum x^2, j = i + 3: d/dx_i of (2 x_i x_j^2 + 2 x_j x_i^2 + 2 x_i)
  CHECK(values(gg) == Values{2 * 16 + 4 * 4 * 1 + 2, 2 * 25 + 4 * 5 * 2 + 2, 2 * 36 + 4 * 6 * 3 + 2,
                             2 * 1 + 4 * 1 * 4 + 2, 2 * 4 + 4 * 2 * 5 + 2, 2 * 9 + 4 * 3 * 6 + 2});
}

TEST_CASE("Engine: backward accumulates into grad and leaves no node behind", "[wall][engine]") {
  const LeakGuard guard;
  const Tensor x = leaf({1, 2});
  for (int i = 0; i < 3; ++i) {
    const Tensor y = mul(x, 2);
    y.backward(ones_like(y));
  }
  CHECK(values(x.grad()) == Values{6, 6});
  CHECK_FALSE(x.grad().requires_grad());
  x.zero_grad();
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("Engine: two leaves never share a gradient's storage", "[wall][engine]") {
  const Tensor a = leaf({1}), b = leaf({2});
  const Tensor y = add(a, b);
  y.backward(ones_like(y));
  Tensor ga = a.grad();
  ga.fill_(7);
  CHECK(values(b.grad()) == Values{1});
}

TEST_CASE("Engine: a transposed gradient is copied by its strides", "[wall][engine]") {
  const Tensor x = reshape(leaf({1, 2, 3, 4, 5, 6}), {2, 3});
  Tensor w = tensor({1, 2, 3, 4, 5, 6}, {.dtype = f64});
  const Tensor p = leaf({0, 0, 0, 0, 0, 0});
  const Tensor q = tensor({{1, 2, 3}, {4, 5, 6}}, {.dtype = f64});
  Tensor m = zeros({2, 3}, {.dtype = f64, .requires_grad = true});
  const Tensor y = transpose(m, 0, 1);
  y.backward(transpose(q, 0, 1).contiguous());
  CHECK(values(m.grad()) == Values{1, 2, 3, 4, 5, 6});
}

TEST_CASE("Engine: grads gives higher orders and touches no grad", "[wall][engine]") {
  const LeakGuard guard;
  const Tensor x = leaf({2});
  const Tensor y = mul(mul(x, x), mul(x, x));
  const Tensor g1 = grad(y, x, {.create_graph = true});
  const Tensor g2 = grad(g1, x, {.create_graph = true});
  const Tensor g3 = grad(g2, x, {.create_graph = true});
  const Tensor g4 = grad(g3, x);
  CHECK(g1.item() == 32);
  CHECK(g2.item() == 48);
  CHECK(g3.item() == 48);
  CHECK(g4.item() == 24);
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("Engine: grads of intermediate tensors, several outputs and unused inputs",
          "[wall][engine]") {
  const Tensor x = leaf({3}), other = leaf({1});
  const Tensor a = mul(x, x), y = mul(a, 2), z = add(a, x);
  const std::vector<Tensor> g = grads({y, z}, {a, x, other}, {.allow_unused = true});
  CHECK(g[0].item() == 3);          // 2 from y, 1 from z
  CHECK(g[1].item() == 2 * 6 + 7);  // through a from both, and z's own x
  CHECK_FALSE(g[2].defined());
  const Tensor a2 = mul(x, x);
  CHECK_THROWS_AS((void)grads({a2}, {other}), UsageError);
}

TEST_CASE("Engine: a backward may start a walk of its own", "[wall][engine]") {
  const Tensor x = leaf({2});
  const u64 id = register_hook(x, [](const Tensor& g) {
    const EnableGrad on;  // backward itself never records
    const Tensor inner = leaf({5});
    const Tensor t = mul(inner, inner);
    t.backward();
    return mul(g, inner.grad());  // times 10
  });
  const Tensor y = mul(x, 3);
  y.backward();
  CHECK(x.grad().item() == 30);
  remove_hook(x, id);
}

TEST_CASE("Hooks: they see the walk's sum before accumulation, and may replace it",
          "[wall][engine][hooks]") {
  const Tensor x = leaf({2});
  double seen = 0;
  register_hook(x, [&](const Tensor& g) {
    seen = g.item();
    return Tensor();
  });
  mul(x, 3).backward();
  const Tensor y = add(mul(x, 2), mul(x, 5));
  y.backward();
  CHECK(seen == 7);
  CHECK(x.grad().item() == 10);
  const Tensor a = mul(x, 2);
  register_hook(a, [](const Tensor& g) { return mul(g, 100); });
  const Tensor g = grad(mul(a, 1), x);
  CHECK(g.item() == 200);
}

TEST_CASE("Engine: a graph is freed by its backward unless retained", "[wall][engine]") {
  const Tensor x = leaf({2});
  const Tensor y = mul(x, x);
  y.backward({.retain_graph = true});
  y.backward();
  CHECK(x.grad().item() == 8);
  CHECK(mentions(message_of([&] { y.backward(); }), "freed by an earlier backward"));
}

TEST_CASE("Engine: two losses on one trunk", "[wall][engine]") {
  const LeakGuard guard;
  const Tensor x = leaf({2});
  const Tensor trunk = add(x, 1);
  const Tensor a = add(trunk, 1), b = add(trunk, 2);
  a.backward();
  b.backward();  // add saves nothing, and `trunk` is still held by the user
  CHECK(x.grad().item() == 2);
}

TEST_CASE("Engine: roots must want a gradient, and one element or a seed", "[wall][engine]") {
  CHECK_THROWS_AS(tensor({1.0}).backward(), UsageError);
  const Tensor x = leaf({1, 2});
  CHECK(mentions(message_of([&] { mul(x, x).backward(); }), "one-element"));
  CHECK_THROWS_AS(mul(x, x).backward(tensor({1.0}, {.dtype = f64})), ShapeError);
  const Tensor s = leaf({4});
  s.backward();  // a leaf is its own root
  CHECK(s.grad().item() == 1);
}

TEST_CASE("Engine: 10^6 nodes need no stack and leave nothing", "[wall][engine][node]") {
  const LeakGuard guard;
  const Tensor x = leaf({1}), one = tensor({1.0}, {.dtype = f64});
  {
    Tensor y = x;
    for (int i = 0; i < 1000000; ++i) y = add(y, one);
    y.backward();
    CHECK(x.grad().item() == 1);
  }
  Tensor never = x;  // never differentiated: dies with its tensors
  for (int i = 0; i < 1000000; ++i) never = mul(never, one);
}

TEST_CASE("Engine: a backward that throws invalidates the touched gradients", "[wall][engine]") {
  const Tensor x = leaf({2});
  mul(x, 3).backward();
  bool boom = true;
  const Tensor y = mul(x, x);
  register_hook(y, [&](const Tensor& g) -> Tensor {
    if (boom) throw NumericError("boom");
    return g;
  });
  const Tensor z = add(y, x);
  CHECK_THROWS_AS(z.backward({.retain_graph = true}), NumericError);
  CHECK_THROWS_AS((void)x.grad(), NumericError);
  x.zero_grad();
  boom = false;
  z.backward();
  CHECK(x.grad().item() == 5);
}

TEST_CASE("Engine: two live walks over one graph throw, on one thread each", "[wall][engine]") {
  const Tensor x = leaf({2});
  const Tensor y = mul(x, x);
  std::string other;
  const u64 id = register_hook(y, [&](const Tensor& g) {
    std::thread([&] { other = message_of([&] { y.backward({.retain_graph = true}); }); }).join();
    return g;
  });
  y.backward({.retain_graph = true});
  CHECK(mentions(other, "another backward is walking"));
  remove_hook(y, id);
  y.backward();  // all marks are back
}

TEST_CASE("Engine: graphs that cross threads stay ordered", "[wall][engine][node]") {
  const Tensor x = leaf({2});
  Tensor y = x;
  for (int i = 0; i < 50; ++i) y = mul(y, 1);
  Tensor z;
  std::thread([&] { z = add(mul(y, 3), x); }).join();
  z.backward();
  CHECK(x.grad().item() == 4);
}

TEST_CASE("Mode: anomaly mode names the forward line of a NaN", "[wall][mode]") {
  const AnomalyMode anomaly;
  const Tensor x = leaf({0});
  const Tensor y = mul(x, INFINITY);  // line wanted in the message
  const std::string text = message_of([&] { mul(y, 0.0).backward(); });
  CHECK(mentions(text, "NaN"));
  CHECK(mentions(text, "engine_test.cpp:"));
}

TEST_CASE("Mode: no-grad and inference mode record nothing", "[wall][mode]") {
  const Tensor x = leaf({2});
  {
    const NoGrad no_grad;
    CHECK_FALSE(mul(x, x).requires_grad());
    const EnableGrad again;
    CHECK(mul(x, x).requires_grad());
  }
  Tensor made;
  {
    const InferenceMode inference;
    made = mul(x, 2);
  }
  CHECK_FALSE(made.requires_grad());
  CHECK(mentions(message_of([&] { (void)mul(made, x); }), "inference mode"));
  CHECK(mul(clone(made), x).requires_grad());
}

TEST_CASE("Engine: the gradient that a custom backward returns is checked") {
  const Tensor x = leaf({1, 2});
  register_hook(x, [](const Tensor& g) { return g; });
  const Tensor y = mul(x, x);
  y.backward(ones_like(y));
  CHECK(values(x.grad()) == Values{2, 4});
}

namespace {
// Ends after what the library keeps for its thread: that was made later.
struct Late {
  double* slope = nullptr;
  ~Late() {
    if (!slope) return;
    const Tensor w = rand({2, 1, 3, 3}).set_requires_grad();
    conv2d(ones({1, 1, 4, 4}), w).sum().backward();
    *slope = w.grad().sum().item();
  }
};
}  // namespace

TEST_CASE("Engine: destructors at a thread's end may walk", "[wall]") {
  double slope = 0;
  std::thread([&] {
    static thread_local Late late;
    late.slope = &slope;
    const Tensor w = rand({2, 1, 3, 3}).set_requires_grad();
    conv2d(ones({1, 1, 4, 4}), w).sum().backward();
  }).join();
  CHECK(slope == 2 * 9 * 4);
}
