#include "warptape/tools/wt/lab/report.h"

#include <algorithm>
#include <ctime>

#include "warptape/core/build_info.h"
#include "warptape/core/chart.h"
#include "warptape/core/error.h"
#include "warptape/core/files/html_page.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/lab/json_value.h"
#include "warptape/tools/wt/lab/sha256.h"
#include "warptape/tools/wt/reports/report_sections.h"
#include "warptape/tools/wt/reports/report_style.h"

namespace wt::labs {
namespace {

using chart::html_escape;
using tools::visible_text;

constexpr u64 kMostReport = u64{32} << 20;
// No text of a page has this: in JSON and in HTML a quotation mark is written otherwise.
constexpr std::string_view kDigestMark = "data-digest=\"";
constexpr size_t kDigest = 64;

constexpr char kLabStyle[] = R"css(
.verdicts td:nth-child(2){white-space:nowrap;padding:4px 16px}
.verdicts th,.verdicts td{width:auto}.verdicts th{width:34%}
.verdicts .failed{color:var(--eval)}
@media (max-width:560px){.verdicts tr{display:block;border-top:1px solid var(--grid);padding:6px 0}
.verdicts th,.verdicts td{display:block;border:0;padding:1px 0!important;width:100%}}
)css";

std::string tile(const std::string& value, const std::string& label) {
  return str("<li><b>", html_escape(value), "</b><span>", html_escape(label), "</span></li>");
}

std::string text_of(const std::string& s) { return visible_text(s, 4000); }

std::string verdict_rows(const Outcome& o) {
  std::string out;
  for (const OutcomeRow& r : o.rows) {
    const std::string points =
        r.challenge ? (r.passed ? "met" : "open") : str(r.passed ? r.points : 0, " of ", r.points);
    out += str("<tr><th>", r.challenge ? "challenge: " : "", text_of(r.name), "</th><td",
               r.passed ? "" : " class=\"failed\"", ">", points, "</td><td>", text_of(r.reason),
               "</td></tr>\n");
  }
  return out;
}

std::string hints_text(const Report& r) {
  std::string out;
  for (const TakenHint& h : r.hints)
    out += str(out.empty() ? "" : "<br>", text_of(h.text), " (", h.levels,
               h.levels == 1 ? " level)" : " levels)");
  return out.empty() ? "none" : out;
}

std::string fact(const char* name, const std::string& value) {
  return str("<tr><th>", name, "</th><td>", value, "</td></tr>\n");
}

std::string report_json(const Report& r) {
  JsonObject j;
  j.add("wt_lab_report", 1).add("student", r.student).add("made", r.made);
  j.add("version", r.version).add("class", r.class_id).add_raw("outcome", outcome_json(r.outcome));
  std::vector<std::string> hints;
  for (const TakenHint& h : r.hints) {
    JsonObject one;
    one.add("id", h.id).add("taken", h.levels).add("text", h.text);
    hints.push_back(one.str());
  }
  // As hexadecimal digits: a file may have any bytes.
  j.add_raw("hints", json_list(hints)).add("source", hex_of(r.source));
  return j.str();
}

std::string bytes_of(const std::string& hex, const std::string& path) {
  const auto digit = [&](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    data_error(path, 0, "its source is damaged");
  };
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out += char(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return out;
}

// A number that somebody may have written by hand.
int small_number(const Json& j, const char* key) {
  return int(std::clamp<i64>(j.whole(key), 0, 100));
}

Outcome outcome_of(const Json& j) {
  Outcome o;
  o.lab = small_number(j, "lab"), o.name = j.string("name"), o.title = j.string("title");
  o.file = j.string("file"), o.seed = j.seed("seed"), o.pass = small_number(j, "pass");
  o.challenge = j.string("challenge");
  for (const Json& one : j.items("cases")) {
    OutcomeRow r;
    r.name = one.string("name"), r.points = small_number(one, "points");
    r.passed = one.flag("passed"), r.challenge = one.flag("challenge");
    r.reason = one.string("reason"), r.hint_id = one.string("hint_id"), r.hint = one.string("hint");
    o.rows.push_back(std::move(r));
  }
  return o;
}

std::string sealed(const std::string& page, const std::string& key) {
  return hex_of(hmac_sha256(key, page));
}

}  // namespace

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm t{};
  ::gmtime_r(&now, &t);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &t);
  return text;
}

