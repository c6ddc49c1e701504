// Rows in the order that was asked for. Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/profile/data.h"

namespace wt::profiler {

// What a table has beside its rows.
struct Sheet {
  std::vector<Row> rows{};  // sorted, cut to TableOptions::rows
  i64 more = 0;             // that were cut
  Row total{};              // of all; its self_ns is the profiled time
  std::string device{};     // "CUDA" or "simt" where kernels ran there; "" for the cpu alone
  bool queued = false;      // the device's times are its own
  std::string no_roof{};    // why there is no fraction of the roof
  bool several_threads = false;
};
// UsageError for sort keys and groups that there are none of.
Sheet sheet_of(const Profile::Data& d, const TableOptions& o);

}  // namespace wt::profiler
