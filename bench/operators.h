// Operators as a user calls them, at the sizes where a missing fast kernel would show: the rows of
// `wt bench operators`. bench/peers/operators.py has the same in PyTorch.
#pragma once
#include "warptape/bench/gpu/measure.h"

namespace wt::bench {

struct OperatorOptions {
  int threads = 1;
  int windows = 7;  // of each row: one call each
  std::vector<std::string> only{};
};

struct OperatorRow {
  std::string name, shape, dtype;
  bool gradients;  // forward, backward of the sum and free; else forward without a tape
  Timing time;
};

// One thread: processor time, more: wall time. Each row is given to `done` when it is there.
void measure_operators(const OperatorOptions& o,
                       const std::function<void(const OperatorRow&)>& done);
std::vector<std::string> operator_names();

}  // namespace wt::bench
