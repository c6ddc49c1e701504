// Elementwise operators: every entry of the list on every device and variant against the formula in
// double, layouts, dtypes and promotion, errors.
#include "warptape/kernels/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/error.h"
#include "warptape/core/mode.h"
#include "warptape/tests/kernels/pointwise/pointwise_cases.h"

using namespace pointwise_test;

TEST_CASE("pointwise: one-operand entries on every device, variant, dtype and layout") {
  for (const UnaryCase& c : kUnary)
    for (const Device d : devices())
      for (const char* variant : variants(c.name, d)) {
        const VariantScope scope(c.name, variant);
        for (const DType t : {f64, f32, f16, bf16})
          for (const Layout& layout : kLayouts) {
            CAPTURE(c.name, to_string(d), variant, dtype_name(t), layout.name);
            const Tensor x = layout.make(numbers(74, c.low, c.high), t, d);
            std::vector<double> expected = x.to_vector<double>();
            for (double& v : expected) v = c.value(v);
            const Tensor y = c.op(x);
            CHECK(y.dtype() == t);
            check_values(y, expected, tolerance(t));
          }
      }
}

TEST_CASE("pointwise: tan, sinh and atan2 of floats have the cpu's bits on every device") {
  // CUDA's own are documented to be further off than the rule allows.
  const std::vector<double> values = numbers(3000, -40, 40), others = numbers(3000, -3, 3, 2);
  const auto on = [&](Device d) {
    const Tensor x = make(values, {3000}, f32, d), y = make(others, {3000}, f32, d);
    std::vector<std::vector<double>> r;
    for (const Tensor& t : {tan(x), sinh(x), atan2(x, y), tan(x * 1e6)})
      r.push_back(t.to_vector<double>());
    return r;
  };
  const auto want = on(Device::cpu());
  for (const Device d : devices()) {
    const auto got = on(d);
    for (int i = 0; i < 3; ++i) {
      CAPTURE(to_string(d), i);
      CHECK(got[size_t(i)] == want[size_t(i)]);
    }
    for (size_t i = 0; i < got[3].size(); ++i)  // beyond 65536: libm's, to 2 units
      CHECK(std::fabs(got[3][i] - want[3][i]) <= 0x1p-22 * std::fabs(want[3][i]));
  }
}

TEST_CASE("pointwise: two-operand entries on every device, variant, dtype and layout") {
  using Cases = std::span<const BinaryCase>;
  for (const Cases cases : {Cases(kBinary), Cases(kComparisons)})
    for (const BinaryCase& c : cases) {
      const bool compares = cases.data() == kComparisons;
      for (const Device d : devices())
        for (const char* variant : variants(c.name, d)) {
          const VariantScope scope(c.name, variant);
          for (const DType t : {f64, f32, f16, bf16, DType::i64, DType::i32, DType::u8}) {
            if (!is_floating(t) && std::string(c.name) == "div") continue;
            for (const Layout& layout : kLayouts) {
              CAPTURE(c.name, to_string(d), variant, dtype_name(t), layout.name);
              const bool whole = !is_floating(t) || compares;
              std::vector<double> av = numbers(74, whole ? 0 : c.low, whole ? 5 : c.high, 1);
              std::vector<double> bv = numbers(74, whole ? 0 : c.low, whole ? 3 : c.high, 2);
              if (whole)
                for (size_t i = 0; i < av.size(); ++i)
                  av[i] = std::floor(av[i]) + std::floor(bv[i]), bv[i] = std::floor(bv[i]);
              const Tensor a = layout.make(av, t, d), b = make(bv, {2, 37}, t, d);
              const std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
              std::vector<double> expected, swapped;
              for (size_t i = 0; i < x.size(); ++i) {
                expected.push_back(c.value(x[i], y[i]));
                swapped.push_back(c.value(x[i], y[i % 37]));
              }
              const Tensor r = c.op(a, b);
              CHECK(r.dtype() == (compares ? DType::boolean : t));
              check_values(r, expected, 2 * tolerance(t));
              check_values(c.op(a, b.select(0, 0)), swapped, 2 * tolerance(t));  // row broadcast
            }
          }
        }
    }
}

TEST_CASE("pointwise: broadcasting a column, one element and numbers") {
  for (const Device d : devices())
    for (const char* variant : variants("sub", d)) {
      const VariantScope scope("sub", variant);
      for (const DType t : {f32, f16, DType::i32}) {
        CAPTURE(to_string(d), variant, dtype_name(t));
        const Tensor a = make({0, 1, 2, 3, 4, 5}, {2, 3}, t, d);
        const Tensor column = make({10, 20}, {2, 1}, t, d);
        check_values(sub(a, column), {-10, -9, -8, -17, -16, -15}, 0);
        check_values(sub(column, a), {10, 9, 8, 17, 16, 15}, 0);
        check_values(sub(make({10, 20}, {2, 1}, t, d), make({1, 2, 3}, {3}, t, d)),
                     {9, 8, 7, 19, 18, 17}, 0);
        check_values(a - 1, {-1, 0, 1, 2, 3, 4}, 0);
        check_values(1 - a, {1, 0, -1, -2, -3, -4}, 0);
        check_values(a - make({2}, {}, t, d), {-2, -1, 0, 1, 2, 3}, 0);
        check_values(make({2}, {1, 1, 1}, t, d) - a, {2, 1, 0, -1, -2, -3}, 0);
        const Tensor empty = make({}, {0, 3}, t, d);
        CHECK(sub(empty, make({1, 2, 3}, {3}, t, d)).shape() == Shape{0, 3});
      }
    }
}

