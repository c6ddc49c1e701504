// What the rows of grid_sample cannot say: known numbers, places that are infinite, gradients on
// the borders and of places that are NaN, memory order.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/grid.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using wt_test::operator_devices;
using wt_test::random_values;

namespace {

constexpr auto kBilinear = GridSampleMode::bilinear, kNearest = GridSampleMode::nearest,
               kBicubic = GridSampleMode::bicubic;
constexpr auto kZeros = GridSamplePadding::zeros, kBorder = GridSamplePadding::border,
               kReflection = GridSamplePadding::reflection;
constexpr GridSampleMode kModes[] = {kBilinear, kNearest, kBicubic};
constexpr GridSamplePadding kPaddings[] = {kZeros, kBorder, kReflection};

// The row 1, 2, 4, 8 at places along it.
Tensor row_on(Device d) {
  return tensor({1.0, 2.0, 4.0, 8.0}, {.dtype = f64, .device = d}).reshape({1, 1, 1, 4});
}
Tensor places_on(Device d, const Values& at) {
  const Tensor x = tensor(at).reshape({1, 1, i64(at.size()), 1}).to(d);
  return cat({x, zeros_like(x)}, 3);
}
Values at_places(Device d, const Values& at, const GridSampleOptions& o) {
  return values(grid_sample(row_on(d), places_on(d, at), o));
}
bool all_nan(const Values& v) {
  return std::all_of(v.begin(), v.end(), [](double x) { return std::isnan(x); });
}

}  // namespace

TEST_CASE("grid_sample: known numbers") {
  for (const Device d : operator_devices()) (void)at_places(d, {0}, {});  // makes the mailboxes
  const LeakGuard guard;
  for (const Device d : operator_devices()) {
    CAPTURE(to_string(d));
    // Pixels 0, 0.5, 3, -1 and 4.
    const Values places{-0.75, -0.5, 0.75, -1.25, 1.25},
        corners{-1, -2.0 / 3, 1, -5.0 / 3, 5.0 / 3};
    CHECK(at_places(d, places, {}) == Values{1, 1.5, 8, 0, 0});
    CHECK(at_places(d, places, {kBilinear, kBorder}) == Values{1, 1.5, 8, 1, 8});
    CHECK(at_places(d, places, {kBilinear, kReflection}) == Values{1, 1.5, 8, 1, 8});
    CHECK(at_places(d, places, {kNearest}) == Values{1, 1, 8, 0, 0});
    CHECK(at_places(d, {0.25, 0}, {kNearest}) ==
          Values{4, 4});  // pixels 2 and 1.5, to the even one
    CHECK(at_places(d, {-0.5 + 1e-9}, {kNearest}) == Values{2});
    const Values mirrored = at_places(d, corners, {kBilinear, kReflection, true});
    const Values want{1, 1.5, 8, 2, 4};
    for (size_t i = 0; i < want.size(); ++i) CHECK(std::fabs(mirrored[i] - want[i]) < 1e-14);
    // Half way the cubic kernel is -3/32, 19/32, 19/32, -3/32.
    CHECK(at_places(d, {0}, {kBicubic}) == Values{(-3 * 1 + 19 * 2 + 19 * 4 - 3 * 8) / 32.0});
  }
}

TEST_CASE("grid_sample: the grid of the identity gives the image") {
  for (const Device d : operator_devices())
    for (const bool corners : {false, true})
      for (const bool volume : {false, true}) {
        const Shape shape = volume ? Shape{2, 3, 3, 2, 5} : Shape{2, 3, 4, 5};
        const int axes = shape.ndim() - 2;
        const Tensor x = tensor(random_values(numel_of(shape), 3)).reshape(shape).to(d);
        const Tensor theta = eye(axes, axes + 1, {.dtype = f64, .device = d})
                                 .unsqueeze(0)
                                 .expand({2, axes, axes + 1});
        const Tensor grid = affine_grid(theta, shape, {.align_corners = corners});
        for (const GridSampleMode mode : kModes) {
          if (volume && mode == kBicubic) continue;
          CAPTURE(to_string(d), corners, volume, int(mode));
          const Tensor y = grid_sample(x, grid, {mode, kBorder, corners});
          CHECK(y.shape() == shape);
          CHECK(max(abs(sub(y, x))).item() < 1e-13);
        }
      }
}

