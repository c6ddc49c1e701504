// Times of launches on devices that queue them: an event before and one after each, read as the
// device gets there. Internal.
#pragma once
#include <deque>
#include <mutex>
#include <vector>

#include "warptape/core/profile.h"

namespace wt::profiler {

class DeviceTimes {
 public:
  // most: that are wanted at the end, the newest ones.
  void start(bool on, i64 most);
  // Around the launch of the range `id`, on its stream. The first one on a device waits for it, so
  // that its clock can be told in the host's. Nothing while a graph is recorded.
  void before(u32 id, Device d, void* stream);
  void after(u32 id);
  // For all that was launched.
  void wait();
  // Of those that have times, on the host's clock.
  void fill_in(std::vector<Event>& events);
  void stop();

 private:
  struct Launch {
    u32 id = 0;
    Device device{};
    void* stream = nullptr;
    void* before = nullptr;
    void* after = nullptr;
  };
  struct Times {
    u32 id = 0;
    i64 begin_ns = 0, end_ns = 0;
  };
  // An event of the device whose time on the host's clock is known.
  struct Known {
    Device device{};
    void* event = nullptr;
    i64 ns = 0;
  };
  Known& known(Device d, void* stream);
  void read(Launch& l);
  void read_those_done(bool ended = false);  // ended: nobody launches any more

  bool on_ = false;
  size_t most_ = 0;
  std::mutex mutex_{};
  std::deque<Launch> launches_{};  // not read yet
  std::vector<Times> times_{};
  std::deque<Known> known_{};  // one a device
};

}  // namespace wt::profiler
