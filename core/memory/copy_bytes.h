// Moving bytes between devices. Internal.
#pragma once
#include "warptape/core/device_type.h"
#include "warptape/core/types.h"

namespace wt {

// Copies `bytes` from one device to another (or on one). Waits where the host is involved, so that
// either side may be used when it returns.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, i64 bytes);
void fill_zero(void* to, Device d, i64 bytes);
// Waits for everything launched on the device's current stream. Nothing to do on cpu and simt.
void synchronize(Device d);

// What a device other than cpu offers; set by its runtime.
struct CopyBackend {
  void (*to_host)(void* host, Device d, const void* device, i64 bytes);
  void (*from_host)(void* device, Device d, const void* host, i64 bytes);
  void (*within)(void* to, const void* from, Device d, i64 bytes);
  void (*fill_zero)(void* to, Device d, i64 bytes);
  void (*wait)(Device d);
};
// Returns the one before.
const CopyBackend* set_copy_backend(DeviceKind k, const CopyBackend* b);

}  // namespace wt
