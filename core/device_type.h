// What a device is. No STL: contracts and device code include this; core/device.h has the rest.
#pragma once
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
  u8 padding = 0;  // makes it four bytes, which compare and travel as one number

  static constexpr Device cpu() { return {}; }
  static constexpr Device simt() { return {DeviceKind::simt, false, 0}; }
  static constexpr Device cuda(int index = 0) { return {DeviceKind::cuda, false, u8(index)}; }
  // Shapes and no bytes: operators run their checks and allocate nothing; workspace is priced as
  // `kind` would take it.
  static constexpr Device meta(DeviceKind kind = DeviceKind::cpu) { return {kind, true, 0}; }
  // cuda:0 where there is one, else cpu.
  WT_API static Device best();
  // "cpu", "simt", "cuda", "cuda:1", "meta", "meta:simt", "auto" (= best()). Throws UsageError,
  // naming what exists, for anything else.
  WT_API static Device parse(const char* text);
  constexpr u32 bits() const { return __builtin_bit_cast(u32, *this); }
  static constexpr Device from_bits(u32 bits) { return __builtin_bit_cast(Device, bits); }
  friend constexpr bool operator==(Device a, Device b) { return a.bits() == b.bits(); }
};

}  // namespace wt
