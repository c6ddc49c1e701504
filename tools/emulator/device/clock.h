// Happens-before: vector clocks over the lanes of work (a stream, a branch of a graph). The host is
// one agent, however many threads it has: orders that only its mutexes make are not seen, so that
// the first thread to wait for something knows it for all. That misses races; it invents none.
#pragma once
#include <memory>
#include <utility>

#include "basic.h"

namespace emu {

// What is known to be over: every operation up to `floor`, and of a lane those up to its serial.
struct Clock {
  u64 floor = 0;
  std::vector<std::pair<u32, u64>> seen;  // by lane

  bool has(u32 lane, u64 serial) const;
  void add(u32 lane, u64 serial);
  void join(const Clock& other);
  bool covers(const Clock& other) const;
};
using ClockRef = std::shared_ptr<const Clock>;

u32 new_lane();
u64 new_serial(u32 lane);
// The lane of an operation; false: so long ago that it is not remembered.
bool lane_of(u64 serial, u32* lane);

// What the host knows. `version` changes when it learns.
const ClockRef& host_clock();
void host_learns(const Clock& clock, u32 lane, u64 serial);

}  // namespace emu
