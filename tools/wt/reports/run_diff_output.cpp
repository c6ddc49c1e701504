#include "warptape/tools/wt/reports/run_diff_output.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "warptape/core/files/html_page.h"
#include "warptape/core/files/json.h"
#include "warptape/core/input_file.h"
#include "warptape/core/shape.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/reports/report_style.h"
#include "warptape/tools/wt/reports/svg_chart.h"

namespace wt::tools {
namespace {

std::string shape_text(const std::vector<i64>& shape) {
  return str(Shape(shape.data(), int(shape.size())));
}

// "a", or "a in A, b in B".
std::string both(const std::string& a, const std::string& b) {
  return a == b ? a : str(a, " in A, ", b, " in B");
}

std::string kind_of(const DiffSide& s) {
  return str(dtype_name(s.dtype), " ", shape_text(s.shape));
}

// "encoder.fc1: gradient of input 1 of linear <- net.cpp:57"
std::string title_of(const DiffPlace& p) {
  std::string text = p.module.empty() ? p.what : str(p.module, ": ", p.what);
  if (const std::string line = both(p.a.line, p.b.line); !line.empty()) text += " <- " + line;
  return text;
}

std::string far_text(const DiffPlace& p) {
  if (!p.comparable) return "other shapes";
  if (std::isinf(p.relative)) return "other elements are finite";
  if (p.relative == 0)
    return p.a.dtype == p.b.dtype ? "less than the sketch resolves" : "equal values";
  return three_digits(p.relative);
}

std::string pair_of_numbers(const char* name, double a, double b) {
  if (a == b) return str(name, " ", three_digits(a));
  char text[96];
  std::snprintf(text, sizeof text, "%s %.9g, %.9g", name, a, b);
  return text;
}

std::string values_text(const DiffPlace& p) {
  const record::Digest &a = p.a.digest, &b = p.b.digest;
  std::string text = pair_of_numbers("mean", a.mean, b.mean) + "; " +
                     pair_of_numbers("largest", a.largest, b.largest);
  if (a.nonfinite || b.nonfinite) text += str("; not finite ", a.nonfinite, ", ", b.nonfinite);
  return text;
}

// Of the samples, the pair that is furthest apart.
std::string sample_text(const DiffPlace& p) {
  const auto &a = p.a.digest.samples, &b = p.b.digest.samples;
  size_t most = 0;
  for (size_t k = 1; k < a.size(); ++k)
    if (std::fabs(a[k] - b[k]) > std::fabs(a[most] - b[most])) most = k;
  if (!p.comparable || a[most] == b[most]) return "";
  i64 n = 1;
  for (const i64 s : p.a.shape) n *= s;
  char text[96];
  std::snprintf(text, sizeof text, "%.9g, %.9g", a[most], b[most]);
  return str("element ", (n - 1) * i64(most) / (record::kSamples - 1), ": ", text);
}

std::string place_text(const char* head, const DiffPlace& p) {
  std::string text = str(head, " at step ", p.step, ", result ", p.place, ":\n  ", title_of(p),
                         "\n  ", both(kind_of(p.a), kind_of(p.b)));
  if (const std::string kernel = both(p.a.kernel, p.b.kernel); !kernel.empty())
    text += ", kernel " + kernel;
  text += str("\n  difference ", far_text(p), ", bound of ", dtype_name(p.judged_as), " ",
              three_digits(p.bound), "\n  A, B: ", values_text(p));
  if (const std::string sample = sample_text(p); !sample.empty()) text += "; " + sample;
  return text + "\n";
}

std::string cell(double v) { return v == 0 ? "-" : std::isinf(v) ? "inf" : three_digits(v); }

// At most `rows` of `all`, the first and the last with them.
template <class T>
std::vector<const T*> some_of(const std::vector<T>& all, std::size_t rows) {
  std::vector<const T*> out;
  const std::size_t n = std::min(all.size(), std::max<std::size_t>(rows, 2));
  for (std::size_t k = 0; k < n; ++k)
    out.push_back(&all[n == 1 ? 0 : k * (all.size() - 1) / (n - 1)]);
  return out;
}

std::string growth_text(const RunDiff& d, std::size_t rows) {
  if (d.growth.size() < 2) return "";
  std::string text = str("\nin step ", d.growth[0].step,
                         " from there, each that is further apart than all before:\n");
  for (const DiffPlace* p : some_of(d.growth, rows)) {
    char line[64];
    std::snprintf(line, sizeof line, "%7lld  %-9s ", static_cast<long long>(p->place),
                  cell(p->relative).c_str());
    text += line + title_of(*p) + "\n";
  }
  return text;
}

std::string steps_text(const RunDiff& d, std::size_t rows) {
  std::string text =
      "\n   step  aligned  other bits   beyond  largest difference: forward  backward  noted\n";
  for (const DiffStep* s : some_of(d.steps, rows)) {
    char line[160];
    std::snprintf(line, sizeof line, "%7lld  %7lld  %10lld  %7lld  %27s %9s %9s\n",
                  static_cast<long long>(s->step), static_cast<long long>(s->aligned),
                  static_cast<long long>(s->other_bits), static_cast<long long>(s->beyond),
                  cell(s->forward).c_str(), cell(s->backward).c_str(), cell(s->noted).c_str());
    text += line;
  }
  return text;
}

std::string verdict(const RunDiff& d) {
  if (d.steps.empty()) return "no step is in both runs";
  if (!d.related) return "the runs are not of one model";
  if (d.first_beyond) return "the runs differ beyond the bound of their dtypes";
  return d.first_bits ? "the runs differ, and within the bounds of their dtypes"
                      : "the runs are equal bit for bit";
}

std::string notes(const RunDiff& d, const DiffNames& n) {
  std::string text;
  if (!d.steps.empty())
    text += str(d.aligned, " of A's ", d.results_a, " and B's ", d.results_b, " results of step ",
                d.steps[0].step, " are aligned\n");
  if (!d.ends.empty()) text += "the alignment ends: " + d.ends + "\n";
  if (d.partial_batches)
    text += str("other numbers of ranks: of rank ", n.rank,
                " what was noted, the parameters, is compared\n");
  if (d.steps_only_a || d.steps_only_b)
    text += str(d.steps_only_a, " steps are in A only, ", d.steps_only_b, " in B only\n");
  if (d.cut_a) text += "A ends within a step: its writer was killed\n";
  if (d.cut_b) text += "B ends within a step: its writer was killed\n";
  return text;
}

std::string side_json(const DiffSide& s) {
  std::string shape;
  for (const i64 n : s.shape) shape += str(shape.empty() ? "" : ",", n);
  const record::Digest& g = s.digest;
  return JsonObject()
      .add("line", s.line)
      .add("kernel", s.kernel)
      .add("dtype", dtype_name(s.dtype))
      .add_raw("shape", "[" + shape + "]")
      .add("mean", g.mean)
      .add("rms", g.rms)
      .add("largest", g.largest)
      .add("nonfinite", g.nonfinite)
      .str();
}

std::string place_json(const std::optional<DiffPlace>& p) {
  if (!p) return "null";
  return JsonObject()
      .add("step", p->step)
      .add("place", p->place)
      .add("what", p->what)
      .add("module", p->module)
      .add("backward", p->backward)
      .add("relative", p->relative)
      .add("bound", p->bound)
      .add("judged_as", dtype_name(p->judged_as))
      .add("comparable", p->comparable)
      .add_raw("a", side_json(p->a))
      .add_raw("b", side_json(p->b))
      .str();
}

std::string row(const char* tag, const std::vector<std::string>& cells) {
  std::string out = "<tr>";
  for (const std::string& c : cells) out += str("<", tag, ">", html_escape(c), "</", tag, ">");
  return out + "</tr>";
}

std::string wide_card(const std::string& title, const std::string& body) {
  return str("<section class=\"card wide\"><h2>", html_escape(title), "</h2>", body,
             "</section>\n");
}

std::string place_card(const char* title, const DiffPlace& p) {
  std::string body = "<table>";
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty())
      body += str("<tr><th scope=\"row\">", name, "</th><td>", html_escape(value), "</td></tr>");
  };
  add("what", title_of(p));
  add("where", str("step ", p.step, ", result ", p.place, p.backward ? ", backward" : ", forward"));
  add("dtype and shape", both(kind_of(p.a), kind_of(p.b)));
  add("kernel", both(p.a.kernel, p.b.kernel));
  add("difference", far_text(p));
  add("bound", str(three_digits(p.bound), ", of ", dtype_name(p.judged_as)));
  add("A, B", values_text(p));
  add("a sample of A, B", sample_text(p));
  return wide_card(title, body + "</table>");
}

