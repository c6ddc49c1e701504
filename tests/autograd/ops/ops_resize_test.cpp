// What the rows of resizing cannot say: memory order, threads, NaN, roundings of 16-bit floats,
// sizes beyond 2^31, that forward and backward are each other's transpose.
#include <cmath>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/resize.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/kernels/resize.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using wt_test::operator_devices;
using wt_test::random_values;

namespace {

Tensor random_tensor(const Shape& s, u64 seed, DType t = f64) {
  return tensor(random_values(numel_of(s), seed)).reshape(s).to(t);
}
const TensorOptions kMeta{.device = Device::meta()};

}  // namespace

TEST_CASE("resize: known numbers") {
  for (const Device d : operator_devices()) {
    CAPTURE(to_string(d));
    const Tensor x = tensor({1.0, 2.0, 4.0}, {.dtype = f64, .device = d});
    const auto to = [&](i64 n, ResizeOptions o) { return values(resize_axis(x, 0, n, o)); };
    CHECK(to(6, {}) == Values{1, 1, 2, 2, 4, 4});
    CHECK(to(2, {}) == Values{1, 2});
    CHECK(to(6, {.mode = ResizeMode::linear}) == Values{1, 1.25, 1.75, 2.5, 3.5, 4});
    CHECK(to(5, {.mode = ResizeMode::linear, .align_corners = true}) == Values{1, 1.5, 2, 3, 4});
    CHECK(to(1, {.mode = ResizeMode::linear, .align_corners = true}) == Values{1});
    CHECK(to(1, {.mode = ResizeMode::linear}) == Values{2});
    CHECK(values(resize_axis_backward(ones({6}, {.dtype = f64, .device = d}), 0, 3, {})) ==
          Values{2, 2, 2});
    // A scale that the sizes do not say: steps of 1 / 1.7, not of 3 / 5.
    CHECK(to(5, {.scale = 1.7}) == Values{1, 1, 2, 2, 4});
    // f32 cannot tell 22 * 26 / 44 from 13, PyTorch's neighbour is the one before.
    const Tensor line = arange(26, {.dtype = f64, .device = d});
    CHECK(values(resize_axis(line, 0, 44))[22] == 13);
  }
}

TEST_CASE("resize: nearest and nearest_exact in whole numbers, and their gradients") {
  for (const Device d : operator_devices())
    for (const auto& [n, m] :
         {std::pair<i64, i64>{2, 82}, {2, 55}, {128, 160}, {3, 41}, {82, 2}, {100, 49}, {7, 7}}) {
      CAPTURE(to_string(d), n, m);
      const Tensor x = arange(n, {.dtype = f32, .device = d, .requires_grad = true});
      for (const bool exact : {false, true}) {
        CAPTURE(exact);
        Values want;
        Values counts(size_t(n), 0.0);
        for (i64 i = 0; i < m; ++i) {
          want.push_back(double(exact ? (2 * i + 1) * n / (2 * m) : i * n / m));
          ++counts[size_t(want.back())];
        }
        const UpsampleOptions o{
            .size = {m}, .mode = exact ? UpsampleMode::nearest_exact : UpsampleMode::nearest};
        const Tensor y = upsample(x.reshape({1, 1, n}), o);
        CHECK(values(y) == want);
        CHECK(values(grad(sum(y), x)) == counts);
        // A scale that is the quotient says the same.
        UpsampleOptions by_scale = o;
        by_scale.size = {}, by_scale.scale = {double(m) / double(n)};
        if (n == 2 || n == 7) CHECK(values(upsample(x.reshape({1, 1, n}), by_scale)) == want);
      }
    }
}

