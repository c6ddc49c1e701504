#include "device/gpu.h"

#include <driver_types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "device/settings.h"

namespace emu {
namespace {

constexpr u64 kGiB = u64(1) << 30;
constexpr u32 kKiB = 1024;

constexpr GpuModel kModels[] = {
    {.key = "h100",
     .name = "NVIDIA H100 80GB HBM3",
     .major = 9,
     .minor = 0,
     .multiprocessors = 132,
     .clock_khz = 1980000,
     .memory_clock_khz = 2619000,
     .bus_bits = 5120,
     .memory = 80 * kGiB,
     .l2_bytes = 50 << 20,
     .shared_optin = 227 * kKiB,
     .shared_per_multiprocessor = 228 * kKiB,
     .threads_per_multiprocessor = 2048,
     .blocks_per_multiprocessor = 32,
     .pci_id = 0x233010de,
     .double_ratio = 2},
    {.key = "h200",
     .name = "NVIDIA H200",
     .major = 9,
     .minor = 0,
     .multiprocessors = 132,
     .clock_khz = 1980000,
     .memory_clock_khz = 3201000,
     .bus_bits = 6144,
     .memory = 141 * kGiB,
     .l2_bytes = 60 << 20,
     .shared_optin = 227 * kKiB,
     .shared_per_multiprocessor = 228 * kKiB,
     .threads_per_multiprocessor = 2048,
     .blocks_per_multiprocessor = 32,
     .pci_id = 0x233510de,
     .double_ratio = 2},
    {.key = "a100",
     .name = "NVIDIA A100-SXM4-80GB",
     .major = 8,
     .minor = 0,
     .multiprocessors = 108,
     .clock_khz = 1410000,
     .memory_clock_khz = 1593000,
     .bus_bits = 5120,
     .memory = 80 * kGiB,
     .l2_bytes = 40 << 20,
     .shared_optin = 163 * kKiB,
     .shared_per_multiprocessor = 164 * kKiB,
     .threads_per_multiprocessor = 2048,
     .blocks_per_multiprocessor = 32,
     .pci_id = 0x20b210de,
     .double_ratio = 2},
    {.key = "rtx3090",
     .name = "NVIDIA GeForce RTX 3090",
     .major = 8,
     .minor = 6,
     .multiprocessors = 82,
     .clock_khz = 1695000,
     .memory_clock_khz = 9751000,
     .bus_bits = 384,
     .memory = 24 * kGiB,
     .l2_bytes = 6 << 20,
     .shared_optin = 99 * kKiB,
     .shared_per_multiprocessor = 100 * kKiB,
     .threads_per_multiprocessor = 1536,
     .blocks_per_multiprocessor = 16,
     .pci_id = 0x220410de,
     .double_ratio = 64},
    {.key = "rtx4090",
     .name = "NVIDIA GeForce RTX 4090",
     .major = 8,
     .minor = 9,
     .multiprocessors = 128,
     .clock_khz = 2520000,
     .memory_clock_khz = 10501000,
     .bus_bits = 384,
     .memory = 24 * kGiB,
     .l2_bytes = 72 << 20,
     .shared_optin = 99 * kKiB,
     .shared_per_multiprocessor = 100 * kKiB,
     .threads_per_multiprocessor = 1536,
     .blocks_per_multiprocessor = 24,
     .pci_id = 0x268410de,
     .double_ratio = 64},
    {.key = "t4",
     .name = "Tesla T4",
     .major = 7,
     .minor = 5,
     .multiprocessors = 40,
     .clock_khz = 1590000,
     .memory_clock_khz = 5001000,
     .bus_bits = 256,
     .memory = 16 * kGiB,
     .l2_bytes = 4 << 20,
     .shared_optin = 64 * kKiB,
     .shared_per_multiprocessor = 64 * kKiB,
     .threads_per_multiprocessor = 1024,
     .blocks_per_multiprocessor = 16,
     .pci_id = 0x1eb810de,
     .double_ratio = 32},
};

const GpuModel* find_model(std::string name) {
  for (char& c : name) c = char(c == '-' ? '_' : std::tolower(c));
  for (const GpuModel& m : kModels) {
    if (name == m.key || name == "sm_" + std::to_string(m.capability())) return &m;
    if (name == "sm_90a" && m.capability() == 90) return &m;
  }
  return nullptr;
}

}  // namespace

const GpuModel& gpu_model() {
  static const GpuModel* model = [] {
    const GpuModel* found = find_model(settings().gpu);
    if (found) {
      auto* m = new GpuModel(*found);
      m->memory = std::min(m->memory, settings().memory);
      m->shared_optin = u32(std::min<u64>(m->shared_optin, settings().shared));
      return m;
    }
    std::string names;
    for (const GpuModel& m : kModels)
      names += std::string(names.empty() ? "" : ", ") + m.key + " (sm_" +
               std::to_string(m.capability()) + ")";
    std::fprintf(stderr, "emulator: WT_EMU_GPU=%s: one of %s\n", settings().gpu.c_str(),
                 names.c_str());
    std::fflush(nullptr);
    _exit(2);
  }();
  return *model;
}

int device_count() { return settings().devices; }

void fill_properties(cudaDeviceProp* p, int device) {
  const GpuModel& m = gpu_model();
  std::memset(p, 0, sizeof *p);
  const auto set = [](auto& field, auto... values) {
    const int all[] = {int(values)...};
    for (size_t i = 0; i < sizeof...(values); ++i) field[i] = all[i];
  };
  std::snprintf(p->name, sizeof p->name, "%s (emulated)", m.name);
  std::memcpy(p->uuid.bytes, "warptape-emu-\0\0", 15);
  p->uuid.bytes[15] = char(device);
  p->totalGlobalMem = m.memory;
  p->sharedMemPerBlock = m.shared_per_block;
  p->regsPerBlock = p->regsPerMultiprocessor = int(m.registers);
  p->warpSize = int(kLanes);
  p->memPitch = 0x7fffffff;
  p->maxThreadsPerBlock = 1024;
  set(p->maxThreadsDim, 1024, 1024, 64);
  set(p->maxGridSize, 0x7fffffff, 65535, 65535);
  p->totalConstMem = 65536;
  p->major = m.major;
  p->minor = m.minor;
  p->textureAlignment = p->surfaceAlignment = 512;
  p->texturePitchAlignment = 32;
  p->multiProcessorCount = m.multiprocessors;
  p->canMapHostMemory = 1;
  p->maxTexture1D = p->maxSurface1D = 131072;
  p->maxTexture1DMipmap = 32768;
  set(p->maxTexture2D, 131072, 65536);
  set(p->maxTexture2DMipmap, 32768, 32768);
  set(p->maxTexture2DLinear, 131072, 65000, 2097120);
  set(p->maxTexture2DGather, 32768, 32768);
  set(p->maxTexture3D, 16384, 16384, 16384);
  set(p->maxTexture3DAlt, 8192, 8192, 32768);
  p->maxTextureCubemap = p->maxSurfaceCubemap = 32768;
  set(p->maxTexture1DLayered, 32768, 2048);
  set(p->maxTexture2DLayered, 32768, 32768, 2048);
  set(p->maxTextureCubemapLayered, 32768, 2046);
  set(p->maxSurface2D, 131072, 65536);
  set(p->maxSurface3D, 16384, 16384, 16384);
  set(p->maxSurface1DLayered, 32768, 2048);
  set(p->maxSurface2DLayered, 32768, 32768, 2048);
  set(p->maxSurfaceCubemapLayered, 32768, 2046);
  p->concurrentKernels = 1;
  p->ECCEnabled = m.double_ratio == 2;
  p->pciBusID = device + 1;
  p->asyncEngineCount = 3;
  p->unifiedAddressing = 1;
  p->memoryBusWidth = m.bus_bits;
  p->l2CacheSize = int(m.l2_bytes);
  p->persistingL2CacheMaxSize = m.major >= 8 ? int(m.l2_bytes / 8 * 5) : 0;
  p->maxThreadsPerMultiProcessor = m.threads_per_multiprocessor;
  p->streamPrioritiesSupported = 1;
  p->globalL1CacheSupported = p->localL1CacheSupported = 1;
  p->sharedMemPerMultiprocessor = m.shared_per_multiprocessor;
  p->managedMemory = p->concurrentManagedAccess = 1;
  p->multiGpuBoardGroupID = device;
  p->computePreemptionSupported = 1;
  p->canUseHostPointerForRegisteredMem = 1;
  p->cooperativeLaunch = 1;
  p->sharedMemPerBlockOptin = m.shared_optin;
  p->maxBlocksPerMultiProcessor = m.blocks_per_multiprocessor;
  p->accessPolicyMaxWindowSize = m.major >= 8 ? 134213632 : 0;
  p->reservedSharedMemPerBlock = m.capability() >= 80 ? m.shared_reserved : 0;
  p->hostRegisterSupported = 1;
  p->memoryPoolsSupported = 1;
  p->unifiedFunctionPointers = 0;
  p->hostNumaId = -1;
  p->deviceNumaId = -1;
  p->gpuPciDeviceID = m.pci_id;
}

}  // namespace emu
