// Tables in text: what is read, and where what is not stands.
#include "warptape/data/csv.h"

#include <cfloat>
#include <cmath>

#include "warptape/tests/fuzz/readers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/mutate.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;
using namespace wt::data;

namespace {

CsvTable parse(const std::string& text, const CsvOptions& o = {}) {
  const TempDir dir;
  spit(dir / "t.csv", text);
  return read_csv(dir / "t.csv", o);
}
// What is wrong, behind "t.csv: ".
std::string refusal(const std::string& text, const CsvOptions& o = {}) {
  const std::string m = message_of([&] { parse(text, o); });
  const size_t at = m.find("t.csv: ");
  return at == m.npos ? m : m.substr(at + 7);
}
std::vector<double> values(const CsvTable& t) { return t.values.to_vector<double>(); }
using D = std::vector<double>;

}  // namespace

TEST_CASE("csv: columns by name, by number, in any order") {
  const std::string text = "a,b,c\n1,2,3\n4,5.5,-6e1\n";
  const CsvTable t = parse(text);
  CHECK(t.names == std::vector<std::string>{"a", "b", "c"});
  CHECK(t.values.dtype() == DType::f64);
  CHECK(t.values.shape() == Shape{2, 3});
  CHECK(values(t) == D{1, 2, 3, 4, 5.5, -60});
  CHECK(t.column("b").to_vector<double>() == D{2, 5.5});
  CHECK(t.column(-1).to_vector<double>() == D{3, -60});
  CHECK(t.columns({"c", 0}).to_vector<double>() == D{3, 1, -60, 4});
  const CsvTable part = parse(text, {.columns = {"c", 0, -2}});
  CHECK(part.names == std::vector<std::string>{"c", "a", "b"});
  CHECK(values(part) == D{3, 1, 2, -60, 4, 5.5});
  CHECK(values(parse("1,2\n3,4", {.header = false})) == D{1, 2, 3, 4});
  CHECK(parse("1,2\n3,4", {.header = false}).names == std::vector<std::string>{"0", "1"});
}

TEST_CASE("csv: separators, quotes, line ends, comments, byte order mark") {
  CHECK(values(parse("a;b\n1;2\n", {.separator = ';'})) == D{1, 2});
  CHECK(values(parse("a\tb\n1\t2\n", {.separator = '\t'})) == D{1, 2});
  CHECK(values(parse("  a   b\n 1\t 2  \n3 4", {.separator = ' '})) == D{1, 2, 3, 4});
  CHECK(values(parse("\xef\xbb\xbf"
                     "a,b\r\n1 , 2\r\n\r\n  \n3,4\r")) == D{1, 2, 3, 4});
  CHECK(values(parse("# made up\na,b\n# 1,x\n1,2\n", {.comment = '#'})) == D{1, 2});
  CHECK(values(parse("a,b\r1,2\r\r3,4\r")) == D{1, 2, 3, 4});  // as machines of old wrote them
  CHECK(values(parse("# made up\r\"a\",b\r# 1,x\r1,\"2\"\r", {.comment = '#'})) == D{1, 2});
  CHECK(mentions(refusal("a,b\r1,x\r"), "line 2, column 2 ('b'): 'x' is not a number"));
  const CsvTable t = parse("\"a \"\"x\"\",\ny\",b\n\"1\" , \"2\"\n+3,4");
  CHECK(t.names == std::vector<std::string>{"a \"x\",\ny", "b"});
  CHECK(values(t) == D{1, 2, 3, 4});
  CHECK(parse("a,b\n").values.shape() == Shape{0, 2});
}

