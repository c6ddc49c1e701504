// Numbers and 0-d tensors beside tensors that cannot hold them: what they are rounded to, and what
// is computed without.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "warptape/autograd/autocast.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/factories.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {

const std::vector<DType> kHalves{f16, bf16};
constexpr double kInf = std::numeric_limits<double>::infinity();

bool truth(const Tensor& t) { return t.to_vector<double>()[0] != 0; }
double first(const Tensor& t) { return t.to_vector<double>()[0]; }

}  // namespace

TEST_CASE("numbers: compared with 16-bit floats as one of them, on either side") {
  for (const Device d : operator_devices())
    for (const DType t : kHalves)
      for (const double v : {0.1, -0.7, -1e4, 1e-9, 1.0 / 3, 2049.0}) {
        INFO(dtype_name(t) << " " << v);
        const Tensor x = full({19}, v, {.dtype = t, .device = d});
        CHECK((truth(eq(x, v)) && truth(eq(v, x)) && !truth(ne(x, v)) && !truth(ne(v, x))));
        CHECK((truth(le(x, v)) && truth(ge(x, v)) && truth(le(v, x)) && truth(ge(v, x))));
        CHECK(!(truth(lt(x, v)) || truth(gt(x, v)) || truth(lt(v, x)) || truth(gt(v, x))));
        // What is made of them.
        CHECK(first(threshold(x, v, 7)) == 7);
        CHECK(first(hardshrink(x, std::abs(v))) == 0);
        CHECK(first(softshrink(x, std::abs(v))) == 0);
        CHECK(first(eq(x, full({}, v, {.device = d}))) == 1);  // as a 0-d tensor always did
      }
  // A number that is infinite in 16 bits is compared as what it is.
  const Tensor far = tensor({65504.0, kInf, -kInf}, {.dtype = f16});
  CHECK(values(eq(far, 1e6)) == Values{0, 0, 0});
  CHECK(values(lt(far, 1e6)) == Values{1, 0, 1});
  CHECK(values(ge(far, 1e6)) == Values{0, 1, 0});
  CHECK(values(eq(far, kInf)) == Values{0, 1, 0});
  CHECK(truth(logical_and(ones({1}, {.dtype = f16}), 1e-12)));
}

TEST_CASE("numbers: gradients at a bound that 16 bits round") {
  for (const Device d : operator_devices())
    for (const DType t : kHalves) {
      const Tensor x = full({1}, 0.1, {.dtype = t, .device = d}).set_requires_grad();
      const auto slope = [&](const Tensor& y) { return first(grad(sum(y), x)); };
      INFO(dtype_name(t));
      CHECK(slope(clamp(x, 0.1, 1)) == 1);
      CHECK(slope(clamp(x, -1, 0.1)) == 1);
      CHECK(slope(clamp(x, {.min = 0.1})) == 1);
      CHECK(slope(clamp(x, {.max = 0.1})) == 1);
      CHECK(slope(hardtanh(x, 0.1, 1)) == 0);
      CHECK(slope(maximum(x, 0.1)) == 0.5);
      CHECK(slope(minimum(0.1, x)) == 0.5);
      CHECK(slope(threshold(x, 0.1, 3)) == 0);
      CHECK(slope(softshrink(x, 0.1)) == 0);
      const Tensor in_place = x * 1;
      CHECK(first(grad(sum(Tensor(in_place).clamp_(-1, 0.1)), x)) == 1);
    }
}

TEST_CASE("numbers: beyond a dtype's largest they have gradients that record") {
  for (const Device d : operator_devices())
    for (const DType t : {f32, f16, bf16}) {
      INFO(dtype_name(t));
      const Tensor x = full({2}, 3, {.dtype = t, .device = d}).set_requires_grad();
      const auto slope = [&](const Tensor& y) {
        return first(grad(sum(y), x, {.create_graph = true}));
      };
      CHECK(slope(minimum(x, 1e39)) == 1);
      CHECK(slope(maximum(-1e39, x)) == 1);
      CHECK(slope(x / 1e39) == 0);
      if (t == f16) CHECK(std::abs(slope(atan2(x, 1e5)) - 1e-5) < 1e-7);
    }
}

