// Losses as operators. Values of every kernel variant: kernels/cross_entropy_test.cpp,
// mse_test.cpp.
#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/core/memory.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

Tensor leaf(const Shape& shape, u64 seed, DType t = f64, Device d = {}) {
  Tensor x = to_tensor(random_values(numel_of(shape), seed, 2), shape, t, d);
  x.set_requires_grad(true);
  return x;
}
template <class E, class F>
std::string thrown(F f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "nothing was thrown";
}
bool starts_with(const std::string& text, const std::string& start) {
  CAPTURE(text);
  CHECK(text.substr(0, start.size()) == start);
  return text.substr(0, start.size()) == start;
}

}  // namespace

TEST_CASE("cross_entropy: both derivatives, with ignored labels, smoothing and images") {
  const Tensor flat = tensor({0, 3, -100, 1}),
               image = tensor({{2, 0}, {-100, 1}}).reshape({2, 2, 1});
  for (double smoothing : {0.0, 0.2}) {
    const CrossEntropyOptions options{.label_smoothing = smoothing};
    const auto f = [&](std::span<const Tensor> in) {
      return cross_entropy(in[0], in[0].ndim() == 2 ? flat : image, options).sum;
    };
    for (const Shape& shape : {Shape{4, 5}, Shape{2, 3, 2, 1}}) {
      CAPTURE(smoothing, shape);
      const GradCheck first = grad_check(f, {leaf(shape, 1)});
      INFO(first.message);
      CHECK(first.ok);
      const GradCheck second = grad_grad_check(f, {leaf(shape, 2)});
      INFO(second.message);
      CHECK(second.ok);
    }
  }
}

TEST_CASE("cross_entropy: the mean is over the samples that count, and NaN over none",
          "[wall][losses]") {
  for (Device d : operator_devices()) {
    Tensor x = leaf({4, 6}, 1, f32, d);
    const Tensor labels = tensor({1, -100, 3, -100}).to(d);
    const Loss loss = cross_entropy(x, labels);
    CHECK(loss.weight.item() == 2);
    CHECK(close(loss.item(), loss.sum.item() / 2, 1e-7));
    loss.backward();
    const std::vector<double> g = to_doubles(x.grad());
    double sum = 0, ignored = 0;
    for (size_t i = 0; i < g.size(); ++i) (i / 6 % 2 ? ignored : sum) += std::fabs(g[i]);
    CHECK(ignored == 0);
    CHECK(sum > 0.1);
    CHECK(std::isnan(cross_entropy(x, full({4}, -100, {.device = d})).item()));
    CHECK(cross_entropy(x, full({4}, 7, {.device = d}), {.ignore_index = 7}).weight.item() == 0);
  }
}

TEST_CASE("cross_entropy: 16-bit logits give an f32 loss and 16-bit gradients") {
  for (Device d : operator_devices())
    for (DType t : {f16, bf16}) {
      Tensor x = leaf({3, 9}, 1, t, d);
      const Loss loss = cross_entropy(x, tensor({1, 8, 0}).to(d));
      CHECK(loss.sum.dtype() == f32);
      CHECK(loss.weight.dtype() == f32);
      loss.backward();
      CHECK(x.grad().dtype() == t);
    }
}

TEST_CASE("cross_entropy: the backward writes over logits that nobody else holds",
          "[wall][saved]") {
  for (Device d : operator_devices()) {
    Tensor w = leaf({64, 64}, 1, f32, d);
    const Tensor labels = zeros({64}, {.dtype = DType::i64, .device = d});
    const auto peak_of = [&](auto&& loss_of) {
      w.zero_grad();
      const Loss loss = loss_of();
      memory::reset_peak(d);
      const i64 before = memory::stats(d).live;
      const Tensor g = grad(loss.sum, w);
      return memory::stats(d).peak - before;
    };
    const i64 row = 64 * 64 * 4;
    // The gradient of the logits, then of w: in place, the second is the only new one.
    const i64 in_place = peak_of([&] { return cross_entropy(mul(w, 2), labels); });
    const Tensor held = mul(w, 2);
    const i64 beside = peak_of([&] { return cross_entropy(held, labels); });
    CAPTURE(in_place, beside, row);
    CHECK(beside >= in_place + row);
    const std::vector<double> values = to_doubles(held);
    const Tensor again = mul(w, 2);
    CHECK(to_doubles(again) == values);  // `held` was left alone
  }
}

