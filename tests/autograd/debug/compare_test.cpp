// equal and allclose: what torch.equal and torch.allclose answer, on every device.
#include "warptape/autograd/compare.h"

#include <cmath>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/mode.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {
constexpr double kInf = INFINITY;
const TensorOptions kDouble{.dtype = f64};
}  // namespace

TEST_CASE("equal: one shape, one dtype, equal elements", "[compare]") {
  const LeakGuard guard;
  for (const Device d : wt_test::kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor a = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}}, {.device = d});
    CHECK(equal(a, a));
    CHECK(equal(a, a.clone()));
    CHECK(equal(a, a.t().contiguous().t()));  // the order in memory does not matter
    CHECK_FALSE(equal(a, a.view({3, 2})));
    CHECK_FALSE(equal(a, a[0]));  // no broadcasting
    CHECK_FALSE(equal(a, a.to(f64)));
    for (i64 i = 0; i < 6; ++i) {
      Tensor b = a.clone();
      b.index_put_({i / 3, i % 3}, tensor(7.0, {.device = d}));
      CHECK_FALSE(equal(a, b));
    }
    CHECK(equal(zeros({0, 3}, {.device = d}), zeros({0, 3}, {.device = d})));
    CHECK_FALSE(equal(zeros({0, 3}, {.device = d}), zeros({0, 2}, {.device = d})));
    const Tensor n = tensor({1.0, NAN}, {.device = d});
    CHECK_FALSE(equal(n, n));
    const Tensor zero = tensor({0.0, kInf}, {.device = d});
    CHECK(equal(zero, tensor({-0.0, kInf}, {.device = d})));
  }
}

TEST_CASE("equal: any dtype, all bits of it", "[compare]") {
  for (int t = 0; t < kNumDTypes; ++t) {
    CAPTURE(dtype_name(DType(t)));
    const Tensor a = tensor({0.0, 1.0}).to(DType(t)), b = tensor({1.0, 1.0}).to(DType(t));
    CHECK(equal(a, a.clone()));
    CHECK_FALSE(equal(a, b));
  }
  const Tensor odd = tensor({i64(9007199254740993)});  // f64 has only its neighbours
  CHECK_FALSE(equal(odd, tensor({i64(9007199254740992)})));
  const u64 top = ~u64(0);
  CHECK(equal(tensor(std::vector<u64>{top}), tensor(std::vector<u64>{top})));
  CHECK_FALSE(equal(tensor(std::vector<u64>{top}), tensor(std::vector<u64>{top - 1})));
}

TEST_CASE("allclose: |a - b| <= atol + rtol |b|", "[compare]") {
  const LeakGuard guard;
  for (const Device d : wt_test::kernel_devices()) {
    CAPTURE(to_string(d));
    const auto at = [&](double v) { return tensor(v, {.dtype = f64, .device = d}); };
    CHECK(allclose(at(1), at(1 + 0.9e-5)));  // the defaults
    CHECK_FALSE(allclose(at(1), at(1 + 1.2e-5)));
    CHECK(allclose(at(0), at(0.9e-8)));
    CHECK_FALSE(allclose(at(0), at(1.2e-8)));
    CHECK(allclose(at(1), at(1.1), {.rtol = 0.095, .atol = 0}));  // relative to b
    CHECK_FALSE(allclose(at(1.1), at(1), {.rtol = 0.095, .atol = 0}));
    CHECK(allclose(at(-3), at(-3.5), {.rtol = 0, .atol = 0.5}));  // the border belongs to it
    CHECK_FALSE(allclose(at(-3), at(3), {.rtol = 1.5, .atol = 0}));
    CHECK(allclose(at(2), at(2), {.rtol = 0, .atol = 0}));
    const Tensor many = ones({2, 3}, {.device = d});
    CHECK(allclose(many, ones({3}, {.device = d})));  // broadcasts, either way
    CHECK(allclose(ones({}, {.device = d}), many));
    Tensor off = many.clone();
    off.index_put_({1, 2}, tensor(1.1, {.device = d}));
    CHECK_FALSE(allclose(many, off));
    CHECK(allclose(zeros({0}, {.device = d}), zeros({0}, {.device = d})));
  }
}

