#include "warptape/core/profiler.h"

#include <mutex>
#include <vector>

#include "warptape/core/error.h"
#include "warptape/core/memory/asker.h"
#include "warptape/core/storage.h"
#include "warptape/core/thread_object.h"

namespace wt::profiler {
namespace {

constexpr int kObservers = 4;
constinit std::atomic<Observer*> observers[kObservers] = {};
std::mutex& registering() {
  static std::mutex m;
  return m;
}

// A range that has begun, and who heard of it.
struct Open {
  Range range;
  Observer* heard[kObservers];
};
std::vector<Open>& open_ranges() { return thread_object<std::vector<Open>>(); }

template <class F>
void tell(const F& f) {
  for (std::atomic<Observer*>& o : observers)
    if (Observer* who = o.load(std::memory_order_acquire)) f(*who);
}

}  // namespace

std::string Range::title() const {
  std::string text = module_path_of(mode_id);
  if (!text.empty()) text += ".";
  text += name;
  if (variant) text += str(":", variant);
  if (kind == Kind::backward) text += ".backward";
  if (frame) text += " <- " + describe_frame(frame);
  return text;
}

ObserverScope::ObserverScope(Observer& o) {
  const std::lock_guard lock(registering());
  for (place_ = 0; place_ < kObservers; ++place_)
    if (!observers[place_].load(std::memory_order_relaxed)) break;
  if (place_ == kObservers)
    throw UsageError(str("[profiler] ", kObservers, " observers are registered already"));
  observers[place_].store(&o, std::memory_order_release);
  process_slow.fetch_or(kSlowObserved, std::memory_order_relaxed);
  follow_observers();
}

ObserverScope::~ObserverScope() {
  const std::lock_guard lock(registering());
  observers[place_].store(nullptr, std::memory_order_release);
  for (std::atomic<Observer*>& o : observers)
    if (o.load(std::memory_order_relaxed)) return;
  process_slow.fetch_and(~u32(kSlowObserved), std::memory_order_relaxed);
  follow_observers();
}

void follow_observers() {
  detail::ThreadMemory& t = detail::thread_memory;
  if (process_slow.load(std::memory_order_relaxed) & kSlowObserved) {
    mode.slow |= kSlowProfile;
    t.slow |= detail::kSlowWatched;
  } else if (open_ranges().empty()) {  // else they still have to end
    mode.slow &= ~u32(kSlowProfile);
    t.slow &= ~u32(detail::kSlowWatched);
  }
}

void allocated(const Storage* s, Device d, i64 bytes) {
  const Memory m{d, bytes, s, mode.category, mode.op, mode.id};
  tell([&](Observer& o) { o.allocated(m); });
}

Asker asker() {
  Asker who;
  for (const Open& o : open_ranges()) {
    if (o.range.frame) who.frame = o.range.frame;
    if (o.range.kind == Kind::backward) who.backward = o.range.op;
  }
  if (!who.frame) who.frame = mode.frame;
  return who;
}

void freed(const Storage* s) {
  const Memory m{s->device, s->bytes, s, s->category, s->owner, s->mode_id};
  tell([&](Observer& o) { o.released(m); });
}

void begin(const Range& r) {
  const FrameId outer = open_ranges().empty() ? 0 : open_ranges().back().range.frame;
  Open& open = open_ranges().emplace_back(Open{r, {}});
  if (!open.range.frame) open.range.frame = outer;  // a kernel is its operator's
  for (int i = 0; i < kObservers; ++i) {
    open.heard[i] = observers[i].load(std::memory_order_acquire);
    if (open.heard[i]) open.heard[i]->begin(open.range);
  }
}

void end_op(const OpInfo& operation) {
  if (open_ranges().empty()) return;
  const Range& r = open_ranges().back().range;
  if (r.kind == Kind::op && r.op == &operation) end();
}

void end() {
  const Open open = open_ranges().back();
  open_ranges().pop_back();
  if (open_ranges().empty()) follow_observers();
  for (int i = kObservers; i-- > 0;)
    if (open.heard[i] && observers[i].load(std::memory_order_acquire) == open.heard[i])
      open.heard[i]->end(open.range);
}

}  // namespace wt::profiler
