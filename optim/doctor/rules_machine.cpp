// Memory that grows, and what holds the machine back.
#include "warptape/optim/doctor/rule.h"

namespace wt::doctor {
namespace {

Found memory_grows(const Evidence& e) {
  if (e.steps.size() < 6) return {};
  // The second half alone: optimizers and pools have taken theirs.
  const size_t from = e.steps.size() / 2;
  for (size_t i = from; i < e.steps.size(); ++i)
    if (e.steps[i].live_bytes <= e.steps[i - 1].live_bytes) return {};
  const auto& first = e.steps[from - 1];
  const auto& last = e.steps.back();
  const i64 each = (last.live_bytes - first.live_bytes) / i64(e.steps.size() - from);
  const i64 nodes = (last.live_nodes - first.live_nodes) / i64(e.steps.size() - from);
  // Losses that are kept to be read together, a number each, are no leak.
  if (nodes <= 0 && (each < 4096 || each < last.live_bytes / 1000)) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "memory grows with every step",
                 .evidence = str(each, " bytes and ", nodes, " nodes of the tape more a step, ",
                                 last.live_bytes, " bytes by now"),
                 .fix = nodes > 0 ? "total += loss.item();  // not the loss, which keeps its graph"
                                  : "memory::why_alive(tensor); LeakWatch names what stays"};
}

Found machine_swaps(const Evidence& e) {
  if (e.machine.swapped_bytes_s < 1e5) return {};
  return Finding{
      .severity = Severity::waste,
      .title = "the machine swaps",
      .evidence = str(figure(e.machine.swapped_bytes_s / 1e6), " MB a second go to and from swap"),
      .fix = "smaller batches, fewer workers; wt memory RECIPE says what is taken"};
}

Found clock_held_down(const Evidence& e) {
  std::string list;
  for (const MachineSeen::Slowed& g : e.machine.gpus)
    list +=
        str(list.empty() ? "" : "; ", g.name, " at ", g.mhz, " of ", g.most_mhz, " MHz: ", g.why);
  if (e.machine.slowed > 0)
    list += str(list.empty() ? "" : "; ", "heat slowed the processor ", e.machine.slowed, " times");
  if (list.empty()) return {};
  return Finding{.severity = Severity::waste,
                 .title = "clocks are held down",
                 .evidence = list,
                 .fix = "cooling and power limit; wt info --watch shows both"};
}

Found threads_many(const Evidence& e) {
  const MachineSeen& m = e.machine;
  if (m.processors <= 0 || m.threads <= m.processors) return {};
  return Finding{
      .severity = Severity::waste,
      .title = "more threads than processors",
      .evidence = str(m.threads, " threads of kernels on ", m.processors, " processors"),
      .fix = str("OMP_NUM_THREADS=", m.processors, "; wt train --threads ", m.processors)};
}

constexpr Rule kMachineRules[] = {
    {{"memory-grows", "memory",
      "more behind every step of the second half: of the tape, or a thousandth of the bytes"},
     memory_grows},
    {{"machine-swaps", "machine", "0.1 MB a second or more to and from swap"}, machine_swaps},
    {{"clock-held-down", "machine", "a GPU or the processor slowed by heat or power"},
     clock_held_down},
    {{"threads-many", "machine", "kernels run on more threads than there are processors"},
     threads_many}};

}  // namespace

std::span<const Rule> machine_rules() { return kMachineRules; }

}  // namespace wt::doctor
