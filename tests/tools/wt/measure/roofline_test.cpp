// wt bench roofline's arithmetic and chart over planted lines: 100 GB/s and 1,000 GFLOP/s, which
// meet at 10 FLOPs a byte.
#include "warptape/tools/wt/measure/roofline.h"

#include "warptape/core/error.h"
#include "warptape/core/str.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt::tools;

namespace {

std::string line(const std::string& bench, double gb_s, double gflop_s, const char* dtype = "f32") {
  return str("{\"bench\":\"", bench, "\",\"impl\":\"v\",\"shape\":\"s\",\"dtype\":\"", dtype,
             "\",\"median_us\":1000,\"gb_s\":", gb_s, ",\"tflop_s\":", gflop_s / 1e3,
             ",\"machine\":\"host\"}\n");
}
const std::string kCeilings =
    line("ceiling_copy", 100, 0, "u8") + line("ceiling_gemm", 3, 1000, "f32");

Roofline of(const std::string& text) {
  return roofline_of(read_bench_lines(text, "r.json"), "r.json");
}

// The rows of the chart between its axes, from above.
std::vector<std::string> grid_of(const std::string& chart) {
  std::vector<std::string> rows;
  for (size_t at = 0; at < chart.size();) {
    const size_t end = chart.find('\n', at);
    const std::string row = chart.substr(at, end - at);
    if (row.size() > 9 && row[9] == '|') rows.push_back(row.substr(10));
    at = end + 1;
  }
  return rows;
}

}  // namespace

TEST_CASE("roofline: a kernel is held against what its intensity allows") {
  const Roofline r = of(kCeilings + line("add", 80, 8) + line("matmul", 20, 500) +
                        line("conv_forward", 90, 180) + line("matmul", 20, 800, "bf16"));
  CHECK(r.machine == "host");
  CHECK(r.copy_gb_s == 100);
  CHECK(r.roof(1, "f32") == Approx(100));
  CHECK(r.roof(50, "f32") == Approx(1000));
  CHECK(r.roof(50, "bf16") == Approx(5000));  // no product of bf16 was measured
  REQUIRE(r.points.size() == 4);              // by intensity
  CHECK(r.points[0].kernel == "add");
  CHECK(r.points[0].intensity == Approx(0.1));
  CHECK(r.points[0].fraction == Approx(0.8));
  CHECK(r.points[0].bound == "copy");
  CHECK(r.points[1].kernel == "conv_forward");
  CHECK(r.points[1].fraction == Approx(0.9));  // few FLOPs a byte: memory is its roof
  CHECK(r.points[1].bound == "copy");
  CHECK(r.points[2].fraction == Approx(0.5));
  CHECK(r.points[2].bound == "gemm");
  CHECK(r.points[3].dtype == "bf16");
  CHECK(r.points[3].fraction == 0);
  CHECK(r.points[3].bound.empty());
}

TEST_CASE("roofline: products of f16 are held against those of bf16, as in all benchmarks") {
  const Roofline r =
      of(kCeilings + line("ceiling_gemm", 3, 4000, "bf16") + line("matmul", 20, 1600, "f16"));
  CHECK(r.points[0].fraction == Approx(0.4));
  CHECK(r.points[0].bound == "gemm");
}

TEST_CASE("roofline: launches that are too small, ceilings and what was not timed are no points") {
  const std::string untimed = "{\"bench\":\"add\",\"median_us\":null,\"gb_s\":null}\n";
  CHECK(of(kCeilings + untimed + line("add", 0.9, 0.1)).points.empty());
  CHECK(of(kCeilings + line("add", 1.1, 0.1)).points.size() == 1);
  CHECK(of(kCeilings + line("ceiling_copy", 50, 0, "u8")).copy_gb_s == 50);  // the last run's
}

TEST_CASE("roofline: without a copy's rate, or with a damaged line, the file is named") {
  CHECK_THROWS_AS(of(line("add", 80, 8)), DataError);
  const std::string said = message_of([] { (void)of(line("add", 80, 8)); });
  CHECK(said.find("r.json: no line of ceiling_copy") != said.npos);
  CHECK(message_of([] { (void)of(kCeilings + "{\"bench\":}"); }).find("r.json") !=
        std::string::npos);
}

TEST_CASE("roofline: the chart has the roof, and kernels where they lie under it") {
  const Roofline r = of(kCeilings + line("add", 90, 0.9) + line("add", 90, 0.9) +
                        line("matmul", 5, 500) + line("matmul", 8, 8));
  const std::vector<std::string> grid = grid_of(draw_roofline(r));
  REQUIRE(grid.size() == 20);
  std::string all;
  for (const std::string& row : grid) {
    CHECK(row.size() == 76);
    all += row + "\n";
  }
  CAPTURE(all);
  const auto count = [&](char c) { return std::count(all.begin(), all.end(), c); };
  CHECK(count('2') == 1);  // two at one place
  CHECK(count('o') == 2);
  CHECK(count('/') > 30);
  CHECK(count('-') > 10);
  // The roof rises to the right until products end it, and nothing lies above it.
  size_t before = grid.size();
  for (size_t column = 0; column < 76; ++column) {
    size_t roof = grid.size(), top = grid.size();
    for (size_t row = grid.size(); row-- > 0;) {
      if (grid[row][column] == '/' || grid[row][column] == '-') roof = row;
      if (grid[row][column] != ' ') top = row;
    }
    CHECK(top <= roof);
    if (roof == grid.size()) continue;  // a kernel hides it
    CHECK(top == roof);
    CHECK(roof <= before);
    before = roof;
  }
}

TEST_CASE("roofline: copies alone have no chart") {
  CHECK(draw_roofline(of(kCeilings + line("copy", 80, 0))).empty());
}
