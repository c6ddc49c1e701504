#include "warptape/core/str.h"

#include <climits>
#include <cmath>
#include <limits>
#include <locale>
#include <sstream>

#include "warptape/core/shape.h"
#include "warptape/tests/support/catch.h"

using namespace wt;

namespace {

struct Comma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

struct Named {
  friend std::ostream& operator<<(std::ostream& out, const Named&) { return out << 1234.5; }
};

template <class T>
std::string streamed(T v) {
  std::ostringstream out;
  out << v;
  return out.str();
}

}  // namespace

TEST_CASE("str joins texts, characters, numbers and what prints itself") {
  const std::string text = "of";
  const char* const pointer = "sizes";
  CHECK(str("two ", text, ' ', pointer, ": ", Shape{2, 3}, " and ", 7) ==
        "two of sizes: [2, 3] and 7");
  CHECK(str() == "");
  CHECK(str(true, false, std::string_view("x")) == "10x");
  CHECK(str(i8(-5), " ", u8(200)) == "-5 200");  // numbers, not characters
  CHECK(str(LLONG_MIN, " ", ULLONG_MAX) == "-9223372036854775808 18446744073709551615");
}

TEST_CASE("str prints a float as operator<< does") {
  for (const double v : {0.0, -0.0, 1.0, 0.1, 1.0 / 3, 1e5, 999999.5, 1e6, 123456789.0, 1e-4, 1e-5,
                         5e-324, std::numeric_limits<double>::max(), HUGE_VAL, -HUGE_VAL}) {
    CHECK(str(v) == streamed(v));
    CHECK(str(float(v)) == streamed(float(v)));
  }
  for (const double nan : {std::nan(""), -std::nan("")}) CHECK(str(nan) == "nan");
}

TEST_CASE("a user's locale does not change the numbers of messages") {
  const std::locale before = std::locale::global(std::locale(std::locale(), new Comma));
  const std::string said = str(1234.5, " ", 1234567, " ", Named());
  std::locale::global(before);
  CHECK(said == "1234.5 1234567 1234.5");
}
