// Losses of one number beside another: kinks, borders and infinities, which rows leave out.
#include "warptape/autograd/ops/elementwise_loss.h"

#include <cmath>
#include <limits>

#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// The gradient of the sum with respect to x.
template <class F>
Values slope(const F& loss, const Tensor& x) {
  return values(grad(loss(x).sum, x));
}
// d/dx of that, summed: the second derivative of losses of each element alone.
template <class F>
Values curvature(const F& loss, const Tensor& x) {
  const Tensor g = grad(loss(x).sum, x, {.create_graph = true});
  return values(grad(sum(g), x));
}

}  // namespace

TEST_CASE("losses of distances: slopes at the kinks and beyond are PyTorch's") {
  const Tensor x = leaf({0, 1, -1, 0.5, -3, kInf, -kInf});
  const Tensor zero = zeros({7}, {.dtype = f64});
  CHECK(slope([&](const Tensor& v) { return l1_loss(v, zero); }, x) ==
        Values{0, 1, -1, 1, -1, 1, -1});
  CHECK(slope([&](const Tensor& v) { return smooth_l1_loss(v, zero); }, x) ==
        Values{0, 1, -1, 0.5, -1, 1, -1});
  CHECK(slope([&](const Tensor& v) { return smooth_l1_loss(v, zero, {.beta = 2}); }, x) ==
        Values{0, 0.5, -0.5, 0.25, -1, 1, -1});
  CHECK(slope([&](const Tensor& v) { return huber_loss(v, zero, {.delta = 2}); }, x) ==
        Values{0, 1, -1, 0.5, -2, 2, -2});
  CHECK(smooth_l1_loss(x, zero).sum.item() == kInf);
  CHECK(huber_loss(x, zero).sum.item() == kInf);
  // The second derivative where both are equal.
  const Tensor flat = leaf({0, 0.25, 5});
  const Tensor none = zeros({3}, {.dtype = f64});
  CHECK(curvature([&](const Tensor& v) { return smooth_l1_loss(v, none, {.beta = 2}); }, flat) ==
        Values{0.5, 0.5, 0});
  CHECK(curvature([&](const Tensor& v) { return huber_loss(v, none); }, flat) == Values{1, 1, 0});
}

TEST_CASE("losses of distances: NaN comes out, and an infinite distance is infinite") {
  for (DType t : {f32, f16})
    for (double bad : {double(NAN), kInf}) {
      const Tensor x = tensor({1.0, bad, 2.0}, {.dtype = t}), y = zeros({3}, {.dtype = t});
      for (const double v : {l1_loss(x, y).item(), smooth_l1_loss(x, y).item(),
                             huber_loss(x, y).item(), smooth_l1_loss(x, y, {.beta = 0}).item()})
        CHECK((std::isnan(bad) ? std::isnan(v) : v == kInf));
    }
}

TEST_CASE("binary_cross_entropy: 0 and 1 are at most 100 and have PyTorch's slopes") {
  const Tensor p = leaf({0, 1, 0, 1});
  const Tensor t = tensor({0.0, 1.0, 1.0, 0.0}, {.dtype = f64});
  const Loss loss = binary_cross_entropy(p, t);
  CHECK(loss.sum.item() == 200);
  CHECK(loss.weight.item() == 4);
  CHECK(values(grad(loss.sum, p)) == Values{0, 0, -1e12, 1e12});
  const Tensor target = leaf({0.5, 0.5});
  const Tensor ends = tensor({0.0, 1.0}, {.dtype = f64});
  CHECK(slope([&](const Tensor& v) { return binary_cross_entropy(ends, v); }, target) ==
        Values{100, -100});
}

TEST_CASE("binary_cross_entropy: what is no probability is refused on the cpu") {
  const Tensor t = zeros({3});
  CHECK_THROWS_AS(binary_cross_entropy(tensor({0.5, 1.5, -0.5}), t), UsageError);
  try {
    (void)binary_cross_entropy(tensor({0.5, 1.5, -0.5}), t);
  } catch (const UsageError& e) {
    CHECK(std::string(e.what()).find("[binary_cross_entropy] input must be in [0, 1]: 2 of 3 "
                                     "elements are outside") != std::string::npos);
  }
  CHECK(std::isnan(binary_cross_entropy(tensor({0.5, NAN, 0.5}), t).item()));
}

