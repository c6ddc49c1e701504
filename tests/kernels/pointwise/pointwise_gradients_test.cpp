// Elementwise operators: both derivatives, the fused backwards on every device and variant,
// PyTorch's conventions at the edges, writing in place and over rvalues.
#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/error.h"
#include "warptape/core/mode.h"
#include "warptape/kernels/pointwise.h"
#include "warptape/tests/kernels/pointwise/pointwise_cases.h"

using namespace pointwise_test;

TEST_CASE("pointwise: both derivatives of one-operand entries agree with differences") {
  for (const UnaryCase& c : kUnary) {
    CAPTURE(c.name);
    std::vector<double> v = numbers(9, c.low, c.high, 3);
    for (double& x : v)
      if (std::fabs(x) < 0.05) x = 0.3;  // away from kinks
    const Tensor x = reshape(tensor(v), {3, 3}).set_requires_grad();
    const std::string name = c.name;
    if (name == "sign") {
      CHECK(grad(c.op(x).sum(), x).to_vector<double>() == std::vector<double>(9, 0.0));
      continue;
    }
    const auto f = [&](std::span<const Tensor> in) { return c.op(in[0]); };
    const GradCheck first = grad_check(f, {x});
    CHECK(first.message == "");
    const bool flat = name == "abs" || name == "relu" || name == "neg";
    const GradCheck second = grad_grad_check(f, {x}, {.second_is_zero = flat});
    CHECK(second.message == "");
  }
}

TEST_CASE("pointwise: both derivatives of two-operand entries, with broadcasting and numbers") {
  for (const BinaryCase& c : kBinary) {
    CAPTURE(c.name);
    const std::string name = c.name;
    const bool flat = name == "add" || name == "sub" || name == "maximum" || name == "minimum";
    const Tensor a = reshape(tensor(numbers(6, c.low, c.high, 4)), {2, 3}).set_requires_grad();
    const Tensor b = reshape(tensor(numbers(6, c.low, c.high, 5)), {2, 3}).set_requires_grad();
    const Tensor row = tensor(numbers(3, c.low, c.high, 6)).set_requires_grad();
    const auto both = [&](std::span<const Tensor> in) { return c.op(in[0], in[1]); };
    const auto first = [&](std::span<const Tensor> in) { return c.op(in[0], 1.7); };
    const auto second = [&](std::span<const Tensor> in) { return c.op(1.7, in[0]); };
    const GradCheckOptions zero{.second_is_zero = flat};
    CHECK(grad_check(both, {a, b}).message == "");
    CHECK(grad_check(both, {a, row}).message == "");
    CHECK(grad_check(both, {row, b}).message == "");
    CHECK(grad_check(first, {a}).message == "");
    CHECK(grad_check(second, {a}).message == "");
    CHECK(grad_grad_check(both, {a, b}, zero).message == "");
    CHECK(grad_grad_check(both, {row, b}, zero).message == "");
    const bool linear = flat || name == "mul";
    CHECK(grad_grad_check(first, {a}, {.second_is_zero = linear || name == "div"}).message == "");
    CHECK(grad_grad_check(second, {a}, {.second_is_zero = linear}).message == "");
  }
}

TEST_CASE("pointwise: derivatives of where and clamp") {
  const Tensor c = gt(tensor({1.0, -1.0, 2.0}), 0);
  const Tensor a = tensor(std::vector<double>{0.1, 0.2, 0.3}).set_requires_grad();
  const Tensor b = tensor(std::vector<double>{1.5}).set_requires_grad();
  const auto choose = [&](std::span<const Tensor> in) { return where(c, in[0], in[1]); };
  CHECK(grad_check(choose, {a, b}).message == "");
  CHECK(grad_grad_check(choose, {a, b}, {.second_is_zero = true}).message == "");
  const auto square_or_one = [&](std::span<const Tensor> in) {
    return where(c, square(in[0]), 1) + where(c, 2.0, in[0] * in[0]);
  };
  CHECK(grad_check(square_or_one, {a}).message == "");
  CHECK(grad_grad_check(square_or_one, {a}).message == "");
  const auto inside = [](std::span<const Tensor> in) { return clamp(in[0], 0.15, 0.25); };
  CHECK(grad_check(inside, {a}).message == "");
  CHECK(grad_grad_check(inside, {a}, {.second_is_zero = true}).message == "");
}

