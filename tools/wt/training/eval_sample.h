// How much of the held-out data a run's evaluations take: all of it where all of them together are
// at most a fifth of the run, else a sample, the same for the whole run.
#pragma once
#include <string>
#include <vector>

#include "warptape/core/types.h"

namespace wt::tools {

// What evaluations and training of a run cost, in samples: no clock is asked, so that every machine
// judges by the same samples.
struct EvalBudget {
  i64 steps = 1, batch = 1;
  i64 every = 1;          // steps between two evaluations
  i64 rounds = 0;         // last steps after each of which there is one
  double cost = 1.0 / 3;  // of evaluating a sample, in samples of training
};
// One before the first step, those on the way, one after the last step.
i64 evaluations_of(const EvalBudget& b);
// The most samples with which all evaluations take at most a fifth of the run; 1 where even that is
// more.
i64 affordable_samples(const EvalBudget& b);
// Of so many batches; all `held_out` where they are no more, and for 0.
i64 samples_of_batches(i64 batches, i64 batch, i64 held_out);

// `taken` of so many held-out samples, ascending; the same ones in every run, and among those of a
// larger part.
std::vector<i64> drawn_samples(i64 taken, i64 of);

struct EvalSample {
  i64 taken = 0, of = 0;
  bool is_part() const { return taken < of; }
};
// "640 of 10,000", "all 10,000".
std::string sample_text(const EvalSample& s);

}  // namespace wt::tools
