// Where the times of a profile's device work come from: CUPTI's records on cuda where there are
// some, else events around launches. Internal.
#pragma once
#include <atomic>
#include <mutex>
#include <string>

#include "warptape/core/profile/device_records.h"
#include "warptape/core/profile/device_times.h"

namespace wt::profiler {

class DeviceSource {
 public:
  // For a run of the recorder with this number.
  void start(const ProfileOptions& o, u64 run);
  // Around a range, on its thread. True: its end must be told as `pushed`.
  bool begin(const Range& r, u32 id);
  void end(const Range& r, u32 id, bool pushed);
  // A range that was pushed ends for this profile alone.
  void pop() { records_.pop(); }
  // For all that was launched.
  void wait();
  // Times on the host's clock, and Data's words of where they come from. `next_id`: of events of
  // the device alone.
  void fill_in(Profile::Data& d, u32 next_id);
  void stop();

 private:
  enum class From : u8 { nobody, undecided, events, records };
  void decide();
  static bool is_launch(const Range& r);
  bool uses_events(const Range& r) const;

  std::atomic<From> cuda_{From::nobody};
  bool on_ = false;
  std::mutex mutex_{};
  std::string why_not_{};  // no records
  bool broken_ = false;    // there is a CUPTI, and it refuses
  DeviceTimes events_{};
  DeviceRecords records_{};
};

}  // namespace wt::profiler
