// Where a recipe's model runs.
#pragma once
#include <string>

#include "warptape/tools/recipes.h"

namespace wt::tools {

// The device called `name`. "auto" is `best`, or the cpu, with a line on stderr, where the model's
// convolutions have no kernels on `best`. Throws NotAvailable for a device that is not there, and,
// saying what else there is, for one named outright that lacks the model's kernels.
Device device_for(const Recipe& r, const std::string& name, Device best = Device::best());

}  // namespace wt::tools