std::string growth_chart(const RunDiff& d) {
  if (d.growth.empty()) return "";
  Chart chart{.title = str("Difference in step ", d.growth[0].step),
              .unit = "relative, of what differs",
              .series = {},
              .wide = true,
              .x = "result"};
  if (!d.forward.empty())
    chart.series.push_back({"forward", "train", thin_out(d.forward, 450), true});
  if (!d.backward.empty())
    chart.series.push_back({"backward", "eval", thin_out(d.backward, 450), true});
  return render_chart(chart);
}

std::string steps_chart(const RunDiff& d) {
  Chart chart{
      .title = "Largest difference of each step", .unit = "relative", .series = {}, .wide = true};
  const auto add = [&](const char* name, const char* style, double DiffStep::*of) {
    chart::Points points;
    for (const DiffStep& s : d.steps)
      if (s.*of > 0 && std::isfinite(s.*of)) points.emplace_back(double(s.step), s.*of);
    if (!points.empty()) chart.series.push_back({name, style, thin_out(points, 450), true});
  };
  add("forward", "train", &DiffStep::forward);
  add("backward", "eval", &DiffStep::backward);
  return render_chart(chart);
}

std::string growth_table(const RunDiff& d) {
  if (d.growth.empty()) return "";
  std::string body =
      str(kSearchBar, "<div class=\"scroll\"><table class=\"grown\"><thead>",
          row("th", {"result", "difference", "what", "kernel"}), "</thead><tbody data-searched>");
  for (const DiffPlace* p : some_of(d.growth, 200))
    body += row("td", {str(p->place), far_text(*p), title_of(*p), both(p->a.kernel, p->b.kernel)});
  return wide_card("Each that is further apart than all before", body + "</tbody></table></div>");
}