TEST_CASE("pointwise: the fused backward and the recorded one agree", "[wall][node]") {
  for (const Device d : devices())
    for (const UnaryCase& c : kUnary) {
      CAPTURE(c.name, to_string(d));
      const Tensor x = make(numbers(40, c.low, c.high, 7), {40}, f32, d).set_requires_grad();
      const Tensor gy = make(numbers(40, -1, 1, 8), {40}, f32, d);
      const Tensor fused = grad(c.op(x), x, {.grad_outputs = {gy}});
      const Tensor chain = grad(c.op(x), x, {.grad_outputs = {gy}, .create_graph = true});
      check_values(fused, chain.to_vector<double>(), 1e-5);
    }
}

TEST_CASE("pointwise: every variant of the fused backwards agrees with cpu f64") {
  for (const Device d : devices())
    for (const DType t : {f64, f32, f16, bf16}) {
      const auto compare = [&](const char* contract, const auto& gradient) {
        const std::vector<double> expected = gradient(f64, Device::cpu());
        for (const char* variant : variants(contract, d)) {
          CAPTURE(contract, to_string(d), variant, dtype_name(t));
          const VariantScope scope(contract, variant);
          const std::vector<double> got = gradient(t, d);
          REQUIRE(got.size() == expected.size());
          for (size_t i = 0; i < got.size(); ++i) {
            CAPTURE(i, got[i], expected[i]);
            if (!(std::fabs(got[i] - expected[i]) <=
                  8 * tolerance(t) * std::max(1.0, std::fabs(expected[i]))))
              CHECK(got[i] == expected[i]);
          }
        }
      };
      // Inputs are rounded to the dtype first, so that only the operators differ.
      const auto rounded = [&](std::vector<double> v) {
        return make(v, {i64(v.size())}, t, Device::cpu()).to(f64);
      };
      for (const UnaryCase& c : kUnary)
        compare((std::string(c.name) + "_backward").c_str(), [&](DType as, Device on) {
          const Tensor x = rounded(numbers(50, c.low, c.high, 9)).to(as).to(on).set_requires_grad();
          const Tensor gy = rounded(numbers(50, -1, 1, 10)).to(as).to(on);
          return grad(c.op(x), x, {.grad_outputs = {gy}}).to_vector<double>();
        });
      for (const BinaryCase& c : kBinary)
        for (const int side : {0, 1})
          compare(
              (std::string(c.name) + (side ? "_backward_b" : "_backward_a")).c_str(),
              [&](DType as, Device on) {
                const Tensor a =
                    rounded(numbers(50, c.low, c.high, 11)).to(as).to(on).set_requires_grad();
                const Tensor b =
                    rounded(numbers(50, c.low, c.high, 12)).to(as).to(on).set_requires_grad();
                const Tensor gy = rounded(numbers(50, -1, 1, 13)).to(as).to(on);
                return grad(c.op(a, b), side ? b : a, {.grad_outputs = {gy}}).to_vector<double>();
              });
    }
}

TEST_CASE("pointwise: gradients at the edges are PyTorch's") {
  const auto at = [](double v) { return tensor(std::vector<double>{v}).set_requires_grad(); };
  const auto slope = [](const Tensor& y, const Tensor& x) { return grad(y, x).item(); };
  for (const bool recorded : {false, true}) {
    CAPTURE(recorded);
    const auto d = [&](const Tensor& y, const Tensor& x) {
      return recorded ? grad(y, x, {.create_graph = true}).item() : slope(y, x);
    };
    Tensor x = at(0), z = at(0);
    CHECK(d(relu(x), x) == 0);
    CHECK(d(abs(x), x) == 0);
    CHECK(d(clamp(x, 0, 1), x) == 1);
    CHECK(d(clamp(x, -1, 0), x) == 1);
    CHECK(d(clamp(x, 0.5, 1), x) == 0);
    CHECK(d(maximum(x, z), x) == 0.5);
    CHECK(d(minimum(x, z), z) == 0.5);
    CHECK(d(maximum(x, 0), x) == 0.5);
    CHECK(d(pow(x, 2), x) == 0);
    CHECK(d(pow(x, 1), x) == 1);
    CHECK(d(pow(x, 0), x) == 0);
    CHECK(d(pow(x, at(0)), x) == 0);
    CHECK(d(pow(0.0, x), x) == 0);
    CHECK(d(pow(z, x), x) == 0);
    CHECK(std::isinf(d(pow(x, 0.5), x)));
    const Tensor nan = at(kNan);
    CHECK(d(relu(nan), nan) == 1);
  }
}

