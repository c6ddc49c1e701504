// wt::capture(): results, guards, new shapes, dropout, and functions that cannot be captured.
#include "warptape/autograd/capture.h"

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/core/stream.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using wt_test::Warnings;

namespace {

const Device kSimt = Device::simt();

std::vector<float> values(const Tensor& t) { return t.to_vector<float>(); }

template <class F>
void on_devices(const F& f) {
  for (const Device d : wt_test::kernel_devices()) {
    if (d.kind == DeviceKind::cpu) continue;
    INFO(to_string(d));
    f(d);
    if (d.kind != DeviceKind::simt) continue;
    const WithStreams lazy(SimtStreams::lazy, 5);
    f(d);
  }
}

Tensor input(Device d, i64 rows, u64 seed) {
  Generator g(seed);
  Generator* const before = mode.generator;
  mode.generator = &g;
  const Tensor x = rand({rows, 6});
  mode.generator = before;
  return x.to(d);
}

}  // namespace

TEST_CASE("capture: replays have the function's bits", "[capture]") {
  on_devices([](Device d) {
    manual_seed(1);
    nn::Sequential net{nn::Linear{6, 32}, nn::ReLU{}, nn::Linear{32, 4}};
    net.to(d);
    int calls = 0;
    const auto f = [&](const Tensor& x) {
      ++calls;
      return softmax(net(x), -1);
    };
    auto captured = capture(f, input(d, 5, 0));
    for (u64 i = 0; i < 8; ++i) {
      const Tensor x = input(d, i % 2 ? 5 : 9, i);
      CHECK(values(captured(x)) == values(softmax(net(x), -1)));
    }
    CHECK(captured.captures() == 2);
    CHECK(captured.why_eager() == "");
    // As it is, and for each shape a warm-up and a capture; the second one may be repeated, because
    // the first one's results stay.
    CHECK((calls >= 5 && calls <= 7));
    CHECK(captured.memory_bytes() > 0);
    // Results lie where they lay, and a tape that had saved them notices.
    const Tensor first = captured(input(d, 5, 1));
    const u32 version = first.version();
    const Tensor again = captured(input(d, 5, 2));
    CHECK(first.impl()->data == again.impl()->data);
    CHECK(first.version() == version + 1);
    CHECK_FALSE(first.requires_grad());
    // Parameters that are written are read; those that move are captured anew.
    {
      const NoGrad no_grad;
      Tensor w = net.parameters()[0];
      w.mul_(2.0);
    }
    const Tensor x = input(d, 5, 3);
    CHECK(values(captured(x)) == values(softmax(net(x), -1)));
    net.to(Device::cpu());
    net.to(d);
    for (int i = 0; i < 4; ++i) CHECK(values(captured(x)) == values(softmax(net(x), -1)));
  });
}

TEST_CASE("capture: several arguments and results, and gradients inside", "[capture]") {
  on_devices([](Device d) {
    const auto two = [](const Tensor& a, const Tensor& b) {
      return std::array{add(a, b), mul(a, b)};
    };
    auto captured = capture(two, ones({3}, {.device = d}), ones({3}, {.device = d}));
    for (int i = 1; i < 5; ++i) {
      const Tensor a = full({3}, double(i), {.device = d}), b = full({3}, 2.0, {.device = d});
      const auto [s, p] = captured(a, b);
      CHECK(values(s) == std::vector<float>(3, float(i + 2)));
      CHECK(values(p) == std::vector<float>(3, float(2 * i)));
    }
    // A derivative: the tape lives and dies inside.
    const auto slope = [](const Tensor& x) {
      const Tensor leaf = x.detach().set_requires_grad();
      return grad(sum(mul(leaf, mul(leaf, leaf))), leaf);
    };
    auto cube = capture(slope, ones({3}, {.device = d}));
    for (int i = 1; i < 5; ++i)
      CHECK(values(cube(full({3}, double(i), {.device = d}))) ==
            std::vector<float>(3, float(3 * i * i)));
    CHECK(cube.captures() == 1);
    // Nothing is returned.
    Tensor total = zeros({3}, {.device = d});
    auto adds = capture([&](const Tensor& x) { total.add_(x); }, ones({3}, {.device = d}));
    for (int i = 0; i < 6; ++i) adds(ones({3}, {.device = d}));
    CHECK(values(total) == std::vector<float>(3, 6));
    CHECK(adds.captures() == 1);
  });
}

TEST_CASE("capture: dropout draws what it would have drawn", "[capture]") {
  on_devices([](Device d) {
    const auto draw = [](const Tensor& x) { return add(dropout(x, 0.5), dropout(x, 0.25)); };
    const auto all = [&](auto&& f) {
      manual_seed(9);
      std::vector<float> drawn;
      const Tensor x = ones({50}, {.device = d});
      for (int i = 0; i < 8; ++i) {
        if (i == 5) (void)dropout(x, 0.5);  // beside it
        if (i == 6) manual_seed(10);
        const std::vector<float> v = values(f(x));
        drawn.insert(drawn.end(), v.begin(), v.end());
      }
      drawn.push_back(float(generator().calls(RandomStream::dropout)));
      return drawn;
    };
    auto captured = capture(draw, ones({50}, {.device = d}));
    CHECK(all(captured) == all(draw));
    CHECK(captured.captures() == 1);  // anew for the new seed
    CHECK(all(captured) == all(draw));
  });
}