TEST_CASE("numbers: integers are compared with any number exactly") {
  constexpr i64 kFar = i64{1} << 53;
  const double nan = std::nan("");
  for (const Device d : operator_devices()) {
    const auto check = [&](const Tensor& x, Scalar v, Values eqs, Values lts, Values gts) {
      INFO(dtype_name(x.dtype()) << " " << v.f);
      CHECK(values(eq(x, v)) == eqs);
      CHECK(values(eq(v, x)) == eqs);
      CHECK(values(lt(x, v)) == lts);
      CHECK(values(gt(v, x)) == lts);
      CHECK(values(gt(x, v)) == gts);
      CHECK(values(lt(v, x)) == gts);
      for (size_t i = 0; i < eqs.size(); ++i) {
        CHECK(values(ne(x, v))[i] == 1 - eqs[i]);
        CHECK(values(le(x, v))[i] == (eqs[i] || lts[i]));
        CHECK(values(ge(v, x))[i] == (eqs[i] || lts[i]));
        CHECK(values(ge(x, v))[i] == (eqs[i] || gts[i]));
        CHECK(values(le(v, x))[i] == (eqs[i] || gts[i]));
      }
    };
    const Tensor x = tensor({kFar, kFar + 1, INT64_MAX, INT64_MIN}).to(d);
    check(x, double(kFar), {1, 0, 0, 0}, {0, 0, 0, 1}, {0, 1, 1, 0});
    check(x, kFar + 1, {0, 1, 0, 0}, {1, 0, 0, 1}, {0, 0, 1, 0});
    check(x, 0x1p63, {0, 0, 0, 0}, {1, 1, 1, 1}, {0, 0, 0, 0});
    check(x, -0x1p63, {0, 0, 0, 1}, {0, 0, 0, 0}, {1, 1, 1, 0});
    check(x, kInf, {0, 0, 0, 0}, {1, 1, 1, 1}, {0, 0, 0, 0});
    check(x, nan, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0});
    check(x, 0.5, {0, 0, 0, 0}, {0, 0, 0, 1}, {1, 1, 1, 0});
    const Tensor byte = tensor({44, 200}, {.dtype = uint8}).to(d);
    check(byte, 300, {0, 0}, {1, 1}, {0, 0});
    check(byte, -212, {0, 0}, {0, 0}, {1, 1});
    check(byte, 44.5, {0, 0}, {1, 0}, {0, 1});
    check(byte, 200.0, {0, 1}, {1, 0}, {0, 0});
    check(tensor({16777217}, {.dtype = int32}).to(d), 16777216.0, {0}, {0}, {1});
    // A 0-d tensor is not cut to fewer bits either.
    const Tensor wide = tensor(300).to(d);
    CHECK(values(eq(byte, wide)) == Values{0, 0});
    CHECK(values(lt(byte, wide)) == Values{1, 1});
    CHECK(values(floor_divide(byte, wide)) == Values{0, 0});
    CHECK(floor_divide(byte, wide).dtype() == uint8);
    CHECK(values(byte + wide) == Values{88, 244});  // sums wrap
    CHECK(values(bitwise_left_shift(byte, 256)) == Values{0, 0});
    CHECK(values(logical_and(byte, 256)) == Values{1, 1});
  }
}

TEST_CASE("numbers: what an integer tensor cannot hold is refused where it does not wrap") {
  const Tensor byte = tensor({44, 200}, {.dtype = uint8});
  const std::vector<std::function<Tensor()>> all{
      [&] { return maximum(byte, 300); },      [&] { return minimum(300, byte); },
      [&] { return floor_divide(byte, 300); }, [&] { return div_trunc(byte, 300); },
      [&] { return remainder(byte, 300); },    [&] { return fmod(byte, 300); },
      [&] { return clamp_min(byte, 300); },    [&] { return clamp_max(byte, -1); },
      [&] { return clamp(byte, 300, 400); },   [&] { return clamp(byte, {.max = -1}); },
      [&] { return pow(byte, 300); }};
  for (const auto& f : all) CHECK(mentions(message_of([&] { (void)f(); }), "u8 cannot hold"));
  CHECK(values(clamp(byte, -5, 300)) == Values{44, 200});
  CHECK(values(clamp(byte, {.max = 300})) == Values{44, 200});
  CHECK(values(byte + 300) == Values{88, 244});
  CHECK(values(byte - 1) == Values{43, 199});
  CHECK(values(bitwise_and(byte, ~1)) == Values{44, 200});
}

namespace {

struct Beside {
  const char* name;
  std::function<Tensor(const Tensor&, const Tensor&)> call;
  double x, number;  // the number is infinite or 0 as f16, and so it is for bf16 squared
};
// A call with a number that 16 bits do not hold and a result that they do.
std::vector<Beside> beside_cases(DType t) {
  const double far = t == f16 ? 65536 : 1e39, x = t == f16 ? 0.01 : 1e-39;
  const auto on_right = [](Tensor (*f)(const Operand&, const Operand&)) {
    return [f](const Tensor& a, const Tensor& b) { return f(a, b); };
  };
  const auto on_left = [](Tensor (*f)(const Operand&, const Operand&)) {
    return [f](const Tensor& a, const Tensor& b) { return f(b, a); };
  };
  return {{"mul", on_right(mul), x, far},
          {"mul, left", on_left(mul), x, far},
          {"div", on_right(div), 3, far},
          {"div, left", on_left(div), t == f16 ? 60000.0 : 3e38, far},
          {"div by little", on_right(div), t == f16 ? 1e-4 : 1e-30, t == f16 ? 1e-8 : 1e-46},
          {"sub", on_right(sub), t == f16 ? 60000.0 : 3e38, t == f16 ? 70000 : 5e38},
          {"sub, left", on_left(sub), t == f16 ? 60000.0 : 3e38, t == f16 ? 70000 : 5e38},
          {"add", on_right(add), t == f16 ? -60000.0 : -3e38, t == f16 ? 70000 : 5e38},
          {"remainder", on_right(remainder), 100, far},
          {"fmod, left", on_left(fmod), 7, far},
          {"floor_divide, left", on_left(floor_divide), t == f16 ? 60000.0 : 3e38, far},
          {"div_trunc, left", on_left(div_trunc), t == f16 ? 60000.0 : 3e38, far},
          {"atan2", on_right(atan2), 3, far},
          {"pow, left", on_left(pow), 0.25, far},
          {"xlogy", [](const Tensor& a, const Tensor& b) { return xlogy(a, b); }, 2, far},
          {"addcmul", [](const Tensor& a, const Tensor& b) { return addcmul(a, a, b); }, x, far},
          {"addcdiv", [](const Tensor& a, const Tensor& b) { return addcdiv(a, a, b); },
           t == f16 ? 1e-4 : 1e-30, t == f16 ? 1e-8 : 1e-46},
          {"logaddexp less itself",
           [](const Tensor& a, const Tensor& b) { return exp(logaddexp(a, -b)); }, 1, far}};
}

}  // namespace

