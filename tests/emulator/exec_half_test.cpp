// f16, bf16, their pairs, tf32 and the 8-bit floats: arithmetic, comparisons and cvt. The oracle
// finds the nearest number of a format by looking through all of them.
#include <algorithm>

#include "run_ptx.h"

using namespace ptx_test;

namespace {

struct Form {
  u32 exponent, fraction;
  bool infinities;  // e4m3 has none
  u32 bits() const { return 1 + exponent + fraction; }
};
constexpr Form kHalf = {5, 10, true}, kBrain = {8, 7, true}, kE4 = {4, 3, false},
               kE5 = {5, 2, true};

double value(const Form& f, u32 x) {
  const u32 fraction = x & ((1u << f.fraction) - 1), e = x >> f.fraction & ((1u << f.exponent) - 1);
  const i32 bias = (1 << (f.exponent - 1)) - 1;
  const double sign = x >> (f.bits() - 1) & 1 ? -1 : 1;
  if (e == (1u << f.exponent) - 1) {
    if (f.infinities) return fraction ? NAN : sign * INFINITY;
    if (fraction == (1u << f.fraction) - 1) return NAN;
  }
  const double m =
      e ? 1 + std::ldexp(fraction, -i32(f.fraction)) : std::ldexp(fraction, -i32(f.fraction));
  return sign * std::ldexp(m, (e ? i32(e) : 1) - bias);
}

// All numbers from 0 on of a format, so that their index is their bits; the last is the first that
// is too large: twice the largest's half step further on.
const std::vector<long double>& numbers(const Form& f) {
  static std::vector<long double> known[4];
  auto& v = known[f.fraction == 10 ? 0 : f.fraction == 7 ? 1 : f.fraction == 3 ? 2 : 3];
  if (!v.empty()) return v;
  u32 x = 0;
  for (; std::isfinite(value(f, x)); ++x) v.push_back(value(f, x));
  v.push_back(2 * v[x - 1] - v[x - 2]);
  return v;
}
// `mode`: n nearest (halves to even), z to zero, m down, p up; and whether what is too large
// becomes the largest.
u32 encoded(const Form& f, long double x, char mode = 'n', bool finite = false) {
  if (x != x) return (1u << (f.bits() - 1)) - 1;
  const u32 sign = std::signbit(x) ? 1u << (f.bits() - 1) : 0;
  const auto& all = numbers(f);
  const u32 beyond = u32(all.size()) - 1;
  const long double a = std::fabs(x);
  u32 above = u32(std::lower_bound(all.begin(), all.end(), a) - all.begin());
  u32 r = above;
  if (above > beyond)
    r = beyond;
  else if (all[above] != a) {
    const long double down = a - all[above - 1], up = all[above] - a;
    const bool away = mode == (sign ? 'm' : 'p');
    const bool to_above = away || (mode == 'n' && (up < down || (up == down && above % 2 == 0)));
    r = to_above ? above : above - 1;
  }
  const bool to_zero = mode == 'z' || mode == (sign ? 'p' : 'm');
  if (r == beyond && (finite || (to_zero && !std::isinf(x)))) r = beyond - 1;
  return sign | r;
}
bool is_nan(const Form& f, u32 x) { return std::isnan(value(f, x)); }

std::vector<u16> operands(const Form& f) {
  std::vector<u16> v;
  const u32 one = value(f, 0x3c00) == 1 ? 0x3c00 : 0x3f80, top = f.fraction == 10 ? 0x7c00 : 0x7f80;
  for (const u32 x : {0u, 1u, 2u, (1u << f.fraction) - 1, 1u << f.fraction, one, one + 1, one - 1,
                      one * 2 / 2 + 3, top - 1, top, top + 1, 0x7fffu, 0x1234u, 0x4248u, 0x5555u})
    v.push_back(u16(x)), v.push_back(u16(x | 0x8000));
  return v;
}
template <size_t N>
auto tuples(const Form& f) {
  std::mt19937 g(N);
  const auto edge = operands(f);
  const auto one = [&] { return g() % 2 ? edge[g() % edge.size()] : u16(g()); };
  if constexpr (N == 1) {
    Cases<u16> all;
    for (u32 x = 0; x < 65536; x += 7) all.push_back({u16(x)});
    for (const u16 x : edge) all.push_back({x});
    return all;
  } else if constexpr (N == 2) {
    Cases<u16, u16> all;
    for (const u16 a : edge)
      for (const u16 b : edge) all.push_back({a, b});
    for (u32 i = 0; i < 2000; ++i) all.push_back({one(), one()});
    return all;
  } else {
    Cases<u16, u16, u16> all;
    for (u32 i = 0; i < 4000; ++i) all.push_back({one(), one(), one()});
    return all;
  }
}
// The one rounding of an exact result; sums of two finite halves are exact in a long double, those
// of bf16 with far exponents are not, but near enough to both to round alike.
u32 rounded(const Form& f, long double x) { return encoded(f, x); }

// f of the lower halves and f of the upper ones.
template <class F>
auto both(F one) {
  return [one](u32 a, u32 b) {
    return u32(one(u16(a), u16(b))) | u32(one(u16(a >> 16), u16(b >> 16))) << 16;
  };
}

void arithmetic(const Form& f, const std::string& t) {
  const auto v = [&](u16 x) { return (long double)value(f, x); };
  const auto two = tuples<2>(f);
  check<u16>("add.rn." + t, two, [&](u16 a, u16 b) { return rounded(f, v(a) + v(b)); });
  check<u16>("sub.rn." + t, two, [&](u16 a, u16 b) { return rounded(f, v(a) - v(b)); });
  check<u16>("mul.rn." + t, two, [&](u16 a, u16 b) { return rounded(f, v(a) * v(b)); });
  const auto fused = [&](u16 a, u16 b, u16 c) {
    // The product is exact in a double, the sum not always: what is lost must not tip a tie.
    const long double p = v(a) * v(b), s = p + v(c), back = s - p,
                      lost = (p - (s - back)) + (v(c) - back);
    if (lost == 0 || lost != lost) return rounded(f, s);
    const long double nudged =
        std::nextafter(s, lost > 0 ? (long double)INFINITY : -(long double)INFINITY);
    return rounded(f, nudged);
  };
  const auto sum = [&](u16 a, u16 b) { return rounded(f, v(a) + v(b)); };
  const auto difference = [&](u16 a, u16 b) { return rounded(f, v(a) - v(b)); };
  const auto product = [&](u16 a, u16 b) { return rounded(f, v(a) * v(b)); };
  check<u16>("add." + t, two, sum);
  check<u16>("sub." + t, two, difference);
  check<u16>("mul." + t, two, product);
  check<u16>("fma.rn." + t, tuples<3>(f), fused);
  check<u16>("fma.rn.relu." + t, tuples<3>(f), [&](u16 a, u16 b, u16 c) {
    const u32 x = fused(a, b, c);
    return is_nan(f, x) ? 0x7fffu : x & 0x8000 ? 0u : x;
  });
  check<u16>("neg." + t, tuples<1>(f), [](u16 a) { return a ^ 0x8000; });
  check<u16>("abs." + t, tuples<1>(f), [](u16 a) { return a & 0x7fff; });
  const auto extreme = [&](u16 a, u16 b, bool max) {
    if (is_nan(f, a) && is_nan(f, b)) return u16(0x7fff);
    if (is_nan(f, a)) return b;
    if (is_nan(f, b)) return a;
    if (v(a) == 0 && v(b) == 0) return (a >> 15) == u32(max) ? b : a;
    return (v(a) < v(b)) == max ? b : a;
  };
  check<u16>("min." + t, two, [&](u16 a, u16 b) { return extreme(a, b, false); });
  check<u16>("max." + t, two, [&](u16 a, u16 b) { return extreme(a, b, true); });
  check<u16>("max.NaN." + t, two, [&](u16 a, u16 b) {
    return is_nan(f, a) || is_nan(f, b) ? u16(0x7fff) : extreme(a, b, true);
  });
  // Pairs: both halves at once.
  const auto pairs = cases<u32, u32>(2000);
  check<u32>("add.rn." + t + "x2", pairs, both(sum));
  check<u32>("add." + t + "x2", pairs, both(sum));
  check<u32>("sub." + t + "x2", pairs, both(difference));
  check<u32>("mul." + t + "x2", pairs, both(product));
  check<u32>("min." + t + "x2", pairs, both([&](u16 a, u16 b) { return extreme(a, b, false); }));
  check<u32>("max." + t + "x2", pairs, both([&](u16 a, u16 b) { return extreme(a, b, true); }));
  const auto three = cases<u32, u32, u32>();
  for (const bool relu : {false, true})
    check<u32>(std::string("fma.rn.") + (relu ? "relu." : "") + t + "x2", three,
               [&](u32 a, u32 b, u32 c) {
                 u32 r = 0;
                 for (u32 i = 0; i < 32; i += 16) {
                   u32 x = fused(u16(a >> i), u16(b >> i), u16(c >> i));
                   if (relu && !is_nan(f, x) && x & 0x8000) x = 0;
                   r |= (is_nan(f, x) ? 0x7fff : x) << i;
                 }
                 return r;
               });
  check<u32>("neg." + t + "x2", cases<u32>(), [](u32 a) { return a ^ 0x80008000u; });
  check<u32>("abs." + t + "x2", cases<u32>(), [](u32 a) { return a & 0x7fff7fffu; });
}

void comparisons(const Form& f, const std::string& t) {
  const auto v = [&](u16 x) { return (long double)value(f, x); };
  const auto two = tuples<2>(f);
  const auto pairs = cases<u32, u32>(2000);
  // set: 1 or 0 of the type, or all ones; of pairs half by half.
  const u32 one = f.fraction == 10 ? 0x3c00 : 0x3f80;
  check<u16>("set.lt." + t + "." + t, two, [&](u16 a, u16 b) { return v(a) < v(b) ? one : 0; });
  check<u16>("set.geu." + t + "." + t, two, [&](u16 a, u16 b) { return v(a) < v(b) ? 0 : one; });
  check<u16>("set.nan." + t + "." + t, two,
             [&](u16 a, u16 b) { return is_nan(f, a) || is_nan(f, b) ? one : 0; });
  check<u16>("set.eq." + t + "." + t, two, [&](u16 a, u16 b) { return v(a) == v(b) ? one : 0; });
  check<u32>("set.eq." + t + "x2." + t + "x2", pairs,
             both([&](u16 a, u16 b) { return v(a) == v(b) ? one : 0; }));
  check<u32>("set.nan.u32." + t, two,
             [&](u16 a, u16 b) { return is_nan(f, a) || is_nan(f, b) ? ~0u : 0u; });
  check<u16>("setp.ne.b16 %q0, $2, 0; set.gt.and." + t + "." + t + " $d, $0, $1, !%q0;",
             tuples<3>(f), [&](u16 a, u16 b, u16 c) { return v(a) > v(b) && c == 0 ? one : 0; });
  const auto halves = [&](u32 a, u32 b, u32 yes, auto answer) {
    const bool low = answer(v(u16(a)), v(u16(b))), high = answer(v(u16(a >> 16)), v(u16(b >> 16)));
    return (low ? yes : 0) | (high ? yes << 16 : 0);
  };
  const auto greater = [](long double a, long double b) { return a > b; };
  const auto equal = [](long double a, long double b) { return a == b; };
  check<u32>("set.gt." + t + "x2." + t + "x2", pairs,
             [&](u32 a, u32 b) { return halves(a, b, one, greater); });
  check<u32>("set.eq.u32." + t + "x2", pairs,
             [&](u32 a, u32 b) { return halves(a, b, 0xffff, equal); });
  check<u32>("setp.gt." + t +
                 "x2 %q0|%q1, $0, $1; selp.u32 %t0, 1, 0, %q0; selp.u32 %t1, 65536, 0, "
                 "%q1; or.b32 $d, %t0, %t1;",
             pairs, [&](u32 a, u32 b) { return halves(a, b, 1, greater); });
  for (const auto& [q, kind] :
       {std::pair{"lt", 0}, {"eq", 1}, {"neu", 2}, {"geu", 3}, {"nan", 4}, {"ne", 5}, {"le", 6}}) {
    const int k = kind;
    check<u32>(std::string("setp.") + q + "." + t + " %q0, $0, $1; selp.u32 $d, 1, 0, %q0;", two,
               [&, k](u16 x, u16 y) {
                 const long double a = v(x), b = v(y);
                 return u32(k == 0   ? a < b
                            : k == 1 ? a == b
                            : k == 2 ? !(a == b)
                            : k == 3 ? !(a < b)
                            : k == 4 ? a != a || b != b
                            : k == 6 ? a <= b
                                     : a < b || a > b);
               });
  }
}

}  // namespace

