#include "warptape/tools/wt/recipes/recipe_device.h"

namespace wt::tools {

Device device_for(const std::string& name, Device best) {
  const Device device = name == "auto" ? best : Device::parse(name.c_str());
  require_available(device);
  return device;
}

}  // namespace wt::tools
