// Elementwise kernels, rows, norms and random numbers on several threads: the bits of one.
#include <functional>

#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/norm.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/random.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/device.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/random.h"
#include "warptape/nn/init.h"
#include "warptape/optim/clip.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

struct Threads {
  const int before = num_threads();
  ~Threads() { set_num_threads(before); }
};

Tensor filled(const Shape& s, u64 seed) {
  return to_tensor(random_values(numel_of(s), seed), s, f32, {});
}

// f() on one thread and on several.
void same_bits(const std::function<Tensor()>& f) {
  const Threads threads;
  set_num_threads(1);
  const std::vector<double> one = to_doubles(f());
  for (const int n : {2, 3, 7}) {
    set_num_threads(n);
    CHECK(to_doubles(f()) == one);
  }
}

}  // namespace

TEST_CASE("threads: elementwise operators have the same bits on any number") {
  for (const i64 n : {32767, 32768, 70001, 200003}) {
    const Tensor a = filled({n}, 1), b = filled({n}, 2);
    same_bits([&] { return a + b; });
    same_bits([&] { return gelu(a); });
    same_bits([&] { return sin(a * 1e6); });
    same_bits([&] { return a * 3.5; });
    same_bits([&] { return to_dtype(gt(a, b), f32); });
    same_bits([&] { return where(gt(a, b), a, b); });
    same_bits([&] {  // in place: an operand that is the output
      Tensor c = clone(a);
      return relu(std::move(c));
    });
  }
}

TEST_CASE("threads: layer norm and the sums of a bias have the same bits on any number") {
  for (const i64 columns : {64, 130, 257}) {
    const Tensor x = filled({1003, columns}, 3).set_requires_grad();
    const Tensor w = filled({columns}, 4).set_requires_grad(), v = filled({1003, columns}, 5);
    same_bits([&] {
      x.zero_grad(), w.zero_grad();
      sum(layer_norm(x, {columns}, w) * v).backward();
      return x.grad();
    });
    const Tensor weight = filled({columns, 32}, 6), h = filled({1003, 32}, 7);
    const Tensor bias = filled({columns}, 8).set_requires_grad();
    same_bits([&] {
      bias.zero_grad();
      sum(linear(h, weight, bias) * v).backward();
      return bias.grad();
    });
  }
}

TEST_CASE(
    "threads: products have the same bits on any number, large ones where that is asked for") {
  const auto product = [](i64 m, i64 k, i64 n, DType t) {
    const Tensor a = filled({m, k}, 11).to(t), b = filled({k, n}, 12).to(t);
    same_bits([&] { return matmul(a, b); });
    same_bits([&] { return matmul(a, b.t().contiguous().t()); });
  };
  for (const DType t : {f32, f64, f16, bf16})
    for (const i64 n : {1, 65, 400}) product(257, 300, n, t);
  // OpenBLAS has these otherwise, and sums them in an order that its threads make.
  const DeterminismScope strict(Determinism::strict);
  for (const DType t : {f32, f64}) product(1024, 1024, 1024, t);
}

TEST_CASE("threads: the norm of gradients has the same bits on any number") {
  const Tensor p = filled({300001}, 9).set_requires_grad();
  sum(p * filled({300001}, 10)).backward();
  same_bits([&] {
    const Tensor one[] = {p};
    return optim::clip_grad_norm_(one, 1e30);
  });
}

TEST_CASE("threads: random numbers have the same bits on any number", "[random]") {
  const auto same_draws = [](const std::function<Tensor(const TensorOptions&)>& f) {
    for (const DType t : {f64, f32, f16, bf16})
      same_bits([&] {
        manual_seed(3);
        return f({.dtype = t});
      });
  };
  constexpr i64 kNumbers = 200003;
  same_draws([](const TensorOptions& o) { return rand({kNumbers}, o); });
  same_draws([](const TensorOptions& o) { return normal(1, 2, {kNumbers}, o); });
  same_draws([](const TensorOptions& o) { return randint(0, 200, {kNumbers}, o); });
  same_draws([](const TensorOptions& o) { return bernoulli(0.5, {kNumbers}, o); });
  for (void (*f)(const Tensor&) : {+[](const Tensor& x) { nn::init::uniform_(x); },
                                   +[](const Tensor& x) { nn::init::normal_(x); },
                                   +[](const Tensor& x) { nn::init::trunc_normal_(x); }})
    same_draws([f](const TensorOptions& o) {
      const Tensor x = zeros({kNumbers}, o);
      f(x);
      return x;
    });
}
