// Whole quotients, remainders, bits, bounds and what else of the elementwise operators a row cannot
// say: signs, zeros, ends of the range, NaN and infinities. The numbers are PyTorch's 2.15.
#include <cmath>
#include <limits>

#include "warptape/autograd/ops/composite_activation.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

using Doubles = std::vector<double>;
using Integers = std::vector<i64>;
constexpr double kInf = std::numeric_limits<double>::infinity(), kNan = NAN;
constexpr i64 kLeast = std::numeric_limits<i64>::min();

Tensor floats(const Doubles& v, Device d) { return tensor(v).to(f32).to(d); }
Tensor integers(const Integers& v, Device d) { return tensor(v).to(d); }
bool same(const Tensor& y, const Doubles& want) {
  const Doubles got = y.to_vector<double>();
  for (size_t i = 0; i < want.size(); ++i)
    if (!(got[i] == want[i] && std::signbit(got[i]) == std::signbit(want[i])) &&
        !(std::isnan(got[i]) && std::isnan(want[i]))) {
      UNSCOPED_INFO("element " << i << ": " << got[i] << ", expected " << want[i]);
      return false;
    }
  return got.size() == want.size();
}

}  // namespace

TEST_CASE("remainder, fmod, div: signs, zeros and infinities of floats") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor a = floats({7, -7, 7, -7, 1, 0, 5, kInf, -1, kNan}, d);
    const Tensor b = floats({3, 3, -3, -3, 0, 3, kInf, 2, kInf, 1}, d);
    CHECK(same(remainder(a, b), {1, 2, -2, -1, kNan, 0, 5, kNan, kInf, kNan}));
    CHECK(same(fmod(a, b), {1, -1, 1, -1, kNan, 0, 5, kNan, -1, kNan}));
    CHECK(same(floor_divide(a, b), {2, -3, -3, 2, kInf, 0, 0, kNan, -1, kNan}));
    CHECK(same(div(a, b, {.rounding = Rounding::trunc}),
               {2, -2, -2, 2, kInf, 0, 0, kInf, -0.0, kNan}));
    CHECK(same(div(a, b, {.rounding = Rounding::floor}), floor_divide(a, b).to_vector<double>()));
    CHECK(same(div(a, b, {}), div(a, b).to_vector<double>()));
    // 1 / 0.1f rounds to 10, which is more than the quotient.
    CHECK(same(floor_divide(floats({1}, d), floats({0.1}, d)), {9}));
  }
}

TEST_CASE("remainder, fmod, div: integers by 0 and the least by -1") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor a = integers({7, -7, 7, -7, 5, kLeast}, d);
    const Tensor b = integers({3, 3, -3, -3, 0, -1}, d);
    CHECK(remainder(a, b).to_vector<i64>() == Integers{1, 2, -2, -1, 0, 0});
    CHECK(fmod(a, b).to_vector<i64>() == Integers{1, -1, 1, -1, 0, 0});
    CHECK(floor_divide(a, b).to_vector<i64>() == Integers{2, -3, -3, 2, 0, kLeast});
    CHECK(div_trunc(a, b).to_vector<i64>() == Integers{2, -2, -2, 2, 0, kLeast});
    CHECK(remainder(a, 4).to_vector<i64>() == Integers{3, 1, 3, 1, 1, 0});
    const Tensor u = tensor({250, 7}, {.dtype = DType::u8}).to(d);
    CHECK(remainder(u, tensor({255, 255}, {.dtype = DType::u8}).to(d)).to_vector<i64>() ==
          Integers{250, 7});
  }
}

