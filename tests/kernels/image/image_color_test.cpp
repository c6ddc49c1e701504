// Colours of images: every variant on every device against plain loops in double and torchvision's
// numbers, and what is drawn.
#include "warptape/kernels/image_color.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/kernels/optim/optim_buffers.h"
#include "warptape/tests/reference/reader.h"

using namespace wt;
using namespace wt_test;

namespace {

View view_of(const Tensor& t) { return {t.impl()->data, &t.impl()->geometry}; }

ColorProgram drawn(const ColorRule& r, u64 seed, i64 epoch, i64 sample) {
  ColorProgram p;
  draw_colors(r, seed, epoch, sample, p);
  return p;
}

double cut(double x) { return std::min(std::max(x, 0.0), 1.0); }

// One operation on an image of planes, in double, by the book.
void apply(Values& image, i64 c, ColorOp op, double value) {
  const size_t n = image.size() / size_t(c);
  const auto grey = [&](size_t k) {
    return c == 1 ? image[k] : 0.2989 * image[k] + 0.587 * image[k + n] + 0.114 * image[k + 2 * n];
  };
  double mean = 0;
  for (size_t k = 0; k < n; ++k) mean += grey(k) / double(n);
  std::array<double, 3> least{1, 1, 1}, most{};
  for (size_t k = 0; k < image.size(); ++k)
    least[k / n] = std::min(least[k / n], image[k]), most[k / n] = std::max(most[k / n], image[k]);
  for (size_t k = 0; k < n; ++k) {
    const double g = grey(k);
    if (op == ColorOp::hue && c == 3) {
      const double r = image[k], gr = image[k + n], b = image[k + 2 * n],
                   high = std::max({r, gr, b}), range = high - std::min({r, gr, b});
      if (range == 0) continue;
      double h = high == r    ? (gr - b) / range
                 : high == gr ? 2 + (b - r) / range
                              : 4 + (r - gr) / range;
      h = h / 6 + value;
      h -= std::floor(h);
      // Kazuhiro Doi's form of the way back: v - v s max(min(k, 4 - k, 1), 0).
      for (int channel = 0; channel < 3; ++channel) {
        const double at = std::fmod((channel == 0 ? 5.0 : channel == 1 ? 3.0 : 1.0) + h * 6, 6.0);
        image[k + size_t(channel) * n] = high - range * std::max(std::min({at, 4 - at, 1.0}), 0.0);
      }
      continue;
    }
    for (size_t at = k; at < image.size(); at += n) {
      double& x = image[at];
      switch (op) {
        case ColorOp::brightness:
          x = cut(x * value);
          break;
        case ColorOp::contrast:
          x = cut(value * x + (1 - value) * mean);
          break;
        case ColorOp::saturation:
          if (c == 3) x = cut(value * x + (1 - value) * g);
          break;
        case ColorOp::grayscale:
          x = g;
          break;
        case ColorOp::posterize:
          x = std::min(std::floor(x * value), value - 1) / value;
          break;
        case ColorOp::solarize:
          if (x >= double(float(value))) x = 1 - x;
          break;
        case ColorOp::autocontrast:
          if (most[at / n] > least[at / n])
            x = cut((x - least[at / n]) / (most[at / n] - least[at / n]));
          break;
        default:
          break;
      }
    }
  }
}

ColorRule jitter(double b, double c, double s, double h) {
  ColorRule r{.ops = 15};
  const double by[] = {b, c, s};
  for (int k = 0; k < 3; ++k) r.least[k] = std::max(0.0, 1 - by[k]), r.most[k] = 1 + by[k];
  r.least[3] = -h, r.most[3] = h;
  return r;
}

// One operation with one value.
ColorRule only(int op, double value) {
  ColorRule r{.ops = u8(1 << op)};
  r.least[op] = r.most[op] = value;
  return r;
}

double worst_of(const Values& got, const Values& want) {
  REQUIRE(got.size() == want.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - want[i]));
  return worst;
}

}  // namespace

