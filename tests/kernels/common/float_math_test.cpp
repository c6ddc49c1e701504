// The float functions of the cpu's elementwise kernels against libm in long double, over the bit
// patterns of floats, and the same bits in every variant.
#include "warptape/kernels/common/float_math.h"

#include <cmath>
#include <cstring>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

namespace {

float of_bits(u32 b) { return float_math::of_bits(b); }

// Distance in units in the last place of `want` (subnormals': 2^-149); huge where a special value
// is wrong, a zero's sign included.
double ulps(float got, long double want) {
  constexpr double kWrong = 1e9;
  const float nearest = float(want);
  if (std::isnan(nearest) || std::isnan(got))
    return std::isnan(nearest) && std::isnan(got) ? 0 : kWrong;
  if (std::isinf(nearest) && got == nearest) return 0;
  if (nearest == 0 && got == 0) return std::signbit(got) == std::signbit(nearest) ? 0 : kWrong;
  if (std::isinf(want)) return kWrong;
  // Beyond the largest float, infinity counts as the number that would follow it.
  const long double value = std::isinf(got) ? std::copysign(0x1p128L, got) : got;
  int e = 0;
  std::frexp(want, &e);
  return double(std::fabs(value - want) / std::ldexp(1.0L, std::max(e, -125) - 24));
}

constexpr u32 kSpecial[] = {0x00000000, 0x00000001, 0x00000002, 0x007fffff, 0x00800000, 0x00800001,
                            0x33000000, 0x33800000, 0x3effffff, 0x3f000000, 0x3f7fffff, 0x3f800000,
                            0x3f800001, 0x40000000, 0x42b17217, 0x42b17218, 0x42b20000, 0x42cff1b5,
                            0x42d00000, 0x47800000, 0x4b000000, 0x4b000001, 0x4b7fffff, 0x4b800000,
                            0x7f7fffff, 0x7f800000, 0x7fc00000};

struct Worst {
  double ulps = 0;
  float at = 0, and_at = 0;
  void see(double u, float x, float y = 0) {
    if (u > ulps) ulps = u, at = x, and_at = y;
  }
};

// Every `step`th bit pattern of either sign up to `limit`, and the special ones.
Worst worst_of(float (*f)(float), long double (*truth)(long double), u32 limit = 0x7fffffff) {
  constexpr u32 kStep = 9973;
  Worst worst;
  const auto see = [&](u32 bits) {
    if ((bits & 0x7fffffff) > limit) return;
    const float x = of_bits(bits);
    worst.see(ulps(f(x), truth(x)), x);
  };
  for (u64 bits = 0; bits < u64{1} << 32; bits += kStep) see(u32(bits));
  for (u32 bits : kSpecial) see(bits), see(bits | 0x80000000);
  // Around the borders of the pieces: 0, the small ends, 1, the reductions' first steps.
  for (float near : {0.5f, 0.34657359f, 0.625f, 0.75f, 0.70710678f, 0.41421356f, 1.0f, 1.0397207f,
                     1.4142135f, 3.9192059f, 87.33655f, 88.72284f, 103.27893f, 0.78539816f,
                     1.5707964f, 3.1415927f, 9.0109130f, 89.415985f}) {
    u32 bits = 0;
    std::memcpy(&bits, &near, sizeof bits);
    for (u32 d = 0; d < 4000; ++d) see(bits - 2000 + d), see((bits - 2000 + d) | 0x80000000);
  }
  return worst;
}

struct Function {
  const char* name;
  float (*f)(float);
  long double (*truth)(long double);
  double most;
  u32 limit;
};
constexpr u32 kAll = 0x7fffffff, kModerate = 0x47800000;  // 2^16
const Function kFunctions[] = {
    {"exp", [](float x) { return float_math::exp(x); }, std::exp, 1.0, kAll},
    {"expm1", [](float x) { return float_math::expm1(x); }, std::expm1, 1.5, kAll},
    {"log", [](float x) { return float_math::log(x); }, std::log, 1.0, kAll},
    {"log1p", [](float x) { return float_math::log1p(x); }, std::log1p, 1.0, kAll},
    {"log1p_exp", [](float x) { return float_math::log1p_exp(x); },
     [](long double x) { return (x > 0 ? x : 0) + std::log1p(std::exp(x > 0 ? -x : x)); }, 2.0,
     kAll},
    {"log2", [](float x) { return float_math::log2(x); }, std::log2, 0.6, kAll},
    {"log10", [](float x) { return float_math::log10(x); }, std::log10, 0.6, kAll},
    {"asin", [](float x) { return float_math::asin(x); }, std::asin, 2.0, kAll},
    {"acos", [](float x) { return float_math::acos(x); }, std::acos, 2.0, kAll},
    {"atan", [](float x) { return float_math::atan2(x, 1.0f); }, std::atan, 2.0, kAll},
    {"asinh", [](float x) { return float_math::asinh(x); }, std::asinh, 0.6, kAll},
    {"acosh", [](float x) { return float_math::acosh(x); }, std::acosh, 0.6, kAll},
    {"atanh", [](float x) { return float_math::atanh(x); }, std::atanh, 0.6, kAll},
    {"cosh", [](float x) { return float_math::cosh(x); }, std::cosh, 2.0, kAll},
    {"sinh", [](float x) { return float_math::sinh(x); }, std::sinh, 2.0, kAll},
    {"tanh", [](float x) { return float_math::tanh(x); }, std::tanh, 1.5, kAll},
    {"erf", [](float x) { return float_math::erf(x); }, std::erf, 1.5, kAll},
    {"sin", [](float x) { return float_math::sin_moderate(x); }, std::sin, 2.0, kModerate},
    {"cos", [](float x) { return float_math::cos_moderate(x); }, std::cos, 2.0, kModerate},
    {"tan", [](float x) { return float_math::tan_moderate(x); }, std::tan, 2.0, kModerate},
};

struct Random {
  u64 state = 1;
  u32 next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return u32(state >> 32);
  }
};

