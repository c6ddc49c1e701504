// Activations in place beside what their rows in op_cases show: forms on rvalues, arguments, what
// is kept, derivatives of every order, draws.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/random.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

const std::vector<double> kPoints{-3.5, -1.25, -0.5, 0.25, 0.75, 2.5};
Tensor points() { return to_tensor(kPoints, {6}, f64, {}); }

struct Form {
  const char* name;
  Tensor (*functional)(const Tensor&);
  Tensor& (*lvalue)(Tensor&);
  Tensor (*rvalue)(Tensor&&);
};
#define WT_FORM(name, ...)                                                               \
  Form {                                                                                 \
#name, [](const Tensor& x) { return name(x __VA_OPT__(, ) __VA_ARGS__); },             \
        [](Tensor& x) -> Tensor& { return x.name##_(__VA_ARGS__); },                       \
        [](Tensor&& x) { return std::move(x).name##_(__VA_ARGS__); } \
  }
const Form kForms[] = {WT_FORM(clamp, -1, 1),
                       WT_FORM(elu, 0.5),
                       WT_FORM(gelu),
                       WT_FORM(hardsigmoid),
                       WT_FORM(hardswish),
                       WT_FORM(leaky_relu, 0.25),
                       WT_FORM(mish),
                       WT_FORM(relu),
                       WT_FORM(sigmoid),
                       WT_FORM(silu),
                       WT_FORM(softplus, 2, 3.0),
                       WT_FORM(tanh)};
#undef WT_FORM

}  // namespace

TEST_CASE("activations: in place they give the operator's values, in the same storage") {
  for (const Form& f : kForms) {
    CAPTURE(f.name);
    const std::vector<double> want = to_doubles(f.functional(points()));
    Tensor x = points();
    const void* home = x.impl()->data;
    CHECK(f.lvalue(x).same_as(x));
    CHECK(x.impl()->data == home);
    CHECK(to_doubles(x) == want);
    Tensor y = points();
    home = y.impl()->data;
    const Tensor z = f.rvalue(std::move(y));
    CHECK(z.impl()->data == home);
    CHECK(to_doubles(z) == want);
  }
}

TEST_CASE("activations: in place, the second derivative is that of the operator") {
  for (const Form& f : kForms) {
    CAPTURE(f.name);
    const auto second = [&](bool in_place) {
      Tensor x = points().set_requires_grad();
      Tensor y = mul(x, 1);  // no leaf
      if (in_place)
        f.lvalue(y);
      else
        y = f.functional(y);
      const Tensor g =
          grads({y}, {x}, {.grad_outputs = {ones({6}, {.dtype = f64})}, .create_graph = true})[0];
      if (!g.requires_grad()) return std::vector<double>(6, 0.0);
      const Tensor gg =
          grads({g}, {x}, {.grad_outputs = {ones({6}, {.dtype = f64})}, .allow_unused = true})[0];
      return gg.defined() ? to_doubles(gg) : std::vector<double>(6, 0.0);
    };
    CHECK(second(true) == second(false));
  }
}

TEST_CASE("activations: arguments that an operation in place cannot have") {
  Tensor x = points();
  const std::vector<double> before = to_doubles(x);
  CHECK(mentions(message_of([&] { x.leaky_relu_(-0.5); }),
                 "slope must be at least 0 in place, got -0.5"));
  CHECK(mentions(message_of([&] { x.elu_(-1); }), "alpha must be at least 0 in place, got -1"));
  CHECK(mentions(message_of([&] { x.softplus_(0); }), "beta must be above 0, got 0"));
  CHECK(to_doubles(x) == before);
  Tensor whole = to_tensor({1, 2}, {2}, DType::i64, {});
  CHECK(mentions(message_of([&] { whole.clamp_(0.5, 2); }),
                 "the result would be f32, the tensor is"));
  CHECK(to_doubles(leaky_relu(x, -0.5))[0] == 1.75);
}

TEST_CASE("hardswish and hardsigmoid: at the bends the slope of outside") {
  const std::vector<double> bends{-3, 3, -3.5, 3.5};
  for (const DType t : {f64, DType::f32}) {
    const Tensor x = to_tensor(bends, {4}, t, {}).set_requires_grad();
    CHECK(to_doubles(grads({sum(hardswish(x))}, {x})[0]) == std::vector<double>{0, 1, 0, 1});
    CHECK(to_doubles(grads({sum(hardsigmoid(x))}, {x})[0]) == std::vector<double>{0, 0, 0, 0});
  }
}

TEST_CASE("dropout_: the draw of dropout, and of the next call") {
  const Tensor x = ones({64}, {.dtype = f64});
  manual_seed(3);
  const std::vector<double> first = to_doubles(dropout(x, 0.5)), next = to_doubles(dropout(x, 0.5));
  manual_seed(3);
  Tensor a = clone(x), b = clone(x);
  CHECK(to_doubles(a.dropout_()) == first);
  CHECK(to_doubles(std::move(b).dropout_()) == next);
  Tensor c = clone(x);
  c.dropout_(0.5, false);
  CHECK(to_doubles(c) == to_doubles(x));
}

TEST_CASE("softplus: finite wherever x is, however far the threshold") {
  for (const Device d : wt_test::kernel_devices())
    for (const DType t : {f64, f32, f16, bf16})
      for (const double x : {-1000.0, -20.0, 0.0, 20.0, 1000.0}) {
        INFO(dtype_name(t) << " " << x);
        const Tensor in = full({17}, x, {.dtype = t, .device = d}).set_requires_grad();
        const Tensor y = softplus(in, 5, 1e5);
        const double right = x == 0 ? std::log(2.0) / 5 : x > 0 ? x : std::exp(5 * x) / 5;
        CHECK(std::abs(y.to_vector<double>()[0] - right) <= 4e-3 * right + 1e-40);
        const double slope = grad(sum(y), in).to_vector<double>()[16];
        CHECK(std::abs(slope - (x == 0 ? 0.5 : x > 0 ? 1 : 0)) < 1e-40);
      }
}
