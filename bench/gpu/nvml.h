// What NVIDIA's management library says about a GPU: clocks, power, temperature. It comes with the
// driver and is looked for when it is asked; nothing of it is needed to build.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "warptape/core/device.h"
#include "warptape/kernels/cuda/load_library.h"

namespace wt::bench {

struct NvmlFacts {
  std::string driver{};                                   // version of the driver
  std::vector<std::pair<std::string, double>> figures{};  // name with its unit, value
  std::string why_not{};                                  // nothing above: why
};
NvmlFacts ask_nvml(Device d, const LibraryLoader& loader = system_loader);

}  // namespace wt::bench
