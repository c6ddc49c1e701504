// Whether the device has work: waits of the host, launches, shapes, other ranks.
#include <algorithm>

#include "warptape/optim/doctor/rule.h"

namespace wt::doctor {
namespace {

Found host_waits(const Evidence& e) {
  if (e.steps.empty()) return {};
  i64 count = 0;
  std::string list;
  for (const SyncGuard::Wait& w : e.waits) {
    count += w.count;
    list += str(list.empty() ? "" : "; ", w.what, " at ", w.at.file, ":", w.at.line, ", ", w.count,
                " times");
  }
  if (count < i64(e.steps.size())) return {};
  return Finding{.severity = Severity::waste,
                 .title = "the host waits for the device in every step",
                 .evidence = str(count, " waits in ", e.steps.size(), " steps: ", list),
                 .gain = "launches go on while the device works",
                 .fix = "keep losses on the device and read them every 100 steps, or StepResult"};
}

Found launch_bound(const Evidence& e) {
  const double us = e.eager_us;
  if (e.captures || !(e.captured_us > 0) || !(us > 0) || e.captured_us > 0.9 * us) return {};
  const double launches = mean_of(e, [](const StepSeen& s) { return s.launches; });
  return Finding{.severity = Severity::waste,
                 .title = "steps are bound by their launches",
                 .evidence = str("a step takes ", time_text(us), " with ", figure(launches),
                                 " launches, as one graph ", time_text(e.captured_us)),
                 .cost_us = us - e.captured_us,
                 .gain = str(figure(us / e.captured_us), " times the steps a second, measured"),
                 .fix = "TrainStepOptions{.graph = true}; wt train --graph"};
}

// Where no graph was timed.
Found small_kernels(const Evidence& e) {
  constexpr double kLaunchUs = 5;  // of a launch by the host, about
  const double launches = mean_of(e, [](const StepSeen& s) { return s.launches; });
  const double bytes = mean_of(e, [](const StepSeen& s) { return s.launched_bytes; });
  if (e.device.kind != DeviceKind::cuda || e.captures || e.captured_us > 0) return {};
  if (launches < 100 || bytes / launches > 256 * 1024) return {};
  if (launches * kLaunchUs < 0.5 * step_us(e)) return {};
  return Finding{
      .severity = Severity::waste,
      .title = "kernels are too small for the device",
      .evidence = str(figure(launches), " launches a step, of ", figure(bytes / launches / 1024),
                      " KiB each; launching takes about ", time_text(launches * kLaunchUs), " of ",
                      time_text(step_us(e))),
      .cost_us = launches * kLaunchUs,
      .fix = "TrainStepOptions{.graph = true}, or larger batches"};
}

Found new_shapes(const Evidence& e) {
  if (e.steps.size() < 6) return {};
  i64 late = 0, steps = 0;
  for (size_t i = e.steps.size() / 2; i < e.steps.size(); ++i)
    late += e.steps[i].new_shapes, steps += e.steps[i].new_shapes > 0;
  if (steps * 2 < i64(e.steps.size() - e.steps.size() / 2)) return {};
  return Finding{.severity = Severity::waste,
                 .title = "convolutions get ever new shapes",
                 .evidence = str(late, " shapes not seen before in the second half of the steps"),
                 .gain = "no search for the fastest kernel, no new graph, memory that fits",
                 .fix = "crop or pad to a few sizes; LoaderOptions{.drop_last = true}"};
}

Found device_idle(const Evidence& e) {
  if (e.device.kind != DeviceKind::cpu || !e.machine.cuda || !e.has_net) return {};
  return Finding{.severity = Severity::waste,
                 .title = "a GPU is there and not used",
                 .evidence = "the model is on cpu",
                 .fix = "net.to(Device::best());  // before the optimizer is made"};
}

Found step_jitter(const Evidence& e) {
  const double middle = step_us(e);
  if (e.steps.size() < 8 || middle <= 0) return {};
  i64 slow = 0;
  const StepSeen* worst = &e.steps.front();
  double lost = 0;
  for (const StepSeen& s : e.steps) {
    if (s.us > 2 * middle) ++slow, lost += s.us - middle;
    if (s.us > worst->us) worst = &s;
  }
  lost /= double(e.steps.size());
  if (slow < 2 || lost < 0.1 * middle || worst->us < 1e3) return {};
  const bool data = worst->data_us > 0.5 * (worst->us - middle);
  return Finding{
      .severity = Severity::hint,
      .title = "steps take unequal time",
      .evidence = str(slow, " of ", e.steps.size(), " steps take more than twice the median ",
                      time_text(middle), "; the slowest ", time_text(worst->us), ", step ",
                      worst - e.steps.data() + 1, data ? ", waited for data" : ""),
      .cost_us = lost,
      .fix = data ? "data::LoaderOptions{.workers = data::kAuto}"
                  : "wt info --watch beside it: clocks, heat, other processes"};
}

Found ranks_wait(const Evidence& e) {
  if (e.waited_us.size() < 2) return {};
  const auto [least, most] = std::minmax_element(e.waited_us.begin(), e.waited_us.end());
  const double us = step_us(e);
  if (*most - *least < 0.1 * us || *most <= 0) return {};
  return Finding{
      .severity = Severity::waste,
      .title = "ranks wait for a slower one",
      .evidence = str("rank ", most - e.waited_us.begin(), " waits ", time_text(*most),
                      " of a step's ", time_text(us), ", rank ", least - e.waited_us.begin(), " ",
                      time_text(*least), ": it is the one that all wait for"),
      .cost_us = *most,
      .fix = "equal parts of the data for each rank; wt info --watch on the slow one"};
}

constexpr Rule kDeviceRules[] = {
    {{"host-waits", "device", "a wait of the host for the device in each step, by line"},
     host_waits},
    {{"launch-bound", "device", "the same step as a graph takes a tenth less, measured"},
     launch_bound},
    {{"small-kernels", "device", "half of a step on cuda is launching small kernels"},
     small_kernels},
    {{"new-shapes", "device", "convolutions of shapes not seen before, half-way through"},
     new_shapes},
    {{"device-idle", "device", "the model is on cpu while there is a GPU"}, device_idle},
    {{"step-jitter", "device", "steps of twice the median cost a tenth of the time"}, step_jitter},
    {{"ranks-wait", "device", "a rank waits a tenth of a step more than another one"}, ranks_wait}};

}  // namespace

std::span<const Rule> device_rules() { return kDeviceRules; }

}  // namespace wt::doctor