TEST_CASE("Arithmetic in f16", "[emulator]") {
  arithmetic(kHalf, "f16");
  const auto flush = [](u16 x) { return x & 0x7c00 ? x : u16(x & 0x8000); };
  check<u16>("add.ftz.f16", tuples<2>(kHalf), [=](u16 a, u16 b) {
    return flush(u16(encoded(kHalf, value(kHalf, flush(a)) + value(kHalf, flush(b)))));
  });
  check<u16>("mul.sat.f16", tuples<2>(kHalf), [=](u16 a, u16 b) {
    const double x = value(kHalf, a) * value(kHalf, b);
    return encoded(kHalf, x >= 1 ? 1 : x > 0 ? x : 0);
  });
}
TEST_CASE("Arithmetic in bf16", "[emulator]") { arithmetic(kBrain, "bf16"); }
TEST_CASE("Comparisons of halves", "[emulator]") {
  comparisons(kHalf, "f16");
  comparisons(kBrain, "bf16");
  const auto flush = [](u16 x) { return x & 0x7c00 ? x : u16(x & 0x8000); };
  check<u32>("setp.lt.ftz.f16 %q0, $0, $1; selp.u32 $d, 1, 0, %q0;", tuples<2>(kHalf),
             [=](u16 a, u16 b) { return u32(value(kHalf, flush(a)) < value(kHalf, flush(b))); });
}

