// Random numbers by their definition (kernels/random_fill.h): whatever the length, the instruction
// set and the number of threads; and distributions of a million of them.
#include "warptape/kernels/random_fill.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "warptape/autograd/ops/random.h"
#include "warptape/core/random.h"
#include "warptape/kernels/cpu/isa.h"
#include "warptape/nn/init.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/values.h"

using namespace wt;
namespace init = wt::nn::init;

namespace {

constexpr u64 kSeed = 5;

using Maker = std::function<Tensor(i64 n)>;
// Under a new generator.
Values drawn(const Maker& make, i64 n) {
  manual_seed(kSeed);
  return values(make(n));
}
Maker initialised(DType t, void (*f)(const Tensor&)) {
  return [=](i64 n) {
    Tensor x = zeros({n}, {.dtype = t});
    f(x);
    return x;
  };
}

struct Kind {
  const char* name;
  Maker make;
};
std::vector<Kind> kinds() {
  std::vector<Kind> all{
      {"randint", [](i64 n) { return randint(-7, 1000, {n}); }},
      {"randint f32", [](i64 n) { return randint(0, 9, {n}, {.dtype = f32}); }},
      {"randint u8", [](i64 n) { return randint(0, 9, {n}, {.dtype = DType::u8}); }},
      {"bernoulli", [](i64 n) { return bernoulli(0.3, {n}); }},
      {"bernoulli bool", [](i64 n) { return bernoulli(0.3, {n}, {.dtype = DType::boolean}); }}};
  for (const DType t : {f64, f32, f16, bf16}) {
    all.push_back({"rand", [t](i64 n) { return rand({n}, {.dtype = t}); }});
    all.push_back({"randn", [t](i64 n) { return randn({n}, {.dtype = t}); }});
    all.push_back({"normal", [t](i64 n) { return normal(3, 0.5, {n}, {.dtype = t}); }});
    all.push_back({"uniform_", initialised(t, [](const Tensor& x) { init::uniform_(x, -1, 2); })});
    all.push_back({"normal_", initialised(t, [](const Tensor& x) { init::normal_(x, 1, 2); })});
    all.push_back({"trunc_normal_",
                   initialised(t, [](const Tensor& x) { init::trunc_normal_(x, 0, 1, -1, 3); })});
  }
  return all;
}

struct Isa {
  const int before = cpu_isa();
  ~Isa() { cpu_isa_in_use = before; }
};

// --- the definitions, an element at a time ---
const PhiloxKey kUser = philox_key(kSeed, RandomStream::user);
const PhiloxKey kInit = philox_key(kSeed, RandomStream::init);

double uniform_of(PhiloxKey key, u64 counter, int first) {
  const PhiloxBlock b = philox(key, counter, 0);
  return uniform53(b.v[first], b.v[first + 1]);
}
u64 bits_of(u64 counter, int first) {
  const PhiloxBlock b = philox(kUser, counter, 0);
  return u64(b.v[first]) << 32 | b.v[first + 1];
}
u64 scaled(u64 bits, u64 width) { return u64((unsigned __int128)bits * width >> 64); }
// Box and Muller in long double.
long double normal_of(PhiloxKey key, u64 counter, bool second) {
  constexpr long double kTurn = 6.28318530717958647692528676655900577L;
  const long double u = 1.0L - uniform_of(key, counter, 0), v = uniform_of(key, counter, 2);
  const long double r = std::sqrt(-2 * std::log(u));
  return second ? r * std::sin(kTurn * v) : r * std::cos(kTurn * v);
}
// Of the logarithm 3 units in the last place, halved by the root, of the circle 2, and their
// roundings; beside a zero of the circle what long double loses there.
bool near(double got, long double want) {
  return std::fabs(got - want) <= 0x1p-52 * 5 * std::fabs(want) + 1e-17L;
}

}  // namespace

