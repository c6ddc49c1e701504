// What a rung of a kernel makes of a whole training step, for `wt bench ladder --model`.
#pragma once
#include <string>
#include <vector>

#include "warptape/bench/gpu/measure.h"

namespace wt::bench {

struct StepRung {
  std::string variant;
  std::string why_not{};  // not empty: it does not take what the step launches, and was not timed
  Timing time{};          // of a step
};
// A contract's variants in the steps of one model, the plainest first.
struct StepLadder {
  std::string contract;
  int launches = 0;                   // a step; 0: the model does not use the contract
  std::vector<std::string> chosen{};  // the variants that the step launches if none is named
  Timing step{};                      // with those, in turns with the rungs
  std::vector<StepRung> rungs{};
};
struct StepLadders {
  std::string shape;  // of the model and its batch
  std::vector<StepLadder> ladders{};
};
struct StepLadderOptions {
  std::string model;  // one of step_models()
  std::vector<std::string> contracts;
  Device device;
  int rounds = 5;  // a step of each rung, in turns, so that what the machine does slows all alike
};
// The rows of `wt bench overhead` that train: their f32 steps, in wall time, on one thread of the
// cpu. A rung that takes over a second runs once.
StepLadders time_step_ladders(const StepLadderOptions& o);
const std::vector<std::string>& step_models();

}  // namespace wt::bench
