// Classes, confusion matrix and sampled text of the report, and the mark of the best evaluation.
#include "warptape/tools/wt/reports/report_sections.h"

#include <cmath>
#include <cstdlib>
#include <random>

#include "warptape/core/factories.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tools/wt/reports/run_report.h"

using namespace wt::tools;
namespace metrics = wt::metrics;

namespace {

int occurrences(const std::string& text, std::string_view part) {
  int n = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

RunHistory run_with_evals(const std::vector<double>& losses) {
  RunHistory h;
  h.recipe = "fashion", h.device = "cpu", h.version = "0.1.0", h.seed = "1";
  wt::i64 step = 0;
  for (const double loss : losses) {
    h.evals.push_back({step, 0, loss, 1 - loss / 4});
    for (int s = 1; s <= 10; ++s) {
      h.steps.push_back({step + s, 0, 2.3 * std::exp(-0.03 * double(step + s)) + 0.3, 1e-3});
    }
    step += 10;
  }
  return h;
}

}  // namespace

TEST_CASE("report sections: the table of classes has scikit-learn's numbers and 0 / 0 marked") {
  // 3 of class 0 (2 right, 1 taken for 1), 1 of class 1 (right), none of class 2, 1 of class 3
  // (taken for 1): class 3 was never predicted.
  const std::vector<wt::i64> counts{2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0};
  const std::vector<std::string> names{"t-shirt", "<coat>", "bag", "boot"};
  const auto report = metrics::report_of_counts(counts, {.target_names = names});
  const ReportConfusion confusion{names, counts};
  const std::string html = render_classes(report, &confusion);
  const auto row = [](const char* name, const char* cells) {
    return "<tr><th scope=\"row\">" + std::string(name) + "</th>" + cells + "</tr>";
  };
  CHECK(has(html, row("t-shirt", "<td>1.00</td><td>0.67</td><td>0.80</td><td>3</td>")));
  CHECK(has(html, row("&lt;coat&gt;", "<td>0.33</td><td>1.00</td><td>0.50</td><td>1</td>")));
  CHECK(has(html, row("bag", "<td>0.00*</td><td>0.00*</td><td>0.00*</td><td>0</td>")));
  CHECK(has(html, row("boot", "<td>0.00*</td><td>0.00</td><td>0.00</td><td>1</td>")));
  CHECK(has(html, row("accuracy", "<td></td><td></td><td>0.60</td><td>5</td>")));
  CHECK(has(html, row("macro avg", "<td>0.33</td><td>0.42</td><td>0.33</td><td>5</td>")));
  CHECK(has(html, row("weighted avg", "<td>0.67</td><td>0.60</td><td>0.58</td><td>5</td>")));
  CHECK(has(html, "* 0 / 0"));
  CHECK(!has(html, "<coat>"));
  // Without the counts only a class without samples is known to be 0 / 0.
  CHECK(has(render_classes(report, nullptr), "<td>0.00</td><td>0.00*</td><td>0.00</td><td>0</td>"));
  const auto some = metrics::report_of_counts(counts, {.labels = {0, 1}});
  CHECK(has(render_classes(some, nullptr), "micro avg"));
  CHECK(!has(render_classes(metrics::report_of_counts({1, 0, 0, 1}), nullptr), "0 / 0"));
}

TEST_CASE("report sections: the confusion matrix has every count and its part of the row") {
  const std::string html = render_confusion({{"a", "<b>"}, {75, 25, 0, 12345}});
  CHECK(occurrences(html, "<td") == 4);
  CHECK(has(html,
            "class=\"right strong\" style=\"--v:0.75\" title=\"a taken for a: 75 of 100 (75.0 "
            "%)\">75</td>"));
  CHECK(has(html,
            "class=\"wrong\" style=\"--v:0.50\" title=\"a taken for &lt;b&gt;: 25 of 100 (25.0 "
            "%)\">25</td>"));
  CHECK(has(html, "<td class=\"none\">0</td>"));
  CHECK(has(html, ">12.35k</td>"));
  CHECK(!has(html, "upright"));
  CHECK(has(render_confusion({{"a", "a very long name"}, {1, 0, 0, 1}}), "upright"));
  CHECK(has(render_confusion({{}, {1, 0, 0, 1}}), "<th scope=\"row\">1</th>"));
  CHECK_THROWS_AS(render_confusion({{}, {1, 2, 3}}), wt::UsageError);
  CHECK_THROWS_AS(render_confusion({{"a"}, {1, 2, 3, 4}}), wt::UsageError);
}

TEST_CASE("report sections: of many classes the most frequent mistakes are listed") {
  std::vector<wt::i64> counts(41 * 41);
  for (std::size_t i = 0; i < 41; ++i) counts[i * 41 + i] = 100;
  counts[7 * 41 + 9] = 50, counts[3 * 41 + 0] = 60, counts[1 * 41 + 2] = 1;
  const std::string html = render_confusion({{}, counts});
  CHECK(!has(html, "heat"));
  const auto first = html.find("<th scope=\"row\">3</th><td>0</td><td>60</td><td>160</td>");
  const auto second = html.find("<th scope=\"row\">7</th><td>9</td><td>50</td><td>150</td>");
  REQUIRE(first != html.npos);
  REQUIRE(second != html.npos);
  CHECK(first < second);
  CHECK(occurrences(html, "scope=\"row\"") == 3);
}

TEST_CASE("report sections: every byte of a text is seen") {
  CHECK(visible_text("a\tb\nc") == "a\tb\nc");
  CHECK(visible_text("<&\"'") == "&lt;&amp;&quot;&#39;");
  CHECK(visible_text("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") ==
        "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  const auto mark = [](const char* code) {
    return "<span class=\"code\">" + std::string(code) + "</span>";
  };
  CHECK(visible_text(std::string_view("\0\r\x1b\x7f", 4)) ==
        mark("\\x00") + mark("\\x0d") + mark("\\x1b") + mark("\\x7f"));
  CHECK(visible_text("\xff\xc3") == mark("\\xff") + mark("\\xc3"));
  CHECK(visible_text("\xe2\x82") == mark("\\xe2") + mark("\\x82"));  // cut within a character
  CHECK(visible_text("\xed\xa0\x80") == mark("\\xed") + mark("\\xa0") + mark("\\x80"));
  CHECK(visible_text("\xe2\x80\xae") == mark("\\u{202e}"));  // turns the direction of what follows
  CHECK(visible_text("\xc2\x85") == mark("\\u{85}"));
  CHECK(visible_text("\xf3\xa0\x80\xa1") == mark("\\u{e0021}"));
  CHECK(visible_text("abcdef", 4) == "abcd" + mark("... 2 more bytes"));
  const std::string html = render_samples({{"temperature <0.8>", "</pre><script>"}, {"x", "y"}});
  CHECK(occurrences(html, "<pre>") == 2);
  CHECK(has(html, "temperature &lt;0.8&gt;"));
  CHECK(has(html, "&lt;/pre&gt;&lt;script&gt;"));
  CHECK(render_samples({}).empty());
}

TEST_CASE("report sections: the best evaluation is marked") {
  const RunHistory h = run_with_evals({2.5, 1.5, 0.9, 0.7, 0.8});
  const std::string page = render_report(h);
  CHECK(occurrences(page, "class=\"mark best\"") == 4);  // two charts, each with a legend
  CHECK(has(page, "<b>0.7 / 82.5 %</b><span>best, step 30</span>"));
  CHECK(has(render_report(h, {.best_step = 20}), "<b>0.9 / 77.5 %</b><span>best, step 20</span>"));
  const std::string last = render_report(run_with_evals({2.5, 1.5, 0.9}));
  CHECK(has(last, "held-out loss, the best"));
  CHECK(!has(last, "<span>best, step"));
  const std::string nan = render_report(run_with_evals({2.5, std::nan("")}));
  CHECK(has(nan, "best, step 0"));
  CHECK(!has(render_report(run_with_evals({2.5})), "mark best"));
  CHECK(!has(render_report(run_with_evals({std::nan(""), std::nan("")})), "mark best"));
}

TEST_CASE("report sections: what a metric counted becomes both tables") {
  metrics::ConfusionMatrix matrix(3);
  ReportOptions options;
  add_classes(options, matrix, {"a", "b", "c"});
  CHECK(!options.classes);
  CHECK(!options.confusion);
  const std::vector<wt::i64> predicted{0, 1, 1, 2}, truth{0, 1, 2, 2};
  matrix.update(wt::tensor(predicted), wt::tensor(truth));
  add_classes(options, matrix, {"a", "b", "c"});
  REQUIRE(options.classes);
  CHECK(options.classes->accuracy() == 0.75);
  REQUIRE(options.confusion);
  CHECK(options.confusion->counts == std::vector<wt::i64>{1, 0, 0, 0, 1, 0, 0, 1, 1});
  options.samples = {{"prompt \"O\"", "O Romeo"}};
  const std::string page = render_report(run_with_evals({2, 1}), options);
  for (const char* part : {"<h2>Classes", "<h2>Confusion matrix", "<h2>Sampled text", "O Romeo"}) {
    CAPTURE(part);
    CHECK(has(page, part));
  }
  CHECK(occurrences(page, "<section") == occurrences(page, "</section>"));
  CHECK(occurrences(page, "<table") == occurrences(page, "</table>"));
}

// With WT_REPORT_PAGES=FOLDER the pages stay there, for somebody who looks at them.
TEST_CASE("report sections: pages of 10 and 20 classes load nothing from anywhere") {
  const TempDir scratch;
  const char* const keep = std::getenv("WT_REPORT_PAGES");
  const std::string folder = keep ? keep : scratch.path;
  std::mt19937 random(3);
  for (const std::size_t n : {std::size_t{10}, std::size_t{20}}) {
    std::vector<std::string> names{"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
                                   "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
    while (names.size() < n) names.push_back("class " + std::to_string(names.size()));
    std::vector<wt::i64> counts(n * n);
    for (std::size_t i = 0; i < n; ++i) {
      for (int sample = 0; sample < 1000; ++sample) {
        const bool right = random() % 100 < 70 + 3 * (i % 10);
        ++counts[i * n + (right ? i : (i + random() % 4 * (random() % 3)) % n)];
      }
    }
    ReportOptions options;
    options.classes = metrics::report_of_counts(counts, {.target_names = names});
    options.confusion = ReportConfusion{names, counts};
    options.summary = {{"seconds", "12.5"}, {"best loss", "0.31"}};
    options.samples = {
        {"temperature 0.8",
         "ROMEO:\nWhat <light> through yonder\x01 window\xff?\n\n" + std::string(300, 'w')}};
    const std::string page =
        render_report(run_with_evals({2.4, 1.4, 0.8, 0.6, 0.5, 0.45, 0.47, 0.5}), options);
    spit(folder + "/report" + std::to_string(n) + ".html", page);
    CHECK(page.size() < 100'000);
    for (const char* part : {"<link", "<img", " src=", "@import", "url(", "fetch("}) {
      CAPTURE(part);
      CHECK(!has(page, part));
    }
    CHECK(occurrences(page, "<script") == 1);  // the hover script of every report
  }
}
