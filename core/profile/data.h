// What a Profile holds. Internal.
#pragma once
#include <exception>

#include "warptape/core/profile.h"

namespace wt::profiler {

struct Profile::Data {
  std::vector<Event> events{};  // by id
  std::vector<u32> parents{};   // of each event the place of the one around it; kNone
  std::vector<u32> forwards{};  // of backward events the place of the forward; kNone
  std::vector<std::string> shapes{{}};
  std::vector<std::string> threads{};
  std::vector<std::string> notes{};
  std::vector<Transfer> transfers{};
  std::vector<Accesses> accesses{{}};
  ProfileOptions options{};
  i64 begin_ns = 0, length_ns = 0, steps = 0, dropped = 0;
  i64 lost_records = 0;    // of the device
  std::string times_from;  // "cupti", "events"; "": none were asked for
  std::string no_records;  // why there are none of CUPTI's
  // Of the profiling thread: the time of its outermost ranges, and of that what was lost.
  i64 in_ranges_ns = 0, lost_ns = 0;
  i64 waited_ns = 0;                // of it, outside of all ranges
  i64 allocated = 0, released = 0;  // outside of all ranges
  std::exception_ptr failed{};      // what a device did wrong, known at the end

  static constexpr u32 kNone = ~u32{0};
  // Sorts the events and fills in parents and forwards.
  void tie();
};

// Lines of advice about what was profiled; `earlier` profiles were made by the same line.
void advise(Profile::Data& d, i64 earlier, Frame at);

}  // namespace wt::profiler
