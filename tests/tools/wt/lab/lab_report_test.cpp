// Reports of `wt lab`: what was written comes back, and whatever is edited is found.
#include "warptape/tools/wt/lab/report.h"

#include "warptape/core/error.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tools/wt/lab/json_value.h"
#include "warptape/tools/wt/lab/lab.h"
#include "warptape/tools/wt/lab/sha256.h"
#include "warptape/tools/wt/lab/table.h"

using namespace wt;
using namespace wt::labs;

TEST_CASE("lab: SHA-256 and HMAC are those of the standards") {
  // FIPS 180-2, appendix B; RFC 4231, cases 1, 2 and 6.
  CHECK(hex_of(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex_of(sha256("abc")) ==
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hex_of(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hex_of(hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hex_of(hmac_sha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hex_of(hmac_sha256(std::string(131, '\xaa'),
                           "Test Using Larger Than Block-Size Key - Hash Key First")) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static Report a_report() {
  Report r;
  r.outcome.lab = 10, r.outcome.name = "tape", r.outcome.title = "The \"tape\"";
  r.outcome.seed = 12345678901234567890ull, r.outcome.challenge = "be <quick>";
  OutcomeRow first{.name = "a & b", .points = 60, .passed = true}, second = first;
  second.passed = false, second.points = 40, second.reason = "it is <3>\nand more";
  second.hint_id = "twice", second.hint = "think";
  r.outcome.rows = {first, second};
  r.student = "</script><b>Eve</b>", r.made = "today", r.version = "warptape 0", r.class_id = "c1";
  r.hints = {{"twice", 2, "How <often>?"}, {"order", 1, "Who comes first?"}};
  // Bytes of all kinds, the page's own marks among them.
  for (int c = 1; c < 256; ++c)
    if (c != '\r') r.source += char(c);
  r.source += "</pre></script>data-digest=\"\n";
  return r;
}

TEST_CASE("lab: a report comes back as it was, in its bytes too") {
  const Report r = a_report();
  const ReadReport back = parse_report(report_page(r, "key"), "r.html");
  CHECK(back.intact("key"));
  CHECK_FALSE(back.intact("another"));
  CHECK_FALSE(back.intact(""));
  CHECK(back.report.student == r.student);
  CHECK(back.report.source == r.source);
  CHECK(back.report.class_id == "c1");
  CHECK(back.report.hints == r.hints);
  CHECK(back.report.outcome.seed == r.outcome.seed);
  CHECK(back.report.outcome.points() == 60);
  CHECK_FALSE(back.report.outcome.passed());
  CHECK(outcome_json(back.report.outcome) == outcome_json(r.outcome));
}

TEST_CASE("lab: a report's page is for a teacher, who knows no names of hints") {
  Report r = a_report();
  const std::string page = report_page(r, "key");
  CHECK(page.find("How &lt;often&gt;? (2 levels)<br>Who comes first? (1 level)") != page.npos);
  CHECK(page.find("<th>class</th><td>c1</td>") != page.npos);
  r.class_id.clear();
  CHECK(report_page(r, "").find("<th>class</th>") == page.npos);
}

TEST_CASE("lab: a byte of a report that is another one is found") {
  const std::string page = report_page(a_report(), "key");
  size_t read = 0;
  for (size_t at = 0; at < page.size(); at += 13) {
    std::string edited = page;
    edited[at] = edited[at] == '1' ? '2' : '1';
    try {
      const bool intact = parse_report(edited, "r.html").intact("key");
      INFO("at byte " << at);
      CHECK_FALSE(intact);
      ++read;
    } catch (const DataError&) {}
  }
  CHECK(read > page.size() / 26);
  // Line ends, as mail may turn them, are no edit.
  std::string mailed;
  for (const char c : page) mailed += c == '\n' ? std::string("\r\n") : std::string(1, c);
  CHECK(parse_report(mailed, "r.html").intact("key"));
}

TEST_CASE("lab: what is no report, or a part of one, is refused") {
  const std::string page = report_page(a_report(), "");
  CHECK_THROWS_AS(parse_report("", "r.html"), DataError);
  CHECK_THROWS_AS(parse_report("<html></html>", "r.html"), DataError);
  for (size_t bytes = 0; bytes + 32 < page.size(); bytes += 97)
    CHECK_THROWS_AS(parse_report(page.substr(0, bytes), "r.html"), DataError);
  CHECK_THROWS_AS(read_json(std::string(100, '[') + std::string(100, ']'), "deep"), DataError);
}

TEST_CASE("lab: the hint of an operator goes before that of all") {
  Lab lab;
  lab.findings = {{"race", "races"}, {"sum/race", "sums"}, {"values", "any"}};
  lab.findings.insert(lab.findings.end(), {{"values near 1000", "far"}, {"sum/values", "sum"}});
  lab.hints = {{"sums", {"one", "two"}}};
  CHECK(lab.hint_of("sum", "race", "") == "sums");
  CHECK(lab.hint_of("max", "race", "") == "races");
  CHECK(lab.hint_of("max", "tail", "").empty());
  // Words of the reason go before the operator.
  CHECK(lab.hint_of("sum", "values", "f32 [3], values near 1000") == "far");
  CHECK(lab.hint_of("sum", "values", "f32 [3]") == "sum");
  CHECK(lab.hint_of("max", "values", "f32 [3]") == "any");
  CHECK(lab.hint_text("sums", 0) == "one");
  CHECK(lab.hint_text("sums", 7) == "two");
  CHECK(lab.hint_text("none", 0).empty());
}

TEST_CASE("lab: a column of the table is as wide as its widest text, in characters") {
  const std::string text = table_text({{.student = "\u00c4\u00d6\u00dc\u00c4\u00d6\u00dc"
                                                   "\u00c4\u00d6\u00dc",
                                        .lab = "sum"},
                                       {.student = "Anna-Lena", .lab = "sum"}},
                                      {});
  CHECK(text.starts_with("student    lab "));
  CHECK(text.find("\nAnna-Lena  0 sum") != text.npos);
}
