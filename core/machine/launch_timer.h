// How long kernels take, for benchmark() (core/matmul_precision.h): what is timed, and that
// something is. Internal.
#pragma once
#include <functional>

#include "warptape/core/device_type.h"

namespace wt::detail {

// Whether this thread is timing: what is launched may be launched again, for its results are thrown
// away.
bool is_timing();
class TimingScope {
 public:
  TimingScope();
  ~TimingScope();
  TimingScope(const TimingScope&) = delete;
  TimingScope& operator=(const TimingScope&) = delete;
};

// Microseconds that `once`, which queues work on the device's current stream, takes: the least of
// some launches; of one alone where that takes far longer than `best`, the least so far. 0 begins.
double time_launches(Device d, const std::function<void()>& once, double best);

// For tests: another clock, or null for this one.
using LaunchTimer = double (*)(Device d, const std::function<void()>& once, double best);
void plant_launch_timer(LaunchTimer timer);
// For tests: benchmark() asks WT_BENCHMARK again.
void forget_benchmark();

}  // namespace wt::detail
