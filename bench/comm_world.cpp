#include "warptape/bench/comm_world.h"

#include "warptape/core/str.h"
#include "warptape/dist/launcher.h"
#include "warptape/dist/spawn.h"
#include "warptape/tools/wt/training/ranks.h"

namespace wt::bench {

bool ranks_are_processes() { return dist::launched(); }

void on_each_rank(const WorldOptions& o, const std::function<void(dist::Communicator&)>& fn) {
  if (!ranks_are_processes()) return on_each_thread(o, fn);
  tools::run_ranks({.device = "cpu"}, [&](dist::Communicator& comm, Device) {
    fn(comm);
    return 0;
  });
}

void on_each_thread(const WorldOptions& o, const std::function<void(dist::Communicator&)>& fn) {
  dist::SpawnOptions options;
  options.local.algorithm = o.algorithm;
  options.local.latency = std::chrono::nanoseconds(i64(o.latency_us * 1e3));
  options.local.bandwidth = o.gb_s * 1e9;
  options.local.timeline = o.timeline;
  dist::spawn(o.ranks, fn, std::move(options));
}

std::string wires_text(const WorldOptions& o) {
  if (ranks_are_processes()) return "none: what lies between the processes";
  if (o.latency_us == 0 && o.gb_s == 0) return "none: as fast as memory is";
  return str(o.latency_us, " us a message, ", o.gb_s > 0 ? str(o.gb_s, " GB/s") : "no limit",
             " a link");
}

}  // namespace wt::bench
