// The tape, drawn: a row a node, the oldest on top, and beside the rows the lines along which
// gradients come back.
#include <algorithm>

#include "warptape/core/chart.h"
#include "warptape/core/files/html_page.h"
#include "warptape/core/str.h"
#include "warptape/tools/wt/number_text.h"
#include "warptape/tools/wt/reports/report_style.h"
#include "warptape/tools/wt/tape/tape_view.h"
#include "warptape/version.h"

namespace wt::tools {
namespace {

using chart::fixed;
using chart::html_escape;

// kTapeHeads: what stands above the first row; both heights are in the style, too.
constexpr double kTapeRow = 40, kTapeHeads = 24, kTapeLane = 14, kMostLaneWidth = 300;

constexpr char kTapeStyle[] = R"css(
:root{--l0:#1f6feb;--l1:#c2410c;--l2:#15803d;--l3:#7c3aed}
@media (prefers-color-scheme:dark){:root{--l0:#6cb0ff;--l1:#ff9d5c;--l2:#5fd38d;--l3:#b79bff}}
main{max-width:1400px}
.tape{display:grid;grid-template-columns:auto minmax(0,1fr);min-width:900px}
.tape svg{display:block}
.tape svg path{fill:none;stroke-width:1.6}
.e0{stroke:var(--l0)}.e1{stroke:var(--l1)}.e2{stroke:var(--l2)}.e3{stroke:var(--l3)}
.tape circle{fill:var(--card);stroke:var(--ink);stroke-width:1.6}
.rows{display:grid;grid-template-columns:minmax(150px,1.5fr) minmax(110px,.9fr) 170px minmax(150px,1.6fr);column-gap:14px}
.rows>*{height:40px;overflow:hidden;white-space:nowrap;text-overflow:ellipsis;line-height:18px;padding-top:2px;
box-sizing:border-box;font-variant-numeric:tabular-nums;border-top:1px solid var(--grid)}
.rows>.head{height:24px;border-top:0;color:var(--soft);font-size:13px}
.rows small{display:block;overflow:hidden;text-overflow:ellipsis;font-size:12px}
.rows a{color:inherit}
.bar{display:block;height:6px;border-radius:3px;background:var(--l0);margin-top:3px;min-width:1px}

.keeps td,.keeps th{width:auto;padding-right:16px}
.keeps .num{text-align:right;white-space:nowrap}
)css";

// The lane of each node's line: its own from its row to the last one that reads it.
struct Lanes {
  std::vector<int> lane, last;
  int width = 1;
};
Lanes lanes_of(const TapeView& v) {
  const int n = int(v.nodes.size());
  Lanes l{std::vector<int>(size_t(n), 0), std::vector<int>(size_t(n), 0), 1};
  for (int i = 0; i < n; ++i) {
    l.last[size_t(i)] = i;
    for (const int from : v.nodes[size_t(i)].inputs) l.last[size_t(from)] = i;
  }
  std::vector<int> holder;  // of each lane: a node, or -1
  for (int i = 0; i < n; ++i) {
    for (int& h : holder)
      if (h >= 0 && l.last[size_t(h)] <= i) h = -1;
    int mine = -1;
    // Straight on from an operand that nobody else reads later.
    for (const int from : v.nodes[size_t(i)].inputs)
      if (mine < 0 && holder[size_t(l.lane[size_t(from)])] < 0) mine = l.lane[size_t(from)];
    if (mine < 0) mine = int(std::find(holder.begin(), holder.end(), -1) - holder.begin());
    if (mine == int(holder.size())) holder.push_back(-1);
    holder[size_t(mine)] = i;
    l.lane[size_t(i)] = mine;
  }
  l.width = std::max(1, int(holder.size()));
  return l;
}

std::string tape_picture(const TapeView& v) {
  const Lanes l = lanes_of(v);
  const double step = std::min(kTapeLane, kMostLaneWidth / l.width);
  const auto x = [&](int node) { return step * (l.lane[size_t(node)] + 0.7) + 4; };
  const auto y = [&](int node) { return kTapeHeads + kTapeRow * (node + 0.5); };
  std::string lines, dots;
  for (int i = 0; i < int(v.nodes.size()); ++i) {
    for (const int from : v.nodes[size_t(i)].inputs) {
      std::string path = str("M", fixed(x(from)), " ", fixed(y(from)));
      if (l.lane[size_t(from)] == l.lane[size_t(i)])
        path += str("V", fixed(y(i)));
      else
        path += str("V", fixed(y(i) - kTapeRow), "C", fixed(x(from)), " ",
                    fixed(y(i) - kTapeRow / 2), " ", fixed(x(i)), " ", fixed(y(i) - kTapeRow / 2),
                    " ", fixed(x(i)), " ", fixed(y(i)));
      lines += str("<path class=\"e", l.lane[size_t(from)] % 4, "\" d=\"", path, "\"/>");
    }
    dots += str("<circle cx=\"", fixed(x(i)), "\" cy=\"", fixed(y(i)), "\" r=\"",
                v.nodes[size_t(i)].saved_bytes ? 5 : 3.5, "\"/>");
  }
  const double width = step * (l.width + 0.4) + 12,
               height = kTapeHeads + kTapeRow * double(v.nodes.size());
  return str("<svg width=\"", fixed(width), "\" height=\"", fixed(height),
             "\" role=\"img\" aria-label=\"Which node reads which\">", lines, dots, "</svg>");
}

std::string tape_cell(const std::string& text, const std::string& below,
                      const std::string& title = "") {
  return str("<div", title.empty() ? "" : str(" title=\"", html_escape(title), "\""), ">", text,
             "<small>", below, "</small></div>");
}

std::string saved_text(const TapeNode& n) {
  std::string text;
  for (const TapeSaved& s : n.saved)
    text += str(text.empty() ? "" : "; ", s.what, s.tensor.empty() ? "" : " " + s.tensor);
  return text;
}

std::string joined_text(const std::vector<std::string>& list) {
  std::string text;
  for (const std::string& s : list) text += (text.empty() ? "" : ", ") + s;
  return text;
}

std::string tape_rows(const TapeView& v) {
  i64 most = 1;
  for (const TapeNode& n : v.nodes) most = std::max(most, n.saved_bytes);
  std::string out;
  for (const char* head : {"operator, module, parameters", "output", "keeps", "backward launches"})
    out += str("<div class=\"head\">", head, "</div>");
  for (size_t i = 0; i < v.nodes.size(); ++i) {
    const TapeNode& n = v.nodes[i];
    const std::string name =
        str("<b>", html_escape(n.op), "</b> ", html_escape(n.module),
            n.parameters.empty() ? ""
                                 : str(" <small style=\"display:inline\">",
                                       html_escape(joined_text(n.parameters)), "</small>"));
    const std::string keeps =
        n.saved_bytes == 0 ? std::string()
                           : str("<a href=\"#n", i, "\">", bytes_text(n.saved_bytes),
                                 "</a><i class=\"bar\" style=\"width:",
                                 fixed(100 * double(n.saved_bytes) / double(most)), "%\"></i>");
    const std::string forward = kernels_text(n.forward), backward = kernels_text(n.backward);
    out += tape_cell(name, html_escape(n.line), str(n.module, " <- ", n.line)) +
           tape_cell(html_escape(n.outputs.empty() ? "" : n.outputs.front()),
                     n.outputs.size() > 1 ? str("and ", n.outputs.size() - 1, " more") : "",
                     joined_text(n.outputs)) +
           str("<div title=\"", html_escape(saved_text(n)), "\">", keeps, "</div>") +
           tape_cell(backward.empty() ? "<small>launches nothing</small>" : html_escape(backward),
                     forward.empty() ? "" : "forward: " + html_escape(forward),
                     str(backward, forward.empty() ? "" : "; forward: ", forward));
  }
  return out;
}

std::string keeps_card(const TapeView& v) {
  std::string rows;
  for (size_t i = 0; i < v.nodes.size(); ++i) {
    const TapeNode& n = v.nodes[i];
    for (size_t k = 0; k < n.saved.size(); ++k) {
      const TapeSaved& s = n.saved[k];
      rows += str("<tr", k == 0 ? str(" id=\"n", i, "\"") : std::string(), "><td>",
                  k == 0 ? html_escape(n.module.empty() ? n.op : str(n.module, ".", n.op)) : "",
                  "</td><td>", html_escape(s.what), "</td><td>", html_escape(s.tensor),
                  "</td><td class=\"num\">",
                  s.counts ? bytes_text(s.bytes) : "<small>there anyway</small>", "</td></tr>\n");
    }
  }
  return str(
      "<section class=\"card wide scroll\" id=\"keeps\"><h2>What each node keeps</h2><p "
      "class=\"note\">\"There anyway\": a parameter, or bytes that a node above keeps "
      "already.</p><table class=\"keeps\"><thead><tr><th>Node</th><th>What</th><th>Tensor"
      "</th><th class=\"num\">Bytes</th></tr></thead><tbody>\n",
      rows, "</tbody></table></section>\n");
}

std::string tile_of(const std::string& value, const std::string& label) {
  return str("<li><b>", value, "</b><span>", label, "</span></li>");
}

}  // namespace

std::string tape_page(const TapeView& v) {
  int launches = 0;
  for (const TapeNode& n : v.nodes)
    for (const TapeKernel& k : n.backward) launches += k.launches;
  const std::string title = str("The tape of ", v.recipe);
  return str(
      page_begin({.title = title, .style = str(kReportStyle, kTapeStyle)}), "<main><h1>",
      html_escape(title), "</h1>\n<p class=\"sub\">", html_escape(v.device), ", ",
      html_escape(v.precision), ", batch ", v.batch,
      "; one forward and backward on a made-up batch, by warptape " WARPTAPE_VERSION_STRING
      "</p>\n<ul class=\"tiles\">",
      tile_of(std::to_string(v.nodes.size()), "nodes"),
      tile_of(bytes_text(v.saved_bytes()), "kept for the backward"),
      tile_of(std::to_string(launches), "launches of the backward"),
      "</ul>\n<div class=\"cards\">\n<section class=\"card wide scroll\" id=\"tape\"><figcaption>"
      "<h2>Nodes, in the order in which they were recorded</h2></figcaption><p class=\"note\">The "
      "loss is the last row; backward goes from there upwards, along the lines. A large dot keeps "
      "bytes.</p><div class=\"tape\">",
      tape_picture(v), "<div class=\"rows\">", tape_rows(v), "</div></div></section>\n",
      keeps_card(v), "</div>\n</main>", page_end());
}

}  // namespace wt::tools