TEST_CASE("0-d tensors: of a wider dtype they are not cast to 16 bits first") {
  for (const Device d : operator_devices())
    for (const DType t : kHalves)
      for (const DType of : {f64, f32, int64})
        for (const Beside& c : beside_cases(t)) {
          const bool whole = std::trunc(c.number) == c.number && c.number < 1e18;
          if (of == int64 ? !whole : of == f32 && t == bf16) continue;  // f32 is bf16's range
          INFO(c.name << " of " << dtype_name(t) << " beside " << dtype_name(of) << " "
                      << c.number);
          const Tensor x = full({5}, c.x, {.dtype = t, .device = d}).set_requires_grad();
          const Tensor number = full({}, c.number, {.dtype = of, .device = d});
          const Tensor exact = full({5}, first(x), {.dtype = f64}).set_requires_grad();
          const Tensor right = c.call(exact, full({}, c.number, {.dtype = f64}));
          const double want = first(right.to(t).to(f64));
          REQUIRE(std::isfinite(want));
          const Tensor y = c.call(x, number);
          CHECK(y.dtype() == t);
          CHECK(std::abs(first(y) - want) <= 0x1p-7 * std::abs(want));
          const double slope = first(grad(sum(y.to(f64)), x)),
                       exact_slope = first(grad(sum(right), exact).to(t));
          CHECK(grad(sum(c.call(x, number)), x).dtype() == t);
          CHECK((slope == exact_slope ||
                 std::abs(slope - exact_slope) <= 0x1p-6 * std::abs(exact_slope) + 1e-6));
        }
}

TEST_CASE("0-d tensors: loss scaling by hand, its gradients, in place") {
  for (const Device d : operator_devices()) {
    const Tensor scale = tensor(65536.0).to(d).set_requires_grad();
    const Tensor x = tensor({0.01, 0.5}, {.dtype = f16}).to(d).set_requires_grad();
    const Tensor y = x * scale;
    CHECK(std::abs(first(y) - 655.5) < 0.5);
    CHECK(y.to_vector<double>()[1] == 32768);
    const Tensor home = tensor(65536.0).set_requires_grad();  // stays on the cpu
    CHECK(values(home * x) == values(y));
    CHECK(std::abs(grad(sum((x * home).to(f32)) * 1e-4, home).item() - 0.51e-4) < 1e-6);
    const std::vector<Tensor> g = grads(sum(y.to(f32)) * 1e-4, {x, scale}, {.create_graph = true});
    CHECK(g[0].dtype() == f16);
    CHECK(std::abs(first(g[0]) - 6.5536) < 0.01);
    CHECK(g[1].dtype() == f32);
    CHECK(std::abs(g[1].item() - 0.51e-4) < 1e-6);
    // d2 / dx dscale
    CHECK(std::abs(first(grad(sum(g[0].to(f32)), scale)) - 2e-4) < 1e-6);
    Tensor z = x.detach().clone();
    z.mul_(scale.detach());
    CHECK(values(z) == values(y));
    z /= scale.detach();
    CHECK(values(z) == values(x));
    Tensor w = x * 1;
    w.mul_(scale);
    CHECK(std::abs(first(grad(sum(w.to(f32)) * 1e-4, scale)) - 0.51e-4) < 1e-6);
    {
      const AutocastScope lowered(f16);
      Tensor inside = x.detach().clone();
      inside.mul_(scale.detach());
      CHECK(values(inside) == values(y));
      CHECK((x * scale).dtype() == f32);  // as everything that promotes there
      CHECK(std::abs(first(x * tensor(100000).to(d)) - 1000) < 1);
    }
  }
  // Ones that 16 bits hold change nothing, nor does what has dimensions.
  const Tensor half = ones({2}, {.dtype = f16});
  CHECK((half * tensor(true)).dtype() == f16);
  CHECK((half * full({}, 2.0, {.dtype = bf16})).dtype() == f16);
  CHECK((half * tensor({2.0})).dtype() == f32);
  CHECK(values(half * full({}, 1e30, {.dtype = bf16})) == Values{kInf, kInf});
}