// --- in place and rvalues ---

TEST_CASE("pointwise: in-place members", "[wall][in_place]") {
  for (const Device d : devices()) {
    CAPTURE(to_string(d));
    Tensor x = make({-1, 2, -3, 4}, {2, 2}, f32, d);
    const u32 before = x.version();
    Tensor& same = x.add_(make({1, 1}, {2}, DType::i32, d));
    CHECK(&same == &x);
    CHECK(x.version() == before + 1);
    check_values(x, {0, 3, -2, 5}, 0);
    check_values(x.mul_(2), {0, 6, -4, 10}, 0);
    check_values(x.relu_(), {0, 6, 0, 10}, 0);
    CHECK(x.transpose(0, 1).mul_(3).shape() == Shape{2, 2});
    check_values(x, {0, 18, 0, 30}, 0);
    x.add_(x.transpose(0, 1));  // reads what it writes: as if read first
    check_values(x, {0, 18, 18, 60}, 0);
    CHECK(make({1, 2}, {2}, f32, d).add_(make({1}, {}, f32, d)).mul_(2).to_vector<float>() ==
          std::vector<float>{4, 6});
    Tensor i = make({1, 2}, {2}, DType::i64, d);
    CHECK_THROWS_AS(i.mul_(0.5), DtypeError);
    CHECK_THROWS_AS(i.add_(make({1}, {1}, f32, d)), DtypeError);
    CHECK_THROWS_AS(i.add_(make({1, 2, 3, 4}, {2, 2}, DType::i64, d)), ShapeError);
    CHECK_THROWS_AS(make({1}, {1}, f32, d).expand({3}).mul_(2), InplaceError);
    check_values(i, {1, 2}, 0);
  }
}

TEST_CASE("pointwise: in-place members record", "[wall][in_place]") {
  const Tensor x = tensor(std::vector<double>{-1, 2}).set_requires_grad();
  const Tensor w = tensor(std::vector<double>{3, 3}).set_requires_grad();
  Tensor y = x * w;
  y.add_(x).mul_(2).relu_();
  y.sum().backward();
  CHECK(x.grad().to_vector<double>() == std::vector<double>{0, 8});
  CHECK(w.grad().to_vector<double>() == std::vector<double>{0, 4});
  Tensor leaf = tensor({1.0}).set_requires_grad();
  CHECK_THROWS_AS(leaf.mul_(2), InplaceError);
  Tensor e = exp(leaf);  // saved its output
  e.mul_(2);
  CHECK_THROWS_AS(e.backward(), InplaceError);
}

TEST_CASE("pointwise: an rvalue's storage is worked in, never a saved one's", "[wall][in_place]") {
  const NoGrad no_grad;
  Tensor x = ones({64});
  const void* home = x.impl()->data;
  Tensor y = exp(std::move(x));
  CHECK(y.impl()->data == home);
  y = tanh(std::move(y)) + 1;
  CHECK(y.impl()->data == home);
  const EnableGrad grad_on;
  Tensor p = ones({64}).set_requires_grad();
  Tensor h = p * 2;
  const void* kept = h.impl()->data;
  const Tensor s = sin(std::move(h));  // saves its input
  CHECK(s.impl()->data != kept);
  s.sum().backward();
  CHECK(std::fabs(p.grad().to_vector<double>()[0] - 2 * std::cos(2.0)) < 1e-6);
}

TEST_CASE("pointwise: f(x, x) and a shared operand") {
  const Tensor x = tensor(std::vector<double>{3.0}).set_requires_grad();
  CHECK(grad(x * x, x).item() == 6);
  CHECK(std::fabs(grad(pow(x, x), x).item() - 27 * (1 + std::log(3.0))) < 1e-12);
  Tensor t = tensor(std::vector<double>{2.0, 5.0});
  const Tensor keep = t;
  const Tensor y = std::move(t) * keep;
  CHECK(keep.to_vector<double>() == std::vector<double>{2, 5});
  CHECK(y.to_vector<double>() == std::vector<double>{4, 25});
}
