#include "warptape/core/profile/device_times.h"

#include <algorithm>

#include "warptape/core/profile/recorder.h"
#include "warptape/core/stream.h"

namespace wt::profiler {
namespace {

constexpr size_t kMostOutstanding = 4096;  // launches whose events are held

}  // namespace

void DeviceTimes::start(bool on, i64 most) {
  on_ = on;
  most_ = size_t(most);
  times_.clear();
}

DeviceTimes::Known& DeviceTimes::known(Device d, void* stream) {
  for (Known& k : known_)
    if (k.device == d) return k;
  Known& k = known_.emplace_back();
  k.device = d;
  const StreamBackend& b = *stream_backend(d);
  k.event = b.take_event(d, true);
  b.record(d, k.event, stream);
  b.event_wait(d, k.event);
  k.ns = steady_ns();
  return k;
}

void DeviceTimes::before(u32 id, Device d, void* stream) {
  if (!on_ || mode.capture) return;
  const StreamBackend* b = stream_backend(d);
  if (!b || !b->elapsed_ms) return;
  const std::lock_guard lock(mutex_);
  if (launches_.size() >= kMostOutstanding) read_those_done();
  known(d, stream);
  Launch l{id, d, stream, b->take_event(d, true), nullptr};
  launches_.push_back(l);
  b->record(d, l.before, stream);
}

void DeviceTimes::after(u32 id) {
  if (!on_ || mode.capture) return;
  const std::lock_guard lock(mutex_);
  for (size_t i = launches_.size(); i-- > 0;) {
    Launch& l = launches_[i];
    if (l.id != id) continue;
    const StreamBackend& b = *stream_backend(l.device);
    l.after = b.take_event(l.device, true);
    b.record(l.device, l.after, l.stream);
    return;
  }
}

// It is done.
void DeviceTimes::read(Launch& l) {
  const StreamBackend& b = *stream_backend(l.device);
  Known& k = known(l.device, l.stream);
  if (l.after) {
    const i64 begin = k.ns + i64(1e6 * b.elapsed_ms(l.device, k.event, l.before));
    if (times_.size() >= 2 * most_) times_.erase(times_.begin(), times_.begin() + i64(most_));
    times_.push_back({l.id, begin, begin + i64(1e6 * b.elapsed_ms(l.device, l.before, l.after))});
    b.give_event(l.device, l.after, true);
    if (begin > k.ns) {  // short spans keep their digits
      std::swap(k.event, l.before);
      k.ns = begin;
    }
  }
  b.give_event(l.device, l.before, true);
}

void DeviceTimes::read_those_done(bool ended) {
  while (!launches_.empty()) {
    Launch& l = launches_.front();
    if (!l.after && !ended) return;  // another thread is at it
    const StreamBackend& b = *stream_backend(l.device);
    void* const last = l.after ? l.after : l.before;
    if (!b.event_done(l.device, last)) {
      if (launches_.size() < kMostOutstanding) return;
      b.event_wait(l.device, last);
    }
    read(l);
    launches_.pop_front();
  }
}

void DeviceTimes::wait() {
  while (const std::optional<Device> d = wt::detail::device_at_work())
    stream_backend(*d)->stream_wait(*d, wt::detail::native_stream(*d));
  const std::lock_guard lock(mutex_);
  for (const Launch& l : launches_)
    stream_backend(l.device)->event_wait(l.device, l.after ? l.after : l.before);
}

void DeviceTimes::fill_in(std::vector<Event>& events) {
  const std::lock_guard lock(mutex_);
  read_those_done(true);
  std::sort(times_.begin(), times_.end(),
            [](const Times& a, const Times& b) { return a.id < b.id; });
  for (Event& e : events) {
    if (e.kind != Kind::kernel || e.device.kind == DeviceKind::cpu) continue;
    const auto at = std::lower_bound(times_.begin(), times_.end(), e.id,
                                     [](const Times& t, u32 id) { return t.id < id; });
    if (at == times_.end() || at->id != e.id) continue;
    e.device_begin_ns = at->begin_ns;
    e.device_end_ns = at->end_ns;
  }
}

void DeviceTimes::stop() {
  const std::lock_guard lock(mutex_);
  for (const Launch& l : launches_) {
    const StreamBackend& b = *stream_backend(l.device);
    b.give_event(l.device, l.before, true);
    if (l.after) b.give_event(l.device, l.after, true);
  }
  launches_.clear();
  times_.clear();
  for (const Known& k : known_)
    if (k.event) stream_backend(k.device)->give_event(k.device, k.event, true);
  known_.clear();
}

}  // namespace wt::profiler
