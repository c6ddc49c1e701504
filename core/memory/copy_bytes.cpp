#include "warptape/core/memory/copy_bytes.h"

#include <atomic>
#include <cstring>
#include <vector>

#include "warptape/core/device.h"
#include "warptape/core/graph/graph_capture.h"
#include "warptape/core/profile/transfers.h"
#include "warptape/core/storage.h"

namespace wt {
namespace {

void plain_copy(void* to, Device, const void* from, i64 bytes) {
  std::memcpy(to, from, size_t(bytes));
}
constexpr CopyBackend kCpu = {
    plain_copy, plain_copy,
    [](void* to, const void* from, Device, i64 bytes) { std::memmove(to, from, size_t(bytes)); },
    [](void* to, Device, i64 bytes) { std::memset(to, 0, size_t(bytes)); }, [](Device) {}};
// Atomic, as all that starting a device sets: another thread may be about to start it too.
std::atomic<const CopyBackend*> backends[kNumDeviceKinds] = {&kCpu, nullptr, nullptr};

// A replay would copy again what lies at the host's address then.
void check_graph(Device a, Device b) {
  if (detail::recording_graph() && (a == mode.capture->device || b == mode.capture->device))
      [[unlikely]]
    detail::not_in_a_graph("copy", "it copies between the device and host memory");
}

const CopyBackend& backend(Device d) {
  if (!backends[int(d.kind)]) {
    require_available(d);
    start_device(d.kind);
  }
  return *backends[int(d.kind)].load();
}

// The host waits for these copies, whatever memory of its own they are from.
constexpr bool kPageable = true;

void to_host(void* to, Device d, const void* from, i64 bytes) {
  const profiler::TransferWatch watch(profiler::Transfer::Kind::to_host, d, bytes, kPageable);
  backend(d).to_host(to, d, from, bytes);
}
void from_host(void* to, Device d, const void* from, i64 bytes) {
  const profiler::TransferWatch watch(profiler::Transfer::Kind::to_device, d, bytes, kPageable);
  backend(d).from_host(to, d, from, bytes);
}
void within(void* to, const void* from, Device d, i64 bytes) {
  if (d == Device::cpu()) return backend(d).within(to, from, d, bytes);
  const profiler::TransferWatch watch(profiler::Transfer::Kind::within_device, d, bytes);
  backend(d).within(to, from, d, bytes);
}

}  // namespace

const CopyBackend* set_copy_backend(DeviceKind k, const CopyBackend* b) {
  return backends[int(k)].exchange(b);
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, i64 bytes) {
  if (bytes == 0 || to_device.is_meta || from_device.is_meta) return;
  if (to_device == from_device) return within(to, from, to_device, bytes);
  check_graph(to_device, from_device);
  if (from_device == Device::cpu()) return from_host(to, to_device, from, bytes);
  if (to_device == Device::cpu()) return to_host(to, from_device, from, bytes);
  std::vector<char> bounce(static_cast<size_t>(bytes));
  to_host(bounce.data(), from_device, from, bytes);
  from_host(to, to_device, bounce.data(), bytes);
}

void fill_zero(void* to, Device d, i64 bytes) {
  if (bytes && !d.is_meta) backend(d).fill_zero(to, d, bytes);
}

void synchronize(Device d) {
  if (detail::recording_graph() && d == mode.capture->device)
    detail::not_in_a_graph("synchronize", "the host waits for the device");
  if (d.is_meta || d.kind == DeviceKind::cpu) return;
  const profiler::TransferWatch watch(profiler::Transfer::Kind::wait, d, 0);
  backend(d).wait(d);
}

}  // namespace wt
