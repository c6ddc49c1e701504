#include "warptape/tools/wt/doctor/doctor_page.h"

#include <algorithm>

#include "warptape/core/files/html_page.h"
#include "warptape/core/input_file.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/reports/report_style.h"
#include "warptape/tools/wt/reports/svg_chart.h"
#include "warptape/version.h"

namespace wt::tools {
namespace {

using doctor::Finding;
using doctor::Report;
using doctor::Severity;

constexpr char kDoctorStyle[] = R"css(
:root{--wrong-ink:#b42318;--waste-ink:#9a4a08;--hint-ink:#1558c0}
@media (prefers-color-scheme:dark){:root{--wrong-ink:#ff8f86;--waste-ink:#ffb366;--hint-ink:#8fc2ff}}
.wrong{--of:var(--wrong-ink)}.waste{--of:var(--waste-ink)}.hint{--of:var(--hint-ink)}
.tiles b{color:var(--of,inherit)}
.findings{list-style:none;margin:0 0 16px;padding:0;display:grid;gap:12px}
.findings li{border-left:4px solid var(--of);padding:12px 16px;scroll-margin-top:12px;min-width:0}
.findings li:target{box-shadow:0 0 0 2px var(--accent)}
.top{display:flex;flex-wrap:wrap;align-items:baseline;gap:2px 10px}
.top h2{font-size:16px;flex:0 1 auto;overflow-wrap:anywhere}
.rank{color:var(--soft);font-weight:400;margin-right:9px;font-variant-numeric:tabular-nums}
.badge{color:var(--of);border:1px solid var(--of);border-radius:99px;padding:0 9px;font-size:12px}
.rule{margin-left:auto;color:var(--soft);text-decoration:none;font:13px ui-monospace,"DejaVu Sans Mono",monospace}
.rule:hover{color:var(--ink);text-decoration:underline}
.evidence{margin:6px 0 8px;white-space:pre-wrap;overflow-wrap:anywhere}
.facts{display:flex;flex-wrap:wrap;gap:2px 28px;margin:0 0 8px;font-size:14px}
.facts div{display:flex;align-items:baseline;gap:8px;min-width:0}
.facts dt{color:var(--soft)}.facts dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
.meter{display:inline-block;width:90px;height:8px;border-radius:4px;background:var(--grid);overflow:hidden;
margin-left:10px}
.meter i{display:block;height:100%;background:var(--of)}
.fix{display:flex;align-items:flex-start;gap:8px;background:var(--page);border:1px solid var(--edge);
border-radius:8px;padding:6px 6px 6px 12px}
.fix code{flex:1 1 auto;min-width:0;font:13px/1.6 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;
white-space:pre-wrap;overflow-wrap:anywhere;padding:2px 0}
.fix button{flex:none;font-size:12.5px;min-width:62px}
.well{text-align:center;padding:36px 20px}
.well h2{font-size:20px;margin:8px 0 4px}
.well svg{width:56px;height:56px;color:#15803d}
@media (prefers-color-scheme:dark){.well svg{color:#5fd38d}}
summary{cursor:pointer;font-weight:600;padding:2px 0 8px}
.rules th{width:auto;white-space:nowrap;font:13px/1.6 ui-monospace,"DejaVu Sans Mono",monospace}
.rules td{padding-right:12px}.rules .found th,.rules .found a{color:var(--of)}
details.card,figure.card,.well{margin:16px 0}
@media (max-width:560px){.rules th{white-space:normal}.rules td{overflow-wrap:normal}
.rules td:nth-child(2){display:none}.rule{margin-left:0}}
)css";

constexpr char kDoctorScript[] = R"js(
// Where the browser lets no page write the clipboard, the text is selected for the user to copy.
for(const b of document.querySelectorAll('.copy'))b.onclick=async()=>{const code=b.previousElementSibling;
 let said='copied';
 try{await navigator.clipboard.writeText(code.textContent)}
 catch{getSelection().selectAllChildren(code);said='selected'}
 b.textContent=said;setTimeout(()=>b.textContent='copy',1500)};
for(const a of document.querySelectorAll('.rules a'))a.onclick=()=>{search.value='';look()};
)js";

std::string time_of(double us) {
  return us < 1e3   ? three_digits(us) + " us"
         : us < 1e6 ? three_digits(us / 1e3) + " ms"
                    : three_digits(us / 1e6) + " s";
}

// What an exception or a file's name says may be any bytes.
std::string visible_lines(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += (at ? "\n" : "") + html_escape(printable_lines(text.substr(at, end - at)));
    at = end + 1;
  }
  return out;
}

std::string doctor_tile(const std::string& value, const std::string& label,
                        const char* style = "") {
  return str("<li class=\"", style, "\"><b>", value, "</b><span>", label, "</span></li>");
}

std::string doctor_tiles(const Report& r) {
  std::string out;
  for (const Severity s : {Severity::wrong, Severity::waste, Severity::hint})
    if (const auto n = std::count_if(r.findings.begin(), r.findings.end(),
                                     [&](const Finding& f) { return f.severity == s; }))
      out += doctor_tile(str(n), doctor::severity_name(s), doctor::severity_name(s));
  if (r.steps > 0) out += doctor_tile(time_of(r.step_us), str("a step, the median of ", r.steps));
  return "<ul class=\"tiles\">" + out + "</ul>\n";
}

std::string fact_row(const char* name, const std::string& value) {
  return str("<div><dt>", name, "</dt><dd>", value, "</dd></div>");
}

std::string fact_list(const Finding& f, double step_us) {
  std::string out;
  if (f.cost_us >= 0) {
    std::string cost = time_of(f.cost_us) + " a step";
    if (step_us > 0) {
      const double part = f.cost_us / step_us;
      cost += str(", ", three_digits(100 * part), " %",
                  "<span class=\"meter\"><i style=\"width:", std::clamp(100 * part, 0.0, 100.0),
                  "%\"></i></span>");
    }
    out += fact_row("cost", cost);
  }
  if (!f.gain.empty()) out += fact_row("gain", visible_lines(f.gain));
  return out.empty() ? "" : "<dl class=\"facts\">" + out + "</dl>";
}

std::string finding_card(const Finding& f, std::size_t rank, double step_us) {
  const std::string rule = html_escape(f.rule), severity = doctor::severity_name(f.severity);
  return str("<li class=\"card ", severity, "\" id=\"", rule,
             "\"><div class=\"top\"><h2><span class=\"rank\">", rank, "</span>",
             visible_lines(f.title), "</h2><span class=\"badge\">", severity,
             "</span><a class=\"rule\" href=\"#", rule, "\">", rule,
             "</a></div><p class=\"evidence\">", visible_lines(f.evidence), "</p>",
             fact_list(f, step_us), "<div class=\"fix\"><code>", visible_lines(f.fix),
             "</code><button class=\"copy\">copy</button></div></li>\n");
}

std::string finding_list(const Report& r) {
  std::string out = str(kSearchBar, "<ol class=\"findings\" data-searched>\n");
  for (std::size_t i = 0; i < r.findings.size(); ++i)
    out += finding_card(r.findings[i], i + 1, r.step_us);
  return out + "</ol>\n";
}

std::string nothing_found(const Report& r) {
  return str(
      "<section class=\"card well\"><svg viewBox=\"0 0 24 24\" fill=\"none\" "
      "stroke=\"currentColor\" "
      "stroke-width=\"2\" aria-hidden=\"true\"><circle cx=\"12\" cy=\"12\" r=\"10\"/>"
      "<path d=\"M7.5 12.5l3 3 6-7\"/></svg><h2>Nothing found</h2><p class=\"note\">",
      doctor::rules().size(), " rules looked at ", r.steps, " steps.</p></section>\n");
}

std::string rate_chart(const Report& r) {
  if (r.rate_curve.empty()) return "";
  const auto least = std::min_element(r.rate_curve.begin(), r.rate_curve.end(),
                                      [](auto& a, auto& b) { return a.second < b.second; });
  return render_chart(
      {.title = "Loss by learning rate",
       .unit = "of the first batch; model and optimizer were put back",
       .series = {{"tried", "train", r.rate_curve, true}, {"lowest", "best", {*least}, true}},
       .wide = true,
       .x = "rate",
       .log_x = true});
}

std::string rule_table(const Report& r) {
  std::string rows;
  for (const doctor::RuleInfo& rule : doctor::rules()) {
    const Finding* f = r.find(rule.id);
    rows += str("<tr", f ? str(" class=\"found ", doctor::severity_name(f->severity), "\"") : "",
                "><th scope=\"row\">",
                f ? str("<a href=\"#", rule.id, "\">", rule.id, "</a>") : rule.id, "</th><td>",
                rule.subject, "</td><td>", html_escape(rule.finds), "</td></tr>");
  }
  return str("<details class=\"card\"><summary>What was looked for: ", doctor::rules().size(),
             " rules</summary><table class=\"rules\">", rows, "</table></details>\n");
}

std::string headline(const TrainOptions& o, const RecipeExam& exam) {
  const std::size_t n = exam.report.findings.size();
  return str(o.recipe, " on ", exam.device, ": ", n == 0 ? "nothing" : str(n),
             n == 0   ? " found"
             : n == 1 ? " finding"
                      : " findings");
}

}  // namespace

std::string doctor_page(const TrainOptions& o, const RecipeExam& exam) {
  const Report& r = exam.report;
  const std::string title = headline(o, exam);
  return str(page_begin({.title = title, .style = str(kReportStyle, kDoctorStyle), .script = true}),
             "<main><h1>", html_escape(title),
             "</h1>\n<p class=\"sub\">warptape " WARPTAPE_VERSION_STRING ", ",
             html_escape(o.precision), ", batch ", exam.batch, ", ",
             o.data.empty() ? "synthetic data" : html_escape(printable_path(o.data)), "</p>\n",
             doctor_tiles(r), r.healthy() ? nothing_found(r) : finding_list(r), rate_chart(r),
             rule_table(r), "</main>", page_end(str(kReportScript, kSearchScript, kDoctorScript)));
}

}  // namespace wt::tools
