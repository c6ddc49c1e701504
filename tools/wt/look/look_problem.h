// What `wt look` and `wt step` are asked to look at: a kernel, and the operands of its launch.
#pragma once
#include <string>
#include <vector>

#include "warptape/bench/gpu/problems.h"
#include "warptape/tools/wt/command_line.h"

namespace wt::tools {

struct LookRequest {
  std::string kernel, shape, dtype, source = ".";
};
// Their options, and the positional argument.
void add_look_options(Command c, LookRequest& r);

// "softmax_forward:naive": contract and variant, as WT_KERNEL has them. UsageError, with the near
// names, for what is neither a contract nor an operator nor a device function.
struct Wanted {
  std::string contract, variant{};
  // Other contracts of the operator that was named, or what else launches the function.
  std::vector<std::string> beside{};
  std::string function{};        // that was named, and operands with which it is launched
  std::string dtype{}, shape{};  // unless others are asked for
};
Wanted wanted_of(const std::string& kernel);
// UsageError unless it is among the kernels that a variant has launched, by their titles.
void check_launched(const Wanted& w, const bench::Problem& p, const std::string& variant,
                    const std::vector<std::string>& titles);
// UsageError for a dtype or a shape that the contract has not.
bench::Problem problem_of(const LookRequest& r, const Wanted& w, Device device = Device::simt());
// The variant that was named, or the one that is taken. UsageError where it is not known or does
// not take the problem.
const bench::VariantRun& variant_of(const bench::Problem& p, const std::string& name);

}  // namespace wt::tools