TEST_CASE("image_color: every variant against the rule", "[data]") {
  const ColorRule rules[] = {jitter(0.4, 0.4, 0.4, 0.1),
                             jitter(2, 2, 2, 0.5),
                             {.draw = ColorDraw::grayscale, .p = 0.5f},
                             {.draw = ColorDraw::augment, .augment = {.magnitude = 13}}};
  const Shape shapes[] = {{6, 3, 9, 13},  {5, 1, 12, 12}, {3, 3, 1, 1},
                          {3, 3, 50, 61}, {2, 3, 0, 5},   {0, 3, 4, 4}};
  for (const ColorRule& rule : rules)
    for (const Shape& s : shapes)
      for_each_variant<ImageColorArgs>([&](Device d, auto launch) {
        CAPTURE(s, int(rule.draw));
        const i64 n = s[0], c = s[1], each = c * s[2] * s[3];
        Values pixels;  // 255 of them: levels at which nothing is posterized
        for (i64 k = 0; k < n * each; ++k) pixels.push_back(double(mix64(u64(k)) % 255) / 254.5);
        std::vector<i64> numbers_of;
        for (i64 i = 0; i < n; ++i) numbers_of.push_back(90 - 3 * i);
        const Tensor images = tensor(pixels).reshape(s).to(f32).to(d),
                     ids = tensor(numbers_of).to(d);
        ImageColorArgs a{.rule = rule, .seed = 6, .epoch = 2};
        a.images = view_of(images), a.ids = static_cast<const i64*>(ids.impl()->data);
        const Values before = images.to_vector<double>();
        REQUIRE(launch(a));
        Values want;
        for (i64 i = 0; i < n; ++i) {
          Values image(before.begin() + i * each, before.begin() + (i + 1) * each);
          const ColorProgram p = drawn(rule, 6, 2, numbers_of[size_t(i)]);
          for (i32 k = 0; k < p.count; ++k) apply(image, c, p.op[k], double(p.value[k]));
          want.insert(want.end(), image.begin(), image.end());
        }
        CHECK(worst_of(images.to_vector<double>(), want) < 2e-5);  // hue of faint colours
      });
}

TEST_CASE("image_color: the same bits on every device", "[data]") {
  Values first;
  for_each_variant<ImageColorArgs>([&](Device d, auto launch) {
    Values pixels = numbers(40 * 3 * 17 * 23, 3);  // half of them outside of [0, 1]
    pixels[5] = std::nan("");
    const Tensor images = tensor(pixels).reshape({40, 3, 17, 23}).to(f32).to(d);
    for (const ColorRule& rule :
         {jitter(0.5, 0.5, 0.5, 0.3), ColorRule{.draw = ColorDraw::augment}}) {
      ImageColorArgs a{.rule = rule};
      a.images = view_of(images);
      REQUIRE(launch(a));
    }
    const Values got = images.to_vector<double>();
    for (const double x : got) REQUIRE((x >= 0 && x <= 1));
    if (first.empty()) first = got;
    CHECK(got == first);
  });
}

TEST_CASE("image_color: the numbers of torchvision", "[data]") {
  const reference::Arrays arrays =
      reference::load_reference(reference::reference_file("images/colors.txt"));
  const auto check = [&](const std::string& name, const std::string& from, const ColorRule& rule,
                         i64 sample) {
    for_each_variant<ImageColorArgs>([&](Device d, auto launch) {
      CAPTURE(name);
      const i64 c = arrays.at(from).shape[0];
      const Tensor images = tensor(arrays.at(from).values).reshape({1, c, 6, 9}).to(f32).to(d),
                   ids = tensor(std::vector<i64>{sample}).to(d);
      ImageColorArgs a{.rule = rule};
      a.images = view_of(images), a.ids = static_cast<const i64*>(ids.impl()->data);
      REQUIRE(launch(a));
      CHECK(worst_of(images.to_vector<double>(), arrays.at(name).values) < 3e-6);
    });
  };
  const std::map<int, std::pair<std::string, std::vector<double>>> ops{
      {0, {"brightness", {0.4, 1.7}}},
      {1, {"contrast", {0.3, 2.1}}},
      {2, {"saturation", {0.2, 1.9}}},
      {3, {"hue", {-0.45, -0.1, 0.2, 0.5}}}};
  for (const auto& [op, what] : ops)
    for (size_t k = 0; k < what.second.size(); ++k)
      check(str(what.first, "_", k), "x", only(op, what.second[k]), 0);
  check("grey_contrast", "grey_x", only(1, 2.1), 0);
  check("grayscale_0", "x", {.draw = ColorDraw::grayscale, .p = 1}, 0);
  // Of RandAugment: the sample that draws the operation, and the magnitude that has its value.
  const auto augment = [&](const std::string& name, const std::string& from, AugmentOp op,
                           i32 magnitude, i32 bins) {
    const ColorRule rule{.draw = ColorDraw::augment,
                         .augment = {.magnitude = magnitude, .bins = bins}};
    i64 sample = 0;
    while (draw_augment(rule.augment, 0, 0, sample).op != op) ++sample;
    check(name, from, rule, sample);
  };
  augment("posterize_1", "x", AugmentOp::posterize, 30, 31);
  augment("solarize_0", "x", AugmentOp::solarize, 7, 11);
  augment("solarize_1", "x", AugmentOp::solarize, 2, 11);
  augment("autocontrast_0", "narrow_x", AugmentOp::autocontrast, 9, 31);
  // All four, in the order of the reference.
  ColorRule chain{.ops = 15};
  const double values[] = {1.2, 0.7, 1.4, 0.15};
  for (int k = 0; k < 4; ++k) chain.least[k] = chain.most[k] = values[k];
  const ColorOp order[] = {ColorOp::brightness, ColorOp::contrast, ColorOp::hue,
                           ColorOp::saturation};
  i64 sample = 0;
  while (!std::equal(order, order + 4, drawn(chain, 0, 0, sample).op)) ++sample;
  check("chain", "x", chain, sample);
}

