#include "warptape/kernels/simt/queues.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

#include "warptape/core/crc32c.h"
#include "warptape/core/in.h"
#include "warptape/core/mode.h"
#include "warptape/core/philox.h"

namespace wt {
namespace simt_runtime {

std::atomic<int> stream_mode = -1;

namespace {

// As many as CUDA's queues hold before a launch waits.
constexpr size_t kMostQueued = 1024;

// Where the user asked for an entry; text is made only when there is something to say.
struct Place {
  const OpInfo* op = mode.op;
  Frame at = mode.frame ? frame_of(mode.frame) : mode.operand ? mode.operand->frame() : Frame{};
  const ModulePath* module = mode.module;

  std::string text() const {
    if (!at) return {};
    return "\n  queued at " + describe(at) + (module ? ", in " + wt::to_string(module) : "");
  }
};

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

[[noreturn]] void fail_with(const std::string& what, const Place& place) {
  throw KernelError(what + place.text());
}

// A pointer that an entry uses, and what it was then.
struct Held {
  const void* pointer;
  int argument;  // counted from 1
  Allocation memory;
};

void hold(std::vector<Held>& list, const void* p, int argument, const std::string& title,
          const Place& place) {
  Held h{p, argument, {}};
  if (!find_allocation(p, h.memory))
    fail_with(strf("%s: argument %d is %p, memory of simt that has been freed", title.c_str(),
                   argument, p),
              place);
  list.push_back(h);
}

// What the streams of the work did not say to the allocator shows here.
void check_held(const std::vector<Held>& list, const std::string& title) {
  for (const Held& h : list)
    if (!still_there(h.memory))
      throw KernelError(
          strf("%s: argument %d, %p, was freed on its own stream before this ran: nobody had "
               "recorded that this stream uses it",
               title.c_str(), h.argument, h.pointer));
}

// Everything of a launch, its own.
struct QueuedLaunch {
  GridLaunch grid;
  SimtOptions options;
  Place place;
  std::vector<Held> held;
  std::unique_ptr<unsigned char[]> memory;

  void run() {
    try {
      check_held(held, kernel_title(grid));
      run_launch(grid, options);
    } catch (const KernelError& e) {
      const std::string text = place.text(), what = e.what(), kind = "KernelError: ";
      if (text.empty()) throw;
      throw KernelError((what.starts_with(kind) ? what.substr(kind.size()) : what) + text);
    }
  }
};

struct QueuedCopy {
  Copy copy;
  Place place;
  std::vector<Held> held;
  bool compare;  // the host's bytes with their checksum
  u32 sum = 0;

  const char* title() const {
    return copy.host_from ? "copy from the host"
           : copy.host_to ? "copy to the host"
           : copy.from    ? "copy within the device"
                          : "fill with zeros";
  }
  const void* host() const { return copy.host_from ? copy.from : copy.to; }
  void run() const {
    try {
      check_held(held, title());
    } catch (const KernelError&) {
      fail_with(str(title(),
                    ": device memory was freed on its own stream before this ran: nobody "
                    "had recorded that this stream uses it"),
                place);
    }
    if (compare && crc32c(host(), copy.bytes) != sum)
      fail_with(str(title(), ": the host changed ", copy.bytes,
                    " bytes of its buffer before the "
                    "copy had run"),
                place);
    const ArenaOpen open;
    if (copy.from)
      std::memmove(copy.to, copy.from, copy.bytes);
    else
      std::memset(copy.to, 0, copy.bytes);
  }
};

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
  auto launch = std::make_shared<QueuedLaunch>();
  launch->grid = g;
  launch->options = options;
  for (int i = 0; i < g.pointer_count; ++i)
    if (g.pointers[i])
      hold(launch->held, g.pointers[i], g.pointer_args[i], kernel_title(g), launch->place);
  launch->grid.pointer_count = 0;  // what they point at is looked at before the grid runs
  launch->grid.pointers = nullptr;
  launch->grid.pointer_args = nullptr;
  constexpr size_t kAlign = 64;
  launch->memory = std::make_unique<unsigned char[]>(g.body_bytes + kAlign);
  auto at = (reinterpret_cast<uintptr_t>(launch->memory.get()) + kAlign - 1) / kAlign * kAlign;
  launch->grid.body = reinterpret_cast<void*>(at);
  std::memcpy(launch->grid.body, g.body, g.body_bytes);
  queues().push_work(g.stream, {.work = [launch] { launch->run(); }});
}

void queue_copy(const Copy& c, void* stream) {
  auto copy = std::make_shared<QueuedCopy>();
  copy->copy = c;
  if (!c.host_to) hold(copy->held, c.to, 1, copy->title(), copy->place);
  if (!c.host_from && c.from) hold(copy->held, c.from, 2, copy->title(), copy->place);
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
  const auto left = std::make_shared<int>(int(streams.size()));
  Queues& q = queues();
  const std::lock_guard lock(q.mutex);
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
