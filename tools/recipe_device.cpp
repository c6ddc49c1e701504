#include "warptape/tools/recipe_device.h"

#include <cstdio>

#include "warptape/kernels/run.h"

namespace wt::tools {
namespace {

// The recipes of images have one setting that decides it.
bool lacks_convolutions(const Recipe& r, DeviceKind kind) {
  if (r.settings().find("model=cnn") == std::string::npos) return false;
  for (const ContractInfo& c : all_contracts())
    if (std::string_view(c.name) == "conv_forward") return c.count(kind) == 0;
  return false;
}

}  // namespace

Device device_for(const Recipe& r, const std::string& name, Device best) {
  const bool chosen_here = name == "auto";
  const Device device = chosen_here ? best : Device::parse(name.c_str());
  require_available(device);
  if (!lacks_convolutions(r, device.kind)) return device;
  const char* kind = device_kind_name(device.kind);
  if (!chosen_here)
    throw NotAvailable(str("convolutions have no kernel for ", kind,
                           " yet\n  Try --set model=mlp, or --device cpu"));
  std::fprintf(stderr, "convolutions have no kernel for %s yet: the cpu is taken\n", kind);
  return Device::cpu();
}

}  // namespace wt::tools
