// How the values of a state get into a module: for those who load, with what they say when the
// state does not fit. Internal.
#pragma once
#include <string>
#include <vector>

#include "warptape/nn/module.h"

namespace wt::nn::detail {

// Throws the UsageError of load_state() for what compare_state() (nn/weight_source.h) has found.
[[noreturn]] void refuse_state(const ModuleBase& m, const std::vector<NamedTensor>& values,
                               const LoadStateResult& rest, const std::string& headline);
// What ModuleBase::load_state_dict does. `headline` begins the message of the UsageError.
LoadStateResult load_state(const ModuleBase& m, const std::vector<NamedTensor>& values, bool strict,
                           const std::string& headline);

}  // namespace wt::nn::detail
