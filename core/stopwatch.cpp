#include "warptape/core/stopwatch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/machine/steady_ns.h"
#include "warptape/core/stream.h"
#include "warptape/core/warning.h"

namespace wt {
namespace {

void wait_for(Device d) {
  if (!d.is_meta) Stream::current(d).synchronize();
}

// Time of the cpu in which another device is at work is that of the launches.
void warn_of_work_left(Device d) {
  if (d.kind != DeviceKind::cpu) return;
  if (const std::optional<Device> busy = detail::device_at_work()) {
    const std::string name = to_string(*busy);
    warn_once("Stopwatch at work",
              str("[Stopwatch] a time of the cpu was read while ", name, " has work queued: it is ",
                  "that of the launches. Stopwatch{x.device()} waits for the device"));
  }
}

}  // namespace

Stopwatch::Stopwatch(Device d) : device_(d) { restart(); }

void Stopwatch::restart() {
  wait_for(device_);
  running_ = true;
  before_ns_ = 0;
  begin_ns_ = detail::steady_ns();
}

void Stopwatch::stop() {
  if (!running_) return;
  wait_for(device_);
  before_ns_ += detail::steady_ns() - begin_ns_;
  warn_of_work_left(device_);
  running_ = false;
}

void Stopwatch::start() {
  if (running_) return;
  wait_for(device_);
  running_ = true;
  begin_ns_ = detail::steady_ns();
}

double Stopwatch::seconds() const {
  if (!running_) return double(before_ns_) * 1e-9;
  wait_for(device_);
  const double seconds = double(before_ns_ + detail::steady_ns() - begin_ns_) * 1e-9;
  warn_of_work_left(device_);
  return seconds;
}

namespace bench {
namespace {

double run(const std::function<void()>& work, i64 calls, Device d) {
  wait_for(d);
  const i64 begin = detail::steady_ns();
  for (i64 i = 0; i < calls; ++i) work();
  wait_for(d);
  return double(detail::steady_ns() - begin) * 1e-9;
}

// Linear between the neighbours, as NumPy does it.
double percentile(const std::vector<double>& sorted, double p) {
  const double at = p * double(sorted.size() - 1);
  const size_t i = size_t(at);
  if (i + 1 == sorted.size()) return sorted[i];
  return sorted[i] + (at - double(i)) * (sorted[i + 1] - sorted[i]);
}

}  // namespace

TimeSpread time(const std::function<void()>& work, const TimeOptions& o) {
  if (o.warmups < 0 || o.min_samples < 1 || o.max_samples < o.min_samples || !(o.seconds >= 0) ||
      !(o.sample_seconds >= 0)) {
    throw UsageError(
        "[time] warmups, seconds and samples must not be negative, and at least one "
        "sample is needed");
  }
  for (int i = 0; i < o.warmups; ++i) work();
  i64 calls = 1;
  double took = run(work, calls, o.device);
  while (took < o.sample_seconds && calls < i64{1} << 30) {
    // Towards the goal, at most tenfold: the first calls may be slow ones.
    const double factor = took > 0 ? 1.2 * o.sample_seconds / took : 10;
    calls = std::max(calls + 1, i64(double(calls) * std::min(10.0, factor)));
    took = run(work, calls, o.device);
  }
  std::vector<double> samples;
  const i64 begin = detail::steady_ns();
  while (int(samples.size()) < o.min_samples ||
         (int(samples.size()) < o.max_samples &&
          double(detail::steady_ns() - begin) * 1e-9 < o.seconds)) {
    samples.push_back(run(work, calls, o.device) / double(calls));
  }
  std::sort(samples.begin(), samples.end());
  TimeSpread t;
  t.samples = int(samples.size());
  t.calls = calls;
  t.median = percentile(samples, 0.5), t.p10 = percentile(samples, 0.1);
  t.p90 = percentile(samples, 0.9), t.min = samples.front(), t.max = samples.back();
  for (double s : samples) t.mean += s / double(samples.size());
  return t;
}

std::string TimeSpread::text() const {
  const auto [unit, scale] = median >= 1      ? std::pair("s", 1.0)
                             : median >= 1e-3 ? std::pair("ms", 1e3)
                             : median >= 1e-6 ? std::pair("us", 1e6)
                                              : std::pair("ns", 1e9);
  char out[160];
  std::snprintf(out, sizeof out, "%.4g %s (p10 %.4g, p90 %.4g, min %.4g; %d runs%s)",
                median * scale, unit, p10 * scale, p90 * scale, min * scale, samples,
                calls > 1 ? (" of " + std::to_string(calls)).c_str() : "");
  return out;
}

std::ostream& operator<<(std::ostream& out, const TimeSpread& t) { return out << t.text(); }

}  // namespace bench
}  // namespace wt
