// Where a machine::Watcher looks. Internal.
#pragma once
#include <string>

#include "warptape/core/machine/load_library.h"
#include "warptape/core/machine_state.h"

namespace wt::machine {

struct Sources {
  std::string proc = "/proc", cpus = "/sys/devices/system/cpu";
  const LibraryLoader* loader = &system_loader;
};

// Behind Watcher::look(): what Linux counts since boot. -1: not told.
struct HostCounters {
  double busy_ticks = -1, all_ticks = -1;
  i64 swapped_pages = -1, slowed = -1;
};
Host host_now(const Sources& from, HostCounters& counters);
// Rates of `now` by what was counted before and after. `seconds`: between them.
void set_rates(Host& now, const HostCounters& before, const HostCounters& after, double seconds);
OwnProcess own_process(const Sources& from);
// User and name of a process, as far as /proc has them.
void name_process(GpuProcess& p, const Sources& from);

}  // namespace wt::machine
