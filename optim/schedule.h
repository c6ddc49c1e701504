// Learning rate schedules: pure functions of the number of applied steps.
//
//   opt.set_schedule(optim::warmup(500, optim::cosine(20'000)));
//
// A schedule is a factor of the optimizer's `lr`. It counts applied steps only: a skipped step
// (overflow, NaN, bad label) cannot move it. The optimizer uploads a table of the coming values and
// the step kernel reads it by the device's own count, so no step waits for the host.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "warptape/core/macros.h"
#include "warptape/core/types.h"

namespace wt::optim {

class Schedule {
 public:
  Schedule() = default;
  // Any pure function of the applied count: optim::Schedule{[](wt::i64 k) { return ...; }}.
  explicit Schedule(std::function<double(i64)> at) : at_(std::move(at)) {}
  // The factor that the step after `applied` applied ones uses. 1 for an empty schedule.
  double at(i64 applied) const { return at_ ? at_(applied) : 1; }
  explicit operator bool() const { return at_ != nullptr; }

 private:
  std::function<double(i64)> at_;
};

WT_API Schedule constant(double factor = 1);
// From `from` at 0 to `to` at `steps` in equal increments, then `to`.
WT_API Schedule linear(i64 steps, double from, double to);
// Half a cosine from 1 at 0 down to `floor` at `steps`, then `floor`.
WT_API Schedule cosine(i64 steps, double floor = 0);
// Rises linearly from `start` towards 1 over `steps` steps, then `next`, counted from its own 0.
// The first form takes steps + 1 equal increments from 0: its first step has 1 / (steps + 1).
WT_API Schedule warmup(i64 steps, Schedule next = {});
WT_API Schedule warmup(i64 steps, Schedule next, double start);
// The schedules one after the other, each for its number of steps and counted from its own 0; the
// last goes on for ever, whatever its number.
struct Stage {
  i64 steps;
  Schedule schedule;
};
WT_API Schedule chain(std::vector<Stage> stages);
// `schedule` starts anew after `period` steps, then after period * growth, and so on.
WT_API Schedule restarts(i64 period, Schedule schedule, double growth = 1);

}  // namespace wt::optim