TEST_CASE("bitwise: sizes, signs, bool and counts beyond the width") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor a = integers({1, -1, -8, 5, 5}, d), n = integers({63, 64, 1, -1, 2}, d);
    CHECK(bitwise_left_shift(a, n).to_vector<i64>() == Integers{kLeast, 0, -16, 0, 20});
    CHECK(bitwise_right_shift(a, n).to_vector<i64>() == Integers{0, -1, -4, 0, 1});
    const Tensor u = tensor({255, 1}, {.dtype = DType::u8}).to(d);
    CHECK(bitwise_not(u).to_vector<i64>() == Integers{0, 254});
    CHECK(bitwise_left_shift(u, 1).to_vector<i64>() == Integers{254, 2});
    CHECK(bitwise_right_shift(u, 8).to_vector<i64>() == Integers{0, 0});
    const Tensor t = tensor({1, 0}, {.dtype = DType::boolean}).to(d);
    CHECK(bitwise_not(t).dtype() == DType::boolean);
    CHECK(bitwise_not(t).to_vector<i64>() == Integers{0, 1});
    CHECK(bitwise_xor(t, 3).to_vector<i64>() == Integers{2, 3});
    CHECK_THROWS_AS(bitwise_left_shift(t, t), DtypeError);
    CHECK_THROWS_AS(bitwise_and(a, 0.5), DtypeError);
  }
}

TEST_CASE("clamp: ties, bounds that cross, NaN") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor x = floats({0, 1, 2, 3, kNan}, d).set_requires_grad();
    const Tensor lo = floats({1, 1, 1, 1, 1}, d).set_requires_grad();
    const Tensor hi = floats({2, 2, 2, 2, 2}, d).set_requires_grad();
    const Tensor y = clamp(x, lo, hi);
    CHECK(same(y, {1, 1, 2, 2, kNan}));
    sum(y).backward();
    CHECK(same(x.grad().slice(0, {0, 4}), {0, 0.5, 0.5, 0}));
    CHECK(same(lo.grad().slice(0, {0, 4}), {1, 0.5, 0, 0}));
    CHECK(same(hi.grad().slice(0, {0, 4}), {0, 0, 0.5, 1}));
    CHECK(same(clamp(x.detach(), 2, 1), {1, 1, 1, 1, kNan}));
    CHECK(same(clamp(x.detach(), {.min = kNan}), {kNan, kNan, kNan, kNan, kNan}));
    CHECK(same(clamp(floats({-0.0}, d), {.min = 0}), {-0.0}));
    CHECK(clamp(integers({-5, 5}, d), {.max = 2}).to_vector<i64>() == Integers{-5, 2});
    CHECK(clamp(integers({-5, 5}, d), {.max = 2.5}).dtype() == f32);
  }
}

TEST_CASE("nan_to_num: the ends of every floating dtype") {
  for (const Device d : kernel_devices())
    for (const DType t : {f64, f32, f16, bf16}) {
      CAPTURE(to_string(d), dtype_name(t));
      const Tensor y = nan_to_num(tensor(Doubles{kNan, kInf, -kInf, 2}).to(t).to(d));
      const double most = t == f64   ? std::numeric_limits<double>::max()
                          : t == f16 ? 65504
                          : t == f32 ? double(std::numeric_limits<float>::max())
                                     : 0x1.fep127;
      CHECK(same(y, {0, most, -most, 2}));
    }
}

TEST_CASE("logaddexp: infinities, and numbers of which e^x overflows") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor a = floats({kInf, -kInf, -kInf, kInf, 1000, kNan}, d);
    const Tensor b = floats({kInf, -kInf, 2, -kInf, -1000, 0}, d);
    CHECK(same(logaddexp(a, b), {kInf, -kInf, 2, kInf, 1000, kNan}));
  }
}

TEST_CASE("activations made of others: NaN, infinities and the gradients at the bends") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor x = floats({-kInf, kInf, kNan}, d);
    CHECK(same(logsigmoid(x), {-kInf, -0.0, kNan}));
    CHECK(same(relu6(x), {0, 6, kNan}));
    CHECK(same(hardshrink(x), {-kInf, kInf, kNan}));
    CHECK(same(softshrink(x), {-kInf, kInf, kNan}));
    CHECK(same(threshold(x, 0, 9), {9, kInf, kNan}));
    const Tensor at = floats({0, 6, 3}, d).set_requires_grad();
    sum(relu6(at)).backward();
    CHECK(same(at.grad(), {0, 0, 1}));
  }
}
