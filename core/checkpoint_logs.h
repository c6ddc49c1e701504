// What the first run of a checkpointed function writes down for the others (autograd/checkpoint.h).
// Internal.
#pragma once
#include <vector>

#include "warptape/core/random.h"
#include "warptape/core/storage.h"

namespace wt {

// The draws of a checkpoint: written down by the first run, given again by the others, so that a
// recomputation gets the same numbers and advances no generator.
struct RandomLog {
  std::vector<RandomCall> calls{};
  u64 next = 0;
  bool replaying = false;
  RandomLog* outer = nullptr;
};

namespace detail {
// Storages that this thread made while the log was its innermost one or an outer one of that. A
// block that was released and handed out again was made inside both times.
struct StorageLog {
  std::vector<const Storage*> made{};
  StorageLog* outer = nullptr;
  bool has(const Storage* s) const;
};
}  // namespace detail

}  // namespace wt
