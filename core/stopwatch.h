// Time that includes what a device still has to do.
//
//   wt::Stopwatch watch(device);
//   train_an_epoch();
//   std::printf("%.2f s\n", watch.seconds());         // waits for the device first
//
//   std::cout << wt::bench::time([&] { y = net(x); }, {.device = x.device()});
//   412.3 us (p10 405.1, p90 431.8, min 401.0; 512 runs)
#pragma once
#include <functional>
#include <iosfwd>
#include <string>

#include "warptape/core/device.h"
#include "warptape/core/types.h"

namespace wt {

// Wall time on a clock that never jumps. Starting and reading wait for the work that is queued on
// the device's current stream, a natural wait of the host: they throw what kernels reported
// meanwhile (IndexError), and DeviceError. A watch of the cpu waits for no other device: reading it
// while one has work queued hands out a warning, once a process.
class WT_API Stopwatch {
 public:
  explicit Stopwatch(Device d = {});  // starts
  // Since the start or the last restart(), without the time between stop() and start().
  double seconds() const;
  double milliseconds() const { return 1e3 * seconds(); }
  void restart();
  void stop();
  void start();
  bool running() const { return running_; }

 private:
  Device device_;
  bool running_ = true;
  i64 begin_ns_ = 0, before_ns_ = 0;
};

namespace bench {

struct TimeOptions {
  Device device{};       // waited for before and after each measurement
  int warmups = 3;       // calls that are not counted
  double seconds = 0.5;  // measurements end when they took this long
  int min_samples = 5, max_samples = 1000;
  // A measurement is as many calls as take about this long, so that the clock and the wait do not
  // count; its time is divided by their number.
  double sample_seconds = 1e-3;
};

// Seconds of one call, over the measurements.
struct WT_API TimeSpread {
  double median = 0, mean = 0, min = 0, max = 0, p10 = 0, p90 = 0;
  int samples = 0;  // measurements
  i64 calls = 0;    // in each
  // How far the tenth slowest is from the tenth fastest, as a part of the median: over 0.1 or so
  // the machine was busy with other things.
  double spread() const { return median > 0 ? (p90 - p10) / median : 0; }
  std::string text() const;
};
WT_API std::ostream& operator<<(std::ostream& out, const TimeSpread& t);

// Calls `work` over and over. Rethrows what it throws. Throws UsageError for options out of range.
WT_API TimeSpread time(const std::function<void()>& work, const TimeOptions& o = {});

}  // namespace bench
}  // namespace wt
