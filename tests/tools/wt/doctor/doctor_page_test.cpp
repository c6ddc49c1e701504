// The page of an examination: findings in their order with their numbers, nothing of theirs as
// HTML, and a page where nothing was found.
#include "warptape/tools/wt/doctor/doctor_page.h"

#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt::tools;
using doctor::Finding;
using doctor::Severity;

namespace {

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

std::string page_of(std::vector<Finding> findings, double step_us = 2000) {
  TrainOptions o;
  o.recipe = "fashion", o.precision = "bf16";
  RecipeExam exam{.device = "cpu", .batch = 16};
  exam.report.findings = std::move(findings);
  exam.report.steps = 20, exam.report.step_us = step_us;
  return doctor_page(o, exam);
}

const Finding kWait{.rule = "data-wait",
                    .severity = Severity::waste,
                    .title = "a quarter of a step is waiting",
                    .evidence = "0.5 ms of 2 ms",
                    .cost_us = 500,
                    .gain = "1.3 times the steps",
                    .fix = "data::LoaderOptions{.workers = 4}"};
const Finding kFlat{.rule = "loss-flat",
                    .severity = Severity::wrong,
                    .title = "the loss does not fall",
                    .evidence = "2.3 and 2.3",
                    .fix = "--lr 0.1"};

}  // namespace

TEST_CASE("doctor page: each finding has its rule, numbers, share of a step and fix") {
  const std::string page = page_of({kFlat, kWait});
  CHECK(mentions(page, "<title>fashion on cpu: 2 findings</title>"));
  CHECK(mentions(page, "bf16, batch 16, synthetic data"));
  for (const char* part : {"id=\"data-wait\"", "0.5 ms of 2 ms", "500 us a step, 25 %", "width:25%",
                           "1.3 times the steps", "<code>data::LoaderOptions{.workers = 4}</code>",
                           "<code>--lr 0.1</code>", "2 ms</b>"})
    CHECK(mentions(page, part));
  CHECK(page.find("id=\"loss-flat\"") < page.find("id=\"data-wait\""));
  CHECK(count(page, "<dt>cost</dt>") == 1);  // the other has none that can be measured
  CHECK(count(page, "class=\"copy\"") == 2);
  CHECK(count(page, "<figure") == 0);  // no rates were tried
  CHECK(count(page, "<li class=\"wrong\"><b>1</b>") == 1);
  CHECK(count(page, "<li class=\"waste\"><b>1</b>") == 1);
  CHECK(count(page, "<li class=\"hint\">") == 0);
}

TEST_CASE(
    "doctor page: a cost of more than a step, or of steps that nobody timed, has no bar beyond") {
  Finding long_wait = kWait;
  long_wait.cost_us = 5000;
  CHECK(mentions(page_of({long_wait}), "width:100%"));
  CHECK(count(page_of({long_wait}, 0), "class=\"meter\"") == 0);
}

TEST_CASE("doctor page: what a program says of itself stays text") {
  Finding bad = kWait;
  bad.title = bad.evidence = bad.gain = bad.fix = "</code><script>alert(1)</script>\n\x01\xff\"&'";
  TrainOptions o;
  o.recipe = "<img src=x>", o.data = "<svg onload=x>", o.precision = "<b>";
  RecipeExam exam{.device = "<u>", .batch = 1};
  exam.report.findings = {bad};
  const std::string page = doctor_page(o, exam);
  for (const char* part : {"<script>alert", "<img", "<svg onload", "<b>,", "<u>", "\x01"})
    CHECK(count(page, part) == 0);
  CHECK(mentions(page, "&lt;/code&gt;&lt;script&gt;alert(1)"));
}

TEST_CASE("doctor page: where nothing was found it says so, and what was looked for") {
  const std::string page = page_of({});
  CHECK(mentions(page, "<title>fashion on cpu: nothing found</title>"));
  CHECK(mentions(page, "<h2>Nothing found</h2>"));
  CHECK(mentions(page, str(doctor::rules().size(), " rules looked at 20 steps")));
  CHECK(count(page, "id=\"search\"") == 0);
  for (const doctor::RuleInfo& r : doctor::rules()) CHECK(mentions(page, str(">", r.id, "</th>")));
  CHECK(count(page_of({kWait}), "<a href=\"#data-wait\">") == 1);  // in that table, too
}

TEST_CASE("doctor page: rates that were tried are a chart with a logarithmic axis") {
  TrainOptions o;
  RecipeExam exam{.device = "cpu", .batch = 1};
  exam.report.findings = {kFlat};
  exam.report.rate_curve = {{1e-4, 2.0}, {1e-3, 1.5}, {1e-2, 1.0}, {1e-1, 3.0}};
  const std::string page = doctor_page(o, exam);
  CHECK(count(page, "<figure") == 1);
  CHECK(mentions(page, "Loss by learning rate"));
  for (const char* tick : {">1e-4<", ">0.001<", ">0.01<", ">0.1<"}) CHECK(mentions(page, tick));
  CHECK(mentions(page, "&quot;1e-4&quot;"));       // what is shown under the pointer
  CHECK(count(page, "class=\"mark best\"") == 2);  // the key and the lowest loss
}

TEST_CASE("doctor page: one file for both schemes that asks nobody for anything") {
  const std::string page = page_of({kFlat, kWait});
  CHECK(mentions(page, "default-src 'none'"));
  CHECK(mentions(page, "prefers-color-scheme:dark"));
  for (const char* part : {"<link", "<img", " src=", "@import", "url(", "fetch(", "https:"})
    CHECK(count(page, part) == 0);
}