TEST_CASE("csv: numbers of every kind, missing ones only where that is said") {
  const D v = values(parse("x\nnan\ninf\n-inf\n1e-300\n.5\n"));
  CHECK(std::isnan(v[0]));
  CHECK(std::isinf(v[1]));
  CHECK(v[2] < 0);
  CHECK(v[3] == 1e-300);
  CHECK(v[4] == 0.5);
  CHECK(values(parse("a,b\n,2\n", {.missing = -1.0})) == D{-1, 2});
  CHECK(std::isnan(values(parse("a,b\n1,\n", {.missing = std::nan("")}))[1]));
  CHECK(refusal("a,b\n1,\n") == "at byte 6: line 2, column 2 ('b'): the value is missing");
  const CsvTable whole = parse("a\n9007199254740993\n", {.dtype = DType::i64});
  CHECK(whole.values.to_vector<i64>()[0] == 9007199254740993);
  CHECK(mentions(refusal("a\n1.5\n", {.dtype = DType::i64}), "'1.5' is not a whole number"));
  CHECK(mentions(refusal("a\n256\n", {.dtype = DType::u8}), "256 does not fit into u8"));
  CHECK(mentions(refusal("a\n3000000000\n", {.dtype = DType::i32}), "does not fit into i32"));
  CHECK(mentions(refusal("a\n99999999999999999999\n", {.dtype = DType::i64}), "into i64"));
  CHECK(mentions(refusal("a\n1e999\n"), "'1e999' is beyond f64"));
  CHECK(mentions(refusal("a\n-0.1e+999999999999999999999\n"), "is beyond f64"));
  CHECK(mentions(refusal("a\n1" + std::string(400, '0') + "\n"), "is beyond f64"));
  // What is too small is 0, with its sign.
  const D tiny = values(parse("a\n1e-400\n-1e-400\n+1e-99999999999999999999\n0." +
                              std::string(400, '0') + "1e5\n5e-324\n0e999\n"));
  CHECK(tiny == D{0, 0, 0, 0, 5e-324, 0});
  CHECK(std::signbit(tiny[1]));
  CHECK(parse("a\n1.5\n", {.dtype = DType::f32}).values.dtype() == DType::f32);
  const CsvOptions f32{.dtype = DType::f32};
  CHECK(refusal("a,b\n1,1e300\n", f32) ==
        "at byte 6: line 2, column 2 ('b'): '1e300' is beyond f32");
  CHECK(mentions(refusal("a\n-3.5e38\n", f32), "line 2, column 1 ('a'): '-3.5e38' is beyond f32"));
  CHECK(mentions(refusal("a,b\n,1\n", {.dtype = DType::f32, .missing = 1e300}), "beyond f32"));
  CHECK(values(parse("a\n3.4028235e38\n1e-60\n", f32)) == D{double(FLT_MAX), 0});
  CHECK(std::isinf(values(parse("a\ninf\n", f32))[0]));
}

TEST_CASE("csv: words become numbers in sorted order, whatever the order of the rows") {
  const std::string text = "x,kind\n1,owl\n2,ant\n3,\"owl\"\n4,bee\n";
  const CsvTable t = parse(text, {.categories = {"kind"}});
  CHECK(t.column("kind").to_vector<double>() == D{2, 0, 2, 1});
  CHECK(t.words("kind") == std::vector<std::string>{"ant", "bee", "owl"});
  CHECK(t.words("x").empty());
  CHECK_THROWS_AS(t.words("kinds"), UsageError);
  const CsvTable twice = parse(text, {.columns = {"kind", "kind"}, .categories = {"kind"}});
  CHECK(twice.words(1) == t.words("kind"));
  const CsvTable whole = parse(text, {.columns = {1}, .categories = {"kind"}, .dtype = DType::u8});
  CHECK(whole.values.to_vector<i64>() == std::vector<i64>{2, 0, 2, 1});
  CHECK(mentions(refusal("x,k\n1,\n", {.categories = {"k"}}), "a category is missing"));
  CHECK(mentions(refusal(text), "line 2, column 2 ('kind'): 'owl' is not a number"));
}

