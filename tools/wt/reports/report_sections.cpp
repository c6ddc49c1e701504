#include "warptape/tools/wt/reports/report_sections.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "warptape/core/error.h"
#include "warptape/core/files/json.h"
#include "warptape/tools/wt/reports/svg_chart.h"

namespace wt::tools {
namespace {

using Row = metrics::ClassificationReport::Row;

constexpr std::size_t kMaxColumns = 40;     // of the heat map
constexpr std::size_t kBesideClasses = 10;  // no more columns than that fit half of the page
constexpr std::size_t kMistakes = 20;       // in the list instead of it

// Counts of a confusion matrix with the sums of rows and columns.
class Matrix {
 public:
  explicit Matrix(const ReportConfusion& c)
      : size_(std::size_t(std::llround(std::sqrt(double(c.counts.size()))))), c_(c) {
    if (size_ * size_ != c.counts.size() || (!c.names.empty() && c.names.size() != size_)) {
      throw UsageError(str("[report] ", c.counts.size(),
                           " counts of a confusion matrix do not fit ", c.names.size(), " names"));
    }
    rows_.resize(size_), columns_.resize(size_);
    for (std::size_t i = 0; i < size_; ++i) {
      for (std::size_t k = 0; k < size_; ++k) rows_[i] += at(i, k), columns_[k] += at(i, k);
    }
  }
  std::size_t size() const { return size_; }
  i64 at(std::size_t i, std::size_t k) const { return c_.counts[i * size_ + k]; }
  i64 row(std::size_t i) const { return rows_[i]; }
  i64 column(std::size_t k) const { return columns_[k]; }
  std::string name(std::size_t i) const {
    return html_escape(c_.names.empty() ? std::to_string(i) : c_.names[i]);
  }
  bool long_names() const {
    return std::any_of(c_.names.begin(), c_.names.end(), [&](const std::string& n) {
      return n.size() > (size_ > 12 ? 4 : size_ > 4 ? 5 : 12);
    });
  }

 private:
  std::size_t size_;
  const ReportConfusion& c_;
  std::vector<i64> rows_, columns_;
};

std::string section(const char* title, const std::string& note, const std::string& style,
                    const std::string& body) {
  return "<section class=\"card" + style + "\"><h2>" + title +
         (note.empty() ? "" : " <small>" + note + "</small>") + "</h2>" + body + "</section>\n";
}

// undefined: the number is 0 / 0.
std::string ratio_cell(double value, int digits, bool undefined) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return "<td>" + std::string(std::isnan(value) ? "-" : text) + (undefined ? "*" : "") + "</td>";
}

std::string support_cell(i64 n) { return "<td>" + std::to_string(n) + "</td>"; }

std::string average_row(const Row& r, int digits) {
  return "<tr><th scope=\"row\">" + html_escape(r.name) + "</th>" +
         ratio_cell(r.precision, digits, false) + ratio_cell(r.recall, digits, false) +
         ratio_cell(r.f1, digits, false) + support_cell(r.support) + "</tr>";
}

std::string heat_cell(const Matrix& m, std::size_t i, std::size_t k) {
  const i64 count = m.at(i, k);
  if (count <= 0) return "<td class=\"none\">0</td>";
  const double part = double(count) / double(m.row(i));
  // A root, so that the few mistakes of a good model still differ.
  const double heat = std::sqrt(part);
  char style[32], tip[64];
  std::snprintf(style, sizeof style, "%.2f", i == k ? part : heat);
  std::snprintf(tip, sizeof tip, " (%.1f %%)", 100 * part);
  return std::string("<td class=\"") + (i == k ? "right" : "wrong") +
         ((i == k ? part : heat) > 0.55 ? " strong" : "") + "\" style=\"--v:" + style +
         "\" title=\"" + m.name(i) + " taken for " + m.name(k) + ": " + std::to_string(count) +
         " of " + std::to_string(m.row(i)) + tip + "\">" + short_number(double(count)) + "</td>";
}

std::string heat_map(const Matrix& m) {
  std::string out = std::string("<div class=\"scroll\"><table class=\"heat") +
                    (m.long_names() ? " upright" : "") +
                    "\"><thead><tr><th class=\"corner\">true \\ predicted</th>";
  for (std::size_t k = 0; k < m.size(); ++k) {
    out += "<th scope=\"col\"><span>" + m.name(k) + "</span></th>";
  }
  out += "</tr></thead><tbody>";
  for (std::size_t i = 0; i < m.size(); ++i) {
    out += "<tr><th scope=\"row\">" + m.name(i) + "</th>";
    for (std::size_t k = 0; k < m.size(); ++k) out += heat_cell(m, i, k);
    out += "</tr>";
  }
  return out + "</tbody></table></div>";
}

std::string mistakes(const Matrix& m) {
  std::vector<std::size_t> wrong;
  for (std::size_t at = 0; at < m.size() * m.size(); ++at) {
    if (at / m.size() != at % m.size() && m.at(at / m.size(), at % m.size()) > 0)
      wrong.push_back(at);
  }
  const auto count = [&](std::size_t at) { return m.at(at / m.size(), at % m.size()); };
  std::stable_sort(wrong.begin(), wrong.end(),
                   [&](std::size_t a, std::size_t b) { return count(a) > count(b); });
  wrong.resize(std::min(wrong.size(), kMistakes));
  std::string out =
      "<table class=\"numbers\"><thead><tr><th>true</th><th>predicted</th><th>count</th>"
      "<th>of class</th></tr></thead><tbody>";
  for (const std::size_t at : wrong) {
    const std::size_t i = at / m.size();
    out += "<tr><th scope=\"row\">" + m.name(i) + "</th><td>" + m.name(at % m.size()) + "</td>" +
           support_cell(count(at)) + support_cell(m.row(i)) + "</tr>";
  }
  return out + "</tbody></table>";
}

// Length of the UTF-8 character at the front of `text`, 0 if there is none.
std::size_t character(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t n = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  return n <= text.size() && is_utf8(text.substr(0, n)) ? n : 0;
}

u32 code_point(std::string_view c) {
  u32 code = static_cast<unsigned char>(c[0]);
  if (c.size() > 1) code &= 0x7fu >> c.size();
  for (const char next : c.substr(1)) code = code << 6 | (static_cast<unsigned char>(next) & 0x3f);
  return code;
}

// Characters that show nothing or reorder others.
bool invisible(u32 c) {
  return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0) || c == 0xad ||
         (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
         (c >= 0xe0000 && c <= 0xe007f);
}

std::string code_mark(const char* format, u32 value) {
  char text[24];
  std::snprintf(text, sizeof text, format, unsigned(value));
  return std::string("<span class=\"code\">") + text + "</span>";
}

}  // namespace

