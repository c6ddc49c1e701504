#include "warptape/tools/wt/reports/run_report.h"

#include <cmath>

#include "warptape/core/error.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/faulty_files.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tools/wt/reports/svg_chart.h"

using namespace wt::tools;

namespace {

RunHistory some_run(int steps) {
  RunHistory h;
  h.version = "0.1.0", h.recipe = "charlm", h.device = "cpu", h.seed = "1";
  h.options = {{"batch", "64"}};
  h.evals.push_back({0, 0, 5.5, 0.01});
  for (int s = 1; s <= steps; ++s) {
    StepRecord r{s, 0, 5.0 / s + 1, 1e-3};
    r.grad_norm = 1 + s % 3, r.items_per_second = 1e4, r.bytes = 1 << 20, r.scale = 65536;
    h.steps.push_back(r);
    if (s % 5 == 0) h.evals.push_back({s, 0, 5.2 / s + 1, 0.5});
  }
  return h;
}

int occurrences(const std::string& text, std::string_view part) {
  int n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

}  // namespace

TEST_CASE("report: one page with every curve, the tables and the baseline") {
  const std::string page = render_report(
      some_run(40),
      {.baseline = ReportBaseline{"unigram entropy", 3.25}, .summary = {{"seconds", "1.5"}}});
  for (const char* part :
       {"<h2>Loss <small>nats", "Held-out accuracy", "Learning rate", "Gradient norm", "Throughput",
        "Memory in use <small>MiB", "unigram entropy 3.25", ">batch</th><td>64<",
        ">seconds</th><td>1.5<", "prefers-color-scheme:dark"}) {
    CAPTURE(part);
    CHECK(page.find(part) != page.npos);
  }
  CHECK(page.find("Loss scale") == page.npos);  // it never changes
  CHECK(occurrences(page, "<figure") == 6);
  CHECK(occurrences(page, "<figure") == occurrences(page, "</figure>"));
  // Evaluations in two charts, the best of them marked, and their legends.
  CHECK(occurrences(page, "<circle") == 2 * (9 + 1) + 2 + 2);
}

TEST_CASE("report: nothing is loaded from anywhere") {
  const std::string page = render_report(some_run(10));
  CHECK(page.find("default-src 'none'") != page.npos);
  for (const char* part : {"<link", "<img", " src=", "@import", "url(", "fetch("}) {
    CAPTURE(part);
    CHECK(page.find(part) == page.npos);
  }
  CHECK(occurrences(page, "http") == 2);  // http-equiv and the name of SVG's namespace
}

TEST_CASE("report: what a run's options say stays text") {
  RunHistory h = some_run(3);
  h.recipe = "</title><script>alert(1)</script>";
  h.options = {{"\"><img onerror=x>", "'\x01&"}};
  const std::string page = render_report(
      h, {.baseline = ReportBaseline{"<em>", 1}, .item = "<i>", .summary = {{"<u>", "<s>"}}});
  for (const char* part : {"<script>alert", "<img", "<em>", "<i>", "<u>", "<s>", "\x01"}) {
    CAPTURE(part);
    CHECK(page.find(part) == page.npos);
  }
  CHECK(page.find("&#39; &amp;") != page.npos);
}

TEST_CASE("report: a run without steps, one step, or nothing but NaN still has a page") {
  CHECK(render_report({}).find("No step has been logged yet") != std::string::npos);
  CHECK(render_report(some_run(1)).find("<figure") != std::string::npos);
  RunHistory h = some_run(200);
  for (StepRecord& r : h.steps) r.loss = std::nan(""), r.grad_norm = INFINITY;
  const std::string page = render_report(h);
  CHECK(page.find("nan") == page.npos);
  CHECK(page.find(">Gradient norm<") == page.npos);
  CHECK(page.find("NaN") != page.npos);  // the last loss, as a number
}

TEST_CASE("report: a million steps are a page of less than 300 kB, and a spike stays visible") {
  RunHistory h = some_run(1);
  for (int s = 2; s <= 1'000'000; ++s) {
    h.steps.push_back({s, 0, s == 777'777 ? 50.0 : 2.0 + s % 7 * 0.01, 1e-3});
  }
  const std::string page = render_report(h);
  CHECK(page.size() < 300'000);
  const std::vector<std::pair<double, double>> points = [&] {
    std::vector<std::pair<double, double>> p;
    for (const StepRecord& r : h.steps) p.emplace_back(double(r.step), r.loss);
    return p;
  }();
  const auto thin = thin_out(points, 450);
  CHECK(thin.size() <= 902);
  CHECK(thin.front() == points.front());
  CHECK(thin.back() == points.back());
  CHECK(std::count(thin.begin(), thin.end(), std::pair<double, double>(777'777, 50)) == 1);
  CHECK(std::is_sorted(thin.begin(), thin.end()));
}

TEST_CASE("report: numbers are short") {
  CHECK(short_number(0) == "0");
  CHECK(short_number(0.25) == "0.25");
  CHECK(short_number(3e-4) == "3e-4");
  CHECK(short_number(2.5e-4) == "2.5e-4");
  CHECK(short_number(1e-3) == "0.001");
  CHECK(short_number(2000) == "2000");
  CHECK(short_number(24860) == "24.86k");
  CHECK(short_number(-1.2e6) == "-1.2M");
  CHECK(short_number(NAN) == "NaN");
}

TEST_CASE("report: it is written beside the metrics or not at all") {
  const TempDir dir;
  MetricsWriter::create(dir / "metrics.jsonl", {"0.1.0", "r", "cpu", 1, {}})
      .log(StepRecord{1, 0, 2, 1});
  write_report(dir / "report.html", dir / "metrics.jsonl");
  CHECK(slurp(dir / "report.html").ends_with("</html>\n"));
  CHECK_THROWS_AS(write_report(dir / "report.html", dir / "absent"), wt::DataError);
  const std::string before = slurp(dir / "report.html");
  const FaultyFiles faults(3, ENOSPC);
  CHECK_THROWS_AS(write_report(dir / "report.html", dir / "metrics.jsonl"), wt::CheckpointError);
  CHECK(slurp(dir / "report.html") == before);
}
