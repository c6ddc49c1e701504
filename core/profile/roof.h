// What this machine could do in a row's time. Internal.
#pragma once
#include "warptape/core/machine.h"
#include "warptape/core/profile.h"

namespace wt::profiler {

class Roofs {
 public:
  Roofs() : known_(machine::measured()) {}
  const std::string& why_not() const { return known_.why_not; }
  // Nanoseconds that the kernel's bytes and its FLOPs take at the measured rates; 0: not measured,
  // or on what only stands in for a device.
  struct Least {
    double memory_ns = 0, arithmetic_ns = 0;
  };
  Least least(const Event& kernel);

 private:
  struct Rates {
    u64 key = 0;
    double bytes_per_ns = 0, flops_per_ns = 0;
  };
  const Rates& rates(Device d, DType t);
  machine::Known known_;
  std::vector<Rates> rates_{};
};

// What the ranges of a row have in common while it is added up.
struct Load {
  bool queued = false;             // its kernels' times are the device's own
  bool untimed = false;            // kernels of a device whose times were not taken
  i64 kernels = 0, kernel_ns = 0;  // of the device where it has its own times
  double memory_ns = 0, arithmetic_ns = 0;
};
inline bool mostly_waits(const Row& r) { return 2 * r.waited_ns > r.self_ns; }
// Row::roof and Row::bound.
void judge(Row& r, const Load& load);

}  // namespace wt::profiler
