// The map of exponents as text.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "warptape/optim/gradient_exponents.h"

#include "warptape/kernels/exponent_counts.h"

namespace wt {
namespace optim::detail {

double ExponentWindow::share(const ExponentRow& row, int column) const {
  const i64 all = row.elements();
  if (all == 0) return 0;
  const int from = column == 0 ? kLowestExponent : first(column);
  return double(row.between(from, first(column + 1) - 1)) / double(all);
}

ExponentWindow exponent_window(const GradientExponents& e, int most_columns) {
  const ExponentRow all = e.total();
  const i64 finite = all.between(kLowestExponent, kHighestExponent);
  if (finite == 0) return {};
  int low = kLowestExponent, high = kHighestExponent;
  i64 below = all.counts[0];
  while (below * 500 <= finite && low < high) below += all.counts[size_t(++low - kLowestExponent)];
  while (high > low && all.counts[size_t(high - kLowestExponent)] == 0) --high;
  const int each = (high - low + 1 + most_columns - 1) / most_columns;
  const int columns = (high - low + each) / each;
  return {high + 1 - columns * each, columns, each};
}

std::vector<const ExponentRow*> worst_rows(const GradientExponents& e, int most) {
  std::vector<const ExponentRow*> rows;
  for (const ExponentRow& r : e.rows)
    if (r.elements() > 0) rows.push_back(&r);
  if (int(rows.size()) <= most) return rows;
  const auto loss = [&](const ExponentRow* r) {
    const DTypeShares s = r->in(DType::f16, e.scale);
    return 10 * (s.overflow + s.nan) + s.lost + 0.1 * s.subnormal;
  };
  std::vector<const ExponentRow*> sorted = rows;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const auto* a, const auto* b) { return loss(a) > loss(b); });
  sorted.resize(size_t(most));
  std::erase_if(rows, [&](const ExponentRow* r) {
    return std::find(sorted.begin(), sorted.end(), r) == sorted.end();
  });
  return rows;
}

std::string percent_of(double share) {
  char text[16];
  const double percent = 100 * share;
  if (percent == 0) return "0";
  if (percent < 0.1) return "<0.1";
  std::snprintf(text, sizeof text, percent < 99.95 ? "%.1f" : "%.0f", percent);
  return text;
}

}  // namespace optim::detail

namespace {

using optim::detail::ExponentWindow;
using optim::detail::held;
using optim::detail::percent_of;

constexpr char kShades[] = " .:-=+*#%@";
// Of ANSI's 256 colours, from dark blue to yellow; the first: nothing.
constexpr int kColours[] = {0, 17, 18, 25, 31, 37, 71, 142, 178, 220};
constexpr int kNameWidth = 22;

std::string padded_left(const std::string& s, size_t width) {
  return s.size() < width ? std::string(width - s.size(), ' ') + s : s;
}
// Names tell most at their ends.
std::string padded_name(std::string s) {
  if (s.size() > kNameWidth) s = ".." + s.substr(s.size() - kNameWidth + 2);
  return s + std::string(kNameWidth - s.size(), ' ');
}

// A root, so that a few per cent still show.
int shade_of(double share) { return share > 0 ? std::clamp(int(std::sqrt(share) * 10), 1, 9) : 0; }

std::string cells(const ExponentRow& row, const ExponentWindow& w, bool colour) {
  std::string text;
  for (int c = 0; c < w.columns; ++c) {
    const int shade = shade_of(w.share(row, c));
    if (!colour)
      text += kShades[shade];
    else if (shade == 0)
      text += ' ';
    else
      text += str("\x1b[48;5;", kColours[shade], "m \x1b[0m");
  }
  return text;
}

// "2^-24" where there is room, over the column it begins at.
std::string scale_above(const ExponentWindow& w) {
  std::string text;
  for (int c = 0; c < w.columns; ++c)
    if (w.first(c) % 8 == 0 && int(text.size()) <= c) {
      text.resize(size_t(c), ' ');
      text += str("2^", w.first(c), " ");
    }
  return text;
}

std::string ruler(const ExponentWindow& w, double scale) {
  std::string text;
  for (int c = 0; c < w.columns; ++c) text += held(DType::f16, w.first(c) + w.each / 2, scale);
  return text;
}

std::string loss_columns(const DTypeShares& s) {
  return padded_left(percent_of(s.lost), 7) + padded_left(percent_of(s.subnormal), 7) +
         padded_left(percent_of(s.overflow), 7);
}

std::string row_text(const ExponentRow& row, const GradientExponents& e, const ExponentWindow& w,
                     bool colour) {
  const DTypeShares now = row.in(DType::f16);
  std::string text = padded_name(row.name) + " |" + cells(row, w, colour) + "|" +
                     padded_left(percent_of(now.zero), 6) + loss_columns(now);
  if (e.scale != 1) text += " |" + loss_columns(row.in(DType::f16, e.scale));
  if (now.nan > 0) text += str("  NaN ", percent_of(now.nan));
  return text + "\n";
}

}  // namespace

std::string GradientExponents::text(const ExponentTextOptions& o) const {
  const auto shown = optim::detail::worst_rows(*this, std::max(o.rows, 1));
  if (shown.empty()) return "no gradients\n";
  const ExponentWindow w = optim::detail::exponent_window(*this, std::max(o.columns, 8));
  const std::string gap(kNameWidth + 2, ' '), map(size_t(w.columns) + 1, ' ');
  const bool scaled = scale != 1;
  std::string text = str(
      attempt < 0 ? std::string("gradients") : str("gradients of step ", attempt + 1),
      " by binary exponent, ", w.each == 1 ? "one" : str(w.each), " a column; per cent in f16\n");
  text += gap + map + padded_left(scaled ? "before the scale" : "", 27) +
          (scaled ? str(" | at scale ", scale) : "") + "\n";
  std::string above = scale_above(w);
  above.resize(std::max(above.size(), size_t(w.columns) + 1), ' ');
  const std::string titles = "   lost   subn   over";
  text += gap + above.substr(0, size_t(w.columns) + 1) + "  zero" + titles +
          (scaled ? " |" + titles : "") + "\n";
  for (const ExponentRow* row : shown) text += row_text(*row, *this, w, o.colour);
  const ExponentRow all = total();
  if (shown.size() > 1) text += row_text(all, *this, w, o.colour);
  size_t with_elements = 0;
  for (const ExponentRow& r : rows) with_elements += r.elements() > 0;
  if (shown.size() < with_elements)
    text += str("(", with_elements - shown.size(), " parameters of which f16 loses less)\n");
  text += padded_name("f16 holds") + " |" + ruler(w, 1) + "|  x zero  ~ fewer digits  ^ inf\n";
  if (scaled) text += padded_name(str("at scale ", scale)) + " |" + ruler(w, scale) + "|\n";
  const double largest = largest_scale(DType::f16);
  if (largest > 0)
    text += str("nothing overflows up to a scale of 2^", std::ilogb(largest),
                ", at which f16 loses ", percent_of(all.in(DType::f16, largest).lost), " %\n");
  return text;
}

}  // namespace wt