TEST_CASE("capture: guards name both sides", "[capture]") {
  auto captured = capture(
      CaptureOptions{.max_shapes = 2}, [](const Tensor& x) { return neg(x); },
      ones({3, 4}, {.device = kSimt}));
  const auto refused = [&](const Tensor& x) { return message_of([&] { (void)captured(x); }); };
  CHECK(mentions(refused(ones({3, 4})), "[capture] captured on simt, called on cpu"));
  CHECK(mentions(refused(ones({3, 4}, {.dtype = f64, .device = kSimt})),
                 "[capture] captured for f32, called with f64\n  argument 1: [3, 4] f64 simt"));
  CHECK(
      mentions(refused(ones({3}, {.device = kSimt})), "captured for 2 dimensions, called with 1"));
  CHECK(mentions(refused(Tensor()), "undefined"));
  for (const i64 n : {1, 1, 2}) (void)captured(ones({n, 4}, {.device = kSimt}));
  const std::string text = refused(ones({7, 4}, {.device = kSimt}));
  CHECK(mentions(text,
                 "called with [7, 4] after 2 other sets of shapes, the last [2, 4], where "
                 "max_shapes is 2"));
  CHECK(mentions(text, "capture_test.cpp:"));
  CHECK(values(captured(ones({2, 4}, {.device = kSimt}))) == std::vector<float>(8, -1));
  CHECK_THROWS_AS(capture([](const Tensor& x) { return x; }, Tensor()), UsageError);
  CHECK_THROWS_AS(
      capture(
          CaptureOptions{.max_shapes = 0}, [](const Tensor& x) { return x; }, ones({1})),
      UsageError);
  CHECK_THROWS_AS(capture([](const Tensor& x, const Tensor&) { return x; }, ones({1}),
                          ones({1}, {.device = kSimt})),
                  PlacementError);
}

TEST_CASE("capture: a function that looks at values runs itself, with one line about it",
          "[capture]") {
  const Warnings heard;
  int line = 0, calls = 0;
  const auto f = [&](const Tensor& x) {
    ++calls;
    line = __LINE__ + 1;
    return sum(x).item() > 0 ? mul(x, 2.0) : neg(x);
  };
  auto captured = capture(f, ones({3}, {.device = kSimt}));
  for (int i = 0; i < 8; ++i) {
    const double v = i % 2 ? 1 : -1;
    CHECK(values(captured(full({3}, v, {.device = kSimt}))) ==
          std::vector<float>(3, v > 0 ? 2.0F : 1.0F));
  }
  CHECK(captured.captures() == 0);
  CHECK(calls == 9);  // the capture that was given up
  CHECK(mentions(captured.why_eager(), "[item] a graph cannot hold this: the host waits"));
  CHECK(mentions(captured.why_eager(), "capture_test.cpp:" + std::to_string(line)));
  REQUIRE(wt_test::warnings().size() == 1);
  CHECK(mentions(wt_test::warnings()[0], "runs its function each time: [item]"));
  CHECK(wt_test::warnings()[0].find('\n') == std::string::npos);

  auto on_cpu = capture([](const Tensor& x) { return mul(x, 3.0); }, ones({2}));
  CHECK(mentions(on_cpu.why_eager(), "the cpu launches nothing"));  // before any call
  for (int i = 0; i < 4; ++i) CHECK(values(on_cpu(ones({2}))) == std::vector<float>(2, 3));
  REQUIRE(wt_test::warnings().size() == 2);
  CHECK(mentions(wt_test::warnings()[1], "capture() does nothing on the cpu"));
  CHECK(wt_test::warnings()[1].find('\n') == std::string::npos);
}

TEST_CASE("capture: what a function keeps from call to call", "[capture]") {
  on_devices([](Device d) {
    // A tensor that is replaced each time: one block more than the warm-up had.
    Tensor kept;
    auto captured = capture(
        [&](const Tensor& x) {
          Tensor y = mul(x, 2.0);
          kept = add(y, 1.0);
          return y;
        },
        ones({100}, {.device = d}));
    for (int i = 1; i < 8; ++i) {
      CHECK(values(captured(full({100}, double(i), {.device = d}))) ==
            std::vector<float>(100, float(2 * i)));
      CHECK(values(kept) == std::vector<float>(100, float(2 * i + 1)));
    }
    CHECK(captured.captures() == 1);
    // Errors of the function are the caller's, and leave it as it was.
    auto fails = capture([](const Tensor& x) { return matmul(x, x); }, ones({2, 3}, {.device = d}));
    for (int i = 0; i < 4; ++i) CHECK_THROWS_AS(fails(ones({2, 3}, {.device = d})), ShapeError);
    CHECK(values(fails(ones({2, 2}, {.device = d}))) == std::vector<float>(4, 2));
  });
}
