#include "warptape/core/profile/accesses.h"

#include <atomic>

#include "warptape/core/storage.h"

namespace wt::profiler {

static constinit std::atomic<const AccessCounter*> counter{nullptr};

void set_access_counter(const AccessCounter* c) { counter.store(c); }

const AccessCounter& access_counter() {
  if (!counter.load()) start_device(DeviceKind::simt);
  return *counter.load();
}

Accesses& Accesses::operator+=(const Accesses& o) {
  requests += o.requests, lanes += o.lanes;
  sectors += o.sectors, least_sectors += o.least_sectors;
  passes += o.passes, least_passes += o.least_passes;
  return *this;
}

}  // namespace wt::profiler
