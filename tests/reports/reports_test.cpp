// Every row of this folder on every device, and README.md against the rows: WT_WRITE_REPORTS=1
// writes its tables anew.
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "warptape/core/error.h"
#include "warptape/tests/reports/report.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"

using namespace wt;
using namespace wt_test;

namespace {

const Subject kSubjects[] = {
    {"Derivatives", derivative_reports},
    {"Functions of numbers", value_reports},
    {"Remainders", remainder_reports},
    {"Sums and statistics", statistic_reports},
    {"Order, places, indices", order_reports},
    {"Layers", layer_reports},
    {"Training", training_reports},
};

const std::string kReadme = WT_SOURCE_DIR "/tests/reports/README.md";
constexpr const char* kBegin = "<!-- reports: written by reports_test.cpp -->\n";

void try_one(const Report& report, Device d) {
  INFO(report.where << " on " << to_string(d) << ": " << report.said);
  const Tensor got = report.tried(d);
  CHECK(got.device() == d);
  const Values all = values(got);
  REQUIRE(all.size() == report.want.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const double want = report.want[i], size = std::max(std::fabs(want), report.magnitude);
    INFO("element " << i << " is " << all[i] << ", " << want << " is right");
    CHECK(within(all[i], want, value_bound(got.dtype(), got.dtype(), report.terms, want, size)));
  }
}

std::string tables() {
  std::ostringstream out;
  for (const Subject& subject : kSubjects) {
    out << "\n## " << subject.title
        << "\n\n| report | what was said | right, and here |\n|---|---|---|\n";
    for (const Report& r : subject.reports())
      out << "| " << r.where << " | " << r.said << " | " << r.right << " |\n";
  }
  return out.str();
}

}  // namespace

TEST_CASE("reports: what went wrong elsewhere is right here, on every device", "[reports]") {
  for (const Device d : kernel_devices())
    for (const Subject& subject : kSubjects)
      for (const Report& report : subject.reports()) {
        try {
          try_one(report, d);
        } catch (const Error& error) {  // the other rows are tried all the same
          FAIL_CHECK(report.where << " on " << to_string(d) << ": " << error.what());
        }
      }
}

TEST_CASE("reports: README.md has a line for each, and thirty reports or more", "[reports]") {
  std::ifstream in(kReadme);
  std::stringstream text;
  text << in.rdbuf();
  const std::string page = text.str();
  const size_t begin = page.find(kBegin);
  REQUIRE(begin != page.npos);
  const std::string head = page.substr(0, begin) + kBegin;
  if (std::getenv("WT_WRITE_REPORTS"))
    std::ofstream(kReadme) << head << tables();
  else
    CHECK(page == head + tables());
  std::set<std::string> places;
  for (const Subject& subject : kSubjects)
    for (const Report& r : subject.reports()) places.insert(r.where);
  CHECK(places.size() >= 30);
}