std::string steps_table(const RunDiff& d) {
  std::string body =
      "<div class=\"scroll\"><table class=\"numbers\"><thead>" +
      row("th", {"step", "aligned", "other bits", "beyond", "forward", "backward", "noted"}) +
      "</thead><tbody>";
  for (const DiffStep* s : some_of(d.steps, 400))
    body += row("td", {str(s->step), str(s->aligned), str(s->other_bits), str(s->beyond),
                       cell(s->forward), cell(s->backward), cell(s->noted)});
  return wide_card("Steps", body + "</tbody></table></div>");
}

}  // namespace

std::string diff_text(const RunDiff& d, const DiffNames& n, std::size_t rows) {
  std::string text = str("A: ", printable_path(n.a), "  ", n.label_a, "\nB: ", printable_path(n.b),
                         "  ", n.label_b, "\n", notes(d, n), "\n", verdict(d), "\n");
  if (d.first_beyond) text += "\n" + place_text("the first beyond its bound", *d.first_beyond);
  if (d.first_bits) text += "\n" + place_text("the first of other bits", *d.first_bits);
  text += growth_text(d, rows);
  if (!d.steps.empty()) text += steps_text(d, rows);
  return printable_lines(text);
}

std::string diff_json(const RunDiff& d, const DiffNames& n) {
  std::string steps;
  for (const DiffStep& s : d.steps)
    steps += (steps.empty() ? "" : ",") + JsonObject()
                                              .add("step", s.step)
                                              .add("aligned", s.aligned)
                                              .add("only_a", s.only_a)
                                              .add("only_b", s.only_b)
                                              .add("other_bits", s.other_bits)
                                              .add("beyond", s.beyond)
                                              .add("forward", s.forward)
                                              .add("backward", s.backward)
                                              .add("noted", s.noted)
                                              .str();
  std::string growth;
  for (const DiffPlace& p : d.growth) growth += (growth.empty() ? "" : ",") + place_json(p);
  return JsonObject()
      .add("a", n.a)
      .add("b", n.b)
      .add("rank", n.rank)
      .add("verdict", verdict(d))
      .add("related", d.related)
      .add("ends", d.ends)
      .add_raw("first_beyond", place_json(d.first_beyond))
      .add_raw("first_bits", place_json(d.first_bits))
      .add_raw("growth", "[" + growth + "]")
      .add_raw("steps", "[" + steps + "]")
      .str();
}

std::string diff_page(const RunDiff& d, const DiffNames& n) {
  const std::string title = "Two runs beside each other";
  std::string said = notes(d, n), paragraphs;
  for (std::size_t at = 0; at < said.size();) {
    const std::size_t end = said.find('\n', at);
    paragraphs += "<p class=\"sub\">" + html_escape(said.substr(at, end - at)) + "</p>\n";
    at = end + 1;
  }
  std::string cards;
  if (d.first_beyond) cards += place_card("The first beyond its bound", *d.first_beyond);
  if (d.first_bits) cards += place_card("The first of other bits", *d.first_bits);
  cards += growth_chart(d) + steps_chart(d) + growth_table(d) + steps_table(d);
  return str(page_begin({.title = title, .style = kReportStyle, .script = true}), "<main><h1>",
             html_escape(verdict(d)),
             "</h1>\n<p class=\"sub\">A: ", html_escape(n.a + "  " + n.label_a),
             "<br>B: ", html_escape(n.b + "  " + n.label_b), "</p>\n", paragraphs,
             "<div class=\"cards\">\n", cards, "</div>\n</main>",
             page_end(str(kReportScript, kSearchScript)));
}

}  // namespace wt::tools
