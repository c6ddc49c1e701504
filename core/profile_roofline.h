// A profile under what this machine allows (Williams, Waterman and Patterson 2009): each operator,
// kernel, module or line as a point at the FLOPs a byte and the FLOPs a second of its kernels,
// beside what a copy and a product reach here.
//
//   const profiler::Profile p = profiler::profile([&] { step(batch, loss_of); });
//   profiler::write_roofline("roofline.html", p, {.title = "one step"});
//
// The roofs are those of `wt bench machine`; where it has not run, the page says so and has the
// points alone. docs/traces.md shows the page.
#pragma once
#include <string>

#include "warptape/core/profile.h"

namespace wt::profiler {

struct RooflineOptions {
  std::string title = "Roofline";
  std::string subtitle = {};  // command, device, date
};

// One HTML file without network, for light and dark: a chart, a table that can be sorted, a search.
// What has no kernels is left out, and what has kernels without FLOPs or bytes is in the table
// alone. CheckpointError where the file cannot be written: an old one stays.
WT_API void write_roofline(const std::string& path, const Profile& p,
                           const RooflineOptions& options = {});

}  // namespace wt::profiler
