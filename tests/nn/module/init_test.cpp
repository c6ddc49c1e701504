// Initialisers: distributions, bounds, refusals, and what the layers begin with.
#include "warptape/nn/init.h"

#include <algorithm>
#include <cmath>

#include "warptape/autograd/ops/matmul.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"

using namespace wt;
namespace init = wt::nn::init;

namespace {

struct Stats {
  double low, high, mean, std;
};
Stats stats_of(const Tensor& t) {
  const Values v = values(t);
  Stats s{v[0], v[0], 0, 0};
  for (const double x : v) s.low = std::min(s.low, x), s.high = std::max(s.high, x), s.mean += x;
  s.mean /= double(v.size());
  for (const double x : v) s.std += (x - s.mean) * (x - s.mean);
  s.std = std::sqrt(s.std / double(v.size()));
  return s;
}
// U(-bound, bound), drawn often enough to come near both ends.
bool is_uniform(const Tensor& t, double bound) {
  const Stats s = stats_of(t);
  INFO(s.low << " .. " << s.high << ", bound " << bound);
  return s.low >= -bound && s.high <= bound && s.high - s.low > 1.9 * bound &&
         std::fabs(s.std - bound / std::sqrt(3.0)) < 0.1 * bound;
}
bool is_normal(const Tensor& t, double std) {
  const Stats s = stats_of(t);
  INFO(s.std << ", wanted " << std);
  return std::fabs(s.std - std) < 0.05 * std && std::fabs(s.mean) < 0.1 * std &&
         s.high > 2.5 * std && s.low < -2.5 * std;
}

}  // namespace

TEST_CASE("calculate_gain and fans are PyTorch's", "[init]") {
  using init::Nonlinearity;
  CHECK(init::calculate_gain(Nonlinearity::linear) == 1);
  CHECK(init::calculate_gain(Nonlinearity::conv) == 1);
  CHECK(init::calculate_gain(Nonlinearity::sigmoid) == 1);
  CHECK(init::calculate_gain(Nonlinearity::tanh) == 5.0 / 3);
  CHECK(init::calculate_gain(Nonlinearity::relu) == std::sqrt(2.0));
  CHECK(init::calculate_gain(Nonlinearity::leaky_relu) == std::sqrt(2 / (1 + 1e-4)));
  CHECK(init::calculate_gain(Nonlinearity::leaky_relu, 2) == std::sqrt(0.4));
  CHECK(init::calculate_gain(Nonlinearity::selu) == 0.75);
  const init::Fans f = init::fans_of(zeros({5, 4, 3, 2}));
  CHECK(f.in == 24);
  CHECK(f.out == 30);
}

TEST_CASE("xavier and kaiming draw from their intervals and widths", "[init][random]") {
  manual_seed(11);
  const Tensor w = zeros({50, 20, 4});  // fans 80 and 200
  init::xavier_uniform_(w);
  CHECK(is_uniform(w, std::sqrt(6.0 / 280)));
  init::xavier_uniform_(w, 3);
  CHECK(is_uniform(w, 3 * std::sqrt(6.0 / 280)));
  init::xavier_normal_(w, 2);
  CHECK(is_normal(w, 2 * std::sqrt(2.0 / 280)));
  init::kaiming_uniform_(w);
  CHECK(is_uniform(w, std::sqrt(2.0) * std::sqrt(3.0 / 80)));
  init::kaiming_uniform_(w, {.a = std::sqrt(5.0)});
  CHECK(is_uniform(w, 1 / std::sqrt(80.0)));
  init::kaiming_uniform_(w, {.mode = init::FanMode::fan_out});
  CHECK(is_uniform(w, std::sqrt(2.0) * std::sqrt(3.0 / 200)));
  init::kaiming_normal_(w, {.nonlinearity = init::Nonlinearity::tanh});
  CHECK(is_normal(w, 5.0 / 3 / std::sqrt(80.0)));
}

