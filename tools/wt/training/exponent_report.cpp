#include "warptape/tools/wt/training/exponent_report.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "warptape/core/files/json.h"
#include "warptape/kernels/exponent_counts.h"
#include "warptape/tools/wt/reports/svg_chart.h"

namespace wt::tools {
namespace {

using optim::detail::ExponentWindow;
using optim::detail::percent_of;

constexpr std::size_t kMostKept = 32;
constexpr int kMostRows = 60, kMostColumns = 80;
// Of the picture.
constexpr double kWidth = 1064, kLeft = 190, kRight = 330, kTop = 40, kRow = 17;

double width_of(const ExponentWindow& w) { return (kWidth - kLeft - kRight) / w.columns; }

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return str("<text class=\"tick\" text-anchor=\"", anchor, "\" x=\"", chart::fixed(x), "\" y=\"",
             chart::fixed(y), "\">", html_escape(text), "</text>");
}

std::string cell(const ExponentWindow& w, int column, double y, const char* style, double heat,
                 const std::string& tip) {
  const double width = width_of(w);
  return str("<rect class=\"", style, "\" style=\"--v:", chart::short_number(heat), "\" x=\"",
             chart::fixed(kLeft + column * width), "\" y=\"", chart::fixed(y), "\" width=\"",
             chart::fixed(std::max(width - 0.6, 0.6)), "\" height=\"", chart::fixed(kRow - 2),
             "\"><title>", html_escape(tip), "</title></rect>");
}

std::string exponents_of(const ExponentWindow& w, int column) {
  const int first = w.first(column), last = first + w.each - 1;
  std::string text = str("2^", first);
  if (last > first) text += str(" to 2^", last);
  return column == 0 ? text + " and smaller" : text;
}

std::string heat_row(const ExponentRow& row, const ExponentWindow& w, double y, double scale) {
  std::string name = row.name;
  if (name.size() > 30) name = ".." + name.substr(name.size() - 28);
  std::string out = text_at(kLeft - 6, y + kRow - 5, "end", name);
  for (int c = 0; c < w.columns; ++c)
    if (const double share = w.share(row, c); share > 0)
      // A root, so that a few per cent still show.
      out += cell(w, c, y, "heat", std::max(0.05, std::min(1.0, 1.4 * std::sqrt(share))),
                  str(row.name, ", ", exponents_of(w, c), ": ", percent_of(share), " %"));
  const DTypeShares before = row.in(DType::f16), after = row.in(DType::f16, scale);
  double x = kWidth - kRight;
  const auto number = [&](double share) {
    x += 46;
    out += text_at(x, y + kRow - 5, "end", percent_of(share));
  };
  number(before.zero), number(before.lost), number(before.subnormal), number(before.overflow);
  if (scale != 1) number(after.lost), number(after.subnormal), number(after.overflow);
  return out;
}

std::string ruler(const ExponentWindow& w, double y, double scale) {
  std::string out =
      text_at(kLeft - 6, y + kRow - 5, "end", scale == 1 ? "f16 holds" : str("at scale ", scale));
  for (int c = 0; c < w.columns; ++c) {
    const char held = optim::detail::held(DType::f16, w.first(c) + w.each / 2, scale);
    const char* const what = held == 'x'   ? "zero"
                             : held == '~' ? "fewer digits"
                             : held == '^' ? "infinite"
                                           : "all digits";
    const bool fits = held == '-' || held == '~';
    out += cell(w, c, y, fits ? "heat" : "bad",
                held == '-'   ? 0.55
                : held == '~' ? 0.22
                              : 0.6,
                str(exponents_of(w, c), ": ", what, " in f16"));
  }
  return out;
}

std::string heads(const ExponentWindow& w, bool scaled, double scale) {
  std::string out;
  const int apart = std::max(4, 4 * w.each);
  for (int c = 0; c < w.columns; ++c)
    if (w.first(c) % apart == 0)
      out += text_at(kLeft + (c + 0.5) * width_of(w), kTop - 6, "middle", str("2^", w.first(c)));
  double x = kWidth - kRight;
  const auto head = [&](const char* text) {
    x += 46;
    out += text_at(x, kTop - 6, "end", text);
  };
  head("zero %"), head("lost"), head("subn."), head("over");
  if (!scaled) return out;
  out += text_at(x + 20, kTop - 22, "start", str("at scale ", scale));
  head("lost"), head("subn."), head("over");
  return out;
}

std::string figure(const std::string& title, const std::string& note, const GradientExponents& e,
                   const std::vector<const ExponentRow*>& rows, bool total) {
  const ExponentWindow w = optim::detail::exponent_window(e, kMostColumns);
  const bool scaled = e.scale != 1;
  const auto lines = double(rows.size()) + (total ? 1 : 0) + (scaled ? 2 : 1);
  std::string body = heads(w, scaled, e.scale);
  double y = kTop;
  const auto next = [&](const std::string& row) { body += row, y += kRow; };
  for (const ExponentRow* row : rows) next(heat_row(*row, w, y, e.scale));
  if (total) next(heat_row(e.total(), w, y, e.scale));
  y += 6;
  body += text_at(kWidth - kRight + 10, y + kRow - 5, "start",
                  "dark: all digits, light: fewer, orange: zero or infinite");
  next(ruler(w, y, 1));
  if (scaled) next(ruler(w, y, e.scale));
  return str("<figure class=\"card wide\"><figcaption><h2>", html_escape(title), " <small>",
             html_escape(note), "</small></h2></figcaption><svg class=\"exponents\" role=\"img\" ",
             "aria-label=\"", html_escape(title), "\" viewBox=\"0 0 ", chart::fixed(kWidth), " ",
             chart::fixed(kTop + lines * kRow + 10), "\">", body, "</svg></figure>\n");
}

std::string by_parameter(const std::string& title, const ExponentSnapshot& s) {
  const auto rows = optim::detail::worst_rows(s.exponents, kMostRows);
  if (rows.empty()) return "";
  std::string note = str("step ", s.step, "; floor(log2 |x|) of the mean loss's gradient, colour: ",
                         "share of the parameter; per cent in f16");
  if (const double most = s.exponents.largest_scale(DType::f16); most > 0)
    note += str("; nothing overflows up to a scale of 2^", std::ilogb(most));
  return figure(title, note, s.exponents, rows, rows.size() > 1);
}

std::string over_time(const std::vector<ExponentSnapshot>& snapshots) {
  if (snapshots.size() < 2) return "";
  GradientExponents all;
  all.scale = snapshots.back().exponents.scale;
  for (const ExponentSnapshot& s : snapshots) {
    all.rows.push_back(s.exponents.total());
    all.rows.back().name = str("step ", s.step, s.skipped ? ", skipped" : "");
  }
  std::vector<const ExponentRow*> rows;
  for (const ExponentRow& r : all.rows) rows.push_back(&r);
  return figure("Gradient exponents over the run", "all parameters together", all, rows, false);
}

std::string row_json(const ExponentRow& row) {
  int low = 0, high = kExponents;
  while (low < high && row.counts[size_t(low)] == 0) ++low;
  while (high > low && row.counts[size_t(high - 1)] == 0) --high;
  std::string counts;
  for (int k = low; k < high; ++k) counts += str(k > low ? "," : "", row.counts[size_t(k)]);
  return JsonObject()
      .add("name", row.name)
      .add("elements", row.elements())
      .add("zero", row.zeros())
      .add("inf", row.infinite())
      .add("nan", row.nans())
      .add("lowest", kLowestExponent + low)
      .add_raw("counts", "[" + counts + "]")
      .str();
}

}  // namespace

