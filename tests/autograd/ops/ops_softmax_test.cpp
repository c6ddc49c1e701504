// softmax and log_softmax as operators. Values of every kernel variant: kernels/softmax_test.cpp.
#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {
Tensor leaf(const Shape& shape, u64 seed, DType t = f64, Device d = {}) {
  Tensor x = to_tensor(random_values(numel_of(shape), seed, 2), shape, t, d);
  x.set_requires_grad(true);
  return x;
}
}  // namespace

TEST_CASE("softmax: both derivatives along every axis") {
  for (int axis : {0, 1, 2, -1})
    for (bool log : {false, true}) {
      CAPTURE(axis, log);
      const auto f = [&](std::span<const Tensor> in) {
        return log ? log_softmax(in[0], axis) : softmax(in[0], axis);
      };
      const GradCheck first = grad_check(f, {leaf({3, 4, 5}, 1)});
      INFO(first.message);
      CHECK(first.ok);
      const GradCheck second = grad_grad_check(f, {leaf({2, 3, 2}, 2)});
      INFO(second.message);
      CHECK(second.ok);
    }
}

TEST_CASE("softmax: gradients on simt follow cpu, strided inputs included") {
  for (DType t : {f32, f16, bf16})
    for (bool log : {false, true}) {
      std::vector<double> got[2];
      for (Device d : kernel_devices()) {
        const Tensor x = leaf({6, 40}, 3, t, d);
        const Tensor y = x.transpose(0, 1).slice(0, {1, 38});
        const Tensor p = log ? log_softmax(y, 0) : softmax(y, 0);
        const Tensor w = to_tensor(random_values(37 * 6, 4), {37, 6}, t, d);
        got[int(d.kind)] = to_doubles(grad(p, x, {.grad_outputs = {w}}));
      }
      for (size_t i = 0; i < got[0].size(); ++i)
        CHECK(close(got[1][i], got[0][i], 2 * error_bound(t, 40, got[0][i], 4)));
    }
}

TEST_CASE("softmax: an rvalue is worked on in place, an lvalue is not touched") {
  Tensor x = to_tensor(random_values(40, 1), {4, 10}, f32, {});
  const void* storage = x.data<float>();
  const Tensor kept = softmax(x, 1);
  CHECK(kept.data<float>() != storage);
  const Tensor y = softmax(std::move(x), 1);
  CHECK(y.data<float>() == storage);
  CHECK(to_doubles(y) == to_doubles(kept));
}

TEST_CASE("softmax: shapes on meta, zero sizes, one element") {
  const Tensor m = softmax(empty({3, 7}, {.device = Device::meta()}), -1);
  CHECK(m.shape() == Shape{3, 7});
  CHECK(softmax(zeros({0, 4}), 1).shape() == Shape{0, 4});
  CHECK(softmax(zeros({4, 0}), 1).shape() == Shape{4, 0});
  CHECK(softmax(tensor(3.0), -1).item() == 1);
}

TEST_CASE("softmax: refusals") {
  const auto text = [](auto f) -> std::string {
    try {
      (void)f();
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  CHECK(text([] { return softmax(zeros({2, 3}), 2); }).find("ShapeError: [softmax]") == 0);
  CHECK(text([] { return log_softmax(zeros({2, 3}), -3); }).find("ShapeError: [log_softmax]") == 0);
  CHECK(text([] {
          return softmax(ones({2}, {.dtype = DType::i64}), 0);
        }).find("DtypeError: [softmax] expected a floating dtype that computes, got i64") == 0);
}
