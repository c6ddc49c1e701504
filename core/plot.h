// Curves as a picture: an SVG file of its own that follows the reader's light or dark setting and
// needs no network, and the same numbers as CSV.
//
//   wt::plot({{"Adam", adam_losses}, {"SGD", sgd_losses}}, {.title = "Loss"}).svg("race.svg");
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
}

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

class WT_API Plot {
 public:
  // Throws UsageError without a series, and for a picture of less than 200 x 150.
  Plot(std::vector<PlotSeries> series, PlotOptions options);

  // The picture. Curves differ by colour and by dashes; what is not finite leaves a gap; long ones
  // are thinned to what can be seen, and spikes stay.
  std::string svg() const;
  // A table: x, then a column for each series, empty where a series has no such x.
  std::string csv() const;
  // The same into files, by the protocol of AtomicFile. CheckpointError if one cannot be written.
  void svg(const std::string& path) const;
  void csv(const std::string& path) const;

 private:
  std::vector<PlotSeries> series_;
  PlotOptions options_;
};

WT_API Plot plot(std::vector<PlotSeries> series, PlotOptions options = {});

}  // namespace wt
