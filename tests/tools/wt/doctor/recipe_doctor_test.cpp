// `wt doctor` as a function: the shipped recipes have no findings, and docs/doctor.md lists the
// rules. The command itself: wt_doctor_test.sh.
#include "warptape/tools/wt/doctor/recipe_doctor.h"

#include <fstream>
#include <sstream>

#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt::tools;

namespace {

// Neither this machine's time nor its state is the recipe's.
doctor::Options still() {
  return {.steps = 12, .clock_us = [] { return 0.0; }, .machine = [] { return machine::State(); }};
}
TrainOptions small(const std::string& recipe) {
  TrainOptions o;
  o.recipe = recipe;
  o.device = "cpu";
  o.batch = 8;
  o.set = recipe == "charlm"
              ? std::vector<std::string>{"layers=2", "heads=2", "channels=32", "context=32"}
              : std::vector<std::string>{"width=8"};
  return o;
}

}  // namespace

TEST_CASE("row 111: the shipped recipes give the doctor nothing to find", "[wt]") {
  for (const char* recipe : {"charlm", "fashion", "cifar"})
    for (const char* precision : {"f32", "f16", "bf16"}) {
      INFO(recipe << " in " << precision);
      TrainOptions o = small(recipe);
      o.precision = precision;
      const RecipeExam exam = examine_recipe(o, still());
      INFO(exam.report.text());
      CHECK(exam.report.healthy());
      CHECK(exam.report.steps == 12);
      CHECK(exam.batch == 8);
    }
}

TEST_CASE("a recipe whose training does not begin is one finding", "[wt]") {
  TrainOptions o = small("fashion");
  o.data = "/nowhere/at/all";
  const RecipeExam exam = examine_recipe(o, still());
  REQUIRE(exam.report.findings.size() == 1);
  CHECK(exam.report.findings[0].rule == "step-fails");
  CHECK(mentions(exam.report.findings[0].evidence, "/nowhere/at/all"));
}

TEST_CASE("docs/doctor.md lists the rules as they are", "[wt]") {
  std::ifstream file(WT_SOURCE_DIR "/docs/doctor.md");
  std::stringstream page;
  page << file.rdbuf();
  std::string table;
  for (const doctor::RuleInfo& r : doctor::rules())
    if (r.id != std::string("step-fails"))
      table += str("| `", r.id, "` | ", r.subject, " | ", r.finds, " |\n");
  CHECK(mentions(page.str(), table));
}
