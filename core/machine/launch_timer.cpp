#include "warptape/core/machine/launch_timer.h"

#include <algorithm>
#include <atomic>
#include <ctime>

#include "warptape/core/memory/copy_bytes.h"

namespace wt::detail {
namespace {

thread_local bool timing = false;
constinit std::atomic<LaunchTimer> planted{nullptr};

constexpr double kTooSlow = 4;    // times the least so far: not launched again
constexpr double kSampleUs = 50;  // launches that take less are timed several together
constexpr int kSamples = 5, kMostLaunches = 50;

// On simt a kernel is work of this process: its processors' time, which others on the machine do
// not lengthen.
double now_us(Device d) {
  timespec t{};
  ::clock_gettime(d.kind == DeviceKind::simt ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) * 1e6 + double(t.tv_nsec) * 1e-3;
}

double clock_us(Device d, int launches, const std::function<void()>& once) {
  const double begin = now_us(d);
  for (int i = 0; i < launches; ++i) once();
  synchronize(d);
  return (now_us(d) - begin) / launches;
}

}  // namespace

bool is_timing() { return timing; }
TimingScope::TimingScope() { timing = true; }
TimingScope::~TimingScope() { timing = false; }

double time_launches(Device d, const std::function<void()>& once, double best) {
  if (const LaunchTimer timer = planted.load()) return timer(d, once, best);
  once();  // loads and compiles
  synchronize(d);
  const double first = clock_us(d, 1, once);
  if (best > 0 && first > kTooSlow * best) return first;
  const int launches = int(std::clamp(kSampleUs / std::max(first, 1e-3), 1.0, 1.0 * kMostLaunches));
  double least = first;
  for (int i = 0; i < kSamples; ++i) least = std::min(least, clock_us(d, launches, once));
  return std::max(least, 1e-3);
}

void plant_launch_timer(LaunchTimer timer) { planted = timer; }

}  // namespace wt::detail
