// Distances: lengths of 0, borders of the margins, NaN.
#include "warptape/autograd/ops/distance.h"

#include <cmath>

#include "warptape/autograd/grads.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

TEST_CASE("cosine_similarity: a vector of length 0 has similarity 0 and a finite gradient") {
  const Tensor a = zeros({2, 3}, {.dtype = f64, .requires_grad = true});
  const Tensor b = tensor({{1.0, 2.0, 2.0}, {0.0, 0.0, 0.0}}, {.dtype = f64});
  const Tensor y = cosine_similarity(a, b, {.eps = 0.5});
  CHECK(values(y) == Values{0, 0});
  const Values g = values(grad(y.sum(), a));
  for (size_t i = 0; i < 3; ++i) CHECK(std::fabs(g[i] - values(b)[i] / 3 / 0.5) < 1e-15);
  for (size_t i = 3; i < 6; ++i) CHECK(g[i] == 0);
}

TEST_CASE("cosine_similarity: long and short vectors, f16 in f32") {
  for (DType t : {f32, f16}) {
    const Tensor a = tensor({{3e-5, 4e-5}, {300.0, 400.0}}).to(t);
    const Tensor y = cosine_similarity(a, a);
    CHECK(y.dtype() == t);
    for (double v : values(y)) CHECK(std::fabs(v - 1) < 1e-3);
  }
}

TEST_CASE("pairwise_distance: the gradient of a distance of 0 is 0 for every p") {
  for (double p : {0.5, 1.0, 1.5, 2.0, 3.0, double(HUGE_VAL)}) {
    CAPTURE(p);
    const Tensor a = tensor({{1.0, 2.0}, {3.0, 4.0}}, {.dtype = f64, .requires_grad = true});
    const Tensor b = tensor({{1.0, 2.0}, {3.0, 5.0}}, {.dtype = f64});
    const Tensor y = pairwise_distance(a, b, {.p = p, .eps = 0});
    CHECK(values(y) == Values{0, 1});
    CHECK(values(grad(y.sum(), a)) == Values{0, 0, 0, -1});
  }
  const Tensor nan = tensor({{NAN, 1.0}, {1.0, 1.0}});
  const Values d = values(pairwise_distance(nan, zeros({2, 2})));
  CHECK(std::isnan(d[0]));
  CHECK(!std::isnan(d[1]));
}

TEST_CASE("cosine_embedding_loss: targets of every dtype, weight is the number of pairs") {
  const Tensor a = tensor({{1.0, 0.0}, {1.0, 0.0}, {0.0, 1.0}});
  const Tensor b = tensor({{2.0, 0.0}, {3.0, 0.0}, {1.0, 0.0}});
  for (DType t : {f32, DType::i64, DType::i32}) {
    const Tensor y = tensor({1, -1, -1}, {.dtype = DType::i64}).to(t);
    const Loss loss = cosine_embedding_loss(a, b, y, {.margin = 0.25});
    CHECK(loss.weight.item() == 3);
    CHECK(std::fabs(loss.sum.item() - 0.75) < 1e-6);
  }
}

TEST_CASE(
    "triplet_margin_loss: at the margin the gradient passes, as in PyTorch; swap takes the "
    "nearer negative") {
  const Tensor a = leaf({0.0});
  const Tensor p = full({1}, 1.0, {.dtype = f64}), n = full({1}, -2.0, {.dtype = f64});
  const TripletMarginOptions o{.margin = 1, .eps = 0};
  const Loss loss = triplet_margin_loss(a, p, n, o);
  CHECK(loss.sum.item() == 0);
  CHECK(values(grad(loss.sum, a)) == Values{-2});
  const Tensor beyond = full({1}, 1.5, {.dtype = f64});
  const Loss swapped =
      triplet_margin_loss(zeros({1}, {.dtype = f64}), p, beyond, {.eps = 0, .swap = true});
  CHECK(swapped.sum.item() == 1.5);  // 1 - 0.5 + 1
}
