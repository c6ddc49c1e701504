#include "warptape/tools/wt/recipes/recipe_device.h"

#include <string_view>

#include "warptape/kernels/dispatch/run_shipped.h"
#include "warptape/kernels/simt/executor.h"

namespace wt::tools {

Device device_for(const std::string& name, Device best) {
  const Device device = name == "auto" ? best : Device::parse(name.c_str());
  require_available(device);
  return device;
}

void take_cheap_kernels_on_simt() {
  if (std::string_view(simt_flavour()) == "plain") wt::detail::rank_simt_by_its_own_cost(true);
}

}  // namespace wt::tools
