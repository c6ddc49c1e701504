#include "warptape/core/profile/recorder.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "warptape/core/error.h"
#include "warptape/core/in.h"
#include "warptape/core/profile/accesses.h"
#include "warptape/core/profile/transfers.h"
#include "warptape/core/shape.h"
#include "warptape/core/tensor_impl.h"

namespace wt::profiler {
namespace {

constinit std::atomic<u64> runs{0};

struct Pool {
  std::mutex mutex{};
  std::vector<Recorder*> free{};
};
Pool& pool() {
  static Pool* const p = new Pool;  // threads may record while static objects end
  return *p;
}

// This thread's log in the runs that it has seen last.
struct SeenLog {
  u64 run = 0;
  ThreadLog* log = nullptr;
};
constexpr size_t kSeen = 8;
// A thread that comes when all room is taken has this part of it all the same.
constexpr i64 kLateShare = 16;
constinit thread_local SeenLog seen_logs[kSeen] = {};

u64 mixed(u64 hash, u64 value) { return (hash ^ value) * 0x9E3779B97F4A7C15u + (hash >> 29); }

// What two lists of operands have in common that have the same text.
u64 hash_of(const Range& r) {
  u64 hash = u64(r.n_operands) + 1;
  for (int i = 0; i < r.n_operands; ++i) {
    const TensorImpl* p = r.operands[i]->impl();
    if (!p) continue;
    hash = mixed(hash, u64(p->geometry.ndim) << 8 | u64(p->geometry.dtype));
    for (int k = 0; k < p->geometry.ndim; ++k) hash = mixed(hash, u64(p->geometry.shape[k]));
  }
  return hash;
}

std::string text_of(const Range& r) {
  std::string text;
  for (int i = 0; i < r.n_operands; ++i) {
    const TensorImpl* p = r.operands[i]->impl();
    if (!text.empty()) text += " ";
    text += p ? to_string(shape_of(p->geometry)) : "-";
  }
  return text;
}

}  // namespace

Recorder& Recorder::take(const ProfileOptions& o) {
  if (o.max_events < 1)
    throw UsageError(str("[profiler] ProfileOptions.max_events is ", o.max_events,
                         ": a profile keeps at least one range"));
  if (o.counters) access_counter().start();
  Recorder* r = nullptr;
  {
    const std::lock_guard lock(pool().mutex);
    if (!pool().free.empty()) {
      r = pool().free.back();
      pool().free.pop_back();
    }
  }
  if (!r) r = new Recorder;
  r->start(o);
  return *r;
}

void Recorder::start(const ProfileOptions& o) {
  options_ = o;
  memory_ = o.memory;
  shapes_ = o.shapes;
  counts_ = o.counters;
  most_ = o.max_events;
  next_id_ = 1;
  step_ = 0;
  kept_ = 0;
  no_memory_ = 0;
  process_ = getpid();
  shape_texts_.assign(1, "");
  shape_numbers_.clear();
  accesses_.assign(1, {});
  free_accesses_.clear();
  const u64 run = runs.fetch_add(1) + 1;
  device_.start(o, run);
  transfers_.clear();
  hear_transfers(*this);
  run_.store(run, std::memory_order_release);
  log();  // thread 0 is this one
  begin_ns_ = steady_ns();
}

ThreadLog& Recorder::log() {
  const u64 run = run_.load(std::memory_order_acquire);
  SeenLog& seen = seen_logs[run % kSeen];
  if (seen.run != run) seen = {run, &new_log()};
  return *seen.log;
}

// The thread's, which may have been forgotten because of other runs.
ThreadLog& Recorder::new_log() {
  const std::lock_guard lock(mutex_);
  const u64 run = run_.load(std::memory_order_relaxed);
  const std::thread::id self = std::this_thread::get_id();
  for (size_t i = 0; i < used_; ++i)
    if (logs_[i].owner == self) return logs_[i];
  if (used_ == logs_.size()) logs_.emplace_back();
  ThreadLog& l = logs_[used_];
  const std::lock_guard own(l.mutex);
  l.run = run;
  l.owner = self;
  l.number = u32(used_++);
  return l;
}

template <class F>
void Recorder::with_log(const F& f) noexcept {
  const u64 run = run_.load(std::memory_order_acquire);
  if (!run) return;
  try {
    ThreadLog& l = log();
    const std::lock_guard lock(l.mutex);
    if (l.run == run) f(l);
  } catch (...) {
    no_memory_.fetch_add(1, std::memory_order_relaxed);
  }
}

void Recorder::begin(const Range& r) noexcept {
  with_log([&](ThreadLog& l) {
    const Event* const outer = l.open.empty() ? nullptr : &l.open.back();
    Event e;
    e.kind = r.kind;
    e.id = next_id_.fetch_add(1, std::memory_order_relaxed);
    if (outer) e.parent = outer->id;
    if (outer) e.dtype = outer->dtype;
    e.thread = l.number;
    e.step = step_.load(std::memory_order_relaxed);
    e.name = r.name;
    e.variant = r.variant;
    e.op = r.op;
    e.frame = r.frame;
    e.mode_id = r.mode_id;
    e.node = r.node;
    e.device = r.device;
    e.stream = r.stream;
    e.bytes = r.bytes;
    e.flops = r.flops;
    if (r.operands && r.n_operands > 0) {
      if (const TensorImpl* p = r.operands[0]->impl()) e.dtype = dtype_of(p);
      if (shapes_.load(std::memory_order_relaxed)) e.shapes = shapes_of(l, r);
    }
    l.open.push_back(e);
    if (device_.begin(r, e.id)) ++l.pushed;
    if (counted(r)) l.before = access_counter().so_far();
    l.open.back().begin_ns = steady_ns();
  });
}

void Recorder::end(const Range& r) noexcept {
  const i64 now = steady_ns();
  with_log([&](ThreadLog& l) {
    if (l.open.empty()) return;  // it had begun before the profile did
    if (r.node) l.open.back().node = r.node;
    l.open.back().left_open = r.left_open;
    const bool pushed = l.pushed > 0;
    if (pushed) --l.pushed;
    device_.end(r, l.open.back().id, pushed);
    if (counted(r)) l.open.back().accesses = accesses_since(l.before);
    close(l, now);
  });
}

bool Recorder::counted(const Range& r) const {
  return r.kind == Kind::kernel && r.device.kind == DeviceKind::simt &&
         counts_.load(std::memory_order_relaxed);
}

u32 Recorder::accesses_since(const Accesses& before) {
  Accesses made = access_counter().so_far();
  made.requests -= before.requests, made.lanes -= before.lanes;
  made.sectors -= before.sectors, made.least_sectors -= before.least_sectors;
  made.passes -= before.passes, made.least_passes -= before.least_passes;
  const std::lock_guard lock(mutex_);
  if (!free_accesses_.empty()) {
    const u32 at = free_accesses_.back();
    free_accesses_.pop_back();
    accesses_[at] = made;
    return at;
  }
  accesses_.push_back(made);
  return u32(accesses_.size() - 1);
}

// The innermost range of `l`.
void Recorder::close(ThreadLog& l, i64 now) {
  Event& e = l.open.back();
  e.end_ns = now;
  if (l.open.size() > 1)
    l.open[l.open.size() - 2].inside_ns += e.host_ns();
  else
    l.in_ranges_ns += e.host_ns();
  keep(l, e);
  l.open.pop_back();
}

void Recorder::keep(ThreadLog& l, const Event& e) {
  const i64 most = most_.load(std::memory_order_relaxed);
  if (kept_.load(std::memory_order_relaxed) < most || i64(l.ended.size()) < most / kLateShare) {
    kept_.fetch_add(1, std::memory_order_relaxed);
    l.ended.push_back(e);
    return;
  }
  ++l.lost;
  Event lost = e;
  if (!l.ended.empty()) std::swap(lost, l.ended[l.oldest++ % l.ended.size()]);
  l.lost_ns += lost.self_ns();
  if (!lost.accesses) return;
  const std::lock_guard lock(mutex_);
  free_accesses_.push_back(lost.accesses);
}

void Recorder::allocated(const Memory& m) noexcept {
  if (!memory_.load(std::memory_order_relaxed) || m.device.is_meta) return;
  with_log(
      [&](ThreadLog& l) { (l.open.empty() ? l.allocated : l.open.back().allocated) += m.bytes; });
}

void Recorder::released(const Memory& m) noexcept {
  if (!memory_.load(std::memory_order_relaxed) || m.device.is_meta) return;
  with_log(
      [&](ThreadLog& l) { (l.open.empty() ? l.released : l.open.back().released) += m.bytes; });
}

void Recorder::transferred(const Transfer& t) noexcept {
  if (t.kind == Transfer::Kind::wait || t.pageable)
    with_log([&](ThreadLog& l) {
      (l.open.empty() ? l.waited_ns : l.open.back().waited_ns) += t.host_ns;
    });
  try {
    const std::lock_guard lock(transfers_mutex_);
    Transfer& sum = transfers_[{t.kind, t.pageable, t.device.bits(), t.frame}];
    const Transfer before = sum;
    sum = t;
    sum.count += before.count;
    sum.bytes += before.bytes;
    sum.host_ns += before.host_ns;
  } catch (...) {
    no_memory_.fetch_add(1, std::memory_order_relaxed);
  }
}

u32 Recorder::shapes_of(ThreadLog& l, const Range& r) {
  const u64 hash = hash_of(r);
  const auto known = l.shapes.find(hash);
  if (known != l.shapes.end()) return known->second;
  const std::lock_guard lock(mutex_);
  const auto [at, fresh] = shape_numbers_.try_emplace(hash, u32(shape_texts_.size()));
  if (fresh) shape_texts_.push_back(text_of(r));
  l.shapes.emplace(hash, at->second);
  return at->second;
}

void Recorder::collect(ThreadLog& l, Profile::Data& d, i64 now) {
  const std::lock_guard own(l.mutex);
  while (!l.open.empty()) {
    l.open.back().left_open = true;
    close(l, now);
  }
  d.events.insert(d.events.end(), l.ended.begin(), l.ended.end());
  d.dropped += l.lost;
  d.allocated += l.allocated;
  d.released += l.released;
  if (l.number == 0) {
    d.in_ranges_ns = l.in_ranges_ns;
    d.waited_ns = l.waited_ns;
    d.lost_ns = l.lost_ns;
  }
  d.threads.push_back(l.number == 0 ? "main" : str("thread ", l.number));
}

// What is open on this thread is CUPTI's no more.
void Recorder::pop_own() {
  with_log([&](ThreadLog& l) {
    for (; l.pushed > 0; --l.pushed) device_.pop();
  });
}

Profile::Data Recorder::finish(std::unique_ptr<ObserverScope>& watch) {
  std::exception_ptr failed;
  try {
    device_.wait();
  } catch (...) {
    failed = std::current_exception();
  }
  const i64 now = steady_ns();
  watch.reset();
  hear_no_transfers(*this);
  Profile::Data d;
  for (const auto& [key, t] : transfers_) d.transfers.push_back(t);
  std::stable_sort(d.transfers.begin(), d.transfers.end(),
                   [](const Transfer& a, const Transfer& b) { return a.host_ns > b.host_ns; });
  d.options = options_;
  d.begin_ns = begin_ns_;
  d.length_ns = now - begin_ns_;
  d.steps = steps() + 1;
  {
    const std::lock_guard lock(mutex_);
    const size_t logs = process_ == getpid() ? used_ : 1;
    for (size_t i = 0; i < logs; ++i) collect(logs_[i], d, now);
    d.shapes = shape_texts_;
    d.accesses = accesses_;
  }
  d.dropped += no_memory_.load();
  if (!failed) device_.fill_in(d, next_id_.load());
  d.failed = failed;
  for (Event& e : d.events) {
    e.begin_ns -= begin_ns_;
    e.end_ns -= begin_ns_;
    if (e.device_end_ns != 0) {
      e.device_begin_ns -= begin_ns_;
      e.device_end_ns -= begin_ns_;
    }
  }
  d.tie();
  drop();
  return d;
}

void Recorder::drop() {
  const bool own_process = process_ == getpid();
  if (own_process) pop_own();
  hear_no_transfers(*this);
  run_.store(0, std::memory_order_release);
  if (counts_.exchange(false)) access_counter().stop();
  device_.stop();
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < used_; ++i) {
      ThreadLog& l = logs_[i];
      if (!own_process && i > 0) break;  // its mutex may have been held when the process was copied
      const std::lock_guard own(l.mutex);
      l.run = 0;
      l.owner = {};
      l.open.clear();
      l.pushed = 0;
      std::deque<Event>().swap(l.ended);
      l.oldest = 0;
      l.in_ranges_ns = l.waited_ns = l.lost_ns = l.lost = l.allocated = l.released = 0;
      l.shapes.clear();
    }
    used_ = 0;
  }
  if (!own_process) return;  // nobody takes it again
  const std::lock_guard lock(pool().mutex);
  pool().free.push_back(this);
}

}  // namespace wt::profiler
