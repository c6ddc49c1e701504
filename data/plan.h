// Where a dataset is best kept: on the device, in host memory or in its files.
#pragma once
#include <string>

#include "warptape/core/device.h"
#include "warptape/core/macros.h"

namespace wt::data {

// From the nearest to the farthest.
enum class Tier {
  device,     // resident: data/resident.h
  pinned,     // page-locked host memory, from which copies overlap with work
  mapped,     // a file's pages, in host memory as far as there is room
  streaming,  // read again each epoch
};
WT_API const char* tier_name(Tier t);

// Bytes that can be had. -1: not known, which counts as enough on the host and as none on a device.
struct Capacity {
  i64 device = -1;
  i64 host = -1;
  std::string device_name = "the device";
};
// Of `d` now, less what memory::limit(d) forbids; on cpu and simt the device is host memory.
WT_API Capacity capacity_of(Device d);

struct PlanOptions {
  // Parts of what there is that a dataset may take; the rest is for the model and its activations.
  double device_part = 0.5, host_part = 0.5;
  bool plain_file = false;  // the data is a file that can be mapped as it is
};
struct Plan {
  Tier tier;
  // A sentence with both numbers; where `wt bench machine` has measured the disk or the way to the
  // device, also how long an epoch's bytes take at least (core/machine.h).
  std::string why;
};
// The nearest tier that has room for `bytes`. Throws UsageError for negative bytes and parts
// outside (0, 1].
WT_API Plan plan(i64 bytes, const Capacity& there, const PlanOptions& o = {});
WT_API Plan plan(i64 bytes, Device d, const PlanOptions& o = {});

namespace detail {
// Throws OutOfMemory with the plan's advice where `bytes` do not fit onto `d` at all.
WT_API void check_fits(const char* dataset, i64 bytes, const Capacity& there);
}  // namespace detail

}  // namespace wt::data