TEST_CASE("cross_entropy: nothing is overwritten while the graph is retained", "[wall][saved]") {
  Tensor w = leaf({5, 4}, 1, f32);
  const Loss loss = cross_entropy(mul(w, 2), tensor({0, 1, 2, 3, 0}));
  const Tensor first = grad(loss.sum, w, {.retain_graph = true});
  const Tensor second = grad(loss.sum, w, {.retain_graph = true});
  const Tensor recorded = grad(loss.sum, w, {.create_graph = true});
  const Tensor last = grad(loss.sum, w);
  CHECK(to_doubles(first) == to_doubles(second));
  CHECK(to_doubles(first) == to_doubles(last));
  const std::vector<double> a = to_doubles(first), b = to_doubles(recorded);
  for (size_t i = 0; i < a.size(); ++i) CHECK(close(b[i], a[i], 1e-6));
}

TEST_CASE("cross_entropy: repeated logits are never written over", "[wall][saved]") {
  Tensor w = leaf({1, 4}, 1, f32);
  const Tensor labels = tensor({0, 1, 2});
  const Tensor wide = grad(cross_entropy(mul(w, 2).expand({3, 4}), labels).sum, w);
  const Tensor copied = grad(cross_entropy(mul(w, 2).expand({3, 4}).contiguous(), labels).sum, w);
  const std::vector<double> a = to_doubles(wide), b = to_doubles(copied);
  for (size_t i = 0; i < a.size(); ++i) CHECK(close(a[i], b[i], 1e-6));
}

TEST_CASE("cross_entropy: logits whose own operator reads them are not written over",
          "[wall][saved]") {
  for (Device d : operator_devices()) {
    Tensor x = leaf({3, 4}, 1, f32, d);
    const Tensor labels = zeros({3}, {.dtype = DType::i64, .device = d});
    for (Tensor (*f)(const In&) :
         {+[](const In& a) { return relu(a); }, +[](const In& a) { return exp(a); },
          +[](const In& a) { return sigmoid(a); }, +[](const In& a) { return tanh(a); },
          +[](const In& a) { return softmax(a, 1); }}) {
      const Tensor held = f(x);
      const Tensor beside = grad(cross_entropy(held, labels).sum, x);
      const Tensor given_up = grad(cross_entropy(f(x), labels).sum, x);
      CHECK(to_doubles(given_up) == to_doubles(beside));
    }
  }
}

TEST_CASE("cross_entropy: a bad label on the cpu throws before anything is attached") {
  const Tensor x = leaf({4, 66}, 1, f32);
  const Tensor labels = tensor({1, 2, 66, 3});
  Tensor logits = mul(x, 2);
  const memory::LiveObjects before = memory::live_objects();
  const std::string text =
      thrown<IndexError>([&] { (void)cross_entropy(std::move(logits), labels); });
  starts_with(text, "IndexError: [cross_entropy] label 66 at sample 2 is outside [0, 66)");
  CHECK(text.find("ops_loss_test.cpp") != std::string::npos);
  CHECK(memory::live_objects() == before);
  CHECK(logits.defined());  // the rvalue is still the user's
  starts_with(
      thrown<IndexError>([&] {
        (void)cross_entropy(zeros({1, 5, 2, 2}), tensor({{0, 1}, {-1, 2}}).reshape({1, 2, 2}));
      }),
      "IndexError: [cross_entropy] label -1 at [0, 1, 0] is outside [0, 5)");
  // The next one is not affected.
  CHECK(std::isfinite(cross_entropy(x, zeros({4}, {.dtype = DType::i64})).item()));
}

