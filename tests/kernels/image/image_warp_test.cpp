// Warped images: every variant on every device against plain loops in double and torchvision's
// numbers, and what is drawn.
#include "warptape/kernels/image_warp.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "warptape/autograd/ops/shape.h"
#include "warptape/tests/kernels/optim/optim_buffers.h"
#include "warptape/tests/reference/reader.h"

using namespace wt;
using namespace wt_test;

namespace {

View view_of(const Tensor& t) { return {t.impl()->data, &t.impl()->geometry}; }

// Where pixel (x, y) is taken from, in double; of nearest pixels whether two are as near.
struct Place {
  double x, y;
  bool tie() const {
    const auto half = [](double v) { return std::abs(v - std::floor(v) - 0.5) < 1e-3; };
    return half(x) || half(y);
  }
};
Place place_of(const ImageWarp& w, i64 x, i64 y) {
  const double u = double(x) - double(w.middle_x), v = double(y) - double(w.middle_y);
  return {double(w.xx) * u + double(w.xy) * v + double(w.x0),
          double(w.yx) * u + double(w.yy) * v + double(w.y0)};
}

struct Shapes {
  i64 n, c, h, w;
};

}  // namespace

TEST_CASE("image_warp: every variant against the rule, for all dtypes and layouts", "[data]") {
  const WarpRule rules[] = {
      {.angle_least = -180, .angle_most = 180},
      {.draw = WarpDraw::rotation, .bilinear = true, .angle_least = 10, .angle_most = 40},
      {.bilinear = true,
       .angle_least = -30,
       .angle_most = 30,
       .translate_x = 0.3,
       .translate_y = 0.2,
       .scale_least = 0.5,
       .scale_most = 2,
       .shear_x_least = -20,
       .shear_x_most = 20,
       .shear_y_most = 10},
      {.draw = WarpDraw::augment, .bilinear = true}};
  const Shapes shapes[] = {{5, 3, 9, 13},  {3, 1, 28, 28}, {2, 4, 5, 1}, {2, 2, 1, 1},
                           {2, 3, 40, 33}, {3, 3, 0, 5},   {0, 3, 4, 4}, {2, 0, 3, 3}};
  for (const WarpRule& rule : rules)
    for (const Shapes& s : shapes)
      for (const DType t : {DType::u8, f32, f16, bf16})
        for (const bool last : {false, true})
          for_each_variant<ImageWarpArgs>([&](Device d, auto launch) {
            CAPTURE(s.n, s.c, s.h, s.w, dtype_name(t), last, rule.bilinear);
            Values pixels;
            for (i64 k = 0; k < s.n * s.c * s.h * s.w; ++k)
              pixels.push_back(double(mix64(u64(k)) % 256));
            Tensor images = tensor(pixels).reshape({s.n, s.c, s.h, s.w}).to(t).to(d);
            if (last) images = images.permute({0, 2, 3, 1}).contiguous().permute({0, 3, 1, 2});
            std::vector<i64> numbers_of;
            for (i64 i = 0; i < s.n; ++i) numbers_of.push_back(50 - 3 * i);
            const Tensor ids = tensor(numbers_of).to(d),
                         out = full({s.n, s.c, s.h, s.w}, 77, {.dtype = f32, .device = d});
            ImageWarpArgs a{.rule = rule, .scale = 0.5f, .seed = 6, .epoch = 2};
            a.out = view_of(out), a.images = view_of(images);
            a.ids = static_cast<const i64*>(ids.impl()->data);
            for (int c = 0; c < 4; ++c) a.fill[c] = float(10 * c) - 3;
            REQUIRE(launch(a));
            const Values got = out.to_vector<double>();
            double worst = 0;
            for (i64 i = 0; i < s.n; ++i) {
              const ImageWarp w = draw_warp(rule, 6, 2, numbers_of[size_t(i)], i32(s.w), i32(s.h));
              for (i64 k = 0; k < s.c * s.h * s.w; ++k) {
                const i64 c = k / (s.h * s.w);
                const Place p = place_of(w, k % s.w, k / s.w % s.h);
                const auto at = [&](double x, double y) {
                  if (x < 0 || y < 0 || x >= double(s.w) || y >= double(s.h))
                    return double(a.fill[c]);
                  return 0.5 * pixels[size_t(((i * s.c + c) * s.h + i64(y)) * s.w + i64(x))];
                };
                if (!rule.bilinear && p.tie()) continue;
                const double x = std::floor(p.x), y = std::floor(p.y), fx = p.x - x, fy = p.y - y;
                const double want = rule.bilinear
                                        ? (1 - fy) * ((1 - fx) * at(x, y) + fx * at(x + 1, y)) +
                                              fy * ((1 - fx) * at(x, y + 1) + fx * at(x + 1, y + 1))
                                        : at(std::floor(p.x + 0.5), std::floor(p.y + 0.5));
                worst = std::max(worst, std::abs(got[size_t(i * s.c * s.h * s.w + k)] - want));
              }
            }
            CHECK(worst < 2e-3);  // of [0, 128]; places are within 1e-5 of a pixel
          });
}

