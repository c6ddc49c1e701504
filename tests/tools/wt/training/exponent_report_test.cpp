// Exponents in the report: which snapshots are kept, the section, the JSON.
#include "warptape/tools/wt/training/exponent_report.h"

#include "warptape/kernels/exponent_counts.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using namespace wt::tools;

namespace {

ExponentSnapshot snapshot(i64 step, bool skipped = false) {
  GradientExponents e;
  e.scale = 1024;
  for (const char* name : {"a<b>.weight", "bias"}) {
    e.rows.push_back({name, std::vector<i64>(kExponentBins, 0)});
    e.rows.back().counts[size_t(-20 - kLowestExponent)] = 3;
    e.rows.back().counts[size_t(-18 - kLowestExponent)] = 5;
    e.rows.back().counts[kZeroBin] = 1;
  }
  return {step, skipped, e};
}
std::size_t occurrences(const std::string& text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

}  // namespace

TEST_CASE("exponent history: a sample of the whole run, the first skipped step and the ends stay") {
  for (const i64 steps : {1, 2, 31, 32, 33, 100, 5000}) {
    ExponentHistory h;
    for (i64 s = 1; s <= steps; ++s) h.add(snapshot(s, s == 7 || s == 90));
    CAPTURE(steps);
    CHECK(h.kept().size() <= 32);
    CHECK(h.kept().size() >= std::size_t(std::min<i64>(steps, 16)));
    CHECK(h.kept().front().step == 1);
    CHECK(h.kept().back().step > steps - std::max<i64>(1, steps / 15));
    const bool seven = std::any_of(h.kept().begin(), h.kept().end(),
                                   [](const ExponentSnapshot& s) { return s.step == 7; });
    CHECK(seven == (steps >= 7));
  }
}

TEST_CASE("exponent section: heat maps of the newest, of a skipped step, and over the run") {
  CHECK(render_exponents({}).empty());
  const std::string one = render_exponents({snapshot(5)});
  CHECK(occurrences(one, "<figure") == 1);
  CHECK(occurrences(one, "<svg") == occurrences(one, "</svg>"));
  CHECK(one.find("a<b>") == one.npos);
  CHECK(one.find("a&lt;b&gt;.weight, 2^-20 and smaller: 33.3 %") != one.npos);
  CHECK(one.find("at scale 1024") != one.npos);
  CHECK(one.find("nothing overflows up to a scale of 2^33") != one.npos);
  const std::string all = render_exponents({snapshot(5), snapshot(7, true), snapshot(9)});
  CHECK(occurrences(all, "<figure") == 3);
  CHECK(all.find("Gradient exponents of a skipped step") != all.npos);
  CHECK(all.find("step 7, skipped") != all.npos);
}

TEST_CASE("exponent JSON: rows without the zeros around them") {
  CHECK(
      exponents_json({snapshot(5)}) ==
      R"({"snapshots":[{"step":5,"skipped":false,"scale":1024,"rows":[)"
      R"({"name":"a<b>.weight","elements":9,"zero":1,"inf":0,"nan":0,"lowest":-20,)"
      R"("counts":[3,0,5]},)"
      R"({"name":"bias","elements":9,"zero":1,"inf":0,"nan":0,"lowest":-20,"counts":[3,0,5]}]}]})");
}
