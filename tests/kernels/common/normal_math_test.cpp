// What normal numbers are made of, against long double.
#include "warptape/kernels/common/normal_math.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/philox.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

namespace {

constexpr long double kTurn = 6.28318530717958647692528676655900577L;

double ulps(double got, long double want) {
  int e = 0;
  std::frexp(want, &e);
  return double(std::fabs(got - want) / std::ldexp(1.0L, e - 53));
}
// Uniform, and near 0, 1 and the quarters between.
template <class F>
void for_parts_of_one(F f) {
  const PhiloxKey key = philox_key(1, RandomStream::user);
  for (u64 i = 0; i < 20000; ++i) {
    const PhiloxBlock b = philox(key, i, 0);
    f(uniform53(b.v[0], b.v[1]));
  }
  for (int quarter = 0; quarter <= 4; ++quarter)
    for (double d = 0x1p-53; d < 0.25; d *= 1.9) {
      const double step = std::ceil(d * 0x1p53) * 0x1p-53;
      if (quarter < 4) f(0.25 * quarter + step);
      if (quarter > 0) f(0.25 * quarter - step);
    }
}

}  // namespace

TEST_CASE("normal_math: 53 bits of two words") {
  for (const u64 pair : {0ull, ~0ull, 1ull, 0x80000000ull, 0xffffffffull, 0xffffffff00000000ull,
                         0x0000080000000000ull, 0x000007ff00000000ull, 0x123456789abcdef0ull})
    CHECK(normal_math::uniform53_of_pair(pair) == uniform53(u32(pair), u32(pair >> 32)));
}

TEST_CASE("normal_math: the logarithm is within 3 units in the last place") {
  double worst = 0;
  for_parts_of_one([&](double x) {
    if (x > 0) worst = std::max(worst, ulps(normal_math::log(x), std::log((long double)x)));
  });
  for (double x = 0x1p-1022; x < 0x1p1000; x *= 3.7)
    worst = std::max(worst, ulps(normal_math::log(x), std::log((long double)x)));
  CHECK(worst < 3);
  CHECK(normal_math::log(1.0) == 0);
  CHECK(std::isfinite(normal_math::log(0.0)));
}

TEST_CASE("normal_math: points of the circle are within 2 units in the last place") {
  double worst = 0;
  for_parts_of_one([&](double t) {
    const int quarter = int(std::floor(4 * t + 0.5));
    const long double angle = kTurn * (t - 0.25L * quarter);  // exact, so zeros are where they are
    const long double c[] = {std::cos(angle), -std::sin(angle), -std::cos(angle), std::sin(angle)};
    const normal_math::Point p = normal_math::on_circle(t);
    for (const auto& [got, want] :
         {std::pair{p.cosine, c[quarter % 4]}, std::pair{p.sine, c[(quarter + 3) % 4]}})
      worst = std::max(worst, want == 0 ? std::fabs(got) : ulps(got, want));
  });
  CHECK(worst < 2);
}

TEST_CASE("normal_math: a quantile is where its probability says") {
  // 14 roundings in each of two polynomials and some around them; and the rounding of p itself.
  constexpr double kUnit = 0x1p-53, kSteps = 32;
  double worst = 0;
  for (double x = -37.5; x <= 8; x += 0.0137) {
    const auto p = double(0.5L * std::erfc(-(long double)x / std::sqrt(2.0L)));
    const double density = std::exp(-0.5 * x * x) / std::sqrt(double(kTurn));
    const double most = kUnit * (kSteps * std::fabs(x) + p / density);
    worst = std::max(worst, std::fabs(normal_math::normal_quantile(p) - x) / most);
  }
  CHECK(worst < 1);
  CHECK(normal_math::normal_quantile(0.5) == 0);
  for (const double p : {0.0, 0x1p-1074, 0x1p-1023})
    CHECK(std::fabs(normal_math::normal_quantile(p) + 37.6) < 0.2);
  // What rounds to 1 is no further out than the largest number below it.
  CHECK(normal_math::normal_quantile(1) < 8.4);
  CHECK(normal_math::normal_quantile(1) > normal_math::normal_quantile(1 - kUnit));
}