TEST_CASE("image_warp: the same bits on every device", "[data]") {
  for (const bool bilinear : {false, true}) {
    Values first;
    for_each_variant<ImageWarpArgs>([&](Device d, auto launch) {
      const Tensor images = tensor(numbers(20 * 3 * 24 * 20, 3)).reshape({20, 3, 24, 20}).to(f32),
                   in = images.to(d), out = empty({20, 3, 24, 20}, {.dtype = f32, .device = d});
      ImageWarpArgs a{.rule = {.bilinear = bilinear, .angle_most = 360, .scale_least = 0.7}};
      a.out = view_of(out), a.images = view_of(in);
      REQUIRE(launch(a));
      if (first.empty()) first = out.to_vector<double>();
      CHECK(out.to_vector<double>() == first);
    });
  }
}

TEST_CASE("image_warp: the numbers of torchvision's rotate and affine", "[data]") {
  const reference::Arrays arrays =
      reference::load_reference(reference::reference_file("images/warps.txt"));
  struct Case {
    std::string name;
    WarpRule rule;
    i64 sample = 0;
  };
  std::vector<Case> cases;
  for (const bool bilinear : {false, true}) {
    const std::string name = bilinear ? "bilinear" : "nearest";
    WarpRule rotate{.draw = WarpDraw::rotation, .bilinear = bilinear};
    rotate.angle_least = rotate.angle_most = 33;
    cases.push_back({"rotate_" + name, rotate});
    WarpRule affine{.bilinear = bilinear};  // without translations, which are drawn
    affine.angle_least = affine.angle_most = 17;
    affine.scale_least = affine.scale_most = 1.3;
    affine.shear_x_least = affine.shear_x_most = 11;
    affine.shear_y_least = affine.shear_y_most = -6;
    cases.push_back({"affine_" + name, affine});
    WarpRule shrink{.bilinear = bilinear};
    shrink.angle_least = shrink.angle_most = -140;
    shrink.scale_least = shrink.scale_most = 0.6;
    shrink.shear_y_least = shrink.shear_y_most = 20;
    cases.push_back({"shrink_" + name, shrink});
  }
  const char* const names[] = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"};
  for (int k = 0; k < 5; ++k)
    for (const double sign : {1.0, -1.0}) {
      Case c{names[k] + std::string(sign > 0 ? "_more" : "_less"),
             {.draw = WarpDraw::augment, .bilinear = true, .augment = {.magnitude = 20}}};
      for (DrawnAugment drawn; drawn = draw_augment(c.rule.augment, 0, 0, c.sample),
                               int(drawn.op) != int(AugmentOp::shear_x) + k || drawn.sign != sign;)
        ++c.sample;
      cases.push_back(c);
    }
  for (const Case& c : cases)
    for_each_variant<ImageWarpArgs>([&](Device d, auto launch) {
      CAPTURE(c.name);
      const Tensor in = tensor(arrays.at("x").values).reshape({1, 3, 7, 10}).to(f32).to(d),
                   out = empty({1, 3, 7, 10}, {.dtype = f32, .device = d}),
                   ids = tensor(std::vector<i64>{c.sample}).to(d);
      ImageWarpArgs a{.rule = c.rule};
      a.out = view_of(out), a.images = view_of(in);
      a.ids = static_cast<const i64*>(ids.impl()->data);
      // tools/generators/make_image_reference.py says why what is bilinear has no fill there.
      if (!c.rule.bilinear) a.fill[0] = 0.25f, a.fill[1] = 0.5f, a.fill[2] = 0.75f;
      REQUIRE(launch(a));
      const Values got = out.to_vector<double>(), &want = arrays.at(c.name).values;
      REQUIRE(got.size() == want.size());
      double worst = 0;
      for (size_t i = 0; i < got.size(); ++i) worst = std::max(worst, std::abs(got[i] - want[i]));
      CHECK(worst < 1e-5);
    });
}