TEST_CASE("pointwise: sizes around the vector widths, and odd offsets") {
  for (const Device d : devices())
    for (const char* variant : variants("mul", d)) {
      const VariantScope scope("mul", variant);
      for (const DType t : {f64, f32, bf16, DType::u8})
        for (const i64 n : {0, 1, 2, 3, 7, 15, 16, 17, 31, 33, 63, 65, 257}) {
          CAPTURE(to_string(d), variant, dtype_name(t), n);
          std::vector<double> a, b, expected;
          for (i64 i = 0; i <= n; ++i) {
            a.push_back(double(i % 13));
            b.push_back(double(i % 7));
            if (i > 0) expected.push_back(double((i % 13) * (i % 7)));
          }
          const Tensor x = make(a, {n + 1}, t, d).slice(0, {1, n + 1});
          const Tensor y = make(b, {n + 1}, t, d).slice(0, {1, n + 1});
          check_values(mul(x, y), expected, 0);
          check_values(mul(x.contiguous(), y.contiguous()), expected, 0);
        }
    }
}

TEST_CASE("pointwise: where selects, broadcasts and promotes") {
  for (const Device d : devices())
    for (const char* variant : variants("where", d)) {
      const VariantScope scope("where", variant);
      CAPTURE(to_string(d), variant);
      const Tensor c = gt(make({1, 0, 1, 0, 0, 1}, {2, 3}, f32, d), 0);
      for (const DType t : {f64, f32, f16, bf16, DType::i64, DType::i32, DType::u8}) {
        const Tensor a = make({1, 2, 3, 4, 5, 6}, {2, 3}, t, d), b = make({7, 8, 9}, {3}, t, d);
        check_values(where(c, a, b), {1, 8, 3, 7, 8, 6}, 0);
        check_values(where(c, a, 0), {1, 0, 3, 0, 0, 6}, 0);
        check_values(where(c, 9, a), {9, 2, 9, 4, 5, 9}, 0);
        check_values(where(c.transpose(0, 1), a.transpose(0, 1), 0), {1, 0, 0, 0, 3, 6}, 0);
        CHECK(where(c, a, 0).dtype() == t);
      }
      check_values(where(c, true, false), {1, 0, 1, 0, 0, 1}, 0);
      CHECK(where(c, 1.5, 0).dtype() == f32);
      CHECK(where(c, 1, 0).dtype() == DType::i64);
      CHECK(where(c, true, false).dtype() == DType::boolean);
      CHECK(where(c, make({1}, {1}, f16, d), make({1}, {1}, DType::i64, d)).dtype() == f16);
      CHECK_THROWS_AS(where(make({1}, {1}, f32, d), 1, 2), DtypeError);
    }
}

TEST_CASE("pointwise: clamp on floats and integers") {
  for (const Device d : devices()) {
    CAPTURE(to_string(d));
    check_values(clamp(make({-2, -1, 0, 1, 2, kNan}, {6}, f32, d), -1, 1.5),
                 {-1, -1, 0, 1, 1.5, kNan}, 0);
    check_values(clamp(make({-2, 5, 9}, {3}, DType::i32, d), 0, 7), {0, 5, 7}, 0);
    check_values(clamp(make({1, 2}, {2}, f32, d), 3, 0), {0, 0}, 0);
    CHECK(clamp(make({1}, {1}, DType::i32, d), 0, 7).dtype() == DType::i32);
    CHECK(clamp(make({1}, {1}, DType::i32, d), 0, 0.5).dtype() == f32);
  }
}

TEST_CASE("pointwise: truth of numbers") {
  for (const Device d : devices()) {
    CAPTURE(to_string(d));
    const Tensor x = make({kNan, kInf, -kInf, 0, 1}, {5}, f32, d);
    check_values(isnan(x), {1, 0, 0, 0, 0}, 0);
    check_values(isfinite(x), {0, 0, 0, 1, 1}, 0);
    check_values(logical_not(x), {0, 0, 0, 1, 0}, 0);
    check_values(isfinite(x.to(f16)), {0, 0, 0, 1, 1}, 0);
    check_values(isnan(make({1, 2}, {2}, DType::i64, d)), {0, 0}, 0);
    const Tensor t = gt(make({1, 0}, {2}, f32, d), 0);
    check_values(logical_not(t), {0, 1}, 0);
    check_values(eq(x, x), {0, 1, 1, 1, 1}, 0);
    check_values(ne(x, x), {1, 0, 0, 0, 0}, 0);
    check_values(maximum(x, 0.5), {kNan, kInf, 0.5, 0.5, 1}, 0);
    check_values(minimum(0.5, x), {kNan, 0.5, -kInf, 0, 0.5}, 0);
    check_values(relu(x), {kNan, kInf, 0, 0, 1}, 0);
  }
}

