#include "warptape/bench/gpu/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/build_info.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/files/json.h"
#include "warptape/core/machine_state.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/stream.h"

namespace wt::bench {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Fills the second level cache with other data, four times that of a large GPU, by reading it: what
// was written would go back to memory while the kernel is timed. Other devices: nothing.
class Flush {
 public:
  explicit Flush(Device d) {
    if (d.kind == DeviceKind::cuda) buffer_ = zeros({kBytes / 4}, {.device = d});
  }
  void operator()() const {
    if (!buffer_.defined()) return;
    const NoGrad no_grad;
    (void)sum(buffer_);
  }

 private:
  static constexpr i64 kBytes = i64{256} << 20;
  Tensor buffer_;
};

double one_run_us(Device d, const std::function<void(int)>& work, int i) {
  Event begin(d, true), end(d, true);
  begin.record();
  work(i);
  end.record();
  end.synchronize();
  return end.milliseconds_since(begin) * 1e3;
}

// How often `work` fits: at most the limit, at least 5, about `seconds` in all.
int count_for(double once_s, double seconds, int limit) {
  return std::max(std::min(limit, int(seconds / std::max(once_s, 1e-7))), std::min(limit, 5));
}

}  // namespace

Timing summarize(std::vector<double> us) {
  Timing t;
  t.samples = int(us.size());
  if (us.empty()) return t;
  std::sort(us.begin(), us.end());
  const auto at = [&](double q) {
    const double place = q * double(us.size() - 1);
    const size_t i = size_t(place);
    return i + 1 < us.size() ? us[i] + (place - double(i)) * (us[i + 1] - us[i]) : us[i];
  };
  t.median_us = at(0.5);
  t.p10_us = at(0.1);
  t.p90_us = at(0.9);
  t.min_us = us[0];
  return t;
}

Timing time_cold(Device d, const std::function<void(int)>& work, const TimingLimits& limits) {
  if (!limits.loaded) work(0);
  synchronize(d);
  const double first_us = one_run_us(d, work, 1);
  if (first_us > limits.longest_us) return summarize({first_us});
  const Flush flush(d);
  const auto start = Clock::now();
  flush();
  work(1);
  synchronize(d);
  const double once = seconds_since(start);
  const int warmups = count_for(once, limits.seconds / 3, limits.warmups);
  for (int i = 0; i < warmups; ++i) work(i);
  const int samples = count_for(once, limits.seconds, limits.samples);
  std::vector<Event> begin, end;
  for (int i = 0; i < samples; ++i) {
    begin.emplace_back(d, true);
    end.emplace_back(d, true);
    flush();
    begin.back().record();
    work(i);
    end.back().record();
    if (i % 32 == 31) synchronize(d);  // the queue of a device is not endless
  }
  synchronize(d);
  std::vector<double> us;
  for (int i = 0; i < samples; ++i) us.push_back(end[i].milliseconds_since(begin[i]) * 1e3);
  return summarize(std::move(us));
}

Timing time_batch(Device d, int calls, const std::function<void(int)>& work,
                  const TimingLimits& limits) {
  work(0);
  synchronize(d);
  const auto batch = [&] {
    Event begin(d, true), end(d, true);
    begin.record();
    for (int i = 0; i < calls; ++i) work(i);
    end.record();
    end.synchronize();
    return end.milliseconds_since(begin) * 1e3 / calls;
  };
  const double once = batch() * 1e-6 * calls;
  std::vector<double> us;
  for (int n = count_for(once, limits.seconds, 11); n > 0; --n) us.push_back(batch());
  return summarize(std::move(us));
}

Timing time_issue(Device d, int calls, const std::function<void(int)>& work) {
  for (int i = 0; i < 100; ++i) work(i);
  synchronize(d);
  std::vector<double> us;
  for (int window = 0; window < 11; ++window) {
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) work(i);
    us.push_back(seconds_since(start) * 1e6 / calls);
    synchronize(d);
  }
  return summarize(std::move(us));
}

Timing time_round_trip(Device d, const std::function<void(int)>& work) {
  std::vector<double> us;
  for (int i = 0; i < 225; ++i) {
    const auto start = Clock::now();
    work(i);
    synchronize(d);
    if (i >= 25) us.push_back(seconds_since(start) * 1e6);
  }
  return summarize(std::move(us));
}

void compare_with_roof(Row& row, DType t, const Ceilings& c) {
  const double copy_us = c.copy_gb_s > 0 ? row.bytes / c.copy_gb_s * 1e-3 : 0;
  const bool products = is_product(row.bench);
  const double gemm = products ? c.gemm(t) : 0;
  const double gemm_us = gemm > 0 ? row.flops / gemm * 1e-6 : 0;
  if (products && gemm == 0) return;  // its roof was not measured
  const double floor_us = std::max(copy_us, gemm_us);
  if (floor_us <= 0 || row.time.median_us <= 0) return;
  row.bound = gemm_us > copy_us ? "gemm" : "copy";
  row.roof = gemm_us > copy_us ? gemm : c.copy_gb_s;
  row.ratio = floor_us / row.time.median_us;
}

namespace {
std::string version_text(int v) { return v ? str(v / 1000, ".", v % 1000 / 10) : std::string(); }
}  // namespace

Machine describe_machine(Device d) {
  Machine m{d, device_kind_name(d.kind), machine::processor_name(), {}, {}};
  if (d.kind == DeviceKind::cuda) {
    const cuda::Properties p = cuda::properties(d.index);
    m.device_name = p.name;
    m.driver = version_text(p.driver);
    m.runtime = version_text(p.runtime);
  }
  return m;
}

std::string to_json(const Row& r, const Machine& m) {
  JsonObject j;
  const auto number = [&](const char* key, double v) {
    if (v > 0 && std::isfinite(v))
      j.add(key, v);
    else
      j.add_null(key);
  };
  j.add("bench", r.bench).add("impl", r.impl).add("device", to_string(m.device));
  j.add("shape", r.shape).add("dtype", r.dtype);
  number("median_us", r.time.median_us);
  number("p10_us", r.time.p10_us);
  number("p90_us", r.time.p90_us);
  number("min_us", r.time.min_us);
  number("gb_s", r.time.median_us > 0 ? r.bytes / r.time.median_us * 1e-3 : 0);
  number("tflop_s", r.time.median_us > 0 ? r.flops / r.time.median_us * 1e-6 : 0);
  number("roof", r.roof);
  number("ratio", r.ratio);
  number("peak_bytes", double(r.peak_bytes));
  j.add("commit", build_info().commit);
  j.add("machine", m.device.kind == DeviceKind::cpu ? m.host : m.device_name + ", " + m.host);
  if (m.driver.empty())
    j.add_null("driver");
  else
    j.add("driver", m.driver);
  if (!r.bound.empty()) j.add("bound", r.bound);
  if (!r.check.empty()) j.add("check", r.check);
  j.add("samples", r.time.samples);
  for (const auto& [key, value] : r.more) j.add(key, value);
  for (const auto& [key, value] : r.words) j.add(key, value);
  return j.str();
}

}  // namespace wt::bench
