// The source with counts at its lines, and the pictures of its accesses.
#include <algorithm>

#include "warptape/tools/wt/look/access_picture.h"
#include "warptape/tools/wt/look/look_sections.h"
#include "warptape/tools/wt/look/source_counts.h"
#include "warptape/tools/wt/look/source_lines.h"
#include "warptape/tools/wt/number_text.h"

namespace wt::tools {
namespace {

using chart::html_escape;

std::string picture_id(const std::string& prefix, const CountedFile& f, int line, std::size_t n) {
  return str(prefix, base_name(f.path), "-", line, "-", n + 1);
}

// How much more than the fewest units it takes: the shade of its row.
double shade(const LineAccess& a) {
  if (!a.wasteful()) return 0;
  return std::min(0.4, 0.08 + 0.02 * (a.units / std::max(a.least, 1.0)));
}

std::string count_cells(const LineAccess& a, const std::string& id) {
  const double n = std::max(a.requests, 1.0);
  return str("<td><a href=\"#", html_escape(id), "\">", a.name(), "</a>",
             a.via.empty() ? "" : str(" in ", html_escape(a.via)), "</td><td>", a.requests,
             "</td><td>", fixed_digits(a.lanes / n, 1), "</td><td",
             a.wasteful() ? " class=\"waste\"" : "", ">", fixed_digits(a.units / n, 2), " of ",
             fixed_digits(a.least / n, 2), "</td>");
}

std::string code_cells(int number, const std::string& code) {
  return str("<td>", number > 0 ? str(number) : "", "</td><td>", html_escape(code), "</td></tr>\n");
}

std::string counted_rows(const CountedFile& f, const CountedLine& l, const std::string& code,
                         const std::string& prefix) {
  std::string out;
  bool first = true;
  const auto end_row = [&] {
    out += code_cells(first ? l.number : 0, first ? code : "");
    first = false;
  };
  for (std::size_t i = 0; i < l.accesses.size(); ++i) {
    const LineAccess& a = l.accesses[i];
    out += str("<tr class=\"counted\" data-line=\"", l.number, "\" style=\"--v:", shade(a), "\">",
               count_cells(a, picture_id(prefix, f, l.number, i)));
    end_row();
  }
  for (const LineWait& w : l.waits) {
    out += str("<tr class=\"counted\" data-line=\"", l.number, "\"><td>", html_escape(w.what),
               "</td><td>", w.warps, "</td><td></td><td></td>");
    end_row();
  }
  return out;
}

std::string listing(const CountedFile& f, const std::vector<std::string>& text,
                    const std::string& prefix) {
  std::string rows;
  int shown = 0;
  for (const ListedLine& l : listed_lines(f, text)) {
    if (shown > 0 && l.number > shown + 1)
      rows += str("<tr class=\"skip\"><td colspan=\"6\">lines ", shown + 1, " to ", l.number - 1,
                  "</td></tr>\n");
    shown = l.number;
    const std::string code = line_text(text, l.number);
    rows += l.counts ? counted_rows(f, *l.counts, code, prefix)
                     : "<tr><td></td><td></td><td></td><td></td>" + code_cells(l.number, code);
  }
  return str(
      "<div class=\"scroll\"><table class=\"listing\"><thead><tr><th>what</th><th>warps</th>"
      "<th>lanes</th><th>sectors or passes</th><th>line</th><th>source</th></tr></thead><tbody>\n",
      rows, "</tbody></table></div>");
}

std::string pattern_figure(const LineAccess& a, const std::string& id, const std::string& place,
                           const std::string& code) {
  const std::size_t begin = code.find_first_not_of(" \t");
  return str("<figure id=\"", html_escape(id), "\"><figcaption>", html_escape(place), ": ",
             a.name(), a.via.empty() ? "" : str(", in ", html_escape(a.via)), "<code>",
             html_escape(begin == std::string::npos ? "" : code.substr(begin)),
             "</code></figcaption>", access_picture(a), "</figure>\n");
}

}  // namespace

std::string source_cards(const SimtKernelCounts& k, const FindSource& find,
                         const std::string& prefix) {
  std::string out;
  for (const CountedFile& f : counts_by_line(k)) {
    const std::vector<std::string> text = find(f.path);
    out += str("<section class=\"card wide\"><h2>", html_escape(base_name(f.path)), "</h2>",
               text.empty() ? "<p class=\"note\">The file is not here: --source names the folder "
                              "of warptape's sources.</p>"
                            : "",
               listing(f, text, prefix), "</section>\n");
  }
  return out;
}

std::string pattern_card(const SimtKernelCounts& k, const FindSource& find,
                         const std::string& prefix) {
  std::string figures;
  for (const CountedFile& f : counts_by_line(k)) {
    const std::vector<std::string> text = find(f.path);
    for (const CountedLine& l : f.lines)
      for (std::size_t i = 0; i < l.accesses.size(); ++i)
        figures += pattern_figure(l.accesses[i], picture_id(prefix, f, l.number, i),
                                  str(base_name(f.path), ":", l.number), line_text(text, l.number));
  }
  if (figures.empty()) return "";
  return str(
      "<section class=\"card wide\"><figcaption><h2>Access patterns</h2><span "
      "class=\"legend\"><span><i class=\"swatch l\"></i>lane</span><span><i class=\"swatch "
      "d\"></i>sector of "
      "device memory</span><span><i class=\"swatch s\"></i>bank of shared memory</span><span><i "
      "class=\"swatch t\"></i>in a "
      "later pass</span></span></figcaption><p class=\"note\">The first time that a warp came to "
      "each access. A sector's filled part is what was asked for of its 32 bytes.</p><div "
      "class=\"patterns\">",
      figures, "</div></section>\n");
}

}  // namespace wt::tools
