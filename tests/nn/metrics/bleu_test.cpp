// BLEU beside sacrebleu's on the same strings (tools/generators/make_bleu_reference.py).
#include "warptape/nn/bleu.h"

#include <cmath>
#include <fstream>
#include <sstream>

#include "warptape/core/error.h"
#include "warptape/core/files/json.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/version.h"

using namespace wt;
using namespace wt::metrics;

namespace {

struct Case {
  std::string name, text;
  BleuOptions options;
  std::vector<std::string> lines, tokens;
  std::vector<std::vector<std::string>> references;  // of each line
  std::vector<double> score;  // score, precisions, brevity penalty, the two lengths
};

std::vector<Case> load_cases() {
  const std::string path = reference::reference_path("data/bleu");
  std::ifstream in(path);
  std::vector<Case> cases;
  for (std::string row; std::getline(in, row);) {
    const size_t space = row.find(' ');
    const std::string key = row.substr(0, space),
                      rest = row.substr(std::min(space, row.size() - 1) + 1);
    const auto quoted = [&, text = rest] { return JsonReader(text, path, 0, {}).string(); };
    if (key == "case") cases.emplace_back().name = rest;
    if (key == "smoothing" && rest == "none") cases.back().options.smoothing = BleuSmoothing::none;
    if (key == "line")
      cases.back().lines.push_back(quoted()), cases.back().references.emplace_back();
    if (key == "reference") cases.back().references.back().push_back(quoted());
    if (key == "tokens") cases.back().tokens.push_back(quoted());
    if (key == "text") cases.back().text = rest;
    if (key == "score") {
      std::istringstream numbers(rest);
      for (double v; numbers >> v;) cases.back().score.push_back(v);
    }
  }
  return cases;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& w : words) text += (text.empty() ? "" : " ") + w;
  return text;
}

// sacrebleu's line with our version.
std::string with_our_version(std::string text) {
  const size_t at = text.find("VERSION");
  return text.replace(at, 7, str("warptape-", WARPTAPE_VERSION_STRING));
}

// The same operations in f64, but for the last bits of exp and log.
bool near(double a, double b) { return std::fabs(a - b) <= 1e-13 * std::fabs(b); }

}  // namespace

TEST_CASE("bleu: words, score, precisions, lengths and text are sacrebleu's") {
  const std::vector<Case> cases = load_cases();
  REQUIRE(cases.size() == 22);
  for (const Case& c : cases) {
    INFO(c.name);
    Bleu all(c.options);
    for (size_t i = 0; i < c.lines.size(); ++i) {
      CHECK(joined(tokenize_13a(c.lines[i])) == c.tokens[i]);
      all.add(c.lines[i], c.references[i]);
    }
    const BleuScore s = all.value();
    REQUIRE(c.score.size() == 8);
    CHECK(near(s.score, c.score[0]));
    for (size_t n = 0; n < 4; ++n) CHECK(near(s.precisions[n], c.score[1 + n]));
    CHECK(near(s.brevity_penalty, c.score[5]));
    CHECK(double(s.length) == c.score[6]);
    CHECK(double(s.reference_length) == c.score[7]);
    CHECK(s.text() == with_our_version(c.text));
  }
}

TEST_CASE("bleu: counts of parts add up to those of the whole") {
  const std::vector<std::string> lines = {"two dogs run fast now", "a cat sits on the mat", "x"};
  const std::vector<std::string> references = {"two dogs run far now", "a cat sat on the mat", "y"};
  const BleuScore whole = bleu(lines, {references});
  Bleu first, second, both;
  first.add(lines[0], {references[0]});
  for (size_t i = 1; i < 3; ++i) second.add(lines[i], {references[i]});
  std::vector<double> sums = first.sums();
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += second.sums()[i];
  both.set_sums(sums);
  CHECK(whole.score > 0);
  CHECK(both.value().text() == whole.text());
  second.add("z", {"z", "w"});
  CHECK(second.value().references == -1);
  CHECK(second.value().signature().starts_with("nrefs:var|"));
}

TEST_CASE("bleu: sets of another length are all named, and nothing is no corpus") {
  CHECK(mentions(message_of([] {
                   bleu({"a", "b"}, {{"a", "b"}, {"a"}, {}});
                 }),
                 "[bleu] references for 2 lines: set 1 has 1, set 2 has 0"));
  CHECK(mentions(message_of([] { bleu({}, {{}}); }), "0 lines and 1 sets of references"));
  CHECK(mentions(message_of([] { bleu({"a"}, {}); }), "1 lines and 0 sets of references"));
  Bleu b;
  CHECK(mentions(message_of([&] { b.add("a", {}); }), "a line has no reference"));
  CHECK(mentions(message_of([&] { b.set_sums({1, 2}); }), "13 sums, got 2"));
}