TEST_CASE("Halves from and to other types", "[emulator]") {
  for (const auto& [form, name] : {std::pair{kHalf, "f16"}, {kBrain, "bf16"}}) {
    const Form f = form;
    const std::string t = name;
    check<float>("cvt.f32." + t, tuples<1>(f), [=](u16 a) { return float(value(f, a)); });
    check<u16>("cvt.rn." + t + ".f32", cases<float>(3000), [=](float a) { return encoded(f, a); });
    check<u16>("cvt.rz." + t + ".f32", cases<float>(3000),
               [=](float a) { return encoded(f, a, 'z'); });
    check<u16>("cvt.rn.relu." + t + ".f32", cases<float>(3000), [=](float a) {
      return a != a ? 0x7fffu : a > 0 ? encoded(f, a) : 0u;
    });
    check<u32>("cvt.rn." + t + "x2.f32", cases<float, float>(),
               [=](float a, float b) { return encoded(f, a) << 16 | encoded(f, b); });
    check<u16>("cvt.rn." + t + ".s32", cases<i32>(), [=](i32 a) { return encoded(f, a); });
    check<u16>("cvt.rn." + t + ".u16", cases<u16>(), [=](u16 a) { return encoded(f, a); });
    // Numbers next to a tie that a double does not tell from it.
    Cases<i64> ties;
    for (const i64 x : {i64(0x4040000000000001), i64(0x40c0000000000000), i64(0x40bfffffffffffff)})
      ties.push_back({x}), ties.push_back({-x}), ties.push_back({x >> 46}),
          ties.push_back({x >> 47});
    check<u16>("cvt.rn." + t + ".s64", ties, [=](i64 a) { return encoded(f, a); });
    check<u16>("cvt.rn." + t + ".u64", cases<u64>(), [=](u64 a) { return encoded(f, a); });
    if (f.fraction == 10)
      for (const char mode : {'m', 'p'})
        check<u16>(std::string("cvt.r") + mode + ".f16.f32", cases<float>(3000),
                   [=](float a) { return encoded(f, a, mode); });
    check<i32>("cvt.rni.s32." + t, tuples<1>(f), [=](u16 a) {
      const double x = std::nearbyint(value(f, a));
      return x != x ? 0 : x <= -0x1p31 ? INT32_MIN : x >= 0x1p31 ? INT32_MAX : i32(x);
    });
    check<i32>("cvt.rzi.s32." + t, tuples<1>(f), [=](u16 a) {
      const double x = value(f, a);
      return x != x ? 0 : x <= -0x1p31 ? INT32_MIN : x >= 0x1p31 ? INT32_MAX : i32(x);
    });
    check<u64>("cvt.rni.u64." + t, tuples<1>(f), [=](u16 a) {
      const double x = value(f, a);
      return x != x ? u64(1) << 63 : x <= 0 ? 0 : x >= 0x1p64 ? ~u64(0) : u64(std::nearbyint(x));
    });
    const auto whole = [=](const std::string& mode, auto round) {
      check<u16>("cvt." + mode + "." + t + "." + t, tuples<1>(f), [=](u16 a) {
        const double x = value(f, a);
        return is_nan(f, a) ? 0x7fffu : encoded(f, std::copysign(round(x), x));
      });
    };
    whole("rni", [](double x) { return std::nearbyint(x); });
    whole("rzi", [](double x) { return std::trunc(x); });
    whole("rmi", [](double x) { return std::floor(x); });
    whole("rpi", [](double x) { return std::ceil(x); });
  }
  check<u16>("cvt.sat.f16.f16", tuples<1>(kHalf), [](u16 a) {
    const double x = value(kHalf, a);
    return encoded(kHalf, x >= 1 ? 1 : x > 0 ? x : 0);
  });
  check<u16>("cvt.rn.f16.f64", cases<double>(3000), [](double a) { return encoded(kHalf, a); });
  check<double>("cvt.f64.f16", tuples<1>(kHalf), [](u16 a) { return value(kHalf, a); });
}