TEST_CASE("pointwise: bool is a set, integers wrap") {
  for (const Device d : devices()) {
    CAPTURE(to_string(d));
    const Tensor a = gt(make({0, 0, 1, 1}, {4}, f32, d), 0);
    const Tensor b = gt(make({0, 1, 0, 1}, {4}, f32, d), 0);
    check_values(a + b, {0, 1, 1, 1}, 0);
    check_values(a * b, {0, 0, 0, 1}, 0);
    check_values(maximum(a, b), {0, 1, 1, 1}, 0);
    CHECK((a + b).dtype() == DType::boolean);
    CHECK((a + 1).dtype() == DType::i64);
    CHECK_THROWS_AS(a - b, DtypeError);
    CHECK_THROWS_AS(-a, DtypeError);
    check_values(make({250, 255}, {2}, DType::u8, d) + 10, {4, 9}, 0);
    check_values(neg(make({1}, {1}, DType::u8, d)), {255}, 0);
    check_values(make({2147483647}, {1}, DType::i32, d) + 1, {-2147483648.0}, 0);
    check_values(make({65536}, {1}, DType::i32, d) * 65536, {0}, 0);
    check_values(pow(make({3, -2, 0}, {3}, DType::i64, d), 3), {27, -8, 0}, 0);
    check_values(pow(make({1, -1, 2}, {3}, DType::i64, d), make({-3, -3, -1}, {3}, DType::i64, d)),
                 {1, -1, 0}, 0);
  }
}

TEST_CASE("pointwise: promotion as in PyTorch", "[wall][prologue]") {
  const auto t = [](DType d, const Shape& s = {2}) { return ones(s, {.dtype = d}); };
  CHECK((t(f32) + t(f64)).dtype() == f64);
  CHECK((t(f16) + t(bf16)).dtype() == f32);
  CHECK((t(f16) * t(DType::i64)).dtype() == f16);
  CHECK((t(DType::u8) + t(DType::i32)).dtype() == DType::i32);
  CHECK((t(DType::i32) / t(DType::i32)).dtype() == f32);
  CHECK((t(DType::i64) / 2).dtype() == f32);
  CHECK((t(DType::i32) + 1.5).dtype() == f32);
  CHECK((t(DType::i32) + 1).dtype() == DType::i32);
  CHECK((1.5 - t(f16)).dtype() == f16);
  CHECK((t(f16) + t(f64, {})).dtype() == f16);  // 0-d: category only
  CHECK((t(DType::i64) + t(f64, {})).dtype() == f64);
  CHECK((t(DType::i64, {}) + t(DType::i32)).dtype() == DType::i32);
  CHECK(exp(t(DType::i32)).dtype() == f32);
  CHECK(sqrt(gt(t(f32), 0)).dtype() == f32);
  CHECK(abs(t(DType::i32)).dtype() == DType::i32);
  CHECK(gt(t(DType::i32), 0.5).dtype() == DType::boolean);
  CHECK(eq(t(f16), t(DType::i64)).to_vector<bool>() == std::vector<bool>{true, true});
  const DefaultDtype wide(f64);
  CHECK((t(DType::i32) / 2).dtype() == f64);
  CHECK(exp(t(DType::i32)).dtype() == f64);
}

namespace {
std::string message(const std::function<Tensor()>& f) {
  try {
    const Tensor unused = f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}
}  // namespace

TEST_CASE("pointwise: errors name the operator, the operands and the line", "[wall][prologue]") {
  const Tensor a = ones({2, 3}), b = ones({4}), small = ones({2}, {.dtype = DType::i16});
  const u32 line = __LINE__ + 1;
  const std::string text = message([&] { return a + b; });
  CAPTURE(text);
  CHECK(has(text, "ShapeError: [add] shapes [2, 3] and [4] do not broadcast"));
  CHECK(has(text, "[2, 3] f32 cpu"));
  CHECK(has(text, "pointwise_test.cpp:" + std::to_string(line)));
  CHECK(has(message([&] { return small * small; }), "[mul] i16 is for storage only"));
  CHECK(has(message([&] { return exp(Tensor()); }), "undefined"));
  CHECK(has(message([&] { return add(1, 2); }), "[add] at least one operand must be a tensor"));
  CHECK(has(message([&] {
              return a + ones({2, 3}, {.device = Device::meta()});
            }),
            "PlacementError"));
}
