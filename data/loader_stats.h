// Where a loader's time goes, stage by stage.
//
//   loader.reset_stats();
//   for (auto& batch : loader) step(batch);
//   std::cout << loader.stats().text();   // "312 batches in 2.1 s: the caller waited 34 % ..."
#pragma once
#include <string>

#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt::data {

// Seconds since the loader was made or reset_stats() was called. What several workers do at once is
// added up, so `dataset`, `collate` and `pin` may be more than `elapsed`.
struct WT_API LoaderStats {
  i64 batches = 0;          // that next() has given
  i64 bytes_to_device = 0;  // copied for .device
  double elapsed = 0;       // wall time
  double next = 0;          // the caller was inside next(): what it waited for data in all
  double dataset = 0;       // in the dataset's batch() or get(), without stacking
  double collate = 0;       // samples of get() made one batch
  double pin = 0;           // copied into page-locked memory
  double worker_wait = 0;   // part of `next`: no worker had the batch ready
  double copy = 0;          // part of `next`: queueing copies to the device, or copying there
  // The part of the wall time in which the caller waited for data: 0 .. 1.
  double stall_share() const { return elapsed > 0 ? next / elapsed : 0; }
  // Of the stages, the one to make cheaper first: "dataset", "collate", "pin" or "copy".
  const char* dearest() const;
  // One line with all of it, in ms and s: "312 batches in 2.1 s: the caller waited 34 % of it ...".
  std::string text() const;
};

}  // namespace wt::data
