#include "warptape/labs/support/cases.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <numeric>
#include <optional>

#include "warptape/core/files/json.h"
#include "warptape/core/philox.h"

namespace wt::lab {
namespace {

std::vector<Case>& all() {
  static std::vector<Case> list;
  return list;
}

std::optional<Failure>& first_failure() {
  static std::optional<Failure> first;
  return first;
}

bool near(double got, double want, double bound) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want);
  return got == want || std::abs(got - want) <= bound;  // infinities are only near themselves
}

// With as many digits as tell the two apart.
std::string is_not(double got, double want) {
  std::string one = str(got), other = str(want);
  if (one == other) one = json_number(got), other = json_number(want);
  return " is " + one + ", not " + other;
}

}  // namespace

u64 Draws::bits() { return mix64(mix64(seed) + 0x9e3779b97f4a7c15ull * ++drawn_); }

i64 Draws::whole(i64 low, i64 high) { return low + i64(bits() % (u64(high - low) + 1)); }

double Draws::real(double low, double high) {
  const u64 b = bits();
  return low + (high - low) * uniform53(u32(b >> 32), u32(b));
}

std::vector<float> Draws::reals(i64 n, double low, double high) {
  std::vector<float> all(static_cast<size_t>(n));
  for (float& x : all) x = float(real(low, high));
  return all;
}

std::vector<i64> Draws::order(i64 n) {
  std::vector<i64> places(static_cast<size_t>(n));
  std::iota(places.begin(), places.end(), 0);
  for (i64 i = n - 1; i > 0; --i) std::swap(places[size_t(i)], places[size_t(whole(0, i))]);
  return places;
}

void fail(std::string reason, std::string_view hint) {
  Failure f{std::move(reason), std::string(hint)};
  if (!first_failure()) first_failure() = f;
  throw f;
}

void expect_close(std::string_view what, double got, double want, double bound,
                  std::string_view hint) {
  if (!near(got, want, bound)) fail(str(what, is_not(got, want)), hint);
}

void expect_close(std::string_view what, const std::vector<float>& got,
                  const std::vector<float>& want, double bound, std::string_view hint) {
  if (got.size() != want.size())
    fail(str(what, " has ", got.size(), " elements, not ", want.size()), hint);
  for (size_t i = 0; i < got.size(); ++i)
    if (!near(got[i], want[i], bound))
      fail(str(what, ", element ", i, " of ", got.size(), ",", is_not(got[i], want[i])), hint);
}

const std::vector<Case>& cases() {
  std::stable_sort(all().begin(), all().end(),
                   [](const Case& a, const Case& b) { return a.line < b.line; });
  return all();
}

detail::Added::Added(const Case& c) { all().push_back(c); }

int run_case(const Case& c, int number, u64 seed, std::string_view key) {
  Draws draws(mix64(seed + u64(number)));
  std::optional<Failure> failed;
  try {
    c.run(draws);
  } catch (const Failure& f) {
    failed = f;
  } catch (const std::exception& e) {
    failed = Failure{str("it threw: ", e.what()), "threw"};
  } catch (...) {
    failed = Failure{"it threw what is no exception of the standard library", "threw"};
  }
  if (first_failure()) failed = first_failure();
  JsonObject line;
  line.add("lab_case", number).add("passed", !failed);
  if (failed) line.add("reason", failed->reason).add("hint", failed->hint);
  line.add("key", key);
  std::printf("\n%s\n", line.str().c_str());
  return std::fflush(stdout) == 0 && !failed ? 0 : 1;
}

}  // namespace wt::lab
