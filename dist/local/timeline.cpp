#include "warptape/dist/timeline.h"

#include <algorithm>

namespace wt::dist {

const char* to_string(TimelineEvent::What w) {
  constexpr const char* kNames[] = {"call", "wait", "send", "reduce"};
  return kNames[int(w)];
}

void Timeline::add(TimelineEvent e, Clock::time_point begin, Clock::time_point end) {
  const auto since = [&](Clock::time_point t) {
    return i64(std::chrono::duration_cast<std::chrono::nanoseconds>(t - start_).count());
  };
  e.begin = since(begin);
  e.end = std::max(e.begin, since(end));
  const std::lock_guard lock(mutex_);
  events_.push_back(e);
}

std::vector<TimelineEvent> Timeline::events() const {
  std::vector<TimelineEvent> all;
  {
    const std::lock_guard lock(mutex_);
    all = events_;
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return all;
}

void Timeline::clear() {
  const std::lock_guard lock(mutex_);
  events_.clear();
}

}  // namespace wt::dist