TEST_CASE("allclose: infinities are close to themselves alone, NaN if asked", "[compare]") {
  const auto close = [](double a, double b, AllcloseOptions o = {}) {
    return allclose(tensor({a}, kDouble), tensor({b}, kDouble), o);
  };
  CHECK(close(kInf, kInf));
  CHECK(close(-kInf, -kInf));
  CHECK_FALSE(close(kInf, -kInf));
  CHECK_FALSE(close(1, kInf));  // though rtol |b| is infinite
  CHECK_FALSE(close(kInf, 1));
  CHECK_FALSE(close(NAN, NAN));
  CHECK(close(NAN, NAN, {.equal_nan = true}));
  CHECK_FALSE(close(NAN, 1, {.equal_nan = true}));
  CHECK_FALSE(close(1, NAN, {.equal_nan = true}));
  CHECK(close(1, 1e300, {.atol = kInf}));
}

TEST_CASE("allclose: narrow floats are compared in f32, integers in f64", "[compare]") {
  // One step above 1: the tolerance, rounded to 16 bits, would be that step.
  const Tensor half = tensor({1 + 0x1p-10}).to(f16), brain = tensor({1 + 0x1p-7}).to(bf16);
  CHECK_FALSE(allclose(tensor({1.0}).to(f16), half, {.rtol = 9.755e-4, .atol = 0}));
  CHECK(allclose(tensor({1.0}).to(f16), half, {.rtol = 9.757e-4, .atol = 0}));
  CHECK_FALSE(allclose(tensor({1.0}).to(bf16), brain, {.rtol = 7.75e-3, .atol = 0}));
  CHECK(allclose(tensor({1.0}).to(bf16), brain, {.rtol = 7.755e-3, .atol = 0}));
  CHECK(allclose(tensor({100000}), tensor({100001})));
  CHECK_FALSE(allclose(tensor({10000}), tensor({10001})));
  CHECK(allclose(tensor({3}), tensor({5}), {.rtol = 0, .atol = 2}));
  CHECK_FALSE(allclose(tensor({true, false}), tensor({true, true})));
  const Tensor byte = tensor({1}, {.dtype = DType::u8}), two = tensor({2}, {.dtype = DType::u8});
  CHECK_FALSE(allclose(byte, two));  // 1 - 2 does not wrap
  CHECK(allclose(byte, two, {.atol = 1}));
}

TEST_CASE("equal and allclose record nothing, wait, and leave their operands", "[compare]") {
  const LeakGuard guard;
  Tensor x = tensor({1.0, 2.0}, {.requires_grad = true});
  CHECK(equal(x, x.detach()));
  CHECK(allclose(x * 2, x + x));
  CHECK(equal(std::move(x), tensor({1.0, 2.0})));
  CHECK(x.defined());  // NOLINT: nothing was taken
  const SyncGuard sync;
  const Tensor there = ones({1}, {.device = Device::simt()});
  CHECK_THROWS_AS((void)equal(there, there), UsageError);
  CHECK_THROWS_AS((void)allclose(there, there), UsageError);
}

TEST_CASE("equal and allclose: refusals have their name and the user's line", "[compare]") {
  const Tensor a = ones({2, 3});
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)allclose(a, ones({2})); });
  CHECK(mentions(text, "ShapeError: [allclose]"));
  CHECK(mentions(text, "compare_test.cpp:" + std::to_string(line)));
  CHECK_THROWS_AS((void)allclose(a, a.to(f64)), DtypeError);
  CHECK_THROWS_AS((void)allclose(a, a.to(Device::simt())), PlacementError);
  CHECK_THROWS_AS((void)equal(a, a.to(Device::simt())), PlacementError);
  CHECK_THROWS_AS((void)equal(a, Tensor()), UsageError);
  for (const AllcloseOptions& o :
       {AllcloseOptions{.rtol = -1}, AllcloseOptions{.atol = -1}, AllcloseOptions{.atol = NAN}})
    CHECK(mentions(message_of([&] { (void)allclose(a, a, o); }),
                   "[allclose] rtol and atol must be at least 0, got "));
  const Tensor meta = ones({2}, {.device = Device::meta()});
  CHECK(mentions(message_of([&] { (void)equal(meta, meta); }), "[equal] a meta tensor has no val"));
  CHECK_THROWS_AS((void)allclose(meta, meta), PlacementError);
}