std::string version_text() {
  const BuildInfo& b = build_info();
  return str("warptape ", b.version, *b.commit ? " " : "", b.commit, ", built by ", b.compiler);
}

std::string report_page(const Report& r, const std::string& key) {
  const Outcome& o = r.outcome;
  const std::string title = str("Lab ", o.lab, ": ", o.title);
  const std::string facts =
      fact("file", text_of(o.file)) + fact("seed of its inputs", std::to_string(o.seed)) +
      fact("hints taken", hints_text(r)) + fact("made", html_escape(r.made)) +
      fact("by", html_escape(r.version)) +
      (r.class_id.empty() ? "" : fact("class", html_escape(r.class_id))) +
      fact("edited since",
           str("<code ", kDigestMark, std::string(kDigest, '0'), "\">wt lab table</code> tells",
               r.class_id.empty() ? "" : ", by the class's teacher.json"));
  std::string page = str(
      page_begin({.title = title, .style = str(tools::kReportStyle, kLabStyle), .script = true}),
      "<main><h1>", html_escape(title), "</h1>\n<p class=\"sub\">",
      r.student.empty() ? "no name" : text_of(r.student), "</p>\n<ul class=\"tiles\">",
      tile(str(o.points(), " of 100"), str("points, ", o.pass, " are needed")),
      tile(o.passed() ? "passed" : "not passed", "the lab"),
      o.challenge.empty() ? "" : tile(o.challenge_met() ? "met" : "open", "the challenge"),
      "</ul>\n<div class=\"cards\">\n<section class=\"card wide\"><h2>Cases</h2>\n"
      "<table class=\"verdicts\">",
      verdict_rows(o), "</table></section>\n<section class=\"card wide\"><h2>Source</h2><pre>",
      visible_text(without_carriage_returns(r.source), 4 << 20), "</pre></section>\n",
      "<section class=\"card wide\"><h2>How it was made</h2><table>", facts,
      "</table></section>\n</div>\n</main>\n", page_data(report_json(r)), page_end());
  page = without_carriage_returns(std::move(page));
  const std::string digest = sealed(page, key);
  const size_t at = page.find(kDigestMark);
  return page.replace(at + kDigestMark.size(), kDigest, digest);
}

ReadReport read_report(const std::string& path) {
  return parse_report(read_text(path, kMostReport), path);
}

ReadReport parse_report(std::string file, const std::string& path) {
  ReadReport r;
  r.text = without_carriage_returns(std::move(file));
  constexpr std::string_view kBegin = "<script type=\"application/json\" id=\"data\">";
  const size_t data = r.text.rfind(kBegin), mark = r.text.find(kDigestMark);
  const size_t end = data == std::string::npos ? data : r.text.find("</script>", data);
  if (end == std::string::npos || mark == std::string::npos ||
      mark + kDigestMark.size() + kDigest > r.text.size())
    data_error(path, 0, "it is no report of `wt lab report`");
  r.digest = r.text.substr(mark + kDigestMark.size(), kDigest);
  r.text.replace(mark + kDigestMark.size(), kDigest, std::string(kDigest, '0'));
  const size_t first = data + kBegin.size();
  const Json j = read_json(std::string_view(r.text).substr(first, end - first), path);
  if (!j.find("wt_lab_report") || !j.find("outcome"))
    data_error(path, 0, "it is no report of `wt lab report`");
  r.report.outcome = outcome_of(*j.find("outcome"));
  r.report.student = j.string("student"), r.report.made = j.string("made");
  r.report.version = j.string("version"), r.report.class_id = j.string("class");
  for (const Json& one : j.items("hints"))
    r.report.hints.push_back({one.string("id"), small_number(one, "taken"), one.string("text")});
  r.report.source = bytes_of(j.string("source"), path);
  return r;
}

bool ReadReport::intact(const std::string& key) const { return sealed(text, key) == digest; }

}  // namespace wt::labs