TEST_CASE("trunc_normal_ is a normal distribution without its tails", "[init][random]") {
  manual_seed(3);
  const Tensor w = zeros({20000}, {.dtype = f64});
  init::trunc_normal_(w);
  Stats s = stats_of(w);
  CHECK(s.low >= -2);
  CHECK(s.high <= 2);
  CHECK(s.high - s.low > 3.9);
  CHECK(std::fabs(s.std - 0.87962566) < 0.02);  // of the standard normal cut at 2
  CHECK(std::fabs(s.mean) < 0.02);
  init::trunc_normal_(w, 1, 0.5, 3, 4);  // four widths away: nearly all at the lower end
  s = stats_of(w);
  CHECK(s.low >= 3);
  CHECK(s.high <= 4);
  CHECK(std::fabs(s.mean - 3.1128) < 0.01);  // 1 + 0.5 (phi(4) - phi(6)) / (Phi(6) - Phi(4))
  init::trunc_normal_(w, 0, 1, -INFINITY, INFINITY);
  CHECK(is_normal(w, 1));
  CHECK(mentions(message_of([&] { init::trunc_normal_(w, 0, 1, 2, 2); }), "low 2, high 2"));
  CHECK_THROWS_AS(init::trunc_normal_(w, 0, 0), UsageError);
}

TEST_CASE("orthogonal_ makes rows or columns orthonormal", "[init][random]") {
  for (const auto& shape : {Shape{7, 12}, Shape{12, 7}, Shape{9, 9}, Shape{4, 3, 5}, Shape{1, 1}}) {
    CAPTURE(shape);
    const Tensor w = zeros(shape, {.dtype = f64});
    init::orthogonal_(w, 2);
    const Tensor m = w.view({shape[0], w.numel() / shape[0]});
    const bool wide = m.size(0) <= m.size(1);
    const Values product = values(wide ? matmul(m, m.t()) : matmul(m.t(), m));
    const size_t n = size_t(std::min(m.size(0), m.size(1)));
    double off = 0;
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j)
        off = std::max(off, std::fabs(product[i * n + j] - (i == j ? 4.0 : 0.0)));
    CHECK(off < 1e-13);
  }
  CHECK_THROWS_AS(init::orthogonal_(zeros({3})), ShapeError);
}

TEST_CASE("ones_, zeros_, eye_; fans need two axes", "[init]") {
  const Tensor w = zeros({2, 3});
  init::ones_(w);
  CHECK(values(w) == Values(6, 1));
  init::eye_(w);
  CHECK(values(w) == Values{1, 0, 0, 0, 1, 0});
  init::zeros_(w);
  CHECK(values(w) == Values(6, 0));
  CHECK_THROWS_AS(init::eye_(zeros({3})), ShapeError);
  CHECK(mentions(message_of([] { init::kaiming_normal_(zeros({3})); }),
                 "[kaiming_normal_] needs at least 2 axes, got [3]"));
  CHECK(mentions(message_of([] { init::xavier_uniform_(zeros({3})); }), "[xavier_uniform_]"));
}

TEST_CASE("layers begin as PyTorch's do", "[init][layers][random]") {
  manual_seed(21);
  const nn::Conv2d conv{16, 32, {.kernel = {3, 2}, .groups = 2}};
  CHECK(is_uniform(conv.weight, 1 / std::sqrt(8.0 * 6)));
  const Stats bias = stats_of(conv.bias);
  CHECK(std::max(-bias.low, bias.high) <= 1 / std::sqrt(48.0));
  CHECK(bias.high - bias.low > 1.5 / std::sqrt(48.0));
  const nn::ConvTranspose1d up{16, 32, {.kernel = 4}};
  CHECK(is_uniform(up.weight, 1 / std::sqrt(32.0 * 4)));
  CHECK(values(nn::PReLU{{.num_parameters = 2}}.weight) == Values{0.25, 0.25});
  CHECK(values(nn::InstanceNorm1d{2, {.affine = true}}.weight) == Values{1, 1});
  CHECK(is_normal(nn::Embedding{100, 40}.weight, 1));
}
