// Where a program's time goes, by operator, module, kernel or line: what profiler::Observer hears,
// kept and added up.
//
//   const profiler::Profile p = profiler::profile([&] { step(batch, loss_of); });
//   std::cout << p.table({.sort_by = "self_cpu_time_total", .rows = 20});
//
//   profiler::Scope scope;                         // or from here ...
//   { auto r = profiler::range("model_inference"); y = net(x); }
//   const profiler::Profile p = scope.stop();      // ... to here
//
// A range's total time has those inside of it in it, its self time has not: self times add up to
// the time that was profiled. While nobody profiles, operators and launches pay nothing.
// docs/profiling.md says what the columns mean.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "warptape/core/dtype.h"
#include "warptape/core/profiler.h"

namespace wt::profiler {

// One range that has ended. Times are nanoseconds of the host's steady clock since the profile
// began.
struct Event {
  Kind kind = Kind::op;
  bool left_open = false;  // it had not ended when the profile, or what is around it, did
  // Work of a device that no range launched by itself: a kernel of a graph's replay, a copy, a
  // kernel of others. `parent` is the range around the call that queued it; no host time is its
  // own. Its id is larger than those of all ranges.
  bool device_only = false;
  bool of_backward = false;  // of a replay: a kernel of a node's backward
  DType dtype{};             // of the first operand; of kernels: of their operator's
  u32 id = 0;                // from 1, in the order of beginning; unique in the profile
  u32 parent = 0;            // the range around it on its thread; 0: none
  u32 thread = 0;  // 0: the thread that profiles; others in the order in which they were seen
  u32 step = 0;    // of the Schedule's or the caller's steps, from 0
  u32 shapes = 0;  // which of Profile::shapes() its operands had; 0: not asked for, none
  const char* name = nullptr;     // the operator's, the contract's, the user's
  const char* variant = nullptr;  // kernels; else null
  const OpInfo* op = nullptr;     // null: a kernel outside of operators, a user's range
  FrameId frame = 0;
  u32 mode_id = 0;  // module_path_of(mode_id)
  // Of the tape: an operator that recorded a node and that node's backward have one number; 0:
  // none.
  u64 node = 0;
  Device device{};
  void* stream = nullptr;
  i64 begin_ns = 0, end_ns = 0;
  i64 inside_ns = 0;  // of the ranges directly inside of it
  // Of the device, on the host's clock: kernels of cuda whose times were taken. Else both 0: on the
  // cpu and on simt a kernel runs within its range, and what a graph's replay runs has its own
  // events where CUPTI tells of it.
  i64 device_begin_ns = 0, device_end_ns = 0;
  double bytes = 0, flops = 0;      // kernels: of the contract
  i64 allocated = 0, released = 0;  // bytes, by this range and none inside of it
  i64 waited_ns = 0;  // of its own time: for a device, or for a copy that holds up the host
  u32 accesses = 0;   // which of Profile::accesses() the kernel made; 0: not counted

