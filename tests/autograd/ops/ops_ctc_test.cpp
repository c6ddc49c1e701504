// ctc_loss beside its row: gradients behind log_softmax, what cannot be, threads, labels.
#include "warptape/autograd/ops/ctc.h"

#include <cmath>

#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/core/device.h"
#include "warptape/core/memory.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {
Tensor list(std::initializer_list<Scalar> v) { return tensor(v, {.dtype = DType::i64}); }
Tensor logits(const Shape& shape, u64 seed, DType t = f64) {
  return to_tensor(random_values(numel_of(shape), seed, 2), shape, t, {}).set_requires_grad();
}
}  // namespace

TEST_CASE("ctc_loss: both derivatives behind log_softmax; a step's gradient adds up to 0") {
  const Tensor targets = tensor({{1, 2}, {2, 2}}, {.dtype = DType::i64});
  const auto f = [&](std::span<const Tensor> in) {
    return ctc_loss(log_softmax(in[0], 2), targets, list({4, 3}), list({2, 2})).sum;
  };
  const GradCheck first = grad_check(f, {logits({4, 2, 3}, 1)});
  INFO(first.message);
  CHECK(first.ok);
  const GradCheck second = grad_grad_check(f, {logits({4, 2, 3}, 2)});
  INFO(second.message);
  CHECK(second.ok);
  const Tensor x = logits({4, 2, 3}, 3);
  const Tensor g = grad(f({&x, 1}), x);
  for (double v : values(sum(g, 2))) CHECK(std::fabs(v) < 1e-14);
  const Values all = values(g);
  for (size_t i = 0; i < 3; ++i) CHECK(all[3 * 6 + 3 + i] == 0);  // past sample 1's last step
}

TEST_CASE("ctc_loss: labels that do not fit are infinitely unlikely") {
  const Tensor x = logits({3, 2, 3}, 1);
  const Tensor y = log_softmax(x, 2), targets = tensor({{1, 1}, {1, 2}}, {.dtype = DType::i64});
  for (const bool create_graph : {false, true}) {
    const Loss loss = ctc_loss(y, targets, list({2, 3}), list({2, 2}));  // 1 1 needs three steps
    CHECK(loss.sum.item() == INFINITY);
    const Values g =
        values(grad(loss.sum, y, {.create_graph = create_graph, .retain_graph = true}));
    for (size_t i = 0; i < g.size(); ++i) {
      CAPTURE(i, create_graph);
      CHECK(std::isnan(g[i]) == (i % 6 < 3 && i / 6 < 2));
    }
    const Loss zero = ctc_loss(y, targets, list({2, 3}), list({2, 2}), {.zero_infinity = true});
    CHECK(std::isfinite(zero.sum.item()));
    CHECK(zero.weight.item() == 2);
    const Tensor h = grad(zero.sum, x, {.create_graph = create_graph, .retain_graph = true});
    for (double v : values(h)) CHECK(std::isfinite(v));
    CHECK(values(h)[0] == 0);
  }
}

TEST_CASE("ctc_loss: classes of probability 0, and NaN") {
  Tensor y = tensor({0.0, -INFINITY, -INFINITY, 0.0}, {.dtype = f64}).reshape({2, 1, 2});
  y.set_requires_grad();
  const Tensor target = tensor({1}, {.dtype = DType::i64});
  for (const bool create_graph : {false, true}) {
    const Loss loss = ctc_loss(y, target, list({2}), list({1}));  // blank, then 1: certain
    CHECK(loss.sum.item() == 0);
    CHECK(values(grad(loss.sum, y, {.create_graph = create_graph})) == Values{-1, 0, 0, -1});
  }
  const Tensor nan = full({2, 1, 2}, NAN, {.dtype = f64});
  CHECK(std::isnan(ctc_loss(nan, target, list({2}), list({1})).sum.item()));
}

TEST_CASE("ctc_loss: equal bits for one and two threads; parts of a batch add up") {
  const i64 steps = 60, samples = 16, classes = 20, most = 12;
  const Tensor x = logits({steps, samples, classes}, 1, f32);
  const Tensor targets = randint(1, classes, {samples, most}, {.dtype = DType::i64});
  const Tensor in = randint(40, steps + 1, {samples}, {.dtype = DType::i64});
  const Tensor out = randint(0, most + 1, {samples}, {.dtype = DType::i64});
  std::vector<Values> before;
  const int threads = num_threads();
  for (int n : {1, 2, 2}) {
    set_num_threads(n);
    const Loss loss = ctc_loss(log_softmax(x, 2), targets, in, out);
    const std::vector<Values> now{values(loss.sum), values(grad(loss.sum, x))};
    CHECK((before.empty() || now == before));
    before = now;
  }
  set_num_threads(threads);
  double sum = 0, weight = 0;
  for (i64 from : {0, 5, 6}) {
    const i64 n = from == 0 ? 5 : from == 5 ? 1 : 10;
    const Loss part = ctc_loss(log_softmax(x.narrow(1, from, n), 2), targets.narrow(0, from, n),
                               in.narrow(0, from, n), out.narrow(0, from, n));
    sum += part.sum.item(), weight += part.weight.item();
  }
  CHECK(std::fabs(sum - before[0][0]) < 1e-4);
  CHECK(weight == double(samples));
}

TEST_CASE("ctc_loss: a bad label throws before anything is attached, meta prices it") {
  const Tensor x = logits({4, 2, 3}, 1);
  Tensor y = log_softmax(x, 2);
  const memory::LiveObjects before = memory::live_objects();
  const std::string text = message_of([&] {
    (void)ctc_loss(std::move(y), tensor({1, 2, 7}, {.dtype = DType::i64}), list({4, 4}),
                   list({1, 2}));
  });
  CHECK(mentions(text, "[ctc_loss] label 7 at place 2 is outside [0, 3)"));
  CHECK(memory::live_objects() == before);
  CHECK(y.defined());
  const TensorOptions meta{.device = Device::meta()};
  const TensorOptions number{.dtype = DType::i64, .device = Device::meta()};
  const Loss loss = ctc_loss(empty({50, 4, 9}, meta), empty({4, 7}, number), empty({4}, number),
                             empty({4}, number));
  CHECK(loss.sum.shape().empty());
}
