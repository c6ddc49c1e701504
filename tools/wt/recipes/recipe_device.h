// Where a recipe's model runs.
#pragma once
#include <string>

#include "warptape/core/device.h"

namespace wt::tools {

// The device called `name`, `best` for "auto". Throws UsageError for what is no device's name and
// NotAvailable for a device that is not there.
Device device_for(const std::string& name, Device best = Device::best());

// For commands that only want a model's results: simt takes what is cheap there
// (kernels/dispatch/run_shipped.h), but not where its kernels are instrumented, which are to be
// those of a GPU.
void take_cheap_kernels_on_simt();

}  // namespace wt::tools
