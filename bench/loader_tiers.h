// The same batches from where a dataset can be kept: files, mapped files, host memory, the device.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/device.h"
#include "warptape/core/types.h"

namespace wt::bench {

struct TierRow {
  std::string tier;  // "disk", "mapped", "pinned" (on cpu: host memory), "resident"
  std::string shape;
  double images_s = 0;      // batches on the device, nothing done with them
  double stall_share = 0;   // of steps of training, the part that waits for its batch
  double step_us = 0;       // one of these, the waiting included
  double bytes_a_step = 0;  // from the host to the device, counted
  double launches = 0;      // kernels on the device that make a batch, counted
  int workers = 0;          // threads that make batches ahead: by themselves (data::kAuto)
  double check = 0;         // mean of x^2 + mean of y: the same for every tier
};

struct TierOptions {
  std::string root;  // of Fashion-MNIST's IDX files
  Device device;
  i64 batch = 64;
  i64 batches = 0;  // measured at most; 0: an epoch
  int rounds = 3;   // the best one counts
};

// The set is packed into a temporary folder for the tiers that read files; before a round the
// system is asked to forget these. Throws DataError, NotAvailable, CheckpointError (no room).
std::vector<TierRow> loader_tiers(const TierOptions& o);

}  // namespace wt::bench
