// Operators of one's own: a struct whose members are its attributes.
#include "warptape/autograd/custom.h"

#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {
struct Cube {
  double factor = 1;
  static constexpr OpInfo info{.name = "cube"};
  Tensor forward(Save& save, const Tensor& x) const {
    save(x);
    return mul(mul(mul(x, x), x), factor);
  }
  Grads backward(const Saved& s, const Tensor& gy) const {
    return {mul(mul(gy, mul(s[0], s[0])), 3 * factor)};
  }
};
// Two outputs, an output saved, attributes that own memory.
struct SplitScale {
  std::vector<double> factors{2, 3};
  static constexpr OpInfo info{.name = "split_scale"};
  std::vector<Tensor> forward(Save& save, const Tensor& a, const Tensor& b) const {
    const Tensor first = mul(a, factors[0]), second = mul(mul(a, b), factors[1]);
    save(a);
    save(b);
    save(first);
    return {first, second};
  }
  Grads backward(const Saved& s, const std::vector<Tensor>& gy) const {
    const Tensor ga = add(mul(gy[0], factors[0]), mul(mul(gy[1], s[1]), factors[1]));
    return {ga, mul(mul(gy[1], mul(s[2], 1 / factors[0])), factors[1])};
  }
};
struct BadShape {
  static constexpr OpInfo info{.name = "bad_shape"};
  Tensor forward(Save&, const Tensor& x) const { return mul(x, 1); }
  Grads backward(const Saved&, const Tensor& gy) const { return {reshape(gy, {1, -1})}; }
};
// The one of the documentation.
struct Swish {
  double beta = 1;
  static constexpr OpInfo info{.name = "swish", .autocast = Autocast::f32};
  Tensor forward(Save& save, const Tensor& x) const {
    save(x);
    return x * sigmoid(beta * x);
  }
  Grads backward(const Saved& s, const Tensor& gy) const {
    const Tensor p = sigmoid(beta * s[0]);
    return {gy * (p + beta * s[0] * p * (1 - p))};
  }
};
// Gives its input back.
struct Same {
  static constexpr OpInfo info{.name = "same"};
  Tensor forward(Save&, const Tensor& x) const { return x; }
  Grads backward(const Saved&, const Tensor& gy) const { return {gy * 2}; }
};
struct Greedy {
  static constexpr OpInfo info{.name = "greedy"};
  Tensor forward(Save& save, const Tensor& x) const {
    for (int i = 0; i < 9; ++i) save(x * double(i));
    return x * 1;
  }
  Grads backward(const Saved& s, const Tensor& gy) const { return {gy * s[8]}; }
};
struct Asks {
  int which;
  static constexpr OpInfo info{.name = "asks"};
  Tensor forward(Save& save, const Tensor& x) const {
    save(x);
    return x * 1;
  }
  Grads backward(const Saved& s, const Tensor& gy) const { return {gy * s[which]}; }
};
struct Nothing {
  static constexpr OpInfo info{.name = "nothing"};
  Tensor forward(Save&, const Tensor&) const { return {}; }
  Grads backward(const Saved&, const Tensor& gy) const { return {gy}; }
};
}  // namespace

TEST_CASE("Custom operators: the one of the documentation, by grad_check", "[wall][custom]") {
  const LeakGuard guard;
  const Tensor x = leaf({-1.5, 0.25, 2});
  const auto f = [](std::span<const Tensor> in) { return sum(apply(Swish{.beta = 1.5}, in[0])); };
  const GradCheck first = grad_check(f, {x}), second = grad_grad_check(f, {x});
  INFO(first.message << second.message);
  CHECK(first.ok);
  CHECK(second.ok);
  // Its members are attributes of the node: each call has its own.
  const Tensor one = apply(Swish{.beta = 1}, x), two = apply(Swish{.beta = 2}, x);
  CHECK(values(grad(sum(one), x)) != values(grad(sum(two), x)));
  const NoGrad no_grad;
  CHECK_FALSE(apply(Swish{}, x).requires_grad());
}

TEST_CASE("Custom operators: what was saved is checked against in-place writes",
          "[wall][custom][saved]") {
  const LeakGuard guard;
  const Tensor w = leaf({2});
  Tensor x = w * 1;
  const int line = __LINE__ + 1;
  const Tensor y = apply(Swish{}, x);
  x.mul_(2);
  const std::string text = message_of([&] { y.backward(); });
  CHECK(mentions(text, "[swish.backward] saved tensor 0 was modified in place"));
  CHECK(mentions(text, "swish <- custom_op_test.cpp:" + std::to_string(line)));
}