TEST_CASE("image_color: orders are even, factors in their ranges", "[data]") {
  const ColorRule rule = jitter(0.4, 0.3, 0.2, 0.1);
  std::map<std::array<int, 4>, int> orders;
  double mean[4] = {};
  const int draws = 12'000;
  for (int i = 0; i < draws; ++i) {
    const ColorProgram p = drawn(rule, 5, i % 3, i);
    REQUIRE(p.count == 4);
    std::array<int, 4> order{};
    for (int k = 0; k < 4; ++k) {
      const int op = order[size_t(k)] = int(p.op[k]);
      REQUIRE((double(p.value[k]) >= rule.least[op] - 1e-6 &&
               double(p.value[k]) <= rule.most[op] + 1e-6));
      mean[op] += double(p.value[k]) / draws;
    }
    ++orders[order];
  }
  CHECK(orders.size() == 24);
  for (const auto& [order, n] : orders) CHECK(std::abs(n - draws / 24) < 5 * std::sqrt(500));
  for (int k = 0; k < 4; ++k) CHECK(std::abs(mean[k] - (k == 3 ? 0 : 1)) < 0.012);
  CHECK(drawn(only(2, 1.5), 1, 1, 1).count == 1);
  CHECK(drawn({}, 1, 1, 1).count == 0);
  int grey = 0;
  for (int i = 0; i < draws; ++i)
    grey += drawn({.draw = ColorDraw::grayscale, .p = 0.3f}, 2, 0, i).count;
  CHECK(std::abs(grey - draws * 0.3) < 5 * std::sqrt(draws * 0.21));
  // posterize: 8 - round(4 m / 30), halves to the even one, as torch.round.
  const int bits[] = {8, 8, 8, 8, 7, 7, 7, 7, 7, 7, 7, 7, 6};
  for (i32 m = 0; m <= 12; ++m) {
    const ColorRule step{.draw = ColorDraw::augment, .augment = {.magnitude = m}};
    i64 sample = 0;
    while (draw_augment(step.augment, 0, 0, sample).op != AugmentOp::posterize) ++sample;
    CHECK(drawn(step, 0, 0, sample).value[0] == float(1 << bits[m]));
  }
}

TEST_CASE("image_color: refused arguments", "[data]") {
  for_each_variant<ImageColorArgs>([&](Device d, auto launch) {
    for (const Tensor& t :
         {zeros({1, 3, 2, 2}, {.dtype = f16, .device = d}), zeros({1, 2, 2, 2}, {.device = d}),
          zeros({1, 3, 2, 4}, {.device = d}).slice(3, {0, 4, 2})}) {
      ImageColorArgs a{};
      a.images = view_of(t);
      CHECK_FALSE(launch(a));
    }
  });
  CHECK(bad_color_rule({}) == nullptr);
  CHECK(bad_color_rule({.p = -1}) != nullptr);
  CHECK(bad_color_rule(only(0, -1)) != nullptr);
  CHECK(bad_color_rule(only(3, 0.6)) != nullptr);
  CHECK(bad_color_rule({.draw = ColorDraw::augment, .augment = {.bins = 1}}) != nullptr);
}