TEST_CASE("tf32 and the 8-bit floats", "[emulator]") {
  check<u32>("cvt.rna.tf32.f32 $d, $0;", cases<float>(3000), [](float a) {
    if (a != a) return 0x7fffe000u;
    if (std::isinf(a)) return bits_of(a);
    return (bits_of(a) + 0x1000u) & 0xffffe000u;  // halves go away from zero
  });
  for (const auto& [form, name] : {std::pair{kE4, "e4m3x2"}, {kE5, "e5m2x2"}}) {
    const Form f = form;
    const std::string t = name;
    check<u16>("cvt.rn.satfinite." + t + ".f32", cases<float, float>(), [=](float a, float b) {
      return encoded(f, a, 'n', true) << 8 | encoded(f, b, 'n', true);
    });
    check<u32>("cvt.rn.f16x2." + t, cases<u16>(3000), [=](u16 a) {
      return encoded(kHalf, value(f, a >> 8)) << 16 | encoded(kHalf, value(f, a & 255));
    });
    check<u16>("cvt.rn.satfinite." + t + ".f16x2", cases<u32>(3000), [=](u32 a) {
      return encoded(f, value(kHalf, a >> 16), 'n', true) << 8 |
             encoded(f, value(kHalf, a & 0xffff), 'n', true);
    });
  }
}
