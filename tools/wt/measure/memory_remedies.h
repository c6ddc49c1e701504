// What to change when a recipe's training does not fit: the advice of `wt train` and `wt memory`.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/tools/wt/training/train.h"

namespace wt::tools {

struct Remedy {
  std::string change;   // "--micro-batches 4"
  i64 peak = 0;         // predicted, of the device's bytes
  std::string meaning;  // "the same batch in parts"
};

// Changes of the options each of which is enough: the predicted peak is at most `bytes`. The
// cheapest first: parts of a batch, checkpointed blocks (where the recipe has them), the two
// together, activations in host memory (where the device is not the host), 16-bit activations, a
// smaller batch.
std::vector<Remedy> remedies(const TrainOptions& o, i64 bytes);

// The error's message with what is enough in place of its last line, for a run with these options.
OutOfMemory with_remedies(const OutOfMemory& e, const TrainOptions& o) noexcept;

// Throws OutOfMemory, with what would fit, where the steps are predicted to take more than the
// device can give now, or --memory-limit says. Nothing is computed.
void foresee(const TrainOptions& o);

}  // namespace wt::tools