  i64 host_ns() const { return end_ns - begin_ns; }
  i64 self_ns() const { return host_ns() - inside_ns; }
  i64 device_ns() const { return device_end_ns - device_begin_ns; }
};

// What kernels on simt would ask of a GPU's memory: docs/simt.md says how it is counted.
struct Accesses {
  double requests = 0, lanes = 0;         // a warp's accesses of any memory; active lanes in them
  double sectors = 0, least_sectors = 0;  // of 32 bytes of device memory; the fewest that would do
  double passes = 0, least_passes = 0;    // over the banks of shared memory: the rest are conflicts
  WT_API Accesses& operator+=(const Accesses& o);
};

// Copies of one kind, or waits of the host for a device, from one line of the user's program.
struct Transfer {
  enum class Kind : u8 { to_device, to_host, within_device, wait };
  Kind kind = Kind::wait;
  bool pageable = false;  // of host memory that is not page-locked: the host waits for the copy
  Device device{};
  FrameId frame = 0;
  i64 count = 0, bytes = 0;
  i64 host_ns = 0;                  // that the host spent in them
  WT_API const char* what() const;  // "to device", "to host", "within", "wait"
};

class Profile;

struct ProfileOptions {
  bool memory = true;   // what each range allocates and releases
  bool shapes = false;  // of operands: the column "Inputs", and groups by them
  // On cuda the device's own times, read when the profile ends: from CUPTI's records, or of an
  // event before and after each launch.
  bool device_times = true;
  // CUPTI, where there is one (WT_CUPTI names another, or "off"): kernels of graphs' replays,
  // copies and fills too, and nothing is queued beside the program's own work.
  bool device_records = true;
  // Sectors and bank conflicts of kernels on simt, where they are compiled to count (flavour race;
  // UsageError elsewhere, and while something else counts). Times say nothing of the program then.
  bool counters = false;
  // The profile keeps so many ranges, of sizeof(Event) bytes each, and as many of the device's
  // records; then each thread's newest ranges take the place of its oldest, and a thread that comes
  // later has room for a sixteenth. dropped() says how many were lost. Ranges that were lost are
  // still in the totals.
  i64 max_events = 1'000'000;
  // Gets what there is when profile()'s function throws, or when a device turns out at the end to
  // have failed, before the exception goes on. What it throws itself is dropped in the first case.
  std::function<void(const Profile&)> on_throw{};
};

struct TableOptions {
  // "self_cpu_time_total", "cpu_time_total", "cpu_time", "self_cuda_time_total",
  // "cuda_time_total", "cuda_time" (also with "device" for "cuda"), "cpu_memory_usage",
  // "self_cpu_memory_usage" (also with "cuda" or "device"), "count", "flops", "bytes", "name".
  // Names by the alphabet, all else the largest first. Empty: cuda's own time where there are
  // kernels on it, else the host's own; of nested rows the whole.
  std::string sort_by{};
  // "operator", "module", "kernel" (contract:variant) or "line" (of the user's program).
  std::string group_by = "operator";
  bool shapes = false;  // groups operators by their input shapes, too
  // Rows inside of each other: user's ranges > modules > operators > kernels.
  bool nested = false;
  int rows = 0;   // at most so many, besides the total; 0: all
  int width = 0;  // of the table, in columns; 0: the terminal's, and no limit for a file or a pipe
};

// Ranges of one kind, added up. Of several threads, those of other threads than the one that
// profiled have rows of their own.
struct Row {
  std::string name{};    // "linear", "linear.backward", "conv2", "matmul:tiled", "net.cpp:57"
  std::string module{};  // where all its ranges were in one
  std::string
      line{};  // the user's; of backward the forward's: "net.cpp:57", "net.cpp:57 and 2 more"
  std::string inputs{};  // "[64, 784] [784, 256]"; where shapes were asked for
  int depth = 0;         // nested tables: 0 is outermost
  bool backward = false;
  bool other_thread = false;
  bool outside = false;  // no range: the time outside of operators, or of ranges that were lost
  i64 calls = 0;
  i64 self_ns = 0, total_ns = 0;                // of the host
  i64 device_self_ns = 0, device_total_ns = 0;  // of the device; on simt the executor's
  i64 kernel_ns = 0;                // of launches, in self_ns: on the cpu and on simt their run
  i64 allocated = 0, released = 0;  // bytes, by the row's ranges themselves
  i64 memory_total = 0;             // allocated - released, with what was inside
  double bytes = 0, flops = 0;      // of the kernels that its ranges launched themselves
  double bytes_total = 0, flops_total = 0;  // with those inside
  i64 waited_ns = 0;                        // in self_ns: for devices, and for copies
  Accesses accesses{};                      // of the same kernels as `bytes`, if they were counted
  // The time that bytes or flops take at this machine's measured rate (wt bench machine) over the
  // time that the kernels took: 1 is the roof. 0: nothing to compare.
  double roof = 0;
  // "memory", "arithmetic": the kernels, and which of both rates; "launch": the device is quicker
  // than it is fed; "host": the library's own work; "waiting": more than half of the row's own
  // time for a device or a copy. May be empty.
  std::string bound{};
};

class WT_API Profile {
 public:
  Profile();  // of nothing
  // In the order in which they began.
  const std::vector<Event>& events() const;
  // By Event::accesses; the first one is of nothing.
  const std::vector<Accesses>& accesses() const;
  // Texts; the first one is empty.
  const std::vector<std::string>& shapes() const;
  // "main", "thread 1", by Event::thread.
  const std::vector<std::string>& threads() const;
  // Copies between host and device and within one that no kernel makes, and waits; the longest
  // first. A run whose data lies on the device has none in its steps.
  const std::vector<Transfer>& transfers() const;
  double seconds() const;  // from the beginning to the end, with waits for the devices
  i64 begin_ns() const;    // of the steady clock, of which events' times count
  i64 steps() const;       // that were begun
  i64 dropped() const;     // ranges, and records of the device, that there was no room for
  // Where times of the device are from: "cupti", "events" (around launches); "": there are none.
  std::string device_times_from() const;
  const ProfileOptions& options() const;
  // What should be done about the program or about the profile, a line each.
  const std::vector<std::string>& notes() const;
  // The operator that recorded the node of e, a backward event; null: not in this profile.
  const Event* forward_of(const Event& e) const;

