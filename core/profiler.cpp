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
  u64 number;    // a user's range; 0: the library's
  u64 sequence;  // of the tape when it began
  Observer* heard[kObservers];
};
constinit std::atomic<u64> user_ranges{0};
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
    return;
  }
  // A user's range that was left open is nobody's any more; the library's still have to end.
  while (!open_ranges().empty() && open_ranges().back().number) open_ranges().pop_back();
  if (open_ranges().empty()) {
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

static void open_range(const Range& r, u64 number) {
  std::vector<Open>& ranges = open_ranges();
  const FrameId outer = ranges.empty() ? 0 : ranges.back().range.frame;
  Open& open = ranges.emplace_back(Open{r, number, mode.sequence, {}});
  if (!open.range.frame) open.range.frame = outer;  // a kernel is its operator's
  for (int i = 0; i < kObservers; ++i) {
    open.heard[i] = observers[i].load(std::memory_order_acquire);
    if (open.heard[i]) open.heard[i]->begin(open.range);
  }
  open.range.operands = nullptr;
  open.range.args = nullptr;
}

static void close_innermost(bool left_open = false) {
  Open open = open_ranges().back();
  open.range.left_open = left_open;
  open_ranges().pop_back();
  if (open_ranges().empty()) follow_observers();
  if (open.range.kind == Kind::op && mode.sequence != open.sequence)
    open.range.node = mode.sequence;
  for (int i = kObservers; i-- > 0;)
    if (open.heard[i] && observers[i].load(std::memory_order_acquire) == open.heard[i])
      open.heard[i]->end(open.range);
}

// Users' ranges that somebody forgot inside of what ends now.
static void close_users() {
  while (!open_ranges().empty() && open_ranges().back().number) close_innermost(true);
}

void begin(const Range& r) { open_range(r, 0); }

void end_op(const OpInfo& operation) {
  const std::vector<Open>& ranges = open_ranges();
  size_t n = ranges.size();
  while (n > 0 && ranges[n - 1].number) --n;
  if (n == 0) return;
  const Range& r = ranges[n - 1].range;
  if (r.kind == Kind::op && r.op == &operation) end();
}

void end() {
  close_users();
  close_innermost();
}

u64 begin_user(const char* name, FrameId at) {
  if (!(process_slow.load(std::memory_order_relaxed) & kSlowObserved)) return 0;
  follow_observers();
  const u64 number = user_ranges.fetch_add(1, std::memory_order_relaxed) + 1;
  open_range(
      {Kind::user, name, nullptr, nullptr, at, mode.id, mode.default_device, mode.native_stream},
      number);
  return number;
}

void end_user(u64 number) {
  if (!number) return;
  const std::vector<Open>& ranges = open_ranges();
  size_t at = ranges.size();
  while (at > 0 && ranges[at - 1].number && ranges[at - 1].number != number) --at;
  // Inside of an operator that has not ended it stays with that.
  if (at == 0 || ranges[at - 1].number != number) return;
  while (open_ranges().size() > at) close_innermost(true);
  close_innermost();
}

}  // namespace wt::profiler
