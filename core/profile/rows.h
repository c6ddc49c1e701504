// A profile's ranges added up into rows. Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/profile/data.h"
#include "warptape/core/profile/roof.h"

namespace wt::profiler {

// The rows while they are added up. `of_event` names each event's row.
struct Gathered {
  std::vector<Row> rows{};
  std::vector<Load> loads{};
  std::vector<u32> of_event{};
};

// Rows by group, in the order of their first range: "operator", "module", "kernel", "line".
Gathered gather(const Profile::Data& d, const TableOptions& o);
// Rows of a tree, with depth; `parents` has the place of the row that each is in, kNone outside.
Gathered gather_nested(const Profile::Data& d, std::vector<u32>& parents);

// A kernel's own time on its device; of the cpu and of simt the host's.
i64 time_on_device(const Event& e);
bool has_device_times(const Event& e);

}  // namespace wt::profiler
