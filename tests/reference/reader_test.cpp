#include "warptape/tests/reference/reader.h"

#include <cmath>

#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/temp_dir.h"

using wt::reference::load_reference;
using wt::reference::reference_path;

namespace {

wt::reference::Arrays read_reference(std::string_view text) {
  const TempDir dir;
  spit(dir / "case.txt", text);
  return load_reference(dir / "case.txt");
}

std::string reference_refusal(std::string_view text) {
  try {
    read_reference(text);
    return "";
  } catch (const std::runtime_error& e) {
    const std::string what = e.what();
    return what.substr(what.find("case.txt"));
  }
}

}  // namespace

TEST_CASE("reference: names, dtypes, shapes and values are read") {
  const auto arrays = read_reference(
      "# made by hand\n"
      "x f32 2x3\n1 -2.5 3e-3 4\n0x1p-3 -inf\n"
      "none f64 0x3\n"
      "lr f64 scalar\n0.10000000000000001\n"
      "label i64 1\n-100\n"
      "bad f64 1\nnan\n");
  REQUIRE(arrays.size() == 5);
  const auto& x = arrays.at("x");
  CHECK(x.dtype == "f32");
  CHECK(x.shape == std::vector<std::int64_t>{2, 3});
  REQUIRE(x.values.size() == 6);
  CHECK(x.values[2] == 3e-3);
  CHECK(x.values[4] == 0.125);
  CHECK(x.values[5] == -INFINITY);
  CHECK(arrays.at("none").shape == std::vector<std::int64_t>{0, 3});
  CHECK(arrays.at("none").values.empty());
  CHECK(arrays.at("lr").shape.empty());
  CHECK(arrays.at("lr").values == std::vector<double>{0.1});
  CHECK(arrays.at("label").values == std::vector<double>{-100});
  CHECK(std::isnan(arrays.at("bad").values.at(0)));
}

TEST_CASE("reference: anything else is refused with its line") {
  CHECK(reference_refusal("x f32 2\n1\n") == "case.txt:2: ends inside 'x'");
  CHECK(reference_refusal("x f32 2\n1 2 3\n") == "case.txt:2: too many values for 'x'");
  CHECK(reference_refusal("x f32 2\n1 2,\n") == "case.txt:2: '2,' is no number");
  CHECK(reference_refusal("x f32\n1 2\n") ==
        "case.txt:1: expected NAME DTYPE SHAPE, found 'x f32'");
  CHECK(reference_refusal("x f16 1\n1\n") == "case.txt:1: unknown dtype 'f16'");
  CHECK(reference_refusal("x f32 2x\n1 2\n") == "case.txt:1: '2x' is no shape");
  CHECK(reference_refusal("x f32 -1\n1\n") == "case.txt:1: '-1' is no shape");
  CHECK(reference_refusal("x f32 1\n1\nx f32 1\n1\n") == "case.txt:3: a second array named 'x'");
  const TempDir dir;
  CHECK_THROWS_AS(load_reference(dir / "absent.txt"), std::runtime_error);
}

// What the optimizer tests rely on, and that the checked-in numbers are whole: a plain SGD step is
// one subtraction, so the file can be followed here without an optimizer.
TEST_CASE("reference: the trajectory of plain SGD follows from the problem") {
  const auto problem = load_reference(reference_path("optim_problem"));
  const auto sgd = load_reference(reference_path("sgd_plain_f64"));
  const double lr = sgd.at("lr").values.at(0);
  for (const char* const name : {"w", "b"}) {
    std::vector<double> p = problem.at(name + std::string("0")).values;
    const std::vector<double>& grad = problem.at(std::string("grad_") + name).values;
    const std::vector<double>& after = sgd.at(name).values;
    REQUIRE(grad.size() == 50 * p.size());
    REQUIRE(after.size() == grad.size());
    for (std::size_t i = 0; i < grad.size(); ++i) {
      double& value = p[i % p.size()];
      value -= lr * grad[i];
      CAPTURE(name, i);
      CHECK(std::abs(value - after[i]) <= 1e-14 * std::max(1.0, std::abs(value)));
    }
  }
}
