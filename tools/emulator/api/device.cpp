// Devices: which there are, which is current, what they can do.
#include <cstdio>
#include <cstring>

#include "api/api.h"
#include "device/capture.h"

using namespace emu;

namespace {

bool exists(int device) { return device >= 0 && device < device_count(); }

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", kNoDevice, [&] {
    if (!count) return cudaErrorInvalidValue;
    *count = device_count();
    return *count ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", kNoDevice, [&] {
    if (device_count() == 0) return cudaErrorNoDevice;
    if (!exists(device)) return cudaErrorInvalidDevice;
    set_current_device(device);
    start_device(device);
    return cudaError_t(device_error(device));
  });
}
cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", kNoDevice, [&] {
    if (!device) return cudaErrorInvalidValue;
    if (device_count() == 0) return cudaErrorNoDevice;
    *device = current_device();
    return cudaSuccess;
  });
}
cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return call("cudaInitDevice", kNoDevice, [&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    start_device(device);
    return cudaSuccess;
  });
}
cudaError_t cudaSetValidDevices(int* devices, int n) {
  return call("cudaSetValidDevices", kNoDevice, [&] {
    for (int i = 0; i < n; ++i)
      if (!devices || !exists(devices[i])) return cudaErrorInvalidDevice;
    return cudaSuccess;
  });
}
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) {
  return call("cudaChooseDevice", kNoDevice, [&] {
    if (!device) return cudaErrorInvalidValue;
    *device = 0;
    return device_count() ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  return call("cudaGetDeviceProperties", kNoDevice, [&] {
    if (!p) return cudaErrorInvalidValue;
    if (!exists(device)) return cudaErrorInvalidDevice;
    fill_properties(p, device);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call("cudaDeviceGetAttribute", kNoDevice, [&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    if (!value || !device_attribute(attribute, device, value)) return cudaErrorInvalidValue;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [] {
    if (const int e = check_device_sync(current_device())) return cudaError_t(e);
    drain(current_device());
    return cudaSuccess;
  });
}

// Everything of the device goes. A fault stays: only a new process gets out of it.
cudaError_t cudaDeviceReset() {
  return call("cudaDeviceReset", kNoDevice, [] {
    if (device_count() == 0) return cudaErrorNoDevice;
    const int device = current_device();
    drain(device);
    for (const StreamRef& s : streams_of(device))
      if (!s->legacy && !s->per_thread) drop_stream(s);
    std::vector<u64> blocks;
    for_each_block([&](Block& b) {
      if (b.kind == BlockKind::device && b.device == device && !b.internal)
        blocks.push_back(b.begin);
    });
    for (const u64 b : blocks) free_block(b);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return call("cudaDeviceSetLimit", [&] {
    return set_device_limit(current_device(), limit, value) ? cudaSuccess
                                                            : cudaErrorUnsupportedLimit;
  });
}
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit limit) {
  return call("cudaDeviceGetLimit", [&] {
    bool known = false;
    if (!value) return cudaErrorInvalidValue;
    *value = device_limit(current_device(), limit, &known);
    return known ? cudaSuccess : cudaErrorUnsupportedLimit;
  });
}
cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
  if (config) *config = cudaFuncCachePreferNone;
  return config ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaCtxResetPersistingL2Cache() { return cudaSuccess; }

cudaError_t cudaSetDeviceFlags(unsigned flags) {
  return call("cudaSetDeviceFlags", kNoDevice, [&] {
    device_flags(current_device()) = flags;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  return call("cudaGetDeviceFlags", kNoDevice, [&] {
    if (!flags) return cudaErrorInvalidValue;
    *flags = device_flags(current_device());
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call("cudaDeviceGetStreamPriorityRange", [&] {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  return call("cudaDeviceGetPCIBusId", kNoDevice, [&] {
    if (!exists(device)) return cudaErrorInvalidDevice;
    if (!text || size < 13) return cudaErrorInvalidValue;
    std::snprintf(text, size_t(size), "0000:%02X:00.0", unsigned(device + 1));
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return call("cudaDeviceGetByPCIBusId", kNoDevice, [&] {
    unsigned domain = 0, bus = 0;
    if (!device || !text || std::sscanf(text, "%x:%x", &domain, &bus) != 2)
      return cudaErrorInvalidValue;
    if (domain != 0 || !exists(int(bus) - 1)) return cudaErrorInvalidDevice;
    *device = int(bus) - 1;
    return cudaSuccess;
  });
}

// --- peers ---
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call("cudaDeviceCanAccessPeer", kNoDevice, [&] {
    if (!can) return cudaErrorInvalidValue;
    if (!exists(device) || !exists(peer)) return cudaErrorInvalidDevice;
    *can = device != peer;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return call("cudaDeviceEnablePeerAccess", [&] {
    if (flags) return cudaErrorInvalidValue;
    if (!exists(peer) || peer == current_device()) return cudaErrorInvalidDevice;
    if (has_peer_access(current_device(), peer)) return cudaErrorPeerAccessAlreadyEnabled;
    set_peer_access(current_device(), peer, true);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return call("cudaDeviceDisablePeerAccess", [&] {
    if (!exists(peer)) return cudaErrorInvalidDevice;
    if (!has_peer_access(current_device(), peer)) return cudaErrorPeerAccessNotEnabled;
    set_peer_access(current_device(), peer, false);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int from, int to) {
  return call("cudaDeviceGetP2PAttribute", kNoDevice, [&] {
    if (!exists(from) || !exists(to) || from == to) return cudaErrorInvalidDevice;
    if (!value) return cudaErrorInvalidValue;
    *value = attribute == cudaDevP2PAttrAccessSupported ||
             attribute == cudaDevP2PAttrNativeAtomicSupported;
    return cudaSuccess;
  });
}
