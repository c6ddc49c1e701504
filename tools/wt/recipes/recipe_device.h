// Where a recipe's model runs.
#pragma once
#include <string>

#include "warptape/core/device.h"

namespace wt::tools {

// The device called `name`, `best` for "auto". Throws UsageError for what is no device's name and
// NotAvailable for a device that is not there.
Device device_for(const std::string& name, Device best = Device::best());

}  // namespace wt::tools
