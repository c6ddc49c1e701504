// What the event files of a folder say already.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/types.h"

namespace wt::tools {

inline constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";

struct TensorBoardPoint {
  std::string tag;
  i64 step = 0;
  double wall_time = 0;  // seconds since 1970
  float value = 0;
};

// Of each scalar with points at `first_step` or later the last one before, in the order of the
// tags. Points that a later start has taken back do not count, nor does what cannot be read.
std::vector<TensorBoardPoint> last_points_before(const std::string& directory, i64 first_step);

}  // namespace wt::tools