TEST_CASE("csv: the error names file, byte, line and column") {
  CHECK(refusal("a,b\n1,2\n3,4x\n") == "at byte 10: line 3, column 2 ('b'): '4x' is not a number");
  CHECK(refusal("a,b\n\n\"1\n\",2\n") ==
        "at byte 5: line 3, column 1 ('a'): '1\\x0a' is not a number");
  CHECK(refusal("a,b\n\"x\ny\",2\n3,\n", {.categories = {"a"}}) ==
        "at byte 14: line 4, column 2 ('b'): the value is missing");
  CHECK(refusal("a,b\n1,2,3\n") == "at byte 4: line 2 has 3 fields, the first one 2");
  CHECK(refusal("a,b\n1\n") == "at byte 4: line 2 has 1 fields, the first one 2");
  CHECK(refusal("a,a\n") == "at byte 2: line 1: two columns are named 'a'");
  CHECK(refusal("a\n\"1\n") == "at byte 2: line 2: a quote that does not end");
  CHECK(refusal("a\n\"1\"2\n") == "at byte 5: line 2: text after the closing quote");
  CHECK(refusal(std::string("a\n1\0", 4)) == "at byte 3: line 2: a NUL byte; this is no text");
  CHECK(refusal(std::string("a\n\"1\0\"", 6)) == "at byte 4: line 2: a NUL byte; this is no text");
  CHECK(refusal("") == "at byte 0: the table is empty");
  CHECK(refusal("\n \n\r\n") == "at byte 0: the table is empty");
  CHECK(mentions(refusal("a\n\x1b[31m\n"), "'\\x1b[31m' is not a number"));
}

TEST_CASE("csv: columns and options that make no sense") {
  const std::string text = "height,width\n1,2\n";
  CHECK(mentions(refusal(text, {.columns = {"hight"}}),
                 "has no column 'hight'; did you mean 'height'?"));
  CHECK(mentions(refusal(text, {.columns = {2}}), "has no column 2, it has 2"));
  CHECK(mentions(refusal(text, {.columns = {-3}}), "has no column -3"));
  CHECK(mentions(message_of([&] { (void)parse(text).column("widht"); }), "did you mean 'width'?"));
  CHECK_THROWS_AS(parse(text, {.separator = '"'}), UsageError);
  CHECK_THROWS_AS(parse(text, {.dtype = DType::f16}), DtypeError);
  CHECK_THROWS_AS(parse(text, {.separator = '#', .comment = '#'}), UsageError);
  const TempDir dir;
  spit(dir / "t", "a,b\n" + std::string(100, '1') + ",2\n");
  CHECK(mentions(message_of([&] { read_csv(dir / "t", {}, {.max_string = 99}); }),
                 "a field of 100 bytes, the limit is 99"));
  CHECK(
      mentions(message_of([&] { read_csv(dir / "t", {}, {.max_bytes = 50}); }), "the limit is 50"));
  CHECK(mentions(message_of([&] { read_csv(dir / "t", {}, {.max_items = 1}); }),
                 "more than 1 fields"));
  CHECK_THROWS_AS(read_csv(dir / "none"), DataError);
}

TEST_CASE("csv: whatever is done to a file, it is read or refused with its place") {
  const std::string text = "a,b,\"c c\"\n1,2,\"3\"\n-4.5,nan,6e7\r\n\n7,\"8\",9\n";
  const std::vector<std::string_view> words{"\"", ",", "\n",   "\r\n", "\"\"", "nan", "1e400",
                                            "#",  " ", "\xff", "-",    "\t",   ";",   "\r"};
  FuzzPlan plan(5'000, 11);
  long long accepted = 0;
  for (long long i = 0; i < plan.cases; ++i)
    accepted += wt_test::takes_csv(mutated(text, plan.random, words));
  CHECK(accepted > plan.cases / 50);
  CHECK(accepted < plan.cases / 5 * 4);
  for (size_t n = 0; n < text.size(); ++n) {
    const std::string seen = refusal(text.substr(0, n));
    CAPTURE(n, seen);
    CHECK((seen.empty() || seen.starts_with("at byte ")));
  }
}
