// An NVML without a driver: a library that WT_NVML names. FAKE_NVML says what it pretends, words
// apart by spaces: "none" (no GPU), "broken" (init fails), "hot" (slowed by heat and power), "shy"
// (its second GPU tells nothing but its memory), "crowd" (100 processes), "own" (this process is
// among them).
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {

enum { kSuccess = 0, kUninitialized = 1, kNotSupported = 3, kInsufficientSize = 7, kNotLoaded = 9 };

static int pretends(const char* word) {
  const char* const text = std::getenv("FAKE_NVML");
  return text && std::strstr(text, word) != nullptr;
}
static int initialized;

int nvmlInit_v2() {
  if (pretends("broken")) return kNotLoaded;
  ++initialized;
  return kSuccess;
}
int nvmlShutdown() {
  if (!initialized) return kUninitialized;
  --initialized;
  return kSuccess;
}
int fake_nvml_initialized() { return initialized; }

const char* nvmlErrorString(int code) {
  return code == kNotLoaded ? "Driver Not Loaded" : code == kNotSupported ? "Not Supported" : "?";
}
int nvmlSystemGetDriverVersion(char* text, unsigned room) {
  std::snprintf(text, room, "999.1.2");
  return kSuccess;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  if (!initialized) return kUninitialized;
  *count = pretends("none") ? 0 : 2;
  return kSuccess;
}
static char handles[2];
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index > 1) return 2;
  *device = &handles[index];
  return kSuccess;
}
static unsigned number_of(const void* device) {
  return unsigned(static_cast<const char*>(device) - handles);
}
// The second GPU is the shy one.
static int is_shy(const void* device) { return pretends("shy") && number_of(device) == 1; }

int nvmlDeviceGetName(void* device, char* text, unsigned room) {
  std::snprintf(text, room, "Fake GPU %u", number_of(device));
  return kSuccess;
}
struct place {
  char old_bus[16];
  unsigned domain, bus, device, pci_device, pci_subsystem;
  char bus_id[32];
};
int nvmlDeviceGetPciInfo_v3(void* device, place* p) {
  *p = {};
  std::snprintf(p->old_bus, sizeof p->old_bus, "0000:%02X:00.0", number_of(device) + 1);
  std::snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", number_of(device) + 1);
  return kSuccess;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* parts) {
  if (is_shy(device)) return kNotSupported;
  parts[0] = 97, parts[1] = 41;
  return kSuccess;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* bytes) {
  bytes[0] = 80ull << 30, bytes[1] = 60ull << 30, bytes[2] = 20ull << 30;
  return kSuccess;
}
int nvmlDeviceGetClockInfo(void* device, int kind, unsigned* mhz) {
  if (is_shy(device)) return kNotSupported;
  *mhz = kind == 1 ? (pretends("hot") ? 1095 : 1980) : 2619;
  return kSuccess;
}
int nvmlDeviceGetMaxClockInfo(void* device, int kind, unsigned* mhz) {
  if (is_shy(device)) return kNotSupported;
  *mhz = kind == 1 ? 1980 : 2619;
  return kSuccess;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* mw) {
  if (is_shy(device)) return kNotSupported;
  *mw = 612345;
  return kSuccess;
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* mw) {
  if (is_shy(device)) return kNotSupported;
  *mw = 700000;
  return kSuccess;
}
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned* celsius) {
  if (is_shy(device) || sensor != 0) return kNotSupported;
  *celsius = pretends("hot") ? 88 : 54;
  return kSuccess;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* bits) {
  if (is_shy(device)) return kNotSupported;
  *bits = pretends("hot") ? 0x20 | 0x4 : 0;
  return kSuccess;
}
struct process {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance, compute_instance;
};
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, process* list) {
  const unsigned there = number_of(device) == 1 ? 0 : pretends("crowd") ? 100 : 2;
  if (is_shy(device)) return kNotSupported;
  if (*count < there) {
    *count = there;
    return kInsufficientSize;
  }
  for (unsigned i = 0; i < there; ++i) {
    // No process has such numbers: /proc knows none of them.
    list[i] = {1u << 30 | i, (i + 1ull) << 20, ~0u, ~0u};
  }
  if (there > 1) list[1].bytes = ~0ull;  // not told
  if (there && pretends("own")) list[0].pid = unsigned(::getpid());
  *count = there;
  return kSuccess;
}

}  // extern "C"
