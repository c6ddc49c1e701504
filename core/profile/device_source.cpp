#include "warptape/core/profile/device_source.h"

#include "warptape/core/memory.h"
#include "warptape/core/mode.h"
#include "warptape/core/str.h"

namespace wt::profiler {
namespace {

constexpr int kAsked = 16;  // devices

bool is_cuda(const Range& r) { return r.device.kind == DeviceKind::cuda && !r.device.is_meta; }

// Asks nobody: a profile of the cpu starts no device.
bool cuda_has_tensors() {
  for (int i = 0; i < kAsked; ++i)
    if (memory::stats(Device::cuda(i)).live > 0) return true;
  return false;
}

}  // namespace

void DeviceSource::start(const ProfileOptions& o, u64 run) {
  on_ = o.device_times;
  events_.start(on_, o.max_events);
  records_.start(run, o.max_events);
  why_not_ = o.device_records ? "" : "ProfileOptions.device_records is off";
  broken_ = false;
  cuda_ = !on_ ? From::nobody : o.device_records ? From::undecided : From::events;
  // Before the first range, whose time it would be a part of.
  if (cuda_ == From::undecided && !mode.capture && cuda_has_tensors()) decide();
}

void DeviceSource::decide() {
  const std::lock_guard lock(mutex_);
  if (cuda_.load(std::memory_order_relaxed) != From::undecided) return;
  const cupti::Started s = records_.turn_on();
  why_not_ = s.why_not;
  broken_ = s.broken;
  cuda_.store(s.on ? From::records : From::events, std::memory_order_release);
}

bool DeviceSource::is_launch(const Range& r) {
  return r.kind == Kind::kernel && r.device.kind != DeviceKind::cpu;
}

bool DeviceSource::uses_events(const Range& r) const {
  return is_launch(r) && !(is_cuda(r) && cuda_.load(std::memory_order_relaxed) == From::records);
}

bool DeviceSource::begin(const Range& r, u32 id) {
  if (!on_) return false;
  if (is_cuda(r) && !mode.capture && cuda_.load(std::memory_order_acquire) == From::undecided)
    decide();
  if (uses_events(r)) events_.before(id, r.device, r.stream);
  if (cuda_.load(std::memory_order_acquire) != From::records) return false;
  if (is_cuda(r)) records_.uses(r.device, r.stream);
  if (r.graph) records_.replays(id, *r.graph);
  records_.push(id);
  return true;
}

void DeviceSource::end(const Range& r, u32 id, bool pushed) {
  if (pushed) records_.pop();
  if (on_ && uses_events(r)) events_.after(id);
}

void DeviceSource::wait() {
  events_.wait();
  records_.wait();
}

void DeviceSource::fill_in(Profile::Data& d, u32 next_id) {
  events_.fill_in(d.events);
  records_.fill_in(d, next_id);
  const From from = cuda_.load(std::memory_order_relaxed);
  d.times_from = from == From::records ? "cupti" : on_ ? "events" : "";
  d.no_records = why_not_;
  if (from != From::records && broken_)
    d.notes.push_back(
        str("the device's times are those of events around launches, and replays of "
            "graphs have no kernels: ",
            why_not_));
}

void DeviceSource::stop() {
  events_.stop();
  records_.stop();
}

}  // namespace wt::profiler
