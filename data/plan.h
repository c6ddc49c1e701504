// Where a dataset is best kept: on the device, in host memory or in its files.
#pragma once
#include <string>

#include "warptape/core/device.h"
#include "warptape/core/macros.h"

namespace wt::data {

// Places for a dataset, from the nearest to the farthest.
enum class Tier {
  device,     // resident: data/resident.h
  pinned,     // page-locked host memory, from which copies overlap with work
  mapped,     // a file's pages, in host memory as far as there is room
  streaming,  // read again each epoch
};
// The enumerator's name: "device", "pinned", "mapped" or "streaming".
WT_API const char* tier_name(Tier t);

// Bytes that can be had. -1: not known, which counts as enough on the host and as none on a device.
struct Capacity {
  i64 device = -1;                         // free on the device
  i64 host = -1;                           // free in host memory
  std::string device_name = "the device";  // for Plan::why
};
// What can be had on `d` and the host now, less what memory::limit(d) forbids; on cpu and simt the
// device is host memory.
WT_API Capacity capacity_of(Device d);

// How much of what there is a dataset may take.
struct PlanOptions {
  // Parts of what there is that a dataset may take; the rest is for the model and its activations.
  double device_part = 0.5, host_part = 0.5;
  bool plain_file = false;  // the data is a file that can be mapped as it is
};
// Where a dataset is best kept, and why.
struct Plan {
  Tier tier;  // `mapped` with PlanOptions::plain_file alone
  // A sentence with both numbers; where `wt bench machine` has measured the disk or the way to the
  // device, also how long an epoch's bytes take at least (core/machine.h).
  std::string why;
};
// The nearest tier that has room for `bytes`, of what is there or of what `d` has now. Throws
// UsageError for negative bytes and parts outside (0, 1].
WT_API Plan plan(i64 bytes, const Capacity& there, const PlanOptions& o = {});
WT_API Plan plan(i64 bytes, Device d, const PlanOptions& o = {});

namespace detail {
// Throws OutOfMemory with the plan's advice where `bytes` do not fit onto `d` at all.
WT_API void check_fits(const char* dataset, i64 bytes, const Capacity& there);
}  // namespace detail

}  // namespace wt::data