// All pairs of special values, pairs of random bits, and pairs of moderate numbers.
Worst worst_of(float (*f)(float, float), long double (*truth)(long double, long double)) {
  Worst worst;
  const auto see = [&](float a, float b) { worst.see(ulps(f(a, b), truth(a, b)), a, b); };
  std::vector<float> special;
  for (u32 bits : kSpecial)
    for (u32 sign : {0u, 0x80000000u}) special.push_back(of_bits(bits | sign));
  for (float v : {3.0f, 2.5f, 1.5f, 8388607.5f, 16777215.0f})
    special.push_back(v), special.push_back(-v);
  for (float a : special)
    for (float b : special) see(a, b);
  Random random;
  for (int i = 0; i < 200000; ++i) {
    see(of_bits(random.next()), of_bits(random.next()));
    const float a = float(random.next()) * 0x1p-28f, b = float(i32(random.next())) * 0x1p-26f;
    see(a, b);
    see(i32(random.next()) < 0 ? -a : a, std::nearbyint(b));
  }
  return worst;
}

}  // namespace

TEST_CASE("float_math: within 2 units in the last place of the truth, special values exact") {
  for (const Function& f : kFunctions) {
    const Worst w = worst_of(f.f, f.truth, f.limit);
    INFO(f.name << ": " << w.ulps << " units at " << w.at);
    CHECK(w.ulps <= f.most);
    CHECK(w.ulps > 0.4);  // the harness sees roundings
  }
  const Worst angle =
      worst_of([](float y, float x) { return float_math::atan2(y, x); }, std::atan2);
  INFO("atan2: " << angle.ulps << " units at " << angle.at << ", " << angle.and_at);
  CHECK(angle.ulps <= 2.0);
  const Worst power = worst_of([](float a, float b) { return float_math::pow(a, b); }, std::pow);
  INFO("pow: " << power.ulps << " units at " << power.at << ", " << power.and_at);
  CHECK(power.ulps <= 0.6);
}

// Vector code, scalar tails, every alignment, past the caches or not: the same bits.
TEST_CASE("float_math: an element's bits do not depend on where it lies") {
  struct Entry {
    const char* contract;
    Tensor (*op)(const In&);
  };
  const Entry entries[] = {{"exp", wt::exp},
                           {"expm1", wt::expm1},
                           {"log", wt::log},
                           {"log1p", wt::log1p},
                           {"sinh", wt::sinh},
                           {"tanh", wt::tanh},
                           {"erf", wt::erf},
                           {"sin", wt::sin},
                           {"cos", wt::cos},
                           {"tan", wt::tan},
                           {"asin", wt::asin},
                           {"acos", wt::acos},
                           {"atan", wt::atan},
                           {"cosh", wt::cosh},
                           {"asinh", wt::asinh},
                           {"acosh", wt::acosh},
                           {"atanh", wt::atanh},
                           {"log2", wt::log2},
                           {"log10", wt::log10},
                           {"gelu", wt::gelu},
                           {"mish", wt::mish},
                           {"silu", wt::silu},
                           {"gelu_tanh", wt::gelu_tanh},
                           {"sigmoid", wt::sigmoid},
                           {"rsqrt", wt::rsqrt}};
  Random random;
  std::vector<float> values(4111);
  for (size_t i = 0; i < values.size(); ++i) {
    const u32 bits = random.next();
    // Every other one moderate; with random bits, most blocks hold an angle that is not.
    values[i] = i % 2 && i > 2000 ? of_bits(bits) : float(i32(bits)) * 0x1p-28f;
  }
  const Tensor x = tensor(values);
  for (const Entry& e : entries) {
    INFO(e.contract);
    std::vector<float> want;
    {
      const VariantScope scope("*", "reference");
      want = e.op(x).to_vector<float>();
    }
    for (i64 offset : {0, 1, 5, 15, 16, 33}) {
      const Tensor part = slice(x, 0, {offset, x.numel()});
      const std::vector<float> got = e.op(part).to_vector<float>();
      INFO("offset " << offset);
      CHECK(std::memcmp(got.data(), want.data() + offset, got.size() * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("float_math: outputs beyond the caches have the bits of small ones") {
  constexpr i64 kMost = (i64{32} << 20) / 4 + 5000;  // streamed above 32 MiB
  std::vector<float> values(4096);
  Random random;
  for (float& v : values) v = float(i32(random.next())) * 0x1p-28f;
  const Tensor row = tensor(values);
  const Tensor large = row.expand({kMost / 4096 + 1, 4096}).contiguous().reshape({-1});
  const std::vector<float> want = wt::tanh(row).to_vector<float>();
  const Tensor out = wt::tanh(slice(large, 0, {3, large.numel()}));  // off the lines' borders
  const std::vector<float> got = out.to_vector<float>();
  i64 wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const float w = want[(i + 3) % 4096];
    wrong += std::memcmp(&got[i], &w, sizeof w) != 0;
  }
  CHECK(wrong == 0);
  Tensor in_place = large;  // an rvalue's storage is worked in
  const std::vector<float> again = wt::neg(wt::tanh(std::move(in_place))).to_vector<float>();
  CHECK(again[4096] == -want[0]);
}
