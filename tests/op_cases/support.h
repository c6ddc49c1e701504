// What of an operator runs on which device, found out by running the samples of its row, values and
// gradients: for `wt ops`, docs/operators.md and README.md.
#pragma once
#include <string>
#include <vector>

#include "warptape/tests/op_cases/op_case.h"

namespace wt_test {

struct Support {
  const char* extent = "all";            // of the samples run: "all", "part" or "none"
  std::vector<std::string> lacking{};    // in part: "gradients", or labels of samples
  std::vector<std::string> contracts{};  // whose kernels the forwards launched, in that order
  bool aliases = true;                   // every result lies in the memory of an operand
};
// Computed once for each.
const Support& support_on(const OpCase& row, Device d);

}  // namespace wt_test
