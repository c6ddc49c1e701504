// The observer behind a profile: a log of ended ranges a thread. Internal.
#pragma once
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "warptape/core/machine/steady_ns.h"
#include "warptape/core/profile.h"
#include "warptape/core/profile/data.h"
#include "warptape/core/profile/device_source.h"

namespace wt::profiler {

// What one thread has recorded. Its mutex is the thread's own but at the profile's end.
struct ThreadLog {
  std::mutex mutex{};
  u64 run = 0;  // of the recorder that it is for at present; 0: none
  std::thread::id owner{};
  u32 number = 0;
  std::vector<Event> open{};
  size_t pushed = 0;  // of them, the innermost ones: DeviceSource has pushed them
  std::deque<Event> ended{};
  size_t oldest = 0;  // of `ended`, once that is a ring
  i64 in_ranges_ns = 0, lost_ns = 0, lost = 0;
  i64 waited_ns = 0;                // outside of its ranges
  i64 allocated = 0, released = 0;  // outside of its ranges
  Accesses before{};                // the kernel that is open
  std::unordered_map<u64, u32> shapes{};
};

// Recorders and logs are used again and never deleted: a thread that the profile's end overtakes
// may still be about to record.
class Recorder final : public Observer {
 public:
  static Recorder& take(const ProfileOptions& o);
  // Ends what is open, stops watching and hands out what was recorded. Then it is free for others.
  Profile::Data finish(std::unique_ptr<ObserverScope>& watch);
  void drop();

  const ProfileOptions& options() const { return options_; }
  void step() { step_.fetch_add(1, std::memory_order_relaxed); }
  void transferred(const Transfer& t) noexcept;
  i64 steps() const { return step_.load(std::memory_order_relaxed); }

  void begin(const Range& r) noexcept override;
  void end(const Range& r) noexcept override;
  void allocated(const Memory& m) noexcept override;
  void released(const Memory& m) noexcept override;

 private:
  Recorder() = default;
  void start(const ProfileOptions& o);
  ThreadLog& log();
  ThreadLog& new_log();
  void keep(ThreadLog& l, const Event& e);
  bool counted(const Range& r) const;
  u32 accesses_since(const Accesses& before);
  void close(ThreadLog& l, i64 now);
  void collect(ThreadLog& l, Profile::Data& d, i64 now);
  void pop_own();
  u32 shapes_of(ThreadLog& l, const Range& r);
  // f(log) under its lock, if it is still for this run.
  template <class F>
  void with_log(const F& f) noexcept;

  ProfileOptions options_{};
  // Of them what is read while threads record, perhaps for the run before.
  std::atomic<bool> memory_{false}, shapes_{false}, counts_{false};
  std::atomic<i64> most_{0};
  std::atomic<u64> run_{0};  // unique; 0: nobody's
  std::atomic<u32> next_id_{1};
  std::atomic<u32> step_{0};
  std::atomic<i64> kept_{0};
  std::atomic<i64> no_memory_{0};
  i64 begin_ns_ = 0;
  long process_ = 0;  // a child of fork() knows its own thread's log alone
  std::mutex mutex_{};
  std::deque<ThreadLog> logs_{};
  size_t used_ = 0;  // of them
  std::vector<std::string> shape_texts_{};
  std::unordered_map<u64, u32> shape_numbers_{};
  std::vector<Accesses> accesses_{};
  std::vector<u32> free_accesses_{};  // of ranges that were lost
  DeviceSource device_{};
  std::mutex transfers_mutex_{};
  std::map<std::tuple<Transfer::Kind, bool, u32, FrameId>, Transfer> transfers_{};
};

using wt::detail::steady_ns;

}  // namespace wt::profiler
