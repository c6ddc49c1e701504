// matmul and linear: shapes, what is copied, error texts, gradients.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/kernels/matmul.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

namespace {

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

Tensor numbers(const Shape& shape, DType t = DType::f64) {
  u64 state = 7;
  std::vector<double> v(static_cast<size_t>(numel_of(shape)));
  for (double& x : v) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x = double(i64(state >> 33) % 2001 - 1000) / 250;
  }
  return v.empty() ? zeros(shape, {.dtype = t}) : wt::tensor(v).reshape(shape).to(t);
}

}  // namespace

TEST_CASE("matmul: one-dimensional operands lose their dimension") {
  const Tensor v = numbers({3}), m = numbers({3, 4}), b = numbers({2, 5, 3});
  CHECK(matmul(v, v).shape() == Shape{});
  CHECK(matmul(v, m).shape() == Shape{4});
  CHECK(matmul(m.t(), v).shape() == Shape{4});
  CHECK(matmul(b, v).shape() == Shape{2, 5});
  CHECK(matmul(v, b.transpose(-1, -2)).shape() == Shape{2, 5});
  CHECK(matmul(b, m).shape() == Shape{2, 5, 4});
  CHECK(matmul(numbers({4, 1, 2, 3}), numbers({5, 3, 2})).shape() == Shape{4, 5, 2, 2});
  CHECK(linear(v, m.t()).shape() == Shape{4});
  CHECK(linear(b, m.t(), numbers({4})).shape() == Shape{2, 5, 4});
}

TEST_CASE("matmul: strided operands are read where they lie") {
  const Tensor big = numbers({4, 6, 8});
  const auto requests = [](const auto& f) {
    const u64 before = memory::request_count();
    f();
    return memory::request_count() - before;
  };
  const Tensor a = big.slice(2, {1, 5}).select(0, 1), b = big.select(0, 2).slice(1, {0, 6});
  CHECK(requests([&] { (void)matmul(a, a.t()); }) == 1);
  CHECK(requests([&] { (void)matmul(b.t(), b); }) == 1);
  CHECK(requests([&] { (void)matmul(big, big.transpose(1, 2)); }) == 1);
  // Neither axis has unit stride: one copy.
  CHECK(requests([&] { (void)matmul(big.select(2, 0), numbers({6, 2})); }) > 1);
  const Tensor odd = big.select(2, 3), dense = odd.clone();
  CHECK(matmul(odd, odd.t()).to_vector<double>() == matmul(dense, dense.t()).to_vector<double>());
}

