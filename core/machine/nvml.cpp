#include "warptape/core/machine/nvml.h"

#include <algorithm>
#include <cstring>

namespace wt::machine {

// As in nvml.h of the driver, whose interface is kept: handles are pointers, answers 0 for success.
// Names with _v2, _v3 are those that a header of today stands for.
constexpr int kInsufficientSize = 7;
constexpr int kSmClock = 1, kMemoryClock = 2, kGpuTemperature = 0;
using NvmlDevice = void*;

struct NvmlUtilization {
  unsigned gpu, memory;
};
struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlPlace {
  char old_bus[16];  // a domain of four digits, as CUDA writes it
  unsigned domain, bus, device, pci_device, pci_subsystem;
  char bus_id[32];
};
struct NvmlProcess {
  unsigned pid;
  unsigned long long bytes;  // all ones: not told
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(NvmlPlace) == 68 && sizeof(NvmlProcess) == 24);

using ProcessList = int (*)(NvmlDevice, unsigned* count, NvmlProcess*);

namespace {

struct Reason {
  u64 bit;
  bool slows;
  const char* words;
};
constexpr Reason kReasons[] = {
    {0x1, false, "idle"},
    {0x2, false, "an application has set the clock"},
    {0x4, true, "power: at its limit"},
    {0x8, true, "hardware: slowed by heat, power or its supply"},
    {0x10, false, "follows another GPU (sync boost)"},
    {0x20, true, "heat: slowed by the driver"},
    {0x40, true, "heat: slowed by the hardware"},
    {0x80, true, "power: its supply asks for less (brake)"},
    {0x100, false, "the display's clock"},
};

}  // namespace

struct NvmlApi {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  const char* (*error_text)(int) = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, NvmlDevice*) = nullptr;
  // Null where the driver is older than they are.
  int (*driver)(char*, unsigned) = nullptr;
  int (*name)(NvmlDevice, char*, unsigned) = nullptr;
  int (*place)(NvmlDevice, NvmlPlace*) = nullptr;
  int (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  int (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
  int (*clock)(NvmlDevice, int kind, unsigned* mhz) = nullptr;
  int (*most_clock)(NvmlDevice, int kind, unsigned* mhz) = nullptr;
  int (*power)(NvmlDevice, unsigned* mw) = nullptr;
  int (*power_limit)(NvmlDevice, unsigned* mw) = nullptr;
  int (*temperature)(NvmlDevice, int sensor, unsigned* celsius) = nullptr;
  int (*throttle)(NvmlDevice, unsigned long long*) = nullptr;
  ProcessList compute = nullptr, graphics = nullptr;

  std::string words(const char* call, int code) const {
    const char* text = error_text ? error_text(code) : nullptr;
    return str(call, ": ", text ? text : str("error ", code));
  }
};

namespace {

constexpr LibrarySearch kNvmlSearch = {
    "libnvidia-ml.so.1", "WT_NVML", {}, "nvidia/ml/lib", "it comes with NVIDIA's driver"};

// The name of the first one that has to be there and is not.
const char* take_functions(NvmlApi& n, const LoadedLibrary& library, const LibraryLoader& loader) {
  LibraryFunctions must(library, loader), may(library, loader);
  must.take(n.init, "nvmlInit_v2");
  must.take(n.shutdown, "nvmlShutdown");
  must.take(n.count, "nvmlDeviceGetCount_v2");
  must.take(n.by_index, "nvmlDeviceGetHandleByIndex_v2");
  may.take(n.error_text, "nvmlErrorString");
  may.take(n.driver, "nvmlSystemGetDriverVersion");
  may.take(n.name, "nvmlDeviceGetName");
  may.take(n.place, "nvmlDeviceGetPciInfo_v3");
  may.take(n.utilization, "nvmlDeviceGetUtilizationRates");
  may.take(n.memory, "nvmlDeviceGetMemoryInfo");
  may.take(n.clock, "nvmlDeviceGetClockInfo");
  may.take(n.most_clock, "nvmlDeviceGetMaxClockInfo");
  may.take(n.power, "nvmlDeviceGetPowerUsage");
  may.take(n.power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  may.take(n.temperature, "nvmlDeviceGetTemperature");
  may.take(n.throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
  for (const char* name :
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"})
    if (!n.compute) may.take(n.compute, name);
  for (const char* name :
       {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"})
    if (!n.graphics) may.take(n.graphics, name);
  return must.missing;
}

// Calls `function` where there is one; false: no answer.
template <class F, class... Args>
bool answers(F function, Args... args) {
  return function && function(args...) == 0;
}

void ask_clocks(const NvmlApi& n, NvmlDevice d, Gpu& g) {
  unsigned v = 0;
  if (answers(n.clock, d, kSmClock, &v)) g.sm_mhz = int(v);
  if (answers(n.most_clock, d, kSmClock, &v)) g.most_sm_mhz = int(v);
  if (answers(n.clock, d, kMemoryClock, &v)) g.memory_mhz = int(v);
  if (answers(n.most_clock, d, kMemoryClock, &v)) g.most_memory_mhz = int(v);
  unsigned long long bits = 0;
  if (!answers(n.throttle, d, &bits)) return;
  g.throttle_bits = bits;
  g.throttle = throttle_words(bits);
  g.slowed = throttle_slows(bits);
}

void add_processes(ProcessList list, NvmlDevice d, Gpu& g) {
  if (!list) return;
  std::vector<NvmlProcess> found(32);
  unsigned count = unsigned(found.size());
  int code = list(d, &count, found.data());
  for (int tries = 0; code == kInsufficientSize && tries < 3; ++tries) {
    found.resize(size_t(count) + 32);  // others may come meanwhile
    count = unsigned(found.size());
    code = list(d, &count, found.data());
  }
  if (code != 0) return;
  for (size_t i = 0; i < std::min<size_t>(count, found.size()); ++i) {
    const NvmlProcess& p = found[i];
    const bool known = std::any_of(g.processes.begin(), g.processes.end(),
                                   [&](const GpuProcess& o) { return o.pid == i64(p.pid); });
    if (known) continue;  // it computes and draws
    g.processes.push_back({.pid = i64(p.pid), .bytes = p.bytes >> 62 ? -1 : i64(p.bytes)});
  }
}

Gpu ask_gpu(const NvmlApi& n, NvmlDevice d, int number) {
  Gpu g{.number = number};
  char text[96] = "";
  if (answers(n.name, d, text, unsigned(sizeof text))) g.name = text;
  NvmlPlace place{};
  if (answers(n.place, d, &place))
    g.bus.assign(place.old_bus, ::strnlen(place.old_bus, sizeof place.old_bus));
  NvmlUtilization use{};
  if (answers(n.utilization, d, &use)) g.busy = use.gpu / 100.0, g.memory_busy = use.memory / 100.0;
  NvmlMemory memory{};
  if (answers(n.memory, d, &memory))
    g.memory_used = i64(memory.used), g.memory_total = i64(memory.total);
  ask_clocks(n, d, g);
  unsigned v = 0;
  if (answers(n.temperature, d, kGpuTemperature, &v)) g.celsius = v;
  if (answers(n.power, d, &v)) g.watts = v * 1e-3;
  if (answers(n.power_limit, d, &v)) g.most_watts = v * 1e-3;
  add_processes(n.compute, d, g);
  add_processes(n.graphics, d, g);
  std::stable_sort(g.processes.begin(), g.processes.end(),
                   [](const GpuProcess& a, const GpuProcess& b) { return a.bytes > b.bytes; });
  return g;
}

}  // namespace

std::vector<std::string> throttle_words(u64 bits) {
  std::vector<std::string> words;
  for (const Reason& r : kReasons) {
    if (bits & r.bit) words.push_back(r.words);
    bits &= ~r.bit;
  }
  if (bits) words.push_back(str("a reason that NVML had not when this was written (", bits, ")"));
  return words;
}

bool throttle_slows(u64 bits) {
  return std::any_of(std::begin(kReasons), std::end(kReasons),
                     [&](const Reason& r) { return r.slows && bits & r.bit; });
}

Nvml::Nvml(const LibraryLoader& loader) {
  const LoadedLibrary library = load_library(kNvmlSearch, loader);
  why_not_ = library.why_not;
  if (!library.handle) return;
  auto api = std::make_unique<NvmlApi>();
  if (const char* missing = take_functions(*api, library, loader)) {
    why_not_ = str(library.file, " lacks ", missing);
    return;
  }
  if (const int code = api->init()) {
    why_not_ = str(library.file, ": ", api->words("nvmlInit_v2", code));
    return;
  }
  char text[96] = "";
  if (answers(api->driver, text, unsigned(sizeof text))) driver_ = text;
  api_ = std::move(api);
}

Nvml::~Nvml() {
  if (api_) api_->shutdown();
}

std::vector<Gpu> Nvml::look(std::string& why_not) const {
  why_not = why_not_;
  std::vector<Gpu> gpus;
  if (!api_) return gpus;
  unsigned count = 0;
  if (const int code = api_->count(&count)) {
    why_not = api_->words("nvmlDeviceGetCount_v2", code);
    return gpus;
  }
  for (unsigned i = 0; i < count; ++i) {
    NvmlDevice d = nullptr;
    if (const int code = api_->by_index(i, &d))
      why_not = api_->words("nvmlDeviceGetHandleByIndex_v2", code);  // lost, or another user's
    else
      gpus.push_back(ask_gpu(*api_, d, int(i)));
  }
  if (!gpus.empty())
    why_not.clear();
  else if (why_not.empty())
    why_not = "the driver has no GPU";
  return gpus;
}

}  // namespace wt::machine
