// Who counts what kernels access: simt, where they are compiled for it. Internal.
#pragma once
#include "warptape/core/profile.h"

namespace wt::profiler {

struct AccessCounter {
  // UsageError where kernels are not instrumented, and while somebody counts.
  void (*start)();
  Accesses (*so_far)();  // since the start; waits for queued work
  void (*stop)();
};
void set_access_counter(const AccessCounter* c);
// NotAvailable in a build without simt.
const AccessCounter& access_counter();

}  // namespace wt::profiler