TEST_CASE("binary_cross_entropy_with_logits: large logits lose nothing, 0 has both derivatives") {
  for (Device d : operator_devices()) {
    const Tensor t = tensor({0.0, 1.0, 0.0, 1.0}, {.device = d});
    const Tensor x = tensor({200.0, 200.0, -200.0, -200.0}, {.device = d});
    CHECK(binary_cross_entropy_with_logits(x, t).sum.item() == 400);
    Tensor wanted = x.detach().clone().set_requires_grad();
    CHECK(slope([&](const Tensor& v) { return binary_cross_entropy_with_logits(v, t); }, wanted) ==
          Values{1, 0, 0, -1});
  }
  const Tensor zero = leaf({0, 0});
  const Tensor t = tensor({0.0, 1.0}, {.dtype = f64});
  const auto loss = [&](const Tensor& v) { return binary_cross_entropy_with_logits(v, t); };
  CHECK(slope(loss, zero) == Values{0.5, -0.5});
  CHECK(curvature(loss, zero) == Values{0.25, 0.25});
  const auto both = [&](std::span<const Tensor> in) {
    return binary_cross_entropy_with_logits(in[0], in[1],
                                            {.pos_weight = full({1}, 3.0, {.dtype = f64})})
        .sum;
  };
  const GradCheck second = grad_grad_check(both, {leaf({0, -50, 3}), leaf({0.5, 0.25, 1})});
  INFO(second.message);
  CHECK(second.ok);
}

TEST_CASE("kl_div: a target of 0 adds nothing; the mean is that of the batch") {
  const Tensor x = leaf({-1, -2, -3, -1}).detach().reshape({2, 2}).set_requires_grad();
  const Tensor t = tensor({{0.0, 1.0}, {0.5, 0.5}}, {.dtype = f64});
  const Loss loss = kl_div(x, t);
  CHECK(loss.weight.item() == 2);
  CHECK(std::fabs(loss.sum.item() - (2 + 2 + std::log(0.5))) < 1e-15);
  CHECK(values(grad(loss.sum, x)) == Values{0, -1, -0.5, -0.5});
  // Whatever its input is there.
  CHECK(kl_div(full({1}, -kInf), zeros({1})).item() == 0);
}

TEST_CASE("losses of two tensors: parts of a batch add up to it, 16 bits give f32") {
  for (Device d : operator_devices()) {
    const Tensor x = to_tensor(random_values(60, 1), {12, 5}, f64, d);
    const Tensor y = to_tensor(random_values(60, 2), {12, 5}, f64, d);
    const Tensor p = sigmoid(x), q = sigmoid(y);
    using Call = std::function<Loss(const Tensor&, const Tensor&)>;
    const std::pair<Call, bool> calls[] = {
        {[](auto& a, auto& b) { return l1_loss(a, b); }, false},
        {[](auto& a, auto& b) { return smooth_l1_loss(a, b); }, false},
        {[](auto& a, auto& b) { return huber_loss(a, b); }, false},
        {[](auto& a, auto& b) { return binary_cross_entropy(a, b); }, true},
        {[](auto& a, auto& b) { return binary_cross_entropy_with_logits(a, b); }, true},
        {[](auto& a, auto& b) { return kl_div(a, b); }, true}};
    for (const auto& [call, probabilities] : calls) {
      const Tensor &a = probabilities ? p : x, &b = probabilities ? q : y;
      const Loss whole = call(a, b);
      double total = 0, weight = 0;
      for (i64 from : {0, 5, 6}) {
        const i64 n = from == 0 ? 5 : from == 5 ? 1 : 6;
        const Loss part = call(a.narrow(0, from, n), b.narrow(0, from, n));
        total += part.sum.item(), weight += part.weight.item();
      }
      CHECK(std::fabs(total - whole.sum.item()) < 1e-12);
      CHECK(weight == whole.weight.item());
      const Loss half = call(a.to(f16), b.to(f16));
      CHECK(half.sum.dtype() == f32);
      CHECK(half.weight.dtype() == f32);
    }
  }
}
