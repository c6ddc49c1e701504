#include "warptape/tools/wt/reports/loss_curve.h"

#include <algorithm>
#include <chrono>

#include "warptape/core/terminal/progress_head.h"
#include "warptape/core/terminal/text_chart.h"

namespace wt::tools {

std::vector<std::string> LossCurve::lines(int columns, int rows, bool utf8) const {
  return chart::text_chart({.title = {}, .series = {{"loss", "", points_}}},
                           {.columns = columns, .rows = rows, .utf8 = utf8});
}

LiveCurve::LiveCurve() {
  const ProgressStyle style = wt::detail::style_of_stderr();
  terminal_ = style != ProgressStyle::lines;
  utf8_ = style == ProgressStyle::bar;
}

void LiveCurve::add(i64 step, double loss) {
  curve_.add(step, loss);
  using namespace std::chrono;
  const double now = duration<double>(steady_clock::now().time_since_epoch()).count();
  if (!terminal_ || now - drawn_at_ < 0.2) return;
  drawn_at_ = now;
  draw();
}

void LiveCurve::draw() {
  if (!terminal_) return;
  // Room for the bar, a message and the summary that follows.
  const wt::detail::TerminalSize size = wt::detail::stderr_size();
  wt::detail::set_progress_head(curve_.lines(size.columns, std::min(10, size.rows - 6), utf8_));
}

}  // namespace wt::tools
