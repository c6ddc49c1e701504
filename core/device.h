// Where tensors live.
#pragma once
#include <iosfwd>
#include <string>
#include <string_view>

#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt {

// cpu: plain loops plus BLAS. simt: our CUDA kernels run by the SIMT executor on the host.
// cuda: the same kernels compiled by nvcc, plus NVIDIA's libraries.
enum class DeviceKind : u8 { cpu, simt, cuda };
inline constexpr int kNumDeviceKinds = 3;
constexpr const char* device_kind_name(DeviceKind k) {
  return k == DeviceKind::cpu ? "cpu" : k == DeviceKind::simt ? "simt" : "cuda";
}

// A device: its kind, an index (cuda only) and whether it is the shapes-only stand-in for it.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  bool is_meta = false;
  u8 index = 0;

  static constexpr Device cpu() { return {}; }
  static constexpr Device simt() { return {DeviceKind::simt, false, 0}; }
  static constexpr Device cuda(int index = 0) { return {DeviceKind::cuda, false, u8(index)}; }
  // Shapes and no bytes: operators run their checks and allocate nothing; workspace is priced as
  // `kind` would take it.
  static constexpr Device meta(DeviceKind kind = DeviceKind::cpu) { return {kind, true, 0}; }
  // cuda:0 where there is one, else cpu.
  static WT_API Device best();
  // "cpu", "simt", "cuda", "cuda:1", "meta", "meta:simt", "auto" (= best()). Throws PlacementError,
  // naming what exists and the near name.
  static WT_API Device parse(std::string_view text);

  WT_API std::string name() const;  // "cpu", "simt", "cuda:0", "meta:cpu"
  friend constexpr bool operator==(Device, Device) = default;
};

WT_API std::ostream& operator<<(std::ostream& out, Device d);

namespace cuda {
// True when this build has cuda, the driver is there and at least one device answers.
WT_API bool is_available();
// 0 where is_available() is false; `why_not` then says what is missing and how to get it.
WT_API int device_count();
WT_API std::string why_not();
}  // namespace cuda

// Throws PlacementError (an index that does not exist) or NotAvailable (no driver, not built) with
// the reason; returns quietly for a device that can be used.
WT_API void require_available(Device d);

// Threads of the cpu device's loops and BLAS. At least 1; default: 1 thread per physical core.
WT_API void set_num_threads(int n);
WT_API int num_threads();

}  // namespace wt
