#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <map>
#include <mutex>

#include <unistd.h>

#include "warptape/core/error.h"
#include "warptape/core/memory_footprint.h"

namespace wt::memory {
namespace {

std::array<std::atomic<PoolShapeOf>, kNumDeviceKinds> pool_shapes = {};

struct ExternalParts {
  std::mutex mutex;
  std::map<std::pair<int, std::string>, i64> bytes;  // by cuda device and name
};
ExternalParts& external_parts() {
  static auto* parts = new ExternalParts;
  return *parts;
}

// Of the process, in host memory; 0 where /proc does not tell.
i64 resident_bytes() {
  std::ifstream in("/proc/self/statm");
  i64 all = 0, resident = 0;
  return in >> all >> resident ? resident * i64(::sysconf(_SC_PAGESIZE)) : 0;
}

// What the device has in use beside its pools.
i64 outside_of_pools(Device d, i64 reserved) {
  if (d.kind == DeviceKind::cuda) {
    const cuda::Properties p = cuda::properties(d.index);
    return std::max<i64>(0, p.memory_bytes - p.free_bytes - reserved);
  }
  // Pages that were taken and never written to are not resident.
  const i64 pools = stats(Device::cpu()).reserved + stats(Device::simt()).reserved;
  return std::max<i64>(0, resident_bytes() - pools);
}

}  // namespace

void set_pool_shape(DeviceKind k, PoolShapeOf f) { pool_shapes[size_t(k)] = f; }

Footprint footprint(Device d) {
  require_available(d);
  Footprint f{stats(d)};
  if (d.is_meta) return f;
  f.idle = std::max<i64>(0, f.reserved - f.live);
  if (const PoolShapeOf shape_of = pool_shapes[size_t(d.kind)]) {
    const PoolShape shape = shape_of(d);
    f.largest_free = shape.largest_free;
    if (shape.free > 0) f.fragmentation = 1 - double(shape.largest_free) / double(shape.free);
  }
  f.external = outside_of_pools(d, f.reserved);
  if (d.kind != DeviceKind::cuda) return f;
  ExternalParts& parts = external_parts();
  const std::lock_guard lock(parts.mutex);
  for (const auto& [key, bytes] : parts.bytes)
    if (key.first == d.index) f.parts.push_back({key.second, bytes});
  return f;
}

// The driver may not answer in the middle of an error that is being told.
static i64 outside_or_none(Device d) noexcept {
  try {
    return d.kind == DeviceKind::cuda ? outside_of_pools(d, stats(d).reserved) : -1;
  } catch (...) {
    return -1;
  }
}

ExternalScope::ExternalScope(Device d, const char* name)
    : device_(d), name_(name), before_(outside_or_none(d)) {}

ExternalScope::~ExternalScope() {
  const i64 after = before_ < 0 ? -1 : outside_or_none(device_);
  if (after <= before_) return;
  try {
    ExternalParts& parts = external_parts();
    const std::lock_guard lock(parts.mutex);
    parts.bytes[{device_.index, name_}] += after - before_;
  } catch (...) {}  // a figure less
}

}  // namespace wt::memory
