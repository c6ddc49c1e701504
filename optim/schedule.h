// Learning rate schedules: pure functions of the number of applied steps.
//
//   opt.set_schedule(optim::warmup(500, optim::cosine(20'000)));
//
// A schedule is a factor of the optimizer's `lr`. It counts applied steps only: a skipped step
// (overflow, NaN, bad label) cannot move it. The optimizer uploads a table of the coming values and
// the step kernel reads it by the device's own count, so no step waits for the host.
//
//   opt.set_schedule(optim::by_epoch(loader.size(), optim::step_lr(30)));   // counted in epochs
//   std::cout << optim::lr_at(optim::cosine(20'000), optim::steps(0, 20'000, 1000), {.lr = 0.1});
#pragma once
#include <concepts>
#include <functional>
#include <iosfwd>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "warptape/core/macros.h"
#include "warptape/core/misnamed.h"
#include "warptape/core/types.h"

namespace wt::optim {

class Schedule;
// A callable that takes the number of applied steps and returns a factor.
template <class F>
concept ScheduleFunction = !std::same_as<std::remove_cvref_t<F>, Schedule> &&
                           std::convertible_to<F, std::function<double(i64)>>;

// A factor of the learning rate by the number of applied steps. Copies share nothing; an empty one
// is the constant 1.
class Schedule {
 public:
  Schedule() = default;
  // Any pure function of the applied count: opt.set_schedule([](i64 k) { return ...; }).
  template <ScheduleFunction F>
  Schedule(F&& at) : at_(std::forward<F>(at)) {}  // NOLINT: implicit by design
  // The factor that the step after `applied` applied ones uses. 1 for an empty schedule.
  WT_API double at(i64 applied) const;
  // Whether there is a function: false of an empty schedule.
  explicit operator bool() const { return at_ != nullptr; }

 private:
  std::function<double(i64)> at_;
};

// The same factor at every step.
WT_API Schedule constant(double factor = 1);
// From `from` at 0 to `to` at `steps` in equal increments, then `to`. Throws UsageError, as all
// schedules that take a number of steps, for one below 1.
WT_API Schedule linear(i64 steps, double from, double to);
// Half a cosine from 1 at 0 down to `floor` at `steps`, then `floor`.
WT_API Schedule cosine(i64 steps, double floor = 0);
// CosineAnnealingLR: the whole cosine, which rises again after `steps`, is 1 at 2 * steps, and so
// on.
WT_API Schedule cosine_annealing(i64 steps, double floor = 0);
// StepLR: times gamma every step_size steps. Throws UsageError unless gamma is finite and at least
// 0.
WT_API Schedule step_lr(i64 step_size, double gamma = 0.1);
// MultiStepLR: times gamma at each milestone; one named twice counts twice. Throws UsageError
// unless they ascend from 0, and for gamma as step_lr().
WT_API Schedule multi_step(std::vector<i64> milestones, double gamma = 0.1);
// ExponentialLR: times gamma every step. Throws UsageError for gamma as step_lr().
WT_API Schedule exponential(double gamma);
// PolynomialLR: (1 - k / steps)^power, then 0. Throws UsageError unless power is above 0.
WT_API Schedule polynomial(i64 steps, double power = 1);
// Rises linearly from `start` towards 1 over `steps` steps, then `next`, counted from its own 0.
// The first form takes steps + 1 equal increments from 0: its first step has 1 / (steps + 1).
WT_API Schedule warmup(i64 steps, Schedule next = {});
WT_API Schedule warmup(i64 steps, Schedule next, double start);
// One schedule of a chain() and how long it lasts.
struct Stage {
  i64 steps;          // at least 1
  Schedule schedule;  // counted from its own 0
};
// SequentialLR: the schedules one after the other, each for its number of steps and counted from
// its own 0; the last goes on for ever, whatever its number. Throws UsageError for an empty list.
WT_API Schedule chain(std::vector<Stage> stages);
// CosineAnnealingWarmRestarts: half a cosine from 1 to `floor` over t_0 steps, then over t_0 *
// t_mult, and so on. Throws UsageError for a t_mult below 1.
WT_API Schedule cosine_warm_restarts(i64 t_0, i64 t_mult = 1, double floor = 0);
// The shape of one_cycle(); names and defaults are OneCycleLR's.
struct OneCycleOptions {
  double pct_start = 0.3;         // the part of the steps that rises, in [0, 1]
  double div_factor = 25;         // begins at 1 / div_factor; above 0
  double final_div_factor = 1e4;  // ends so many times below its begin; above 0
  bool three_phase = false;       // falls to its begin first, in as many steps as it rose
  bool linear = false;            // anneal_strategy: straight lines instead of cosines
  WT_MISNAMED_SAYS(anneal_strategy, "the linear one is {.linear = true}");
};
// OneCycleLR, where the optimizer's lr is max_lr: up from 1 / div_factor to 1 in the first
// pct_start of the steps, then down to 1 / (div_factor * final_div_factor) at the last step
// (three_phase: first back to 1 / div_factor, in as many steps as it rose). Momentum is not cycled
// (PyTorch's cycle_momentum = False). After the last step the last rate stays. Throws UsageError
// for options out of range.
WT_API Schedule one_cycle(i64 total_steps, const OneCycleOptions& options = {});
// The factors of all, multiplied: ChainedScheduler.
WT_API Schedule product(std::vector<Schedule> schedules);
// `schedule` starts anew after `period` steps, then after period * growth, and so on. Throws
// UsageError for a growth below 1.
WT_API Schedule restarts(i64 period, Schedule schedule, double growth = 1);
// `schedule` counted in epochs, each of steps_per_epoch applied steps: what PyTorch's give whose
// scheduler.step() is called once an epoch. The rate stays within an epoch. A loader's epoch has
// loader.size() steps, with k micro-batches a step the k-th part. In a composition each part counts
// as it is told: warmup(500, by_epoch(n, cosine(90))) warms up by steps, by_epoch(n, warmup(5,
// cosine(90))) by epochs.
WT_API Schedule by_epoch(i64 steps_per_epoch, Schedule schedule);

// The rates of a schedule at some steps or epochs.
struct LrTable {
  const char* unit = "step";  // what `at` counts: or "epoch"
  std::vector<i64> at;        // the steps or epochs that were asked for
  std::vector<double> lr;     // the rate at each
  // A heading, then a line each: "  100  0.05".
  WT_API std::string text() const;
};
// Writes text().
WT_API std::ostream& operator<<(std::ostream& out, const LrTable& table);
// What the rates of lr_at() are of, and what its numbers count.
struct LrAtOptions {
  double lr = 1;            // the optimizer's: of 1 the rates are factors
  i64 steps_per_epoch = 0;  // above 0: the numbers are epochs, and the rates those they begin with
};
// The rate that the step after `at` applied ones uses, for each number; no optimizer is touched or
// needed, and plateaus, which watch a loss, are not in it. Throws UsageError, with all of them, for
// numbers below 0 or whose steps 64 bits cannot count, a steps_per_epoch below 0 and an lr that is
// below 0 or not finite.
WT_API LrTable lr_at(const Schedule& schedule, std::vector<i64> at, const LrAtOptions& o = {});
// Numbers for lr_at(): begin, begin + every, ... below end. Throws UsageError for `every` below 1.
WT_API std::vector<i64> steps(i64 begin, i64 end, i64 every = 1);

}  // namespace wt::optim
