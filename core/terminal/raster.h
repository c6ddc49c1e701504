// Charts as pixels. Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/terminal/canvas.h"
#include "warptape/core/types.h"

namespace wt::chart {

struct Pixels {
  int width = 0, height = 0;
  std::vector<u8> rgb;  // rows from the top
};

// Draws with soft edges on a page of one colour, in the colours of Plot's style sheet.
class WT_API RasterCanvas final : public Canvas {
 public:
  RasterCanvas(int width, int height, double scale, bool dark);
  void line(const char* style, double x1, double y1, double x2, double y2) override;
  void text(const char* style, Anchor anchor, double x, double y, const std::string& text) override;
  void curve(const std::string& style, const std::vector<Points>& pieces) override;
  void circles(const std::string& style, const Points& centres) override;
  const Pixels& pixels() const { return pixels_; }

 private:
  struct Pen;
  void stroke(const std::vector<Points>& pieces, const Pen& pen);
  void cover(double x1, double y1, double x2, double y2, double half);
  void ink(const Pen& pen);

  double scale_;
  bool dark_;
  Pixels pixels_;
  std::vector<float> coverage_;                      // of the stroke that is being drawn
  int left_ = 0, top_ = 0, right_ = 0, bottom_ = 0;  // where it is not 0
};

// A PNG file: rows as differences, runs of equal bytes in fixed Huffman codes (RFC 1951), which
// charts are mostly made of.
WT_API std::string png_file(const Pixels& p);
// Sixel graphics (DEC STD 070) with the escape sequences around them; colours beyond 250 become
// those of a cube of 216.
WT_API std::string sixels(const Pixels& p);

}  // namespace wt::chart
