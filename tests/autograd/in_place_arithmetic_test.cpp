// x += y and its like: on parts of tensors, with numbers and losses, and what gradients they have.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;
using wt_test::kernel_devices;

TEST_CASE("In place: a row of a buffer is written through a temporary") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const LeakGuard guard;
    Tensor buffer = zeros({3, 2}, {.device = d});
    buffer[0].copy_(tensor({1.0, 2.0}));
    buffer[1].fill_(5);
    buffer[2].add_(tensor({3.0, 4.0}).to(d)).mul_(2);
    buffer[{Slice{}, 1}].sub_(1);
    CHECK(values(buffer) == Values{1, 1, 5, 4, 6, 7});
    buffer[1].zero_();
    buffer[{ellipsis, 0}].div_(2);
    buffer[0].lerp_(full({2}, 9.0, {.device = d}), 0.5);
    CHECK(values(buffer) == Values{4.75, 5, 0, 0, 3, 7});
    buffer[2].index_put_({1}, 8);
    CHECK(values(buffer[2]) == Values{3, 8});
    const Tensor made = empty({2}, {.device = d}).fill_(3);  // what was written is given back
    CHECK(values(made) == Values{3, 3});
  }
}

TEST_CASE("In place: the operators += -= *= /= take tensors, numbers and losses") {
  const LeakGuard guard;
  Tensor x = tensor({1.0, 2.0});
  x += 1;
  x += tensor({10.0, 20.0});
  CHECK(values(x) == Values{12, 23});
  x -= tensor({2.0, 3.0});
  x *= 2;
  CHECK(values(x) == Values{20, 40});
  x *= x;
  x /= tensor(100.0);
  CHECK(values(x) == Values{4, 16});
  x[0] += 1;
  x[{Slice{1, 2}}] -= x[{Slice{0, 1}}];
  CHECK(values(x) == Values{5, 11});
  x[1] *= 2, x[1] /= 11;
  CHECK(values(x) == Values{5, 2});
  Tensor total = zeros({});
  total += mse_loss(tensor({1.0, 3.0}), tensor({0.0, 0.0}));
  CHECK(total.item() == 5);
  Tensor none;
  const int line = __LINE__ + 1;
  CHECK(mentions(message_of([&] { x += none; }), "in_place_arithmetic_test.cpp:" + str(line)));
  CHECK_THROWS_AS(none += x, UsageError);
}

TEST_CASE("In place: alpha multiplies the other operand, and has its gradient") {
  const LeakGuard guard;
  const Tensor w = leaf({1, 2}), v = leaf({3, 5});
  Tensor y = w * 1;
  y.add_(v, {.alpha = -2});
  CHECK(values(y) == Values{-5, -8});
  y.sub_(v, {.alpha = 3});
  CHECK(values(y) == Values{-14, -23});
  const std::vector<Tensor> g = grads(sum(y), {w, v});
  CHECK(values(g[0]) == Values{1, 1});
  CHECK(values(g[1]) == Values{-5, -5});
}

TEST_CASE("In place: gradients of products and quotients are of what was there before") {
  const LeakGuard guard;
  const Tensor w = leaf({2, 3}), v = leaf({4, 8});
  {
    Tensor y = w * 1;
    y.mul_(v);
    y.mul_(v);
    const std::vector<Tensor> g = grads(sum(y), {w, v});
    CHECK(values(g[0]) == Values{16, 64});
    CHECK(values(g[1]) == Values{16, 48});  // 2 w v
  }
  {
    Tensor y = w * 1;
    y.div_(v);
    const std::vector<Tensor> g = grads(sum(y), {w, v});
    CHECK(values(g[0]) == Values{0.25, 0.125});
    CHECK(values(g[1]) == Values{-2. / 16, -3. / 64});
  }
  {
    Tensor y = w * 1;
    y.mul_(y);  // the same tensor on both sides
    CHECK(values(grad(sum(y), w)) == Values{4, 6});
  }
  {
    Tensor y = w * 1;
    y.lerp_(v, 0.25);
    const std::vector<Tensor> g = grads(sum(y), {w, v});
    CHECK(values(g[0]) == Values{0.75, 0.75});
    CHECK(values(g[1]) == Values{0.25, 0.25});
  }
}

TEST_CASE("In place: what does not fit is refused, and nothing is written") {
  const LeakGuard guard;
  Tensor counts = ones({2}, {.dtype = int64});
  CHECK_THROWS_AS(counts += 0.5, DtypeError);
  CHECK_THROWS_AS(counts.div_(2), DtypeError);
  CHECK_THROWS_AS(counts.div_(counts), DtypeError);
  CHECK_THROWS_AS(counts.sub_(tensor({0.5, 0.5})), DtypeError);
  Tensor x = ones({2});
  CHECK_THROWS_AS(x += ones({3}), ShapeError);
  CHECK_THROWS_AS(x.lerp_(ones({2, 2}), 0.5), ShapeError);
  const Tensor w = leaf({1, 2});
  CHECK_THROWS_AS(x[0].copy_(w[0]), InplaceError);  // recorded into a part: cannot be
  CHECK(values(counts) == Values{1, 1});
  CHECK(values(x) == Values{1, 1});
  x.sub_(ones({2}, {.dtype = int64}));  // integers into floats
  x += true;
  CHECK(values(x) == Values{1, 1});
}