TEST_CASE("image_warp: matrices are torchvision's, with translations and both shears", "[data]") {
  // transforms.functional._get_inverse_affine_matrix, in double.
  const auto radians = [](double degrees) { return degrees * std::numbers::pi / 180; };
  for (const double angle : {-720.0, -33.0, 0.0, 45.0, 90.0, 359.0})
    for (const double shear : {-40.0, 0.0, 15.0}) {
      const double rot = radians(angle), sx = radians(shear), sy = radians(-shear / 3), scale = 1.3,
                   tx = 3, ty = -4;
      const double a = std::cos(rot - sy) / std::cos(sy),
                   b = -std::cos(rot - sy) * std::tan(sx) / std::cos(sy) - std::sin(rot),
                   c = std::sin(rot - sy) / std::cos(sy),
                   e = -std::sin(rot - sy) * std::tan(sx) / std::cos(sy) + std::cos(rot);
      const wt::detail::WarpMatrix m =
          wt::detail::affine_matrix(angle, tx, ty, scale, shear, -shear / 3);
      CAPTURE(angle, shear);
      CHECK(std::abs(m.xx - e / scale) < 1e-12);
      CHECK(std::abs(m.xy + b / scale) < 1e-12);
      CHECK(std::abs(m.yx + c / scale) < 1e-12);
      CHECK(std::abs(m.yy - a / scale) < 1e-12);
      CHECK(std::abs(m.x0 - (-e * tx + b * ty) / scale) < 1e-12);
      CHECK(std::abs(m.y0 - (c * tx - a * ty) / scale) < 1e-12);
    }
}

TEST_CASE("image_warp: what is drawn lies in its range and follows sample, epoch, seed", "[data]") {
  const WarpRule rule{.translate_x = 0.25, .translate_y = 0.5};
  const int draws = 5000;
  double mean = 0, square = 0;
  std::vector<int> moves(21, 0);
  for (int i = 0; i < draws; ++i) {
    const ImageWarp w = draw_warp(rule, 3, i % 5, i, 40, 8);
    const double move = double(w.middle_x - w.x0), down = double(w.middle_y - w.y0);
    REQUIRE((w.xx == 1 && w.xy == 0 && std::abs(move) <= 10 && std::abs(down) <= 4));
    REQUIRE(move == std::round(move));
    ++moves[size_t(move + 10)];
    const ImageWarp turned = draw_warp({.angle_least = 20, .angle_most = 50}, 3, i % 5, i, 40, 8);
    const double angle = std::atan2(double(turned.xy), double(turned.xx)) * 180 / std::numbers::pi;
    REQUIRE((angle > 19.99 && angle < 50.01));
    mean += angle / draws, square += angle * angle / draws;
  }
  CHECK(std::abs(mean - 35) < 5 * std::sqrt(75.0 / draws));
  CHECK(std::abs(square - mean * mean - 75) < 5);
  for (size_t k = 1; k < 20; ++k) CHECK(std::abs(moves[k] - draws / 20) < 80);
  const WarpRule any{.angle_most = 360};
  const auto angle = [&](u64 seed, i64 epoch, i64 sample) {
    return draw_warp(any, seed, epoch, sample, 8, 8).xx;
  };
  CHECK(angle(1, 2, 3) == angle(1, 2, 3));
  CHECK(angle(1, 2, 3) != angle(2, 2, 3));
  CHECK(angle(1, 2, 3) != angle(1, 3, 3));
  CHECK(angle(1, 2, 3) != angle(1, 2, 4));
  std::vector<int> ops(size_t(kAugmentOps), 0);
  for (int i = 0; i < 12'000; ++i) ++ops[size_t(draw_augment({}, 1, 0, i).op)];
  for (const int n : ops) CHECK(std::abs(n - 1000) < 160);
}

TEST_CASE("image_warp: refused arguments", "[data]") {
  for_each_variant<ImageWarpArgs>([&](Device d, auto launch) {
    const auto takes = [&](const Tensor& out, const Tensor& images) {
      ImageWarpArgs a{};
      a.out = view_of(out), a.images = view_of(images);
      return launch(a);
    };
    const Tensor good = zeros({1, 3, 2, 2}, {.device = d});
    CHECK(takes(zeros({1, 3, 2, 2}, {.device = d}), good));
    CHECK_FALSE(takes(zeros({1, 3, 2, 2}, {.dtype = f16, .device = d}), good));
    CHECK_FALSE(takes(zeros({1, 3, 2, 3}, {.device = d}), good));
    CHECK_FALSE(takes(zeros({1, 3, 2, 2}, {.device = d}), good.to(f64)));
    const Tensor five = zeros({1, 5, 2, 2}, {.device = d});
    CHECK_FALSE(takes(zeros({1, 5, 2, 2}, {.device = d}), five));
    CHECK_FALSE(takes(zeros({1, 3, 2, 4}, {.device = d}).slice(3, {0, 4, 2}), good));
  });
  CHECK(bad_warp_rule({}) == nullptr);
  CHECK(bad_warp_rule({.angle_least = 1}) != nullptr);
  CHECK(bad_warp_rule({.translate_x = 2}) != nullptr);
  CHECK(bad_warp_rule({.scale_least = 0}) != nullptr);
  CHECK(bad_warp_rule({.shear_x_most = 90}) != nullptr);
  CHECK(bad_warp_rule({.draw = WarpDraw::augment, .augment = {.magnitude = 31}}) != nullptr);
}