TEST_CASE("cross_entropy: a bad label on simt throws at the next wait", "[wall][run]") {
  if (operator_devices().size() < 2) SKIP_TEST("simt has no pointwise kernels yet");
  const Device d = Device::simt();
  const Tensor x = leaf({4, 66}, 1, f32, d);
  const Loss loss = cross_entropy(x, tensor({1, 2, 66, 3}).to(d));
  const std::string text = thrown<IndexError>([&] { (void)loss.item(); });
  starts_with(text, "IndexError: [cross_entropy] label 66 at sample 2 is outside [0, 66)");
  CHECK(std::isfinite(cross_entropy(x, tensor({1, 2, 65, 3}).to(d)).item()));
}

TEST_CASE("cross_entropy: refusals") {
  const Tensor x = zeros({4, 5}), y = zeros({4}, {.dtype = DType::i64});
  starts_with(
      thrown<ShapeError>([&] { (void)cross_entropy(x, zeros({5}, {.dtype = DType::i64})); }),
      "ShapeError: [cross_entropy] labels must have the shape of the logits without the class "
      "axis: expected [4], got [5]");
  starts_with(thrown<DtypeError>([&] { (void)cross_entropy(x, zeros({4})); }),
              "DtypeError: [cross_entropy] labels must be i64, got f32");
  starts_with(thrown<DtypeError>([&] {
                (void)cross_entropy(y.reshape({2, 2}), zeros({2}, {.dtype = DType::i64}));
              }),
              "DtypeError: [cross_entropy] expected a floating dtype that computes, got i64");
  starts_with(thrown<UsageError>([&] { (void)cross_entropy(x, y, {.label_smoothing = 1.5}); }),
              "UsageError: [cross_entropy] label_smoothing must be in [0, 1], got 1.5");
  starts_with(thrown<ShapeError>([&] {
                (void)cross_entropy(zeros({4, 0}), y);
              }),
              "ShapeError: [cross_entropy] 4 labels but no class");
}

TEST_CASE("mse_loss: values, both derivatives, refusals") {
  const auto f = [](std::span<const Tensor> in) { return mse_loss(in[0], in[1]).sum; };
  const GradCheck first = grad_check(f, {leaf({3, 4}, 1), leaf({3, 4}, 2)});
  INFO(first.message);
  CHECK(first.ok);
  const GradCheck second = grad_grad_check(f, {leaf({3, 2}, 1), leaf({3, 2}, 2)});
  INFO(second.message);
  CHECK(second.ok);
  for (Device d : operator_devices()) {
    const Tensor a = leaf({2, 3}, 1, f32, d), b = leaf({3, 2}, 2, f32, d);
    const Loss loss = mse_loss(a, b.transpose(0, 1));
    CHECK(loss.weight.item() == 6);
    const std::vector<double> va = to_doubles(a), vb = to_doubles(b.transpose(0, 1).contiguous());
    double want = 0;
    for (size_t i = 0; i < 6; ++i) want += (va[i] - vb[i]) * (va[i] - vb[i]) / 6;
    CHECK(close(loss.item(), want, 1e-6));
    loss.backward();
    const std::vector<double> ga = to_doubles(a.grad()),
                              gb = to_doubles(b.grad().transpose(0, 1).contiguous());
    for (size_t i = 0; i < 6; ++i) {
      CHECK(close(ga[i], (va[i] - vb[i]) / 3, 1e-6));
      CHECK(close(gb[i], (vb[i] - va[i]) / 3, 1e-6));
    }
  }
  starts_with(thrown<ShapeError>([] {
                (void)mse_loss(zeros({4, 1}), zeros({4}));
              }),
              "ShapeError: [mse_loss] input and target must have one shape: [4, 1] and [4]");
}

TEST_CASE("Losses: a Loss stands for its mean, scales, and takes a plain sum", "[wall][losses]") {
  Tensor x = leaf({4}, 1, f32);
  const Tensor zero = zeros({4});
  const Loss loss = mse_loss(x, zero);
  const double mean = loss.item();
  CHECK(close((0.5 * loss).item(), 0.5 * mean, 1e-7));
  CHECK(close((loss * 3).sum.item(), 3 * loss.sum.item(), 1e-6));
  CHECK((loss / 2).weight.item() == 4);
  CHECK(close(add(loss, 1.0).item(), mean + 1, 1e-6));
  CHECK(close(add(loss, 2 * mse_loss(x, zero)).item(), 3 * mean, 1e-6));

  const std::vector<double> direct = to_doubles(grad(loss.mean(), x, {.retain_graph = true}));
  loss.backward();
  CHECK(to_doubles(x.grad()) == direct);
  const Loss mine{sum(mul(x, x)), x.numel()};
  CHECK(mine.weight.dtype() == f32);
  CHECK(close(mine.item(), mean, 1e-6));
}