TEST_CASE("matmul: errors name both numbers, both operands and the line") {
  const Tensor a = zeros({2, 3}), b = zeros({4, 5}), bytes = zeros({2, 2}, {.dtype = DType::u8});
  const auto has = [](const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  const auto product = [&] { (void)matmul(a, b); };
  const int line = __LINE__ - 1;
  CHECK(message_of(product) ==
        str("ShapeError: [matmul] a's last dimension 3 \u2260 b's second to last dimension 4\n"
            "  a  [2, 3] f32 cpu\n  b  [4, 5] f32 cpu\n  at ops_matmul_test.cpp:",
            line));
  const auto layer = [&] { (void)linear(zeros({64, 3, 2}), zeros({5, 6})); };
  CHECK(message_of(layer) ==
        str("ShapeError: [linear] input features 2 \u2260 weight in_features 6\n"
            "  input   [64, 3, 2] f32 cpu\n  weight  [5, 6] f32 cpu\n  at ops_matmul_test.cpp:",
            line + 6, "\n  Try flatten(x, 1): linear contracts the last dimension only"));
  has(message_of([&] { (void)matmul(a, a); }), "Try b.transpose(-2, -1)");
  has(message_of([&] {
        (void)matmul(zeros({2, 1, 3}), zeros({3, 3, 2}));
      }),
      "batch dimensions do not broadcast: 2 \u2260 3 in dimension -3");
  has(message_of([&] { (void)matmul(zeros({}), a); }), "both need at least 1");
  has(message_of([&] { (void)matmul(bytes, bytes); }), "DtypeError: [matmul] takes");
  has(message_of([&] {
        (void)linear(a, zeros({5, 3}), zeros({4}));
      }),
      "bias length 4 \u2260 weight out_features 5");
}

TEST_CASE("linear: gradients go straight into the leaves' slots", "[wall][engine]") {
  for (const Shape& batch : {Shape{7}, Shape{2, 3}, Shape{}}) {
    Shape in = batch, out = batch;
    in.push_back(4), out.push_back(5);
    const Tensor x = numbers(in).set_requires_grad(), w = numbers({5, 4}).set_requires_grad(),
                 b = numbers({5}).set_requires_grad(), dy = numbers(out);
    const i64 rows = numel_of(batch);
    linear(x, w, b).backward(dy);
    const std::vector<double> xs = x.to_vector<double>(), ws = w.to_vector<double>(),
                              ds = dy.to_vector<double>();
    const auto check_grads = [&](double times) {
      const std::vector<double> dx = x.grad().to_vector<double>(),
                                dw = w.grad().to_vector<double>(),
                                db = b.grad().to_vector<double>();
      for (i64 o = 0; o < 5; ++o) {
        double sum = 0;
        for (i64 r = 0; r < rows; ++r) sum += ds[size_t(r * 5 + o)];
        CHECK(std::abs(db[size_t(o)] - times * sum) < 1e-12);
        for (i64 i = 0; i < 4; ++i) {
          double want = 0;
          for (i64 r = 0; r < rows; ++r) want += ds[size_t(r * 5 + o)] * xs[size_t(r * 4 + i)];
          CHECK(std::abs(dw[size_t(o * 4 + i)] - times * want) < 1e-12);
        }
      }
      for (i64 r = 0; r < rows; ++r)
        for (i64 i = 0; i < 4; ++i) {
          double want = 0;
          for (i64 o = 0; o < 5; ++o) want += ds[size_t(r * 5 + o)] * ws[size_t(o * 4 + i)];
          CHECK(std::abs(dx[size_t(r * 4 + i)] - times * want) < 1e-12);
        }
    };
    check_grads(1);
    linear(x, w, b).backward(dy);
    check_grads(2);
  }
}

TEST_CASE("linear: the gradient of a transposed weight lies as the weight does") {
  const TensorOptions leaf{.dtype = DType::f64, .requires_grad = true};
  const Tensor stored = randn({5, 7}, leaf), bias = randn({7}, leaf);
  for (const bool of_input : {true, false}) {
    const Tensor x = randn({2, 3, 5}, {.dtype = DType::f64, .requires_grad = of_input});
    i64 step = 0;
    const auto of = [&](const Tensor& weight) {
      register_hook(weight, [&](const Tensor& g) {
        step = g.strides()[0];
        return g;
      });
      const Tensor y = linear(x, weight, bias);
      return of_input ? grads(sum(y * y), {stored, bias, x}) : grads(sum(y * y), {stored, bias});
    };
    const std::vector<Tensor> turned = of(stored.transpose(0, 1));
    CHECK(step ==
          (of_input ? 1 : 5));  // where the input's is not asked for, the weight is not looked at
    const std::vector<Tensor> straight = of(stored.transpose(0, 1).contiguous());
    CHECK(step == 5);
    CHECK(turned[0].allclose(straight[0]));
    CHECK(turned[1].allclose(straight[1]));
  }
}

TEST_CASE("matmul and linear: both derivatives against differences") {
  struct Case {
    Shape a, b;
  };
  const auto product = [](std::span<const Tensor> x) { return matmul(x[0], x[1]); };
  for (const Case& c : {Case{{2, 3}, {3, 4}}, Case{{3}, {3}}, Case{{2, 3}, {3}}, Case{{3}, {3, 2}},
                        Case{{2, 2, 3}, {3, 2}}, Case{{2, 3}, {2, 3, 2}}, Case{{3}, {2, 3, 2}},
                        Case{{2, 1, 2, 3}, {3, 3, 1}}, Case{{2, 0}, {0, 2}}}) {
    INFO(c.a << " times " << c.b);
    const std::vector<Tensor> in = {numbers(c.a).set_requires_grad(),
                                    numbers(c.b).set_requires_grad()};
    const GradCheckOptions options{.second_is_zero = numel_of(c.a) == 0};
    CHECK(grad_check(product, in).message == "");
    CHECK(grad_grad_check(product, in, options).message == "");
  }
  const auto transposed = [](std::span<const Tensor> x) {
    return matmul(x[0].transpose(-1, -2), matmul(x[1].t(), x[0]));
  };
  const std::vector<Tensor> square = {numbers({2, 3, 3}).set_requires_grad(),
                                      numbers({3, 3}).set_requires_grad()};
  CHECK(grad_check(transposed, square).message == "");
  CHECK(grad_grad_check(transposed, square).message == "");
  const auto layer = [](std::span<const Tensor> x) {
    return x.size() == 2 ? linear(x[0], x[1]) : linear(x[0], x[1], x[2]);
  };
  for (const Shape& x : {Shape{3}, Shape{2, 3}, Shape{2, 2, 3}, Shape{0, 3}}) {
    INFO("linear " << x);
    std::vector<Tensor> in = {numbers(x).set_requires_grad(), numbers({2, 3}).set_requires_grad()};
    const GradCheckOptions options{.second_is_zero = numel_of(x) == 0};
    CHECK(grad_check(layer, in).message == "");
    CHECK(grad_grad_check(layer, in, options).message == "");
    in.push_back(numbers({2}).set_requires_grad());
    CHECK(grad_check(layer, in).message == "");
    CHECK(grad_grad_check(layer, in, options).message == "");
  }
}

TEST_CASE("linear: forward and gradients by Hopper's rung") {
  if (!ContractTable<MatmulArgs>::rows[int(DeviceKind::simt)]) SKIP_TEST("no simt here");
  // Every product of the two passes has rows at multiples of 16 bytes, ends in the middle of tiles
  // and reads one operand at least across its rows.
  for (const DType t : {DType::f16, DType::bf16}) {
    const Device d = Device::simt();
    const auto pass = [&](const char* variant) {
      const VariantScope scope("matmul", variant);
      const Tensor x = numbers({3, 45, 72}, t).to(d).set_requires_grad();
      const Tensor w = numbers({136, 72}, t).to(d).set_requires_grad();
      const Tensor b = numbers({136}, t).to(d).set_requires_grad();
      const Tensor y = linear(x, w, b);
      std::vector<Tensor> all{detach(y)};
      const Tensor weights = numbers({3, 45, 136}, t).to(d);
      for (const Tensor& g :
           grads(std::span(&y, 1), std::vector<Tensor>{x, w, b}, {.grad_outputs = {weights}}))
        all.push_back(g);
      const Tensor z = matmul(x, numbers({3, 72, 24}, t).to(d));  // a batch
      all.push_back(detach(z));
      return all;
    };
    const std::vector<Tensor> got = pass("hopper"), want = pass("tensor_core");
    REQUIRE(got.size() == want.size());
    // Both sum in f32, in another order, and round once.
    const double roundoff = t == DType::f16 ? 0x1p-10 : 0x1p-7;
    for (size_t i = 0; i < got.size(); ++i) {
      const std::vector<double> a = got[i].to_vector<double>(), b = want[i].to_vector<double>();
      double worst = 0;
      for (size_t e = 0; e < a.size(); ++e)
        worst = std::max(worst, std::fabs(a[e] - b[e]) / (1 + std::fabs(b[e])));
      INFO(dtype_name(t) << " " << i);
      CHECK(worst <= roundoff);
    }
  }
}
