#include "warptape/tools/wt/look/text_listing.h"

#include <cstdio>

#include "warptape/core/str.h"
#include "warptape/tools/wt/look/source_counts.h"
#include "warptape/tools/wt/look/source_lines.h"

namespace wt::tools {
namespace {

constexpr int kCountsWidth = 62;

std::string counts_text(const LineAccess& a) {
  static const char* const names[] = {"load", "store", "atomic"};
  char text[160];
  std::snprintf(text, sizeof text, "%-6s %-6s %2u B %8.0f x %4.1f lanes %6.2f of %5.2f%s",
                a.shared ? "shared" : "device", names[int(a.kind)], a.bytes, a.requests,
                a.lanes / a.requests, a.units / a.requests, a.least / a.requests,
                a.wasteful() ? " <-" : "   ");
  return text;
}

// What a line does, one below the other, and its text beside the first.
std::string listed_text(const ListedLine& l, const std::string& code) {
  std::string out;
  char text[128];
  const auto row = [&](const std::string& counts, const std::string& behind) {
    std::snprintf(text, sizeof text, "%-*s|", kCountsWidth, counts.c_str());
    out += text;
    if (l.number > 0 && out.find('\n') == out.npos)
      std::snprintf(text, sizeof text, "%5d| ", l.number), out += text + code;
    else
      out += "     |";
    out += behind + "\n";
  };
  if (!l.counts) row("", "");
  if (!l.counts) return out;
  for (const LineAccess& a : l.counts->accesses)
    row(counts_text(a), a.via.empty() ? "" : "  // in " + a.via);
  for (const LineWait& w : l.counts->waits) row(str(w.what, ": ", w.warps, " warps"), "");
  return out;
}

}  // namespace

std::string text_listing(const SimtKernelCounts& k, const FindSource& find) {
  std::string out =
      str("\n", k.kernel, ": ", k.launches, " x, ", k.blocks, " blocks, ", k.threads, " threads\n");
  for (const CountedFile& f : counts_by_line(k)) {
    const std::vector<std::string> text = find(f.path);
    out += base_name(f.path) + "\n";
    int shown = 0;
    for (const ListedLine& l : listed_lines(f, text)) {
      if (shown > 0 && l.number > shown + 1) out += std::string(kCountsWidth, ' ') + "|  ...|\n";
      out += listed_text(l, line_text(text, l.number));
      shown = l.number;
    }
  }
  return out;
}

}  // namespace wt::tools
