#include "warptape/core/machine_state.h"

#include <chrono>

#include "warptape/core/machine/nvml.h"
#include "warptape/core/machine/sources.h"

namespace wt::machine {

struct Watcher::Impl {
  explicit Impl(const Sources& from) : from(from), nvml(*from.loader) {}
  Sources from;
  Nvml nvml;
  HostCounters counters{};
  std::chrono::steady_clock::time_point looked{};
};

Watcher::Watcher() : Watcher(Sources{}) {}
Watcher::Watcher(const Sources& from) : impl_(std::make_unique<Impl>(from)) {}
Watcher::~Watcher() = default;

State Watcher::look() {
  State s;
  const auto now = std::chrono::steady_clock::now();
  const bool first = impl_->looked == std::chrono::steady_clock::time_point{};
  if (!first) s.seconds = std::chrono::duration<double>(now - impl_->looked).count();
  impl_->looked = now;
  const HostCounters before = impl_->counters;
  s.host = host_now(impl_->from, impl_->counters);
  set_rates(s.host, before, impl_->counters, s.seconds);
  s.driver = impl_->nvml.driver();
  s.gpus = impl_->nvml.look(s.why_no_gpu);
  for (Gpu& g : s.gpus)
    for (GpuProcess& p : g.processes) name_process(p, impl_->from);
  s.own = own_process(impl_->from);
  return s;
}

State state() { return Watcher().look(); }

}  // namespace wt::machine
