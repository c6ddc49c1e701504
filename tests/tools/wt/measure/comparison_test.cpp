// wt bench compare's arithmetic over planted differences: 3 % is found, 0.3 % is never claimed.
#include "warptape/tools/wt/measure/comparison.h"

#include <cmath>

#include "warptape/core/error.h"
#include "warptape/core/types.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt::tools;

namespace {

TimedFile read_timings(const std::string& text, const std::string& path, const std::string& field) {
  return timings_of(read_bench_lines(text, path), field);
}

// About normal, of deviation 1.
class Noise {
 public:
  explicit Noise(u64 seed) : state_(seed * 2654435761u + 1) {}
  double operator()() {
    double sum = 0;
    for (int i = 0; i < 12; ++i) {
      state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
      sum += double(state_ >> 11) / double(1ull << 53);
    }
    return sum - 6;
  }

 private:
  u64 state_;
};

// `pairs` runs beside each other: the machine drifts by 5 %, which both have, and each run has
// noise of its own.
Verdict planted(double ratio, double noise, int pairs, u64 seed) {
  Noise random(seed);
  TimedRow a{"x", "", {}}, b{"x", "", {}};
  for (int i = 0; i < pairs; ++i) {
    const double drift = 100 * (1 + 0.05 * std::sin(i + double(seed)));
    a.us.push_back(drift * (1 + noise * random()));
    b.us.push_back(drift * ratio * (1 + noise * random()));
  }
  return compare_runs(a, b, {}, 1).verdict;
}

int times(Verdict wanted, double ratio, double noise, int pairs) {
  int n = 0;
  for (u64 seed = 0; seed < 200; ++seed) n += planted(ratio, noise, pairs, seed) == wanted;
  return n;
}

const char* const kLine =
    R"({"bench":"softmax_forward","impl":"avx2","device":"cpu","shape":"8x9","dtype":"f32",)"
    R"("median_us":12.5,"min_us":11,"machine":"M","samples":9})";

}  // namespace

TEST_CASE("compare: 3 % is found and 0.3 % is not claimed") {
  CHECK(times(Verdict::slower, 1.03, 0.004, 7) >= 195);
  CHECK(times(Verdict::faster, 1 / 1.03, 0.004, 7) >= 195);
  for (const double noise : {0.0, 0.001, 0.004, 0.02, 0.1})
    for (const int pairs : {5, 7, 30})
      for (const double ratio : {1.0, 1.003, 1 / 1.003}) {
        CAPTURE(noise, pairs, ratio);
        // Of 200 with a confidence of 95 %, beyond a margin of 1 %: hardly one, by chance.
        CHECK(times(Verdict::slower, ratio, noise, pairs) <= (noise >= 0.01 ? 5 : 0));
        CHECK(times(Verdict::faster, ratio, noise, pairs) <= (noise >= 0.01 ? 5 : 0));
      }
  CHECK(times(Verdict::same, 1.003, 0.001, 5) == 200);  // said to be no difference
  CHECK(times(Verdict::undecided, 1.003, 0.05, 5) >= 190);
  CHECK(times(Verdict::too_few, 2, 0.001, 4) == 200);  // nothing is claimed of four pairs
}

TEST_CASE("compare: one pair that says otherwise takes a claim away") {
  const TimedRow a{"x", "", std::vector<double>(40, 100.0)};
  TimedRow b{"x", "", std::vector<double>(40, 105.0)};
  CHECK(compare_runs(a, b, {}, 1).verdict == Verdict::slower);
  b.us[7] = 99.5;
  CHECK(compare_runs(a, b, {}, 1).verdict == Verdict::undecided);
  CHECK(compare_runs(a, b, {.margin = 0.08}, 1).verdict == Verdict::same);
}

TEST_CASE("compare: more rows have wider intervals") {
  const TimedRow a{"x", "", {100, 101, 99, 100}}, b{"x", "", {103, 104, 103, 102}};
  const Comparison one = compare_runs(a, b, {}, 1), many = compare_runs(a, b, {}, 100);
  CHECK(one.ratio == many.ratio);
  CHECK(std::fabs(one.ratio - 1.03) < 1e-3);
  CHECK(many.low < one.low);
  CHECK(many.high > one.high);
  CHECK(one.least <= one.ratio);
}

TEST_CASE("compare: Student's quantiles are those of the tables") {
  struct Value {
    double probability;
    int freedom;
    double t;
  };
  for (const Value& v : {Value{0.95, 1, 12.706},
                         {0.95, 2, 4.303},
                         {0.95, 5, 2.571},
                         {0.95, 10, 2.228},
                         {0.99, 4, 4.604},
                         {0.95, 120, 1.980}}) {
    CAPTURE(v.freedom);
    CHECK(std::fabs(student_quantile(v.probability, v.freedom) - v.t) < 1e-3);
  }
}

TEST_CASE("compare: lines of one thing are its runs") {
  const std::string twice = std::string(kLine) + "\n\n" + kLine + "\n";
  const TimedFile f = read_timings(twice, "a.json", "median_us");
  REQUIRE(f.rows.size() == 1);
  CHECK(f.rows[0].name == "softmax_forward 8x9 f32 cpu");
  CHECK(f.rows[0].variant == "avx2");
  CHECK(f.rows[0].us == std::vector<double>{12.5, 12.5});
  CHECK(f.machine == "M");
  CHECK(read_timings(kLine, "a.json", "min_us").rows[0].us[0] == 11);

  // Two variants of one contract are two things.
  std::string other = kLine;
  other.replace(other.find("avx2"), 4, "good");
  const TimedFile g = read_timings(twice + other, "a.json", "median_us");
  REQUIRE(g.rows.size() == 2);
  CHECK(g.rows[1].name == "softmax_forward 8x9 f32 cpu good");
  std::vector<std::string> alone;
  CHECK(compare_files(f, g, {}, &alone).empty());
  CHECK(alone.size() == 3);
  // Where each file has one, they are compared: a new rung is what one wants to see.
  alone.clear();
  const auto c = compare_files(f, read_timings(other, "b.json", "median_us"), {}, &alone);
  REQUIRE(c.size() == 1);
  CHECK(c[0].variant_b == "good");
  CHECK(c[0].verdict == Verdict::too_few);

  const std::string said =
      message_of([&] { (void)read_timings(twice + "{\"bench\":}", "a.json", "median_us"); });
  CHECK(said.find("a.json") != said.npos);
  CHECK(message_of([] {
          (void)read_timings("{\"loss\":1}", "m", "min_us");
        }).find("not a line of wt bench") != said.npos);
}
