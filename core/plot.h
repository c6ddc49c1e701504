// Curves as a picture: an SVG file of its own that follows the reader's light or dark setting and
// needs no network, a PNG, in the terminal, and the same numbers as CSV.
//
//   wt::plot({{"Adam", adam_losses}, {"SGD", sgd_losses}}, {.title = "Loss"}).svg("race.svg");
//   wt::plot({{"loss", losses}}).show();
#pragma once
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "warptape/core/macros.h"
#include "warptape/core/scalar.h"

namespace wt {

namespace chart {
using Points = std::vector<std::pair<double, double>>;  // as in core/chart.h
struct Canvas;
}  // namespace chart

// A label and points: values in order (x counts from 0), or pairs (x, y).
struct PlotSeries {
  std::string label;
  chart::Points points;

  WT_API PlotSeries(std::string name, chart::Points xy);
  template <Number T>
  PlotSeries(std::string name, const std::vector<T>& y) : label(std::move(name)) {
    for (size_t i = 0; i < y.size(); ++i) points.emplace_back(double(i), double(y[i]));
  }
};

struct PlotOptions {
  std::string title = {};
  std::string x = "step";  // what x counts
  std::string y = {};      // unit or meaning of y
  bool from_zero = false;  // the y axis begins at 0; else it becomes logarithmic where positive
                           // values span much
  bool markers = false;    // a circle at each point
  int width = 760, height = 420;
  bool log_x = false;  // the x axis is logarithmic; points at 0 and below leave a gap
};

struct PictureOptions {
  bool dark = false;
  double scale = 1;  // pixels for each of the plot's, 0.25 to 8
};

struct PlotTextOptions {
  int columns = 80, rows = 16;  // at least 20; rows with the last, of x, the title and the names
  bool utf8 = true;             // dots of Braille; else letters
  bool color = false;  // of 256, by escape sequences; else several series differ by letters
};

enum class PlotForm {
  automatic,  // WT_PLOT (sixel, blocks, ascii, off), else what the terminal answers
  sixel,      // a picture
  blocks,     // characters of 2 x 4 dots
  ascii,      // letters
  off,
};
struct ShowOptions {
  PlotForm form = PlotForm::automatic;
  int fd = 1;                 // standard output
  double answer_seconds = 1;  // that a terminal has to say what it is
};

class WT_API Plot {
 public:
  // Throws UsageError without a series, and for a picture of less than 200 x 150.
  Plot(std::vector<PlotSeries> series, PlotOptions options);

  // The picture. Curves differ by colour and by dashes; what is not finite leaves a gap; long ones
  // are thinned to what can be seen, and spikes stay.
  std::string svg() const;
  // A table: x, then a column for each series, empty where a series has no such x.
  std::string csv() const;
  // A PNG file of the picture. Letters are of ASCII there; others are boxes. Needs no library.
  std::string encode_png(const PictureOptions& o = {}) const;
  // Lines of characters, each at most `columns` wide (of 20 where it is less), for a terminal, a
  // log.
  std::string text(const PlotTextOptions& o = {}) const;
  // The picture as sixels, which a terminal that has them draws at the cursor.
  std::string sixel(const PictureOptions& o = {}) const;
  // Draws it in the terminal behind `fd` and says how; `off` and no byte where there is none, so
  // never into a file or a pipe. A terminal is asked once what it can do (device attributes) and of
  // what colour its background is; one that does not answer gets `blocks`, one with TERM=dumb
  // `ascii`. Colours are left out under NO_COLOR. Throws UsageError for another value of WT_PLOT.
  PlotForm show(const ShowOptions& o = {}) const;
  // The same into files, by the protocol of AtomicFile. CheckpointError if one cannot be written.
  void svg(const std::string& path) const;
  void png(const std::string& path, const PictureOptions& o = {}) const;
  void csv(const std::string& path) const;

 private:
  // Title, note and names; then the chart.
  void paint(chart::Canvas& head, chart::Canvas& body) const;
  std::vector<PlotSeries> series_;
  PlotOptions options_;
};

WT_API Plot plot(std::vector<PlotSeries> series, PlotOptions options = {});

}  // namespace wt
