// The layers: values, initialisation, modes, refusals.
#include "warptape/nn/layers.h"

#include <algorithm>
#include <cmath>

#include "warptape/autograd/ops/norm.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/random.h"
#include "warptape/nn/init.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

TEST_CASE("Linear is x W^T + b over the last axis", "[layers]") {
  const LeakGuard guard;
  nn::Linear fc{2, 3, {.dtype = f64}};
  const NoGrad no_grad;
  Tensor w = fc.weight, b = fc.bias;
  w.copy_(tensor({{1, 2}, {3, 4}, {5, 6}}));
  b.copy_(tensor({10, 20, 30}));
  CHECK(values(fc(tensor({{1.0, 1.0}}, {.dtype = f64}))) == Values{13, 27, 41});
  CHECK(fc(zeros({2, 5, 2}, {.dtype = f64})).shape() == Shape{2, 5, 3});
  nn::Linear plain{2, 3, {.bias = false}};
  CHECK(plain.named_parameters().size() == 1);
  CHECK(values(plain(zeros({1, 2}))) == Values{0, 0, 0});
  CHECK_THROWS_AS((nn::Linear{0, 3}), ShapeError);
  CHECK(mentions(message_of([&] { (void)fc(zeros({1, 3}, {.dtype = f64})); }), "[linear]"));
}

TEST_CASE("LayerNorm has PyTorch's names, defaults and shapes", "[layers]") {
  nn::LayerNorm norm{6};
  REQUIRE(norm.named_parameters().size() == 2);
  CHECK(norm.named_parameters()[0].name == "weight");
  CHECK(norm.named_parameters()[1].name == "bias");
  CHECK(values(norm.weight) == Values(6, 1));
  CHECK(values(norm.bias) == Values(6, 0));
  manual_seed(5);
  Tensor x = empty({2, 2, 6});
  nn::init::normal_(x);
  CHECK(values(norm(x)) == values(layer_norm(x, {6}, ones({6}), zeros({6}))));

  nn::LayerNorm two{{2, 6}, {.eps = 0.5, .bias = false}};
  CHECK(two.named_parameters().size() == 1);
  CHECK(two.weight->shape() == Shape{2, 6});
  CHECK(values(two(x)) == values(layer_norm(x, {2, 6}, ones({2, 6}), {.eps = 0.5})));

  nn::LayerNorm plain{6, {.elementwise_affine = false}};
  CHECK(plain.parameter_count() == 0);
  CHECK(values(plain(x)) == values(layer_norm(x, {6})));
  CHECK(mentions(message_of([] { nn::LayerNorm none{Shape{}}; }), "[LayerNorm]"));
}

TEST_CASE("Linear and Embedding draw their weights as PyTorch does", "[layers][random]") {
  manual_seed(4);
  const nn::Linear fc{100, 400};
  const Values w = values(fc.weight), b = values(fc.bias);
  const auto [low, high] = std::minmax_element(w.begin(), w.end());
  CHECK(*low >= -0.1);
  CHECK(*high <= 0.1);
  CHECK(*high - *low > 0.199);  // the whole range
  CHECK(std::abs(*std::max_element(b.begin(), b.end()) - 0.1) < 0.005);
  const nn::Embedding table{200, 50, {.padding_idx = 3}};
  const Values e = values(table.weight);
  double square = 0;
  for (const double v : e) square += v * v / double(e.size());
  CHECK(std::abs(square - 1) < 0.05);
  CHECK(values(table.weight.tensor()[3]) == Values(50, 0));
  manual_seed(4);
  const nn::Linear again{100, 400};
  CHECK(values(again.weight) == w);
}

TEST_CASE("initialisers fill in place, unrecorded, on any device", "[layers][random]") {
  const LeakGuard guard;
  const Tensor w = zeros({50}, {.device = Device::simt(), .requires_grad = true});
  nn::init::uniform_(w, 2, 3);
  for (const double v : values(w)) CHECK((v >= 2 && v < 3));
  nn::init::constant_(w, 7);
  CHECK(values(w) == Values(50, 7));
  nn::init::normal_(w, 100, 0.1);
  for (const double v : values(w)) CHECK(std::abs(v - 100) < 1);
  CHECK(w.is_leaf());
  CHECK(w.requires_grad());
}

TEST_CASE("Embedding picks rows; the padding row gets no gradient", "[layers]") {
  const LeakGuard guard;
  nn::Embedding table{4, 2, {.padding_idx = 1}};
  const Tensor rows = table(tensor({{0, 1}, {3, 0}}));
  CHECK(rows.shape() == Shape{2, 2, 2});
  CHECK(values(rows[{0, 1}]) == Values{0, 0});
  sum(rows).backward();
  CHECK(values(table.weight->grad()) == Values{2, 2, 0, 0, 0, 0, 1, 1});
  CHECK_THROWS_AS((void)table(tensor({4})), IndexError);
  CHECK_THROWS_AS((nn::Embedding{4, 2, {.padding_idx = 4}}), IndexError);
}

