#include "warptape/bench/gpu/nvml.h"

#include "warptape/kernels/cuda/api.h"

namespace wt::bench {
namespace {

// As in nvml.h of the driver: handles are pointers, answers 0 for success.
constexpr int kSmClock = 1, kMemoryClock = 2, kGpuTemperature = 0;
using NvmlDevice = void*;

struct Nvml {
  int (*init)();
  int (*shutdown)();
  int (*by_index)(unsigned, NvmlDevice*);
  int (*by_bus)(const char*, NvmlDevice*);
  int (*driver)(char*, unsigned);
  int (*clock)(NvmlDevice, int kind, unsigned* mhz);
  int (*most_clock)(NvmlDevice, int kind, unsigned* mhz);
  int (*power)(NvmlDevice, unsigned* mw);
  int (*power_limit)(NvmlDevice, unsigned* mw);
  int (*temperature)(NvmlDevice, int sensor, unsigned* celsius);
};

// Null where one of them is missing.
const char* take_functions(Nvml& n, const LoadedLibrary& from, const LibraryLoader& loader) {
  LibraryFunctions functions(from, loader);
  functions.take(n.init, "nvmlInit_v2");
  functions.take(n.shutdown, "nvmlShutdown");
  functions.take(n.by_index, "nvmlDeviceGetHandleByIndex_v2");
  functions.take(n.by_bus, "nvmlDeviceGetHandleByPciBusId_v2");
  functions.take(n.driver, "nvmlSystemGetDriverVersion");
  functions.take(n.clock, "nvmlDeviceGetClockInfo");
  functions.take(n.most_clock, "nvmlDeviceGetMaxClockInfo");
  functions.take(n.power, "nvmlDeviceGetPowerUsage");
  functions.take(n.power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  functions.take(n.temperature, "nvmlDeviceGetTemperature");
  return functions.missing;
}

// NVML numbers all GPUs of the machine, CUDA those that CUDA_VISIBLE_DEVICES names: their place on
// the bus is one for both.
int find_device(const Nvml& n, int index, NvmlDevice* device) {
  using GetDevice = int (*)(int* device, int index);
  using GetBus = int (*)(char* text, int room, int device);
  const auto get = reinterpret_cast<GetDevice>(cuda_api()->driver_function("cuDeviceGet"));
  const auto bus = reinterpret_cast<GetBus>(cuda_api()->driver_function("cuDeviceGetPCIBusId"));
  int handle = 0;
  char text[32] = "";
  if (get && bus && get(&handle, index) == 0 && bus(text, sizeof text, handle) == 0)
    return n.by_bus(text, device);
  return n.by_index(unsigned(index), device);
}

void ask_figures(const Nvml& n, NvmlDevice device, NvmlFacts& facts) {
  const auto add = [&](const char* name, int code, unsigned value, double unit) {
    if (code == 0) facts.figures.emplace_back(name, value * unit);
  };
  unsigned v = 0;
  int code = n.clock(device, kSmClock, &v);
  add("sm_clock_mhz", code, v, 1);
  code = n.most_clock(device, kSmClock, &v);
  add("sm_clock_max_mhz", code, v, 1);
  code = n.clock(device, kMemoryClock, &v);
  add("memory_clock_mhz", code, v, 1);
  code = n.power(device, &v);
  add("power_w", code, v, 1e-3);
  code = n.power_limit(device, &v);
  add("power_limit_w", code, v, 1e-3);
  code = n.temperature(device, kGpuTemperature, &v);
  add("temperature_c", code, v, 1);
}

}  // namespace

NvmlFacts ask_nvml(Device d, const LibraryLoader& loader) {
  NvmlFacts facts;
  if (d.kind != DeviceKind::cuda || !cuda_api()) return {.why_not = "this device is no GPU"};
  LoadedLibrary library;
  library.file = "libnvidia-ml.so.1";
  library.handle = loader.open(library.file.c_str());
  if (!library.handle) return {.why_not = loader.error ? loader.error() : "it is not there"};
  Nvml n;
  if (const char* missing = take_functions(n, library, loader))
    return {.why_not = str(library.file, " lacks ", missing)};
  if (const int code = n.init()) return {.why_not = str("nvmlInit_v2: error ", code)};
  char text[96] = "";
  if (n.driver(text, sizeof text) == 0) facts.driver = text;
  NvmlDevice device = nullptr;
  if (const int code = find_device(n, d.index, &device))
    facts.why_not = str("the device is not found: error ", code);
  else
    ask_figures(n, device, facts);
  n.shutdown();
  return facts;
}

}  // namespace wt::bench
