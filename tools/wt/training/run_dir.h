// The folder of a training run: metrics.jsonl, report.html, ckpt/step-000800.safetensors,
// ckpt/latest, ckpt/best.safetensors.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "warptape/core/files/atomic_file.h"

namespace wt::tools {

struct Checkpoint {
  i64 step = 0;
  std::string path;
};

struct FoundCheckpoint {
  Checkpoint checkpoint;
  std::vector<std::string> rejected;  // newer ones, each with the reason
};

// The file to use of a run that perhaps goes on: its best checkpoint, else its newest valid one.
// DataError if there is none. A path that is no folder is itself the file.
std::string checkpoint_of(const std::string& path);

// Holds the folder's lock for its life; creates what is missing.
class RunDirectory {
 public:
  // CheckpointError if another process runs there or the folder cannot be written. Leftovers of
  // killed writers are removed.
  explicit RunDirectory(const std::string& path);

  std::string metrics_path() const { return lock_.directory() + "/metrics.jsonl"; }
  std::string report_path() const { return lock_.directory() + "/report.html"; }
  std::string checkpoint_path(i64 step) const;
  std::string best_path() const { return checkpoints_ + "/best.safetensors"; }

  // Newest first.
  std::vector<Checkpoint> checkpoints() const;

  // What to resume from: the one that `latest` names, else the newest older one whose header and
  // checksums are right. Empty if there is no checkpoint at all; DataError, with the reason for
  // each, if there are some and none is valid.
  std::optional<FoundCheckpoint> newest_valid() const;

  // Call it after checkpoint_path(step) has been written: points `latest` to it and removes all but
  // the newest `keep` (at least 2, so that one is whole whatever happens to the other).
  void published(i64 step, int keep = 2);

 private:
  DirectoryLock lock_;
  std::string checkpoints_;
};

}  // namespace wt::tools