TEST_CASE("Custom operators: an output that is the input gets its own handle, as a view",
          "[wall][custom]") {
  const LeakGuard guard;
  const Tensor w = leaf({2});
  Tensor x = w * 1;
  Tensor y = apply(Same{}, x);
  CHECK_FALSE(y.same_as(x));
  CHECK_THROWS_AS(y.mul_(2), InplaceError);  // it shares x's memory
  y.backward();
  CHECK(w.grad().item() == 2);
  const Tensor plain = tensor({1.0});  // without a graph too
  CHECK_FALSE(apply(Same{}, plain).same_as(plain));
}

TEST_CASE("Custom operators: mistakes are refused by name", "[wall][custom]") {
  const LeakGuard guard;
  const Tensor x = leaf({2});
  CHECK(mentions(message_of([&] { (void)apply(Greedy{}, x); }),
                 "[greedy] saves more than 8 tensors"));
  CHECK(mentions(message_of([&] { (void)apply(Nothing{}, x); }),
                 "[nothing] forward returned an undefined tensor"));
  CHECK(mentions(message_of([&] { (void)apply(Swish{}, Tensor()); }),
                 "[swish] operand 0 is undefined"));
  const Tensor y = apply(Asks{1}, x);
  CHECK(mentions(message_of([&] { y.backward(); }), "[asks.backward] saved tensor 1 of 1"));
}

TEST_CASE("Custom operators: members are attributes, higher derivatives follow", "[wall][custom]") {
  const LeakGuard guard;
  const Tensor x = leaf({2});
  const Tensor y = apply(Cube{.factor = 0.5}, x);
  const Tensor g = grad(y, x, {.create_graph = true});
  CHECK(y.item() == 4);
  CHECK(g.item() == 6);
  CHECK(grad(g, x).item() == 6);
}

TEST_CASE("Custom operators: several outputs, of which one gets a gradient", "[wall][custom]") {
  const LeakGuard guard;
  const Tensor a = leaf({2}), b = leaf({5});
  const std::vector<Tensor> y = apply(SplitScale{}, a, b);
  CHECK(y[0].item() == 4);
  CHECK(y[1].item() == 30);
  const std::vector<Tensor> g = grads({y[1]}, {a, b}, {.retain_graph = true});
  CHECK(g[0].item() == 15);
  CHECK(g[1].item() == 6);
  const std::vector<Tensor> both = grads({y[0], y[1]}, {a, b});
  CHECK(both[0].item() == 17);
}

TEST_CASE("Custom operators: a gradient of the wrong shape is refused by name", "[wall][custom]") {
  const Tensor x = leaf({1, 2});
  const Tensor y = apply(BadShape{}, x);
  CHECK(mentions(message_of([&] { y.backward(ones_like(y)); }), "[bad_shape.backward]"));
}

namespace {
// a + 2 b + 3 c + ... of as many as apply() takes.
struct WeightedSum {
  static constexpr OpInfo info{.name = "weighted_sum"};
  template <class... T>
  Tensor forward(Save&, const Tensor& first, const T&... rest) const {
    Tensor all = mul(first, 1);
    double weight = 1;
    ((all = all + rest * ++weight), ...);
    return all;
  }
  Grads backward(const Saved&, const Tensor& gy) const {
    std::vector<Tensor> g;
    for (int i = 1; i <= count; ++i) g.push_back(gy * i);
    return Grads(g);
  }
  int count;
};
}  // namespace

TEST_CASE("Custom operators: up to eight operands, each with its gradient") {
  const LeakGuard guard;
  std::vector<Tensor> x;
  for (int i = 0; i < 8; ++i) x.push_back(leaf({1, i}));
  const Tensor five = apply(WeightedSum{5}, x[0], x[1], x[2], x[3], x[4]);
  CHECK(values(five) == Values{15, 2 * 1 + 3 * 2 + 4 * 3 + 5 * 4});
  const Tensor six = apply(WeightedSum{6}, x[0], x[1], x[2], x[3], x[4], x[5]);
  CHECK(values(grad(sum(six), x[5])) == Values{6, 6});
  const Tensor seven = apply(WeightedSum{7}, x[0], x[1], x[2], x[3], x[4], x[5], x[6]);
  CHECK(values(grad(sum(seven), x[6])) == Values{7, 7});
  const Tensor eight = apply(WeightedSum{8}, x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]);
  CHECK(values(eight)[0] == 36);
  const std::vector<Tensor> g = grads(sum(eight), x);
  for (size_t i = 0; i < 8; ++i) CHECK(values(g[i]) == Values{double(i + 1), double(i + 1)});
}
