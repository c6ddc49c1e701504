#include "warptape/kernels/simt/queues.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "warptape/core/files/crc32c.h"
#include "warptape/core/philox.h"
#include "warptape/kernels/simt/queued_work.h"

namespace wt {
namespace simt_runtime {

std::atomic<int> stream_mode = -1;

namespace {

// As many as CUDA's queues hold before a launch waits.
constexpr size_t kMostQueued = 1024;

struct HostRange {
  const char* begin = nullptr;
  size_t bytes = 0;
  bool overlaps(const HostRange& o) const {
    return bytes && o.bytes && begin < o.begin + o.bytes && o.begin < begin + bytes;
  }
};

struct Entry {
  std::function<void()> work;  // null: something that takes no time, done as soon as it is first
  HostRange host{};            // of the work
  bool running = false;
  MarkRef after = nullptr;                      // goes no further before it
  MarkRef mark = nullptr;                       // reached
  std::shared_ptr<int> streams_left = nullptr;  // of those that use `freed`
  void* freed = nullptr;
};

struct Queue {
  std::deque<Entry> entries;
};

i64 now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class Queues {
 public:
  std::mutex mutex;  // for everything here
  std::vector<Queue*> all{new Queue};
  u64 random = 1;
  size_t queued = 0;         // entries with work
  std::exception_ptr error;  // the first since the last wait

  Queue& of(void* stream) { return stream ? *static_cast<Queue*>(stream) : *all[0]; }

  u64 draw() { return random = mix64(random + 0x9e3779b97f4a7c15ull); }

  // The mutex is held.
  void push(void* stream, Entry e) {
    queued += e.work != nullptr;
    of(stream).entries.push_back(std::move(e));
    settle();
  }

  // Does what is first in its queue and takes no time, until nothing is; the mutex is held.
  void settle() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Queue* q : all)
        while (!q->entries.empty() && q->entries.front().work == nullptr) {
          Entry& e = q->entries.front();
          if (e.after && !e.after->reached) break;
          if (e.mark) {
            e.mark->ns = now_ns();
            e.mark->reached = true;
          }
          if (e.freed && --*e.streams_left == 0) arena_end_free(e.freed);
          q->entries.pop_front();
          moved = true;
        }
    }
  }

  // Runs one entry; false if none can. The caller holds `runner`.
  bool run_one() {
    Queue* q = nullptr;
    Entry* e = nullptr;
    {
      const std::lock_guard lock(mutex);
      size_t able = 0;  // those whose first entry is work: what waits is no work
      for (Queue* c : all)
        if (!c->entries.empty() && c->entries.front().work && draw() % ++able == 0) q = c;
      if (!q) return false;
      e = &q->entries.front();
      e->running = true;
    }
    std::exception_ptr thrown;
    try {
      e->work();  // others only push behind it
    } catch (...) {
      thrown = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    q->entries.pop_front();
    --queued;
    if (thrown) drop(thrown);
    settle();
    return true;
  }

  // Nothing that is queued runs any more; the mutex is held.
  void drop(const std::exception_ptr& why) {
    if (!error) error = why;
    for (Queue* q : all)
      for (Entry& e : q->entries) {
        if (e.running || !e.work) continue;
        e.work = nullptr;
        e.host = {};
        --queued;
      }
  }

  template <class Done>
  void run_until(const Done& done) {
    const std::lock_guard one(runner);
    while (!done() && run_one()) {}
  }
  // An entry may run, or some thread runs one now.
  void pass_time() {
    const std::unique_lock one(runner, std::try_to_lock);
    if (!one) return;
    {
      const std::lock_guard lock(mutex);
      if (draw() % 2) return;
    }
    run_one();
  }
  void throw_error() {
    std::exception_ptr e;
    {
      const std::lock_guard lock(mutex);
      e = std::exchange(error, nullptr);
    }
    if (e) std::rethrow_exception(e);
  }
  void push_work(void* stream, Entry e) {
    {
      const std::lock_guard lock(mutex);
      push(stream, std::move(e));
    }
    const auto few = [&](size_t most) {
      const std::lock_guard lock(mutex);
      return queued <= most;
    };
    if (!few(kMostQueued)) run_until([&] { return few(kMostQueued / 2); });
  }

 private:
  std::mutex runner;  // held by the thread that runs entries
};

// Never destroyed: tensors of static objects are freed at the end of the process.
Queues& queues() {
  static Queues& q = *new Queues;
  return q;
}

}  // namespace