void ExponentHistory::add(ExponentSnapshot s) {
  const bool first_skip = s.skipped && std::none_of(kept_.begin(), kept_.end(),
                                                    [](const auto& k) { return k.skipped; });
  if (seen_++ % every_ != 0 && !first_skip) return;
  kept_.push_back(std::move(s));
  if (kept_.size() <= kMostKept) return;
  every_ *= 2;
  bool skip_seen = false;
  std::size_t at = 0;
  std::erase_if(kept_, [&](const ExponentSnapshot& k) {
    const bool keep = (k.skipped && !std::exchange(skip_seen, true)) || at % 2 == 0;
    ++at;
    return !keep;
  });
}

std::string render_exponents(const std::vector<ExponentSnapshot>& snapshots) {
  if (snapshots.empty()) return "";
  std::string out = by_parameter("Gradient exponents", snapshots.back());
  const auto skipped = std::find_if(snapshots.begin(), snapshots.end(),
                                    [](const ExponentSnapshot& s) { return s.skipped; });
  if (skipped != snapshots.end() && skipped != snapshots.end() - 1)
    out += by_parameter("Gradient exponents of a skipped step", *skipped);
  return out + over_time(snapshots);
}

std::string exponents_json(const std::vector<ExponentSnapshot>& snapshots) {
  std::string all;
  for (const ExponentSnapshot& s : snapshots) {
    std::string rows;
    for (const ExponentRow& r : s.exponents.rows) rows += (rows.empty() ? "" : ",") + row_json(r);
    all += (all.empty() ? "" : ",") + JsonObject()
                                          .add("step", s.step)
                                          .add("skipped", s.skipped)
                                          .add("scale", s.exponents.scale)
                                          .add_raw("rows", "[" + rows + "]")
                                          .str();
  }
  return JsonObject().add_raw("snapshots", "[" + all + "]").str();
}

bool colour_on_stderr() {
  const char* const no = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) && !(no && *no) && term && std::strcmp(term, "dumb") != 0;
}

}  // namespace wt::tools