TEST_CASE("resize: a floor of products and of quotients that no double holds") {
  const i64 big = (i64(1) << 62) - 1;
  CHECK(floor_of_product(big - 1, big, big) == big - 1);
  CHECK(floor_of_product(big / 2, 4, big) == 1);
  CHECK(floor_of_product((i64(1) << 40) + 1, i64(1) << 40, (i64(1) << 40) + 3) ==
        (i64(1) << 40) - 2);
  CHECK(floor_of_product(0, big, big) == 0);
  for (const i64 k : {1, 2, 3, 41, 999'999})
    for (const double scale : {0.1, 0.3, 1.1, 3.7}) {
      const double at = std::nextafter(double(k) * scale, 0.0);
      CHECK(floor_of_quotient(at, scale, 1'000'000) == k - (std::fma(double(k), scale, -at) > 0));
    }
  CHECK(floor_of_quotient(1, 1e-320, 9) == 9);  // an infinite quotient
}

TEST_CASE("resize: one axis and its transpose, <A x, y> = <x, A' y>") {
  for (const Device d : operator_devices())
    for (const ResizeMode mode :
         {ResizeMode::nearest, ResizeMode::linear, ResizeMode::nearest_exact})
      for (const bool corners : {false, true})
        for (const auto& [n, m] : {std::pair<i64, i64>{5, 9},
                                   {9, 5},
                                   {1, 7},
                                   {7, 1},
                                   {4, 8},
                                   {6, 6},
                                   {2, 31},
                                   {31, 2}}) {
          const ResizeOptions o{mode, corners};
          CAPTURE(to_string(d), n, m, corners, int(mode));
          const Tensor x = random_tensor({3, n, 2}, 1).to(d);
          const Tensor y = random_tensor({3, m, 2}, 2).to(d);
          const double a = mul(resize_axis(x, 1, m, o), y).sum().item();
          const double b = mul(x, resize_axis_backward(y, 1, n, o)).sum().item();
          CHECK(std::fabs(a - b) < 1e-13);
        }
}

TEST_CASE("resize: equal bits whatever the layout, the axis and the number of threads") {
  const int threads = num_threads();
  const Tensor x = random_tensor({2, 70, 40, 30}, 3, f32);
  const Tensor nhwc = x.to(MemoryFormat::channels_last);
  std::vector<Values> first;
  for (const int n : {1, 2, 5}) {
    set_num_threads(n);
    std::vector<Values> now;
    for (const UpsampleMode mode : {UpsampleMode::nearest, UpsampleMode::bilinear}) {
      const Tensor y = upsample(x, {.size = {61, 47}, .mode = mode});
      const Tensor z = upsample(nhwc, {.size = {61, 47}, .mode = mode});
      CHECK(y.is_contiguous());
      CHECK(z.is_contiguous(MemoryFormat::channels_last));
      CHECK(values(y) == values(z));
      const ResizeOptions o{mode == UpsampleMode::nearest ? ResizeMode::nearest
                                                          : ResizeMode::linear};
      for (const i64 axis : {1, 2, 3}) {
        now.push_back(values(resize_axis_backward(x, axis, 23, o)));
        CHECK(now.back() == values(resize_axis_backward(nhwc, axis, 23, o)));
      }
      now.push_back(values(y));
    }
    if (first.empty()) first = now;
    CHECK(now == first);
  }
  set_num_threads(threads);
}

TEST_CASE("resize: NaN and inf reach only what is made of them") {
  for (const Device d : operator_devices()) {
    CAPTURE(to_string(d));
    const Tensor x = tensor({1.0, INFINITY, 3.0, NAN, 5.0}, {.device = d});
    const Values y = values(resize_axis(x, 0, 9, {ResizeMode::linear, true}));
    CHECK(y[0] == 1);
    CHECK(y[1] == INFINITY);
    CHECK(y[2] == INFINITY);
    CHECK(y[4] == 3);  // weight 0 of NaN is nothing
    CHECK(std::isnan(y[5]));
    CHECK(y[8] == 5);
  }
}

TEST_CASE("upsample: 16-bit floats are rounded once") {
  for (const DType t : {f16, bf16}) {
    const Tensor x = random_tensor({1, 2, 5, 7}, 4, t);
    const UpsampleOptions o{.size = {9, 12}, .mode = UpsampleMode::bilinear};
    CHECK(values(upsample(x, o)) == values(upsample(x.to(f32), o).to(t)));
  }
}

TEST_CASE("upsample: one number stands for all axes; the same size is a copy") {
  const Tensor x = random_tensor({1, 2, 4, 4}, 5);
  CHECK(values(upsample(x, {.size = {6}, .mode = UpsampleMode::linear})) ==
        values(upsample(x, {.size = {6, 6}, .mode = UpsampleMode::bilinear})));
  CHECK(upsample(x, {.scale = {1.5}}).shape() == Shape{1, 2, 6, 6});
  const Tensor same = upsample(x, {.size = {4}});
  CHECK(same.data<double>() != x.data<double>());
  CHECK(values(same) == values(x));
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)upsample(x, {.size = {4, 5, 6}}); });
  CHECK(text.substr(0, text.find("\n  at")) ==
        "ShapeError: [upsample] 3 sizes or scales for 2 axes\n  operand 0: [1, 2, 4, 4] f64 cpu");
  CHECK(mentions(text, str("ops_resize_test.cpp:", line)));
}

TEST_CASE("upsample: sizes beyond 2^31 elements") {
  const LeakGuard guard;
  const i64 live = memory::stats(Device::cpu()).live;
  const i64 huge = i64(1) << 32;
  CHECK(upsample(empty({1, 1, huge}, kMeta), {.scale = {2}}).shape() == Shape{1, 1, 2 * huge});
  CHECK(upsample(empty({2, 3, 1 << 15, 1 << 15}, kMeta),
                 {.size = {1 << 16, 1 << 17}, .mode = UpsampleMode::bilinear})
            .shape() == Shape{2, 3, 1 << 16, 1 << 17});
  CHECK_THROWS_AS((void)upsample(empty({1, 1, huge}, kMeta), {.scale = {0x1p31}}), ShapeError);
  CHECK(memory::stats(Device::cpu()).live == live);
  // An axis of 2^40 elements that are few: far indices are found.
  const Tensor x = expand(tensor({1.0, 2.0}).reshape({2, 1}), {2, i64(1) << 40});
  CHECK(values(resize_axis(x, 1, 3, {ResizeMode::linear, true})) == Values{1, 1, 1, 2, 2, 2});
  CHECK(values(resize_axis(x, 1, 2)) == Values{1, 1, 2, 2});
}