TEST_CASE("grid_sample: places that are infinite or NaN") {
  for (const Device d : operator_devices()) {
    const Values far{INFINITY, -INFINITY};
    for (const bool corners : {false, true}) {
      CAPTURE(to_string(d), corners);
      CHECK(all_nan(at_places(d, far, {kBilinear, kZeros, corners})));
      for (const GridSamplePadding p : kPaddings)
        CHECK(all_nan(at_places(d, far, {kBicubic, p, corners})));
      CHECK(at_places(d, far, {kNearest, kZeros, corners}) == Values{0, 0});
      for (const GridSampleMode mode : {kBilinear, kNearest}) {
        CHECK(at_places(d, far, {mode, kBorder, corners}) == Values{8, 1});
        CHECK(at_places(d, far, {mode, kReflection, corners}) == Values{1, 1});
        CHECK(at_places(d, {NAN}, {mode, kBorder, corners}) == Values{1});
        CHECK(at_places(d, {NAN}, {mode, kReflection, corners}) == Values{1});
      }
    }
    // Far, but finite: no pixel has a number as large.
    CHECK(at_places(d, {1e300, -1e300}, {}) == Values{0, 0});
    CHECK(at_places(d, {1e300, -1e300}, {kNearest}) == Values{0, 0});
    CHECK(at_places(d, {1e300, -1e300}, {kBilinear, kBorder}) == Values{8, 1});
  }
}

TEST_CASE("grid_sample: pixels that are not finite stay where they are") {
  for (const Device d : operator_devices()) {
    const Tensor x =
        tensor({1.0, 2.0, INFINITY, NAN}, {.dtype = f64, .device = d}).reshape({1, 1, 1, 4});
    // Outside the image nothing is read: neither the last pixel nor the first.
    const Tensor far = places_on(d, {-1.25, -1.75, 1.75, 3});
    CHECK(values(grid_sample(x, far)) == Values{0, 0, 0, 0});
    CHECK(values(grid_sample(x, places_on(d, {-0.75, -0.5}), {kBilinear, kBorder})) ==
          Values{1, 1.5});
  }
}

TEST_CASE("grid_sample: gradients of the grid on and beyond the border, and of NaN") {
  for (const Device d : operator_devices()) {
    const auto gradient = [&](const Values& at, const GridSampleOptions& o) {
      const Tensor grid = places_on(d, at).set_requires_grad();
      const Tensor g = grad(grid_sample(row_on(d), grid, o).sum(), grid);
      return values(g.select(3, 0).reshape({-1}));
    };
    CAPTURE(to_string(d));
    // Pixels 0, 3, 5, 0.5; a pixel is half of the grid's unit.
    const Values at{-0.75, 0.75, 1.75, -0.5};
    CHECK(gradient(at, {kBilinear, kBorder}) == Values{0, 0, 0, 2});
    CHECK(gradient({NAN, -0.5}, {kBilinear, kBorder}) == Values{0, 2});
    CHECK(gradient({NAN, INFINITY, -0.5}, {kBilinear, kReflection}) == Values{0, 0, 2});
    // Pixel 4.5 is 2.5 mirrored: to the left the numbers grow.
    CHECK(gradient({1.5}, {kBilinear, kReflection}) == Values{-8});
    for (const GridSamplePadding p : kPaddings)
      CHECK(gradient({-0.5, 0.3, NAN}, {kNearest, p}) == Values{0, 0, 0});
  }
}

TEST_CASE("grid_sample: nearest has no gradient of the grid, and the image's is counted") {
  for (const Device d : operator_devices()) {
    const Tensor x = row_on(d).set_requires_grad();
    const Tensor grid = places_on(d, {-0.75, -0.7, 0.75, 2}).set_requires_grad();
    grid_sample(x, grid, {kNearest}).sum().backward();
    CHECK(values(x.grad()) == Values{2, 0, 0, 1});
    CHECK(values(grid.grad()) == Values(8, 0));
  }
}

TEST_CASE("grid_sample: an image in channels_last gives one") {
  for (const i64 channels : {3, 40})
    for (const GridSampleMode mode : kModes) {
      const Tensor x = tensor(random_values(2 * channels * 4 * 5, 1)).reshape({2, channels, 4, 5});
      const Tensor grid = tensor(random_values(2 * 3 * 2 * 2, 2)).reshape({2, 3, 2, 2});
      for (const Device d : operator_devices()) {
        const Tensor plain = grid_sample(x.to(d), grid.to(d), {mode});
        const Tensor nhwc =
            grid_sample(x.to(d).to(MemoryFormat::channels_last), grid.to(d), {mode});
        CAPTURE(to_string(d), channels, int(mode));
        CHECK(plain.is_contiguous());
        CHECK(nhwc.is_contiguous(MemoryFormat::channels_last));
        CHECK(values(nhwc) == values(plain));
      }
    }
  const TensorOptions meta{.device = Device::meta()};
  CHECK(grid_sample(zeros({2, 3, 4, 5}, meta), zeros({2, 6, 7, 2}, meta)).shape() ==
        Shape{2, 3, 6, 7});
}