int read_stream_mode() {
  static const StreamOptions o = parse_streams(std::getenv("WT_SIMT_STREAMS"));
  int unknown = -1;
  if (stream_mode.compare_exchange_strong(unknown, int(o.mode))) queues().random = o.seed;
  return stream_mode.load();
}

void change_stream_mode(SimtStreams mode, uint64_t seed) {
  Queues& q = queues();
  const std::lock_guard lock(q.mutex);
  q.random = seed;
  stream_mode = int(mode);
}

void* new_queue() {
  Queues& q = queues();
  const std::lock_guard lock(q.mutex);
  q.all.push_back(new Queue);
  return q.all.back();
}

void queue_launch(const GridLaunch& g, const SimtOptions& options) {
  auto launch = std::make_shared<const QueuedLaunch>(g);
  queues().push_work(g.stream, {.work = [launch, options] { launch->run(options); }});
}

void queue_copy(const Copy& c, void* stream) {
  auto copy = std::make_shared<QueuedCopy>(c);
  Entry e{.work = [copy] { copy->run(); }};
  copy->compare = c.host_to || c.host_from;
  if (copy->compare) {
    e.host = {static_cast<const char*>(copy->host()), c.bytes};
    Queues& q = queues();
    const std::lock_guard lock(q.mutex);
    // Another copy's buffer changes, or must not, without the host's doing.
    for (const Queue* other : q.all)
      for (const Entry& o : other->entries)
        if (o.host.overlaps(e.host)) copy->compare = false;
    if (copy->compare && c.host_to) std::memset(c.to, 0xff, c.bytes);
    if (copy->compare) copy->sum = crc32c(copy->host(), c.bytes);
  }
  queues().push_work(stream, std::move(e));
}

void queue_work(std::function<void()> work, void* stream) {
  queues().push_work(stream, {.work = std::move(work)});
}

MarkRef queue_mark(void* stream) {
  auto mark = std::make_shared<Mark>();
  Queues& q = queues();
  const std::lock_guard lock(q.mutex);
  q.push(stream, {.work = nullptr, .mark = mark});
  return mark;
}

void queue_wait(void* stream, MarkRef mark) {
  if (!mark || mark->reached) return;
  Queues& q = queues();
  const std::lock_guard lock(q.mutex);
  q.push(stream, {.work = nullptr, .after = std::move(mark)});
}

void queue_free(void* block) {
  std::vector<void*> streams;
  arena_begin_free(block, streams);
  Queues& q = queues();
  const std::lock_guard lock(q.mutex);
  const auto left = std::make_shared<int>(int(streams.size()));
  for (void* s : streams) q.push(s, {.work = nullptr, .streams_left = left, .freed = block});
}

void host_memory_ends(const void* begin, size_t bytes) {
  const HostRange range{static_cast<const char*>(begin), bytes};
  Queues& q = queues();
  const std::lock_guard lock(q.mutex);
  for (Queue* other : q.all)
    for (Entry& o : other->entries)
      if (o.host.overlaps(range))
        return q.drop(std::make_exception_ptr(
            KernelError("page-locked memory was given back while a copy that is queued needs it")));
}

void wait_for(const MarkRef& mark) {
  if (mark) queues().run_until([&] { return mark->reached.load(); });
  queues().throw_error();
}

void wait_quietly() {
  queues().run_until([] { return false; });
}

void wait_for_all() {
  wait_quietly();
  queues().throw_error();
}

bool has_reached(const MarkRef& mark) {
  if (mark && !mark->reached) queues().pass_time();
  queues().throw_error();  // what was dropped counts as passed
  return !mark || mark->reached;
}

}  // namespace simt_runtime

SimtStreams simt_streams() { return simt_runtime::lazy() ? SimtStreams::lazy : SimtStreams::eager; }

}  // namespace wt
