// Convolutions with an epilogue beside what their rows show: orders in memory, what is saved,
// leaves' slots, autocast, meta.
#include "warptape/autograd/autocast.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

Tensor activated(Activation f, const Tensor& z) {
  switch (f) {
    case Activation::relu:
      return relu(z);
    case Activation::gelu:
      return gelu(z);
    case Activation::gelu_tanh:
      return gelu_tanh(z);
    case Activation::silu:
      return silu(z);
    case Activation::relu6:
      return relu6(z);
    case Activation::hardswish:
      return hardswish(z);
    default:
      return z;
  }
}

void check_near(const Tensor& got, const Tensor& want) {
  const std::vector<double> a = to_doubles(got), b = to_doubles(want);
  REQUIRE(got.shape() == want.shape());
  double largest = 1;
  for (double v : b) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < a.size(); ++i) CHECK(std::fabs(a[i] - b[i]) <= 2e-5 * largest);
}

bool is_last(const Tensor& t) { return t.is_contiguous(MemoryFormat::channels_last); }

}  // namespace

TEST_CASE("fused_conv2d: the values and gradients of its parts, in x's order of memory") {
  for (const Device d : operator_devices())
    for (const Activation f : kAllActivations)
      for (const bool last : {false, true})
        for (const bool residual_last : {false, true}) {
          CAPTURE(d, int(f), last, residual_last);
          manual_seed(3);
          const auto order = [](const Tensor& t, bool channels_last) {
            return contiguous(
                t, channels_last ? MemoryFormat::channels_last : MemoryFormat::contiguous);
          };
          const Tensor x = order(randn({2, 5, 6, 7}).to(d), last).set_requires_grad();
          const Tensor w = (randn({8, 5, 3, 3}) * 0.3).to(d).set_requires_grad();
          const Tensor b = randn({8}).to(d).set_requires_grad();
          const Tensor r = order(randn({2, 8, 6, 7}).to(d), residual_last).set_requires_grad();
          const Tensor sent = randn({2, 8, 6, 7}).to(d);
          const ConvOptions o{.padding = 1};
          const std::vector<Tensor> leaves{x, w, b, r};
          const Tensor want = activated(f, conv2d(x, w, b, o) + r);
          const Tensor got =
              fused_conv2d(x, w, {.bias = b, .residual = r, .activation = f, .conv = o});
          CHECK(is_last(got) == last);
          check_near(got, want);
          const auto gradients = [&](const Tensor& y) {
            return grads(std::span(&y, 1), leaves, {.grad_outputs = {sent}});
          };
          const std::vector<Tensor> g = gradients(got), of_parts = gradients(want);
          for (size_t i = 0; i < leaves.size(); ++i) {
            CAPTURE(i);
            check_near(g[i], of_parts[i]);
          }
          // Without an activation x's gradient has the order of the one that was sent.
          CHECK(is_last(g[0]) == (last && f != Activation::none));
        }
}

TEST_CASE("fused_conv2d: relu keeps its result, smooth activations one tensor more") {
  const auto held = [](Activation f) {
    const Tensor x = randn({2, 4, 32, 32}).set_requires_grad();
    const Tensor w = randn({4, 4, 3, 3}), r = randn({2, 4, 32, 32});
    const i64 before = memory::stats(Device::cpu()).live;
    const Tensor y = fused_conv2d(x, w, {.residual = r, .activation = f, .conv = {.padding = 1}});
    return double(memory::stats(Device::cpu()).live - before) / (4.0 * double(y.numel()));
  };
  CHECK(held(Activation::none) < 1.1);
  for (const Activation f : kAllActivations) {
    if (f == Activation::none) continue;
    CAPTURE(int(f));
    CHECK(held(f) > (is_told_from_result(f) ? 0.9 : 1.9));
    CHECK(held(f) < (is_told_from_result(f) ? 1.1 : 2.1));
  }
}

TEST_CASE("fused_conv2d: weights and biases of leaves add up over backwards") {
  const Tensor x = randn({2, 3, 5, 5}), r = randn({2, 4, 5, 5});
  const Tensor w = randn({4, 3, 3, 3}).set_requires_grad(), b = randn({4}).set_requires_grad();
  const auto backward = [&] {
    fused_conv2d(x, w,
                 {.bias = b, .residual = r, .activation = Activation::relu, .conv = {.padding = 1}})
        .sum()
        .backward();
  };
  backward();
  const Tensor dw = w.grad().clone(), db = b.grad().clone();
  backward();
  check_near(w.grad(), dw + dw);
  check_near(b.grad(), db + db);
}

TEST_CASE("fused_conv2d: every operand becomes 16 bits wide under autocast") {
  const Tensor x = randn({1, 3, 5, 5}), w = randn({4, 3, 3, 3}), b = randn({4}),
               r = randn({1, 4, 3, 3});
  const AutocastScope scope(DType::bf16);
  const Tensor y = fused_conv2d(x, w, {.bias = b, .residual = r, .activation = Activation::gelu});
  CHECK(y.dtype() == DType::bf16);
}

TEST_CASE("fused_conv: shapes on meta, with gradients") {
  const TensorOptions meta{.device = Device::meta()};
  const i64 big = i64(1) << 31;
  const Tensor x = empty({1, 3, big + 2}, meta).set_requires_grad();
  const Tensor y =
      fused_conv1d(x, empty({2, 3, 3}, meta),
                   {.residual = empty({1, 2, big}, meta), .activation = Activation::silu});
  CHECK(y.shape() == Shape{1, 2, big});
  CHECK(grad(y, x, {.grad_outputs = {y}}).shape() == x.shape());
}

TEST_CASE("fused_conv2d: an error changes nothing, and says what does not fit") {
  const Tensor x = ones({1, 4, 8, 8}).set_requires_grad(), w = ones({4, 4, 3, 3});
  const i64 before = memory::stats(Device::cpu()).live;
  CHECK(mentions(message_of([&] {
                   (void)fused_conv2d(x, w, {.residual = x, .activation = Activation::gelu});
                 }),
                 "[fused_conv2d] residual [1, 4, 8, 8] \u2260 result [1, 4, 6, 6]"));
  CHECK(memory::stats(Device::cpu()).live == before);
}
