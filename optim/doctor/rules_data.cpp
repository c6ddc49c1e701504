// How a program gets its data, and that it runs at all.
#include <algorithm>

#include "warptape/optim/doctor/rule.h"

namespace wt::doctor {
namespace {

constexpr double kWaitShare = 0.2;  // of a step, from which on waiting is a finding
constexpr double kWaitLeast = 50;   // us: below it nobody gains

Found step_fails(const Evidence& e) {
  if (e.failure.empty()) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "a step fails",
                 .evidence = e.failure,
                 .fix = "see the error; findings below are of the steps before it"};
}

double data_us(const Evidence& e) {
  return mean_of(e, [](const StepSeen& s) { return s.data_us; });
}
bool waits_for_data(const Evidence& e) {
  const double all = mean_of(e, [](const StepSeen& s) { return s.us; });
  return data_us(e) > kWaitShare * all && data_us(e) > kWaitLeast;
}
Finding waiting(const Evidence& e) {
  const double share = data_us(e) / mean_of(e, [](const StepSeen& s) { return s.us; });
  const double all = step_us(e), us = share * all;  // of the step that the report is of
  return {
      .severity = Severity::waste,
      .title = "steps wait for their data",
      .evidence = str("waiting for data: ", time_text(us), " of a step's ", time_text(all), ", ",
                      percent(us / all)),
      .cost_us = us,
      .gain = str("up to ", figure(all / std::max(all - us, 1.0)), " times the steps a second")};
}

Found data_wait(const Evidence& e) {
  // What more workers mend is workers-few's.
  if (!waits_for_data(e) || (e.workers >= 0 && e.workers < e.machine.processors)) return {};
  Finding f = waiting(e);
  f.fix = e.workers < 0
              ? "data::Loader loader{set, {.workers = data::kAuto}};"
              : "wt data pack, or transforms on the device: the loader has all processors";
  return f;
}

Found workers_few(const Evidence& e) {
  if (!waits_for_data(e) || e.workers < 0 || e.workers >= e.machine.processors) return {};
  Finding f = waiting(e);
  f.title = "steps wait for too few loader threads";
  f.evidence += str("; ", e.workers, " workers on ", e.machine.processors, " processors");
  f.fix = str("data::LoaderOptions{.workers = ", std::min(e.machine.processors, 2 * e.workers + 2),
              "}; wt train --workers");
  return f;
}

Found workers_many(const Evidence& e) {
  if (e.machine.processors <= 0 || e.workers <= e.machine.processors) return {};
  return Finding{.severity = Severity::waste,
                 .title = "more loader threads than processors",
                 .evidence = str(e.workers, " workers on ", e.machine.processors,
                                 " processors: they take the time from the step"),
                 .fix = str("data::LoaderOptions{.workers = ", e.machine.processors, "}")};
}

Found pageable_copies(const Evidence& e) {
  if (e.device.kind != DeviceKind::cuda || e.batches.pageable_bytes < 64 * 1024) return {};
  return Finding{.severity = Severity::waste,
                 .title = "batches are copied to the device from pageable memory",
                 .evidence = str(e.batches.pageable_bytes,
                                 " bytes a step are copied aside first, and the host waits for it"),
                 .gain = "copies beside the work of the device",
                 .fix = "data::LoaderOptions{.pin_memory = true}, or pin(x, device) once"};
}

Found batch_repeats(const Evidence& e) {
  const BatchesSeen& b = e.batches;
  if (b.count < 4 || b.repeated * 2 < b.count) return {};
  return Finding{.severity = Severity::hint,
                 .title = "steps see the same batch again and again",
                 .evidence = str(b.repeated, " of ", b.count, " batches are the one before"),
                 .fix = "take the next batch in the loop: for (const auto& batch : loader)"};
}

constexpr Rule kFailureRules[] = {
    {{"step-fails", "failure",
      "a step that throws: the findings behind it are of the steps before"},
     step_fails}};
constexpr Rule kDataRules[] = {
    {{"data-wait", "data", "more than a fifth of a step is waiting for its batch"}, data_wait},
    {{"workers-few", "data", "the same, while the loader has fewer threads than the machine"},
     workers_few},
    {{"workers-many", "data", "more loader threads than processors"}, workers_many},
    {{"pageable-copies", "data", "batches for cuda that do not lie in page-locked memory"},
     pageable_copies},
    {{"batch-repeats", "data", "half of the batches or more are the one before"}, batch_repeats}};

}  // namespace

std::span<const Rule> failure_rules() { return kFailureRules; }
std::span<const Rule> data_rules() { return kDataRules; }

}  // namespace wt::doctor