TEST_CASE(
    "nll_loss and weighted cross_entropy: nothing that counts is a weight of 0 and a NaN "
    "mean",
    "[wall][losses]") {
  const Tensor labels = full({4}, -100, {.dtype = DType::i64});
  const Tensor weight = tensor({1.0, 2.0, 3.0}), x = leaf({4, 3}, 1, f32);
  for (const Loss& loss : {nll_loss(x, labels), nll_loss(x, labels, {.weight = weight}),
                           cross_entropy(x, labels, {.weight = weight}),
                           cross_entropy(x, labels, {.label_smoothing = 0.5, .weight = weight})}) {
    CHECK(loss.weight.item() == 0);
    CHECK(loss.sum.item() == 0);
    CHECK(std::isnan(loss.item()));
    CHECK(to_doubles(grad(loss.sum, x)) == std::vector<double>(12, 0.0));
  }
}

TEST_CASE("cross_entropy with class weights: parts of a batch add up to it", "[wall][losses]") {
  const Tensor x = leaf({9, 4}, 3);
  const Tensor labels = tensor({0, 3, 1, -100, 2, 2, 0, 3, 1});
  const CrossEntropyOptions o{.label_smoothing = 0.1, .weight = abs(leaf({4}, 5))};
  const Loss whole = cross_entropy(x, labels, o);
  double total = 0, weight = 0;
  for (i64 from : {0, 2, 3}) {
    const i64 n = from == 0 ? 2 : from == 2 ? 1 : 6;
    const Loss part = cross_entropy(x.narrow(0, from, n), labels.narrow(0, from, n), o);
    total += part.sum.item(), weight += part.weight.item();
  }
  CHECK(std::fabs(total - whole.sum.item()) < 1e-13);
  CHECK(std::fabs(weight - whole.weight.item()) < 1e-13);
  CHECK(!whole.weight.requires_grad());
}

TEST_CASE("nll_loss: 16-bit log-probabilities, strided class weights, infinities") {
  const Tensor labels = tensor({1, 0, 2});
  const Tensor wide = tensor({1.0, 9.0, 2.0, 9.0, 4.0}), weight = wide.slice(0, {0, 5, 2});
  const Tensor x = tensor({{-1.0, -2.0, -3.0}, {-0.5, -1.0, -1.5}, {-4.0, -5.0, -6.0}});
  for (DType t : {f64, f32, f16, bf16}) {
    Tensor v = x.to(t).set_requires_grad();
    const Loss loss = nll_loss(v, labels, {.weight = weight});
    CHECK(loss.sum.dtype() == (t == f64 ? f64 : f32));
    CHECK(loss.sum.item() == 4 + 0.5 + 24);
    CHECK(loss.weight.item() == 7);
    const Tensor g = grad(loss.sum, v);
    CHECK(g.dtype() == t);
    CHECK(to_doubles(g) == std::vector<double>{0, -2, 0, -1, 0, 0, 0, 0, -4});
  }
  const Tensor impossible = tensor({0.0, -INFINITY}).reshape({1, 2});
  CHECK(nll_loss(impossible, tensor({0})).sum.item() == 0);  // what is not picked is not read
  CHECK(nll_loss(impossible, tensor({1})).sum.item() == INFINITY);
}

TEST_CASE("weighted cross_entropy: a bad label names the operator and leaves the logits alone") {
  Tensor logits = mul(leaf({2, 3}, 1, f32), 2);
  const std::string text = thrown<IndexError>([&] {
    (void)cross_entropy(std::move(logits), tensor({0, 7}), {.weight = ones({3})});
  });
  starts_with(text, "IndexError: [cross_entropy] label 7 at sample 1 is outside [0, 3)");
  CHECK(logits.defined());
}
