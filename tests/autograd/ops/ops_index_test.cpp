// Embedding as an operator. Values of every kernel variant: kernels/embedding_test.cpp.
#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/pointwise.h"
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
}  // namespace

TEST_CASE("embedding: both derivatives, with padding and i32 indices") {
  const Tensor at = tensor({{0, 2, 2}, {1, 2, 4}});
  for (const EmbeddingOptions& options : {EmbeddingOptions{}, EmbeddingOptions{.padding_idx = 1}}) {
    const auto f = [&](std::span<const Tensor> in) { return embedding(at, in[0], options); };
    if (!options.padding_idx) {  // with it the gradient is not the derivative, by definition
      const GradCheck first = grad_check(f, {leaf({5, 3}, 1)});
      INFO(first.message);
      CHECK(first.ok);
    }
    // Nonlinear around it, so that the second derivative is not zero.
    const auto square = [&](std::span<const Tensor> in) {
      const Tensor y = embedding(at.to(DType::i32), in[0]);
      return mul(y, y);
    };
    const GradCheck second = grad_grad_check(square, {leaf({5, 2}, 2)});
    INFO(second.message);
    CHECK(second.ok);
    const GradCheck linear =
        grad_grad_check([&](std::span<const Tensor> in) { return embedding(at, in[0]); },
                        {leaf({5, 2}, 3)}, {.second_is_zero = true});
    INFO(linear.message);
    CHECK(linear.ok);
  }
}

TEST_CASE("embedding_backward: is the transpose of embedding, to any order") {
  const Tensor at = tensor({0, 2, 2, 1});
  for (const EmbeddingOptions& options : {EmbeddingOptions{}, EmbeddingOptions{.padding_idx = 2}}) {
    const auto f = [&](std::span<const Tensor> in) {
      return embedding_backward(in[0], at, 4, options);
    };
    const GradCheck first = grad_check(f, {leaf({4, 3}, 1)});
    INFO(first.message);
    CHECK(first.ok);
    const auto square = [&](std::span<const Tensor> in) {
      const Tensor y = embedding_backward(in[0], at, 4, options);
      return mul(y, y);
    };
    const GradCheck second = grad_grad_check(square, {leaf({4, 3}, 1)});
    INFO(second.message);
    CHECK(second.ok);
  }
}

TEST_CASE("embedding: the padding row is read and gets no gradient") {
  for (Device d : kernel_devices())
    for (i64 padding : {2, -3}) {
      Tensor w = leaf({5, 4}, 1, f32, d);
      const Tensor at = tensor({{2, 0}, {4, 2}}).to(d);
      const Tensor y = embedding(at, w, {.padding_idx = padding});
      CHECK(to_doubles(y[0][0]) == to_doubles(w[2]));
      y.backward(ones(y.shape(), {.device = d}));
      CHECK(to_doubles(w.grad()) ==
            std::vector<double>{1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1});
    }
}

TEST_CASE("embedding: two uses of one table add up in the leaf's gradient") {
  for (Device d : operator_devices()) {
    Tensor w = leaf({3, 2}, 1, f32, d);
    const Tensor a = embedding(tensor({0, 1}).to(d), w), b = embedding(tensor({1, 1}).to(d), w);
    add(a, b).backward(ones({2, 2}, {.device = d}));
    CHECK(to_doubles(w.grad()) == std::vector<double>{1, 1, 3, 3, 0, 0});
    w.zero_grad();
    embedding(tensor({2}).to(d), w).backward(ones({1, 2}, {.device = d}));
    CHECK(to_doubles(w.grad()) == std::vector<double>{0, 0, 0, 0, 1, 1});
  }
}

TEST_CASE("embedding: a bad index throws at once on the cpu, at the next wait on simt",
          "[wall][run]") {
  const Tensor w = leaf({50257, 1}, 1, f32);
  Tensor at = zeros({4, 20}, {.dtype = DType::i64});
  at.index_put_({3, 17}, tensor(50300));
  const memory::LiveObjects before = memory::live_objects();
  const std::string text = thrown<IndexError>([&] { (void)embedding(at, w); });
  CHECK(text.substr(0, text.find('\n')) ==
        "IndexError: [embedding] token id 50300 at [3, 17] is outside [0, 50257)");
  CHECK(memory::live_objects() == before);

  const Device d = Device::simt();
  const Tensor ws = leaf({4, 2}, 1, f32, d);
  const Tensor y = embedding(tensor({1, 4, 2}).to(d), ws);
  const std::string late = thrown<IndexError>([&] { (void)to_doubles(y); });
  CHECK(late.find("IndexError: [embedding] token id 4 at position 1 is outside [0, 4)") == 0);
  CHECK(to_doubles(y)[2] == to_doubles(ws)[0]);  // row 0 stood in
}

TEST_CASE("embedding: refusals and empty cases") {
  const Tensor w = zeros({4, 3});
  const auto headline = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  CHECK(headline(thrown<DtypeError>([&] { (void)embedding(zeros({2}), w); })) ==
        "DtypeError: [embedding] indices must be i64 or i32, got f32");
  CHECK(headline(thrown<ShapeError>([&] { (void)embedding(tensor({0}), zeros({4})); })) ==
        "ShapeError: [embedding] the table must be [rows, width], got 1 dimensions");
  CHECK(headline(thrown<IndexError>([&] {
          (void)embedding(tensor({0}), w, {.padding_idx = 4});
        })) == "IndexError: [embedding] padding_idx 4 is outside [-4, 4)");
  CHECK(headline(thrown<IndexError>([&] {
          (void)embedding(tensor({0}), zeros({0, 3}));
        })) == "IndexError: [embedding] 1 indices into a table without rows");
  CHECK(embedding(zeros({0, 2}, {.dtype = DType::i64}), w).shape() == Shape{0, 2, 3});
  CHECK(embedding(empty({5}, {.dtype = DType::i64, .device = Device::meta()}),
                  empty({4, 3}, {.device = Device::meta()}))
            .shape() == Shape{5, 3});
}
