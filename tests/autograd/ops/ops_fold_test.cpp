// Images as patches, and vectors brought to length 1: layers, aliasing, NaN, transposes.
#include "warptape/autograd/ops/fold.h"

#include <cmath>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/conv.h"
#include "warptape/autograd/ops/distance.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/resize.h"
#include "warptape/nn/fold.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {
Tensor counting(const Shape& s) { return arange(numel_of(s), {.dtype = f64}).reshape(s); }
}  // namespace

TEST_CASE("fold: layers are their operators") {
  const Tensor x = counting({1, 4, 2, 4});
  CHECK(values(nn::PixelShuffle{2}(x)) == values(pixel_shuffle(x, 2)));
  CHECK(values(nn::PixelUnshuffle{2}(x)) == values(pixel_unshuffle(x, 2)));
  const FoldOptions o{.padding = 1, .stride = {1, 2}};
  const Tensor columns = unfold2d(x, 2, o);
  CHECK(values(nn::Unfold{2, o}(x)) == values(columns));
  CHECK(values(nn::Fold{{2, 4}, 2, o}(columns)) == values(fold(columns, {2, 4}, 2, o)));
}

TEST_CASE("pixel_shuffle: the other way round gives the tensor again, never as a view") {
  const Tensor x = counting({2, 8, 3, 2});
  CHECK(values(pixel_unshuffle(pixel_shuffle(x, 2), 2)) == values(x));
  for (Tensor y : {pixel_shuffle(x, 1), pixel_unshuffle(x, 1), unfold2d(x, {3, 2})}) {
    y.fill_(-1);
    CHECK(values(x)[0] == 0);
    CHECK(values(x)[1] == 1);
  }
}

TEST_CASE("fold: ones come back as the number of windows over each element") {
  const Tensor y = fold(unfold2d(ones({1, 1, 3, 3}), 2), 3, 2);
  CHECK(values(y) == Values{1, 2, 1, 2, 4, 2, 1, 2, 1});
}

TEST_CASE("unfold2d: a convolution is a product with the patches") {
  const Tensor x = counting({2, 3, 5, 4}), w = counting({2, 3, 2, 2});
  const Tensor product = matmul(w.reshape({2, 12}), unfold2d(x, 2, {.padding = 1, .stride = 2}));
  CHECK(values(product) == values(conv2d(x, w, {.stride = 2, .padding = 1})));
}

TEST_CASE("fold: 16-bit sums are rounded once") {
  // 2048 + 1 is 2048 in f16, and 2048 + 1 + 1 is not.
  const Tensor columns = tensor({{0.0, 1.0}, {1.0, 0.0}, {0.0, 0.0}, {0.0, 0.0}}).to(f16);
  CHECK(values(fold(columns, {2, 3}, 2)) == Values{0, 2, 0, 0, 0, 0});
}

TEST_CASE("normalize: a vector of zeros stays and has a finite gradient, NaN stays in its vector") {
  const Tensor x =
      tensor({{0.0, 0.0}, {3.0, 4.0}, {NAN, 1.0}}, {.dtype = f64, .requires_grad = true});
  for (const double p : {2.0, 1.0, 3.0, 0.5, HUGE_VAL}) {
    const Tensor y = normalize(x, {.p = p, .eps = 0.5});
    const Values v = values(y), g = values(grad(y.sum(), x));
    CHECK((v[0] == 0 && v[1] == 0));
    CHECK((std::isfinite(v[2]) && std::isnan(v[4])));
    CHECK((g[0] == 2 && g[1] == 2));
    CHECK((std::isfinite(g[2]) && std::isfinite(g[3])));
  }
}

TEST_CASE("upsample: bicubic and antialias keep constants, and NaN among their taps") {
  Tensor x = ones({1, 1, 16, 16}, {.dtype = f64});
  for (const bool antialias : {false, true})
    for (const UpsampleMode mode : {UpsampleMode::bilinear, UpsampleMode::bicubic})
      for (const double v :
           values(upsample(x, {.size = {5, 23}, .mode = mode, .antialias = antialias})))
        CHECK(std::fabs(v - 1) < 1e-14);
  x[0][0][0][0].fill_(NAN);
  const Values y =
      values(upsample(x, {.size = {8, 8}, .mode = UpsampleMode::bicubic, .antialias = true}));
  CHECK((std::isnan(y[0]) && std::isfinite(y[63])));
}

TEST_CASE("fold: a size beyond 2^31 with its padding, of no images") {
  const i64 far = i64{1} << 30;
  const Tensor none = zeros({0, 4, 2}, {.dtype = f64});
  const FoldOptions o{.padding = {far, 0}, .stride = {2 * far - 1, 1}};
  CHECK(fold(none, 2, 2, o).shape() == Shape{0, 1, 2, 2});
}
