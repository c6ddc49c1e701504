// The charts of the run report: core/chart.h's, as figures of the page with legend and the data
// that its script shows under the pointer.
#pragma once
#include <string>

#include "warptape/core/chart.h"

namespace wt::tools {

using ChartSeries = chart::Series;  // styles: "train", "thin", "raw", "eval"
using ChartLine = chart::Line;
using Chart = chart::Chart;
using chart::html_escape;
using chart::short_number;
using chart::thin_out;

// A <figure> with caption, legend and picture; "" if the chart has no finite point.
std::string render_chart(const Chart& chart);

}  // namespace wt::tools