  // UsageError for a sort key or a group that there is none of, with the near name. Host time
  // outside of all ranges is a row, too: self_ns of all rows that are not other_thread add up to
  // seconds().
  std::vector<Row> rows(const TableOptions& o = {}) const;
  // The rows as text, a total line (the profiled time), the notes. No colours; ends with a newline.
  std::string table(const TableOptions& o = {}) const;
  // One object: {"seconds", "steps", "dropped", "device", "notes", "rows": [{...}], "total", ...}.
  std::string json(const TableOptions& o = {}) const;
  // A header and a line a row, RFC 4180.
  std::string csv(const TableOptions& o = {}) const;

  struct Data;  // internal
  explicit Profile(std::shared_ptr<const Data> data);

 private:
  std::shared_ptr<const Data> data_;
};

// Profiles everything that the process does from here on to stop(), as an observer: up to four at
// a time, also inside of each other (UsageError). Without stop(), what was recorded is dropped.
class WT_GUARD Scope {
 public:
  [[nodiscard]] WT_API explicit Scope(ProfileOptions o = {}, Frame at = Frame::here());
  WT_API ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  // The next step begins: Event::step, Profile::steps().
  WT_API void step();
  // Waits for the devices that were used, and throws what they did wrong. UsageError the second
  // time. Call it on the thread that made the scope, when no other thread runs operators.
  WT_API Profile stop();

 private:
  friend Profile profile(const std::function<void()>& f, ProfileOptions o, Frame at);
  void leave() noexcept;  // on_throw(stop())
  struct Recording;
  std::unique_ptr<Recording> recording_;
  std::unique_ptr<ObserverScope> watch_;
};

WT_API Profile profile(const std::function<void()>& f, ProfileOptions o = {},
                       Frame at = Frame::here());

struct Schedule;
// Internal.
class WT_API ScheduleRun {
 public:
  explicit ScheduleRun(const Schedule& s);
  ~ScheduleRun();
  ScheduleRun(const ScheduleRun&) = delete;
  ScheduleRun& operator=(const ScheduleRun&) = delete;
  void step();
  bool active() const;
  i64 cycles = 0;

 private:
  void enter();
  void end_cycle(Scope& scope);
  const Schedule& schedule_;
  i64 at_step_ = 0;  // of the cycle
  std::unique_ptr<Scope> scope_;
};

// Some steps of a long run: `wait` steps without a profile, `warmup` whose profile is dropped,
// `active` that are kept, then `done`; so `repeat` times, 0: as long as there are steps.
//
//   profiler::Schedule schedule{.wait = 10, .warmup = 2, .active = 5, .repeat = 1,
//                               .done = [](const profiler::Profile& p) { std::cout << p.table();
//                               }};
//   for (auto& [x, y] : loader) {
//     ...
//     schedule.step();  // this step has ended
//   }
//
// What a cycle has recorded when the schedule is destroyed in its midst is dropped.
struct Schedule {
  i64 wait = 0, warmup = 0, active = 1, repeat = 0;
  std::function<void(const Profile&)> done{};
  ProfileOptions options{};
  ScheduleRun run{*this};  // not to be given

  void step() { run.step(); }
  bool is_active() const { return run.active(); }  // this step is kept
  i64 cycles() const { return run.cycles; }        // that have ended
};

// A part of the program with a name of its own, to the end of the block: a row, and a range in
// traces. Nothing while nobody watches.
class WT_GUARD UserRange {
 public:
  [[nodiscard]] WT_API UserRange(std::string_view name, Frame at);
  ~UserRange() { end_user(number_); }
  UserRange(const UserRange&) = delete;
  UserRange& operator=(const UserRange&) = delete;

 private:
  u64 number_;
};
// The process keeps each different name that was watched: no numbers in it, where there are many.
[[nodiscard]] inline UserRange range(std::string_view name, Frame at = Frame::here()) {
  return UserRange(name, at);
}
// The same without a block. A profile that ends while a range is open says which one, by its line.
WT_API void range_push(std::string_view name, Frame at = Frame::here());
// Ends this thread's last one. UsageError where none is open.
WT_API void range_pop(Frame at = Frame::here());

}  // namespace wt::profiler