std::string render_classes(const metrics::ClassificationReport& report,
                           const ReportConfusion* confusion, const std::string& of) {
  std::vector<bool> predicted(report.classes.size(), true);
  if (confusion) {
    const Matrix m(*confusion);
    for (std::size_t k = 0; m.size() == predicted.size() && k < m.size(); ++k) {
      predicted[k] = m.column(k) > 0;
    }
  }
  std::string rows;
  bool any_undefined = false;
  for (std::size_t i = 0; i < report.classes.size(); ++i) {
    const Row& r = report.classes[i];
    const bool no_support = r.support == 0;
    any_undefined |= no_support || !predicted[i];
    rows += "<tr><th scope=\"row\">" + html_escape(r.name) + "</th>" +
            ratio_cell(r.precision, report.digits, !predicted[i]) +
            ratio_cell(r.recall, report.digits, no_support) +
            ratio_cell(r.f1, report.digits, no_support && !predicted[i]) + support_cell(r.support) +
            "</tr>";
  }
  std::string averages;
  if (report.covers_all) {
    averages = "<tr><th scope=\"row\">accuracy</th><td></td><td></td>" +
               ratio_cell(report.accuracy(), report.digits, false) +
               support_cell(report.micro.support) + "</tr>";
  } else {
    averages = average_row(report.micro, report.digits);
  }
  averages +=
      average_row(report.macro, report.digits) + average_row(report.weighted, report.digits);
  return section(
      "Classes", of, "",
      "<table class=\"numbers\"><thead><tr><th></th><th>precision</th><th>recall</th>"
      "<th>f1</th><th>support</th></tr></thead><tbody>" +
          rows + "</tbody><tbody class=\"averages\">" + averages + "</tbody></table>" +
          (any_undefined ? "<p class=\"note\">* 0 / 0: no sample of the class, or none taken for "
                           "it</p>"
                         : ""));
}

std::string render_confusion(const ReportConfusion& confusion, const std::string& of) {
  const Matrix m(confusion);
  if (m.size() > kMaxColumns) {
    return section("Most frequent mistakes", of + ", " + std::to_string(m.size()) + " classes",
                   " wide", mistakes(m));
  }
  return section("Confusion matrix",
                 of + ", counts; colour: part of the row, mistakes by its square root",
                 m.size() > kBesideClasses ? " wide" : " close", heat_map(m));
}

std::string render_samples(const std::vector<ReportSample>& samples) {
  std::string out;
  for (const ReportSample& s : samples) {
    out += section("Sampled text", html_escape(s.label), " wide",
                   "<pre>" + visible_text(s.text) + "</pre>");
  }
  return out;
}

std::string visible_text(std::string_view text, std::size_t limit) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size() && at < limit) {
    const std::size_t n = character(text.substr(at));
    const std::string_view c = text.substr(at, n);
    if (n == 0) {
      out += code_mark("\\x%02x", static_cast<unsigned char>(text[at]));
    } else if (c[0] == '\n' || c[0] == '\t') {
      out += c;
    } else if (const u32 code = code_point(c); invisible(code)) {
      out += code_mark(code < 0x80 ? "\\x%02x" : "\\u{%x}", code);
    } else {
      out += html_escape(c);
    }
    at += std::max<std::size_t>(n, 1);
  }
  if (at < text.size()) {
    out += "<span class=\"code\">... " + std::to_string(text.size() - at) + " more bytes</span>";
  }
  return out;
}

}  // namespace wt::tools