TEST_CASE("random fill: uniform numbers and integers are those of their counters", "[random]") {
  for (const i64 n : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 63, 64, 65, 200}) {
    CAPTURE(n);
    Values f64s, f32s, f16s, bf16s, integers, initials;
    for (i64 i = 0; i < n; ++i) {
      const u32 word = philox(kUser, u64(i / 4), 0).v[i % 4];
      f64s.push_back(uniform_of(kUser, u64(i / 2), int(i % 2 * 2)));
      f32s.push_back(uniform24(word));
      f16s.push_back(double(word >> 21) * 0x1p-11);
      bf16s.push_back(double(word >> 24) * 0x1p-8);
      integers.push_back(double(-7 + i64(scaled(bits_of(u64(i / 2), int(i % 2 * 2)), 1007))));
      initials.push_back(-1 + 3 * uniform_of(kInit, u64(i), 0));
    }
    const auto rands = [](DType t) -> Maker {
      return [t](i64 m) { return rand({m}, {.dtype = t}); };
    };
    CHECK(drawn(rands(f64), n) == f64s);
    CHECK(drawn(rands(f32), n) == f32s);
    CHECK(drawn(rands(f16), n) == f16s);
    CHECK(drawn(rands(bf16), n) == bf16s);
    CHECK(drawn([](i64 m) { return randint(-7, 1000, {m}); }, n) == integers);
    CHECK(drawn(initialised(f64, [](const Tensor& x) { init::uniform_(x, -1, 2); }), n) ==
          initials);
  }
}

TEST_CASE("random fill: normal numbers are Box and Muller's of their counters", "[random]") {
  for (const i64 n : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 63, 64, 65, 1000}) {
    CAPTURE(n);
    const Values wide = drawn([](i64 m) { return randn({m}, {.dtype = f64}); }, n);
    const Values moved = drawn([](i64 m) { return normal(3, 0.5, {m}, {.dtype = f64}); }, n);
    const Values initial = drawn(initialised(f64, [](const Tensor& x) { init::normal_(x); }), n);
    bool right = true;
    for (size_t i = 0; i < size_t(n); ++i) {
      right = right && near(wide[i], normal_of(kUser, i / 2, i % 2 == 1));
      right = right && moved[i] == 3 + 0.5 * wide[i];
      right = right && near(initial[i], normal_of(kInit, i, false));
    }
    CHECK(right);
    // Narrower dtypes are those numbers rounded, once.
    for (const DType t : {f32, f16, bf16})
      CHECK(drawn([t](i64 m) { return randn({m}, {.dtype = t}); }, n) ==
            values(tensor(wide, {.dtype = f64}).to(t)));
  }
}

TEST_CASE("random fill: a permutation is the order of 64 bits for each place", "[random]") {
  for (const i64 n : {0, 1, 2, 3, 15, 16, 17, 31, 33, 100, 3000}) {
    Values order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    const auto key = [](double i) {
      const auto at = u64(i);
      return scaled(bits_of(at / 2, int(at % 2 * 2)), ~u64{0});
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](double a, double b) { return key(a) < key(b); });
    for (const DType t : {DType::i64, DType::i32, DType::i16, f32})
      CHECK(drawn([t](i64 m) { return randperm(m, {.dtype = t}); }, n) == order);
    if (n > 100) continue;  // beyond, integers are cut
    for (const DType t : {DType::u8, bf16})
      CHECK(drawn([t](i64 m) { return randperm(m, {.dtype = t}); }, n) == order);
  }
}

TEST_CASE("random fill: the full range of integers, which a narrow dtype refuses", "[random]") {
  constexpr i64 kLeast = std::numeric_limits<i64>::min(), kMost = std::numeric_limits<i64>::max();
  manual_seed(kSeed);
  const std::vector<i64> wide = randint(kLeast, kMost, {100}).to_vector<i64>();
  for (size_t i = 0; i < wide.size(); ++i)
    CHECK(wide[i] == i64(u64(kLeast) + scaled(bits_of(i / 2, int(i % 2 * 2)), ~u64{0})));
  CHECK_THROWS_AS((void)randint(kLeast, kMost, {100}, {.dtype = DType::i8}), DtypeError);
}

TEST_CASE("random fill: an element does not depend on how many there are", "[random]") {
  for (const Kind& k : kinds()) {
    CAPTURE(k.name);
    const Values all = drawn(k.make, 200);
    for (const size_t n : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 63, 64, 65, 127, 129})
      CHECK(drawn(k.make, i64(n)) == Values(all.begin(), all.begin() + i64(n)));
  }
}