TEST_CASE("EmbeddingBag adds rows up; the padding row is passed over", "[layers]") {
  const LeakGuard guard;
  nn::EmbeddingBag table{4, 2, {.mode = EmbeddingBagMode::sum, .padding_idx = -3}};
  CHECK(values(table.weight.tensor()[1]) == Values{0, 0});
  const Tensor rows = table(tensor({0, 1, 3, 0, 2}), tensor({0, 3}));
  CHECK(rows.shape() == Shape{2, 2});
  sum(rows).backward();
  CHECK(values(table.weight->grad()) == Values{2, 2, 0, 0, 1, 1, 1, 1});
  CHECK(table(tensor({{0, 1, 3}})).shape() == Shape{1, 2});
  const Tensor weighted = table(tensor({{0, 3}}), Tensor(), tensor({{2.0, -1.0}}, {.dtype = f32}));
  const Tensor w = table.weight.tensor();
  CHECK(values(weighted[0]) == values(2 * w[0] - w[3]));
  CHECK_THROWS_AS((void)table(tensor({{4}})), IndexError);
  CHECK(values(nn::EmbeddingBag{4, 2}.weight.tensor()).size() == 8);
  // Offsets with the end of the last bag; the mean is PyTorch's default.
  nn::EmbeddingBag ends = nn::EmbeddingBag::from_pretrained(tensor({{1.0}, {2.0}, {6.0}}), true,
                                                            {.include_last_offset = true});
  CHECK(values(ends(tensor({0, 1, 2}), tensor({0, 1, 3}))) == Values{1, 4});
  CHECK_FALSE(ends.weight->requires_grad());
}

TEST_CASE("Dropout drops in training only", "[layers]") {
  const LeakGuard guard;
  nn::Dropout drop{0.5};
  const Tensor x = ones({1000});
  const Values y = values(drop(x));
  CHECK(std::count(y.begin(), y.end(), 0.0) > 400);
  CHECK(std::count(y.begin(), y.end(), 2.0) > 400);
  CHECK(std::count(y.begin(), y.end(), 0.0) + std::count(y.begin(), y.end(), 2.0) == 1000);
  drop.eval();
  CHECK(values(drop(x)) == values(x));
  CHECK_THROWS_AS((nn::Dropout{1.5}), UsageError);
}

TEST_CASE("activations and Flatten", "[layers]") {
  const Tensor x = tensor({-1.0, 0.0, 2.0}, {.dtype = f64});
  CHECK(values(nn::ReLU{}(x)) == Values{0, 0, 2});
  CHECK(std::abs(nn::GELU{}(x)[2].item() - 1.954499736103642) < 1e-15);
  CHECK(nn::Tanh{}(x)[2].item() == std::tanh(2.0));
  CHECK(nn::Flatten{}(zeros({2, 3, 4})).shape() == Shape{2, 12});
  CHECK(nn::Flatten{0}(zeros({2, 3})).shape() == Shape{6});
}

TEST_CASE("Modules: a copy of a Sequential is the same steps, not a Sequential of one",
          "[wall][modules]") {
  const LeakGuard guard;
  nn::Sequential a{nn::Linear{2, 3}, nn::ReLU{}, [](Tensor x) { return x * 10; }};
  nn::Sequential b{a}, c = a, d{std::move(c)};
  CHECK(b.size() == 3);
  CHECK(d.size() == 3);
  CHECK(b.named_parameters()[0].name == "0.weight");
  CHECK(b.named_parameters()[0].tensor.same_as(a.named_parameters()[0].tensor));
  const Tensor x = ones({1, 2});
  CHECK(values(b(x)) == values(a(x)));
  a.push_back(nn::Linear{3, 1});
  CHECK(b.size() == 4);  // a handle
  CHECK(b(x).shape() == Shape{1, 1});
  nn::Sequential nested{b, nn::ReLU{}};
  CHECK(nested.size() == 2);
  CHECK(nested.named_parameters()[0].name == "0.0.weight");
  CHECK(nn::Sequential{}.size() == 0);
}

TEST_CASE("A convolution's kernel may come before the options, once", "[layers]") {
  const Tensor x = ones({1, 3, 9, 9});
  CHECK(nn::Conv2d{3, 8, 3}.weight->shape() == Shape{8, 3, 3, 3});
  CHECK(nn::Conv2d{3, 8, 3, {.padding = 1}}(x).shape() == Shape{1, 8, 9, 9});
  CHECK(nn::Conv1d{3, 8, 5, {.bias = false}}.weight->shape() == Shape{8, 3, 5});
  CHECK(nn::ConvTranspose2d{3, 8, 2, {.stride = 2}}(x).shape() == Shape{1, 8, 18, 18});
  CHECK(mentions(message_of([] {
                   (void)nn::Conv2d{3, 8, 3, {.kernel = 3}};
                 }),
                 "kernel is given twice"));
}
