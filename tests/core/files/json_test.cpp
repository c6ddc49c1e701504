#include "warptape/core/files/json.h"

#include <cmath>
#include <limits>

#include "warptape/core/error.h"
#include "warptape/tests/support/catch.h"

using wt::JsonReader;

namespace {

std::string read_string(std::string_view text) {
  JsonReader json(text, "f");
  std::string value = json.string();
  json.finish();
  return value;
}

void skip(std::string_view text) {
  JsonReader json(text, "f");
  json.skip_value();
  json.finish();
}

}  // namespace

TEST_CASE("JSON strings survive quoting and reading") {
  const std::string odd = "a\"\\\n\t\x01\x7f \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80";
  CHECK(read_string(wt::json_quote(odd)) == odd);
  CHECK(read_string(R"("\u00e9\ud83d\ude00\/\b")") == "\xC3\xA9\xF0\x9F\x98\x80/\b");
  CHECK(wt::json_quote("\xff<\xC3") == "\"\xEF\xBF\xBD<\xEF\xBF\xBD\"");
}

TEST_CASE("JSON strings that are not strict are refused") {
  for (const char* text :
       {"\"", "\"a", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\ud800\"",
        "\"\\ud800\\u0041\"", "\"\\udc00\"", "\"\x01\"", "\"\n\"", "\"\xff\"", "\"\xC0\x80\"",
        "\"\xED\xA0\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xE2\x82\"", "'a'", "\"a\"b"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(read_string(text), wt::DataError);
  }
}

TEST_CASE("JSON numbers read back as the same double") {
  const double inf = std::numeric_limits<double>::infinity();
  for (const double x :
       {0.0, -0.0, 0.1, 1.0 / 3, double(0.1f), 1e308, 5e-324, 123456789012345678.0, inf, -inf}) {
    const std::string text = wt::json_number(x);
    CAPTURE(text);
    JsonReader json(text, "f");
    const double back = json.scalar().number();
    CHECK(back == x);
    CHECK(std::signbit(back) == std::signbit(x));
  }
  CHECK(wt::json_number(3) == "3");
  CHECK(wt::json_number(3e-4) == "0.0003");
  CHECK(wt::json_number(1e6) == "1000000");
  CHECK(wt::json_number(1e-7) == "1e-07");
  const std::string nan = wt::json_number(std::nan(""));
  JsonReader json(nan, "f");
  CHECK(std::isnan(json.scalar().number()));
}

TEST_CASE("JSON numbers beyond a double are 0 or infinity, as other readers have them") {
  const double inf = std::numeric_limits<double>::infinity();
  const std::pair<const char*, double> cases[] = {{"1e-400", 0.0},
                                                  {"-1e-400", -0.0},
                                                  {"0.0000001e-330", 0.0},
                                                  {"1e-99999999999999999999", 0.0},
                                                  {"0.0e400", 0.0},
                                                  {"1e400", inf},
                                                  {"1e9223372036854775807", inf},
                                                  {"0.001e-9223372036854775807", 0.0},
                                                  {"-123E+400", -inf},
                                                  {"1e99999999999999999999", inf},
                                                  {"4567e-327", 5e-324}};
  for (const auto& [text, want] : cases) {
    CAPTURE(text);
    JsonReader json(text, "f");
    const double got = json.scalar().number();
    CHECK(got == want);
    CHECK(std::signbit(got) == std::signbit(want));
  }
  // Their neighbours without an exponent.
  const std::string zeros(400, '0');
  for (const auto& [text, want] : {std::pair{"0." + zeros + "1", 0.0},
                                   {"1" + zeros + ".5", inf},
                                   {"0." + zeros + "1e401", 1.0}}) {
    JsonReader json(text, "f");
    CHECK(json.scalar().number() == want);
  }
}

TEST_CASE("JSON integers are digits within the bound") {
  const auto read = [](std::string_view text) {
    JsonReader json(text, "f");
    const wt::u64 value = json.unsigned_int(1000);
    json.finish();
    return value;
  };
  CHECK(read("0") == 0);
  CHECK(read(" 1000 ") == 1000);
  for (const char* text :
       {"1001", "01", "-1", "1.0", "1e2", "", "x", "18446744073709551616", "+1"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(read(text), wt::DataError);
  }
}

TEST_CASE("skip_value takes one JSON value, without recursion") {
  for (const char* text :
       {"1", "null", "{}", "[]", "[1,{\"a\":[],\"b\":{\"c\":\"}\"}},-1.5e3]", "[[[]]]"}) {
    CAPTURE(text);
    CHECK_NOTHROW(skip(text));
  }
  for (const char* text : {"", "[", "{", "[1,]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "[1}",
                           "{1:2}", "nul", "1.", "1e", "-", "[1 2]", "00", "tru"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(skip(text), wt::DataError);
  }
  CHECK_NOTHROW(skip(std::string(16, '[') + std::string(16, ']')));
  CHECK_THROWS_AS(skip(std::string(1'000'000, '[')), wt::DataError);
}

TEST_CASE("JSON errors name file and byte") {
  JsonReader json("  x", "some.json", 100);
  try {
    json.expect('{');
    FAIL("must throw");
  } catch (const wt::DataError& e) {
    CHECK(std::string(e.what()) == "DataError: some.json: at byte 102: expected '{', found 'x'");
  }
}
