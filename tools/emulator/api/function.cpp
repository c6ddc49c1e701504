// Kernels: attributes and occupancy.
#include <algorithm>
#include <cstring>

#include "api/launch.h"

using namespace emu;

namespace {

template <class F>
cudaError_t with_function(const char* name, const void* kernel, F&& f) {
  return call(name, [&] {
    Function* function = find_function(kernel);
    if (!function) return cudaErrorInvalidDeviceFunction;
    if (const int e = load(*function, current_device())) return cudaError_t(e);
    return f(*function);
  });
}

cudaError_t set_attribute(Function& f, cudaFuncAttribute attribute, int value, int device) {
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize: {
      const u64 most = gpu_model().shared_optin -
                       std::min(info(*f.kernel).static_shared, gpu_model().shared_optin);
      if (value < 0 || u64(value) > most) {
        note("cudaFuncSetAttribute(" + demangled(f.name) + "): " + std::to_string(value) +
             " bytes of dynamic shared memory, of which " + gpu_model().name + " has " +
             std::to_string(most));
        return cudaErrorInvalidValue;
      }
      f.max_dynamic[device] = value;
      return cudaSuccess;
    }
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      if (value < -1 || value > 100) return cudaErrorInvalidValue;
      f.carveout = value;
      return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      f.nonportable_clusters = value != 0;
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value) {
  return with_function("cudaFuncSetAttribute", kernel, [&](Function& f) {
    return set_attribute(f, attribute, value, current_device());
  });
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute,
                                            int value, int device) {
  return with_function("cudaKernelSetAttributeForDevice", kernel, [&](Function& f) {
    if (device < 0 || device >= device_count()) return cudaErrorInvalidDevice;
    return set_attribute(f, attribute, value, device);
  });
}
cudaError_t cudaFuncSetCacheConfig(const void* kernel, cudaFuncCache config) {
  return with_function("cudaFuncSetCacheConfig", kernel, [&](Function&) {
    return unsigned(config) <= cudaFuncCachePreferEqual ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void* kernel) {
  return with_function("cudaFuncGetAttributes", kernel, [&](Function& f) {
    if (!a) return cudaErrorInvalidValue;
    std::memset(a, 0, sizeof *a);
    const KernelInfo& k = info(*f.kernel);
    a->sharedSizeBytes = k.static_shared;
    a->localSizeBytes = k.local_bytes;
    a->maxThreadsPerBlock = int(k.max_threads);
    a->numRegs = int(registers_of(f));
    a->ptxVersion = a->binaryVersion = int(gpu_model().capability());
    a->maxDynamicSharedSizeBytes = int(dynamic_limit(f, current_device()));
    a->preferredShmemCarveout = f.carveout;
    a->nonPortableClusterSizeAllowed = f.nonportable_clusters;
    return cudaSuccess;
  });
}
cudaError_t cudaFuncGetName(const char** name, const void* kernel) {
  return with_function("cudaFuncGetName", kernel, [&](Function& f) {
    if (!name) return cudaErrorInvalidValue;
    *name = f.name.c_str();
    return cudaSuccess;
  });
}
cudaError_t cudaFuncGetParamInfo(const void* kernel, size_t i, size_t* offset, size_t* bytes) {
  return with_function("cudaFuncGetParamInfo", kernel, [&](Function& f) {
    const KernelInfo& k = info(*f.kernel);
    if (!offset || i >= k.param_at.size()) return cudaErrorInvalidValue;
    *offset = k.param_at[i];
    if (bytes) *bytes = k.param_bytes[i];
    return cudaSuccess;
  });
}
cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  return with_function("cudaGetFuncBySymbol", symbol, [&](Function& f) {
    *function = reinterpret_cast<cudaFunction_t>(&f);
    return cudaSuccess;
  });
}
cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* symbol) {
  return with_function("cudaGetKernel", symbol, [&](Function& f) {
    *kernel = reinterpret_cast<cudaKernel_t>(&f);
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* kernel,
                                                                   int threads, size_t shared,
                                                                   unsigned) {
  return with_function("cudaOccupancyMaxActiveBlocksPerMultiprocessor", kernel, [&](Function& f) {
    if (!blocks || threads <= 0) return cudaErrorInvalidValue;
    const bool fits =
        u32(threads) <= info(*f.kernel).max_threads && shared <= dynamic_limit(f, current_device());
    *blocks = fits ? resident_blocks(f, u64(threads), shared) : 0;
    return cudaSuccess;
  });
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* kernel,
                                                          int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, shared, 0);
}
cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void* kernel, int blocks,
                                                      int threads) {
  return with_function("cudaOccupancyAvailableDynamicSMemPerBlock", kernel, [&](Function& f) {
    if (!bytes || blocks <= 0 || threads <= 0) return cudaErrorInvalidValue;
    const GpuModel& g = gpu_model();
    const u64 each = g.shared_per_multiprocessor / u64(blocks);
    const u64 fixed = info(*f.kernel).static_shared + g.shared_reserved;
    *bytes = each > fixed ? std::min<u64>(each - fixed, g.shared_optin) / 128 * 128 : 0;
    return cudaSuccess;
  });
}
