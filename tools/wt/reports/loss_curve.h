// The loss over the steps, drawn in characters while a run goes on (wt train --curve).
#pragma once
#include <string>
#include <vector>

#include "warptape/core/chart.h"
#include "warptape/core/types.h"

namespace wt::tools {

class LossCurve {
 public:
  void add(i64 step, double loss) { points_.emplace_back(double(step), loss); }

  // `rows` lines of curve, with the loss's scale on the left, and one of steps; each at most
  // `columns` characters wide. Braille has 2 x 4 dots a character, ASCII 1 x 2. The scale is
  // logarithmic where the loss spans much; what is not finite leaves a gap. Empty where there is
  // nothing to draw, or no room for it.
  std::vector<std::string> lines(int columns, int rows, bool utf8) const;

 private:
  chart::Points points_;
};

// Draws it above the progress bars of stderr, five times a second at most, in the size that the
// terminal has then; nothing where stderr is no terminal.
class LiveCurve {
 public:
  LiveCurve();
  void add(i64 step, double loss);
  void draw();

 private:
  LossCurve curve_;
  bool terminal_, utf8_;
  double drawn_at_ = -1e9;
};

}  // namespace wt::tools
