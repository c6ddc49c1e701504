// What a chart is drawn on: an SVG file's elements, or pixels. Internal.
//
// Styles are classes of the style sheet ("grid", "tick", "line c0 d1"). Coordinates are in pixels
// of the whole picture, downwards; of a text, its base line.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/chart.h"

namespace wt::chart {

enum class Anchor { start, middle, end };

struct Canvas {
  virtual ~Canvas() = default;
  virtual void line(const char* style, double x1, double y1, double x2, double y2) = 0;
  virtual void text(const char* style, Anchor anchor, double x, double y,
                    const std::string& text) = 0;
  // Pieces of a line between gaps, each of at least a point.
  virtual void curve(const std::string& style, const std::vector<Points>& pieces) = 0;
  virtual void circles(const std::string& style, const Points& centres) = 0;
};

class SvgCanvas final : public Canvas {
 public:
  void line(const char* style, double x1, double y1, double x2, double y2) override;
  void text(const char* style, Anchor anchor, double x, double y, const std::string& text) override;
  void curve(const std::string& style, const std::vector<Points>& pieces) override;
  void circles(const std::string& style, const Points& centres) override;
  const std::string& elements() const { return out_; }

 private:
  std::string out_;
};

// As draw() of core/chart.h.
void draw(const Chart& chart, const Layout& layout, Canvas& to);

}  // namespace wt::chart