TEST_CASE("random fill: every instruction set gives the same bits", "[random]") {
  for (const Kind& k : kinds()) {
    CAPTURE(k.name);
    const Values own = drawn(k.make, 1003);
    const Isa guard;
    for (int isa = 0; isa < guard.before; ++isa) {
      cpu_isa_in_use = isa;
      CHECK(drawn(k.make, 1003) == own);
    }
  }
}

TEST_CASE("random fill: two calls differ", "[random]") {
  for (const Kind& k : kinds()) {
    CAPTURE(k.name);
    manual_seed(kSeed);
    const Values first = values(k.make(200)), second = values(k.make(200));
    CHECK(first != second);
  }
}

// --- distributions ---
namespace {

constexpr i64 kMany = 1000000;

// The share of numbers below x, within five standard deviations of its own.
bool share_below(const Values& v, double x, double want) {
  const auto below = double(std::count_if(v.begin(), v.end(), [=](double a) { return a < x; }));
  const double n = double(v.size());
  INFO("below " << x << ": " << below / n << ", wanted " << want);
  return std::fabs(below - n * want) <= 5 * std::sqrt(n * want * (1 - want));
}
double phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double moment(const Values& v, int k) {
  double s = 0;
  for (const double x : v) s += std::pow(x, k);
  return s / double(v.size());
}

}  // namespace

TEST_CASE("random fill: moments and quantiles of a million normal numbers", "[random]") {
  for (const DType t : {f64, f32}) {
    CAPTURE(dtype_name(t));
    for (const Values& v :
         {drawn([t](i64 n) { return randn({n}, {.dtype = t}); }, kMany),
          drawn(initialised(t, [](const Tensor& x) { init::normal_(x); }), kMany)}) {
      // Five standard deviations: those of x^k are sqrt(E x^2k - (E x^k)^2).
      const double one = 5 / std::sqrt(double(kMany));
      CHECK(std::fabs(moment(v, 1)) < one);
      CHECK(std::fabs(moment(v, 2) - 1) < one * std::sqrt(2.0));
      CHECK(std::fabs(moment(v, 3)) < one * std::sqrt(15.0));
      CHECK(std::fabs(moment(v, 4) - 3) < one * std::sqrt(96.0));
      for (double x = -4; x <= 4; x += 0.5) CHECK(share_below(v, x, phi(x)));
      // Neighbours, which share a counter, have nothing to do with each other.
      double product = 0;
      for (size_t i = 0; i + 1 < v.size(); i += 2) product += v[i] * v[i + 1];
      CHECK(std::fabs(product) < 5 * std::sqrt(double(kMany) / 2));
    }
  }
}

TEST_CASE("random fill: quantiles of a million uniform and truncated normal numbers", "[random]") {
  for (const DType t : {f64, f32, f16, bf16}) {
    CAPTURE(dtype_name(t));
    const Values v = drawn([t](i64 n) { return rand({n}, {.dtype = t}); }, kMany);
    for (int k = 1; k < 16; ++k) CHECK(share_below(v, k / 16.0, k / 16.0));
  }
  const Values v = drawn(initialised(f32, [](const Tensor& x) { init::trunc_normal_(x); }), kMany);
  for (double x = -1.75; x < 2; x += 0.25)
    CHECK(share_below(v, x, (phi(x) - phi(-2)) / (phi(2) - phi(-2))));
}

TEST_CASE("random fill: a truncated normal far from the mean stays between its bounds",
          "[random]") {
  const auto within = [](double low, double high) {
    const Tensor x = zeros({1000}, {.dtype = f64});
    init::trunc_normal_(x, 0, 1, low, high);
    const Values v = values(x);
    return std::all_of(v.begin(), v.end(), [=](double a) { return a >= low && a <= high; });
  };
  manual_seed(kSeed);
  for (const double low : {5.0, 8.0, 20.0, 36.0, 37.4, 38.0, 50.0}) {
    CAPTURE(low);
    CHECK(within(low, low + 1));
    CHECK(within(-low - 1, -low));
    CHECK(within(low, INFINITY));
    CHECK(within(-INFINITY, low));
  }
}
