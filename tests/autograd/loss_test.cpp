// Losses: a sum and the weight it stands for. Micro-batches: optim/train_step_test.cpp.
#include "warptape/autograd/loss.h"

#include <cmath>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/distance.h"
#include "warptape/autograd/ops/elementwise_loss.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {
Loss two_of(const Tensor& x) { return mse_loss(x, zeros_like(x)); }
}  // namespace

TEST_CASE("Losses: as an operand a loss is its mean, on either side and in any mixture",
          "[wall][losses]") {
  const LeakGuard guard;
  const Tensor x = leaf({1, 3});
  const Loss a = two_of(x), b = two_of(x);
  CHECK(a.sum.item() == 10);
  CHECK(a.weight.item() == 2);
  CHECK(a.item() == 5);
  CHECK((a + 1).item() == 6);
  CHECK((1 - a).item() == -4);
  CHECK((a + b).item() == 10);
  CHECK((a * b).item() == 25);
  CHECK((a / b).item() == 1);
  CHECK((-a).item() == -5);
  CHECK((a + x).shape() == Shape{2});
  CHECK(gt(a, 4.0).item() == 1);
  CHECK(maximum(a, 7).item() == 7);
}

TEST_CASE("trap T3: no loss broadcasts: shapes that differ are refused by both names",
          "[losses][trap]") {
  const LeakGuard guard;
  using Of = Loss (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, Of> losses[] = {
      {"mse_loss", [](const Tensor& x, const Tensor& y) { return mse_loss(x, y); }},
      {"l1_loss", [](const Tensor& x, const Tensor& y) { return l1_loss(x, y); }},
      {"smooth_l1_loss", [](const Tensor& x, const Tensor& y) { return smooth_l1_loss(x, y); }},
      {"huber_loss", [](const Tensor& x, const Tensor& y) { return huber_loss(x, y); }},
      {"binary_cross_entropy",
       [](const Tensor& x, const Tensor& y) { return binary_cross_entropy(x, y); }},
      {"binary_cross_entropy_with_logits",
       [](const Tensor& x, const Tensor& y) { return binary_cross_entropy_with_logits(x, y); }},
      {"kl_div", [](const Tensor& x, const Tensor& y) { return kl_div(x, y); }},
      {"nll_loss", [](const Tensor& x, const Tensor& y) { return nll_loss(x, y.to(DType::i64)); }},
      {"cross_entropy",
       [](const Tensor& x, const Tensor& y) { return cross_entropy(x, y.to(DType::i64)); }}};
  for (const Device d : {Device::cpu(), Device::simt()}) {
    const TensorOptions there{.device = d};
    for (const auto& [name, loss] : losses) {
      CAPTURE(name, to_string(d));
      // A column and a row would give a matrix of losses, a number and a vector a vector.
      for (const auto& [x, y] : {std::pair(Shape{4, 1}, Shape{1, 4}),
                                 {Shape{1, 3}, Shape{5, 3}},
                                 {Shape{2, 3}, Shape{3}},
                                 {Shape{4, 1}, Shape{1}}}) {
        const std::string text =
            message_of([&] { (void)loss(full(x, 0.5, there), full(y, 0.5, there)); });
        CHECK(mentions(text, str("ShapeError: [", name, "]")));
        CHECK(mentions(text, str(x)));
        CHECK(mentions(text, str(y)));
      }
    }
  }
}

TEST_CASE("Losses: a number times a loss is a loss: the sum scaled, the weight kept",
          "[wall][losses]") {
  const LeakGuard guard;
  const Tensor x = leaf({1, 3});
  const Loss a = two_of(x);
  static_assert(std::is_same_v<decltype(0.5 * a), Loss>);
  static_assert(std::is_same_v<decltype(a * 2), Loss>);
  static_assert(std::is_same_v<decltype(a / 2), Loss>);
  static_assert(std::is_same_v<decltype(a + a), Tensor>);
  const Loss b = 0.5 * a, c = a * 2, d = a / 4;
  CHECK(b.sum.item() == 5);
  CHECK(b.weight.same_as(a.weight));
  CHECK(c.item() == 10);
  CHECK(d.item() == 1.25);
}

TEST_CASE("Losses: backward is that of the mean, and loss + penalty trains both",
          "[wall][losses]") {
  const LeakGuard guard;
  const Tensor x = leaf({1, 3});
  two_of(x).backward();
  CHECK(values(x.grad()) == Values{1, 3});
  x.zero_grad();
  two_of(x).mean().backward();
  CHECK(values(x.grad()) == Values{1, 3});
  x.zero_grad();
  (0.5 * two_of(x)).backward();
  CHECK(values(x.grad()) == Values{0.5, 1.5});
  x.zero_grad();
  (two_of(x) + 10 * sum(x)).backward();
  CHECK(values(x.grad()) == Values{11, 13});
  x.zero_grad();
  two_of(x).sum.backward();  // the sum is an ordinary tensor
  CHECK(values(x.grad()) == Values{2, 6});
  CHECK(values(grad(two_of(x).mean(), x)) == Values{1, 3});
}

TEST_CASE("Losses: made from a plain tensor and a weight", "[wall][losses]") {
  const LeakGuard guard;
  const Tensor per_sample = leaf({1, 2, 6});
  const Loss mine{sum(per_sample), per_sample.numel()};
  CHECK(mine.item() == 3);
  CHECK(mine.weight.dtype() == f64);
  CHECK_FALSE(mine.weight.requires_grad());
  mine.backward();
  CHECK(values(per_sample.grad()) == Values{1.0 / 3, 1.0 / 3, 1.0 / 3});
  const Loss weighted{sum(per_sample), tensor(9.0, {.dtype = f64})};
  CHECK(weighted.item() == 1);
  const Loss none{zeros({}), 0};
  CHECK(std::isnan(none.item()));
}
