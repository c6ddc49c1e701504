#include "warptape/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <ostream>

#include "warptape/core/error.h"

namespace wt::optim {
namespace {

void check_steps(const char* schedule, i64 steps) {
  if (steps < 1) throw UsageError(str("[", schedule, "] needs at least 1 step, got ", steps));
}

void check_gamma(const char* schedule, double gamma) {
  if (!(gamma >= 0 && std::isfinite(gamma)))
    throw UsageError(str("[", schedule, "] gamma must be at least 0 and finite, got ", gamma));
}
// Half a cosine from `from` at 0 to `to` at 1.
double half_cosine(double from, double to, double at) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * at)) / 2;
}

}  // namespace

double Schedule::at(i64 applied) const { return at_ ? at_(applied) : 1; }

Schedule constant(double factor) {
  return Schedule([factor](i64) { return factor; });
}

Schedule linear(i64 steps, double from, double to) {
  check_steps("linear", steps);
  return Schedule(
      [=](i64 k) { return k >= steps ? to : from + (to - from) * double(k) / double(steps); });
}

Schedule cosine(i64 steps, double floor) {
  check_steps("cosine", steps);
  return Schedule([=](i64 k) {
    if (k >= steps) return floor;
    return half_cosine(1, floor, double(k) / double(steps));
  });
}

Schedule cosine_annealing(i64 steps, double floor) {
  check_steps("cosine_annealing", steps);
  return Schedule([=](i64 k) {
    const i64 at = k % (2 * steps);  // the way down and up again have the same values
    return half_cosine(1, floor, double(at <= steps ? at : 2 * steps - at) / double(steps));
  });
}

Schedule step_lr(i64 step_size, double gamma) {
  check_steps("step_lr", step_size);
  check_gamma("step_lr", gamma);
  return Schedule([=](i64 k) { return std::pow(gamma, double(k / step_size)); });
}

Schedule multi_step(std::vector<i64> milestones, double gamma) {
  check_gamma("multi_step", gamma);
  for (size_t i = 0; i < milestones.size(); ++i)
    if (milestones[i] < 0 || (i > 0 && milestones[i] < milestones[i - 1]))
      throw UsageError(str("[multi_step] milestones must ascend from 0, got ", milestones[i],
                           i > 0 ? str(" after ", milestones[i - 1]) : ""));
  return Schedule([milestones = std::move(milestones), gamma](i64 k) {
    const auto passed = std::upper_bound(milestones.begin(), milestones.end(), k);
    return std::pow(gamma, double(passed - milestones.begin()));
  });
}

Schedule exponential(double gamma) {
  check_gamma("exponential", gamma);
  return Schedule([=](i64 k) { return std::pow(gamma, double(k)); });
}

Schedule polynomial(i64 steps, double power) {
  check_steps("polynomial", steps);
  if (!(power > 0)) throw UsageError(str("[polynomial] power must be above 0, got ", power));
  return Schedule(
      [=](i64 k) { return k >= steps ? 0.0 : std::pow(1 - double(k) / double(steps), power); });
}

Schedule cosine_warm_restarts(i64 t_0, i64 t_mult, double floor) {
  check_steps("cosine_warm_restarts", t_0);
  if (t_mult < 1)
    throw UsageError(str("[cosine_warm_restarts] t_mult must be at least 1, got ", t_mult));
  return Schedule([=](i64 k) {
    i64 length = t_0;
    if (t_mult == 1) k %= t_0;
    for (; k >= length; length *= t_mult) k -= length;
    return half_cosine(1, floor, double(k) / double(length));
  });
}

Schedule one_cycle(i64 total_steps, const OneCycleOptions& o) {
  check_steps("one_cycle", total_steps);
  if (!(o.pct_start >= 0 && o.pct_start <= 1))
    throw UsageError(str("[one_cycle] pct_start must be in [0, 1], got ", o.pct_start));
  if (!(o.div_factor > 0) || !(o.final_div_factor > 0))
    throw UsageError(str("[one_cycle] div_factor and final_div_factor must be above 0, got ",
                         o.div_factor, " and ", o.final_div_factor));
  struct Phase {
    double end, from, to;
  };
  const double low = 1 / o.div_factor, last = low / o.final_div_factor;
  const double rise = o.pct_start * double(total_steps), end = double(total_steps - 1);
  std::vector<Phase> phases{{rise - 1, low, 1}};
  if (o.three_phase) {
    phases.push_back({2 * rise - 2, 1, low});
    phases.push_back({end, low, last});
  } else {
    phases.push_back({end, 1, last});
  }
  return Schedule([phases = std::move(phases), linear = o.linear, end](i64 k) {
    const double step = std::min(double(k), end);
    double start = 0;
    size_t i = 0;
    for (; i + 1 < phases.size() && step > phases[i].end; ++i) start = phases[i].end;
    const Phase& p = phases[i];
    const double at = p.end == start ? 1 : (step - start) / (p.end - start);
    return linear ? (p.to - p.from) * at + p.from : half_cosine(p.from, p.to, at);
  });
}

Schedule product(std::vector<Schedule> schedules) {
  return Schedule([schedules = std::move(schedules)](i64 k) {
    double factor = 1;
    for (const Schedule& s : schedules) factor *= s.at(k);
    return factor;
  });
}

Schedule warmup(i64 steps, Schedule next) {
  check_steps("warmup", steps);
  return warmup(steps, std::move(next), 1 / double(steps + 1));
}

Schedule warmup(i64 steps, Schedule next, double start) {
  check_steps("warmup", steps);
  return chain({{steps, linear(steps, start, 1)}, {1, std::move(next)}});
}

Schedule chain(std::vector<Stage> stages) {
  if (stages.empty()) throw UsageError("[chain] needs at least one schedule");
  for (const Stage& s : stages) check_steps("chain", s.steps);
  return Schedule([stages = std::move(stages)](i64 k) {
    size_t i = 0;
    for (; i + 1 < stages.size() && k >= stages[i].steps; ++i) k -= stages[i].steps;
    return stages[i].schedule.at(k);
  });
}

Schedule restarts(i64 period, Schedule schedule, double growth) {
  check_steps("restarts", period);
  if (!(growth >= 1)) throw UsageError(str("[restarts] growth must be at least 1, got ", growth));
  return Schedule([=](i64 k) {
    if (growth == 1) return schedule.at(k % period);
    double length = double(period);
    while (k >= i64(length)) {
      k -= i64(length);
      length *= growth;
    }
    return schedule.at(k);
  });
}

Schedule by_epoch(i64 steps_per_epoch, Schedule schedule) {
  check_steps("by_epoch", steps_per_epoch);
  return Schedule([steps_per_epoch, schedule = std::move(schedule)](i64 k) {
    return schedule.at(k / steps_per_epoch);
  });
}

// --- tables ---

namespace {

// All that is wrong with what lr_at() is given; empty: nothing.
std::string faults_of(const std::vector<i64>& at, const LrAtOptions& o) {
  std::string faults;
  if (!(o.lr >= 0 && std::isfinite(o.lr)))
    faults += str("\n  lr must be at least 0 and finite, got ", o.lr);
  if (o.steps_per_epoch < 0)
    faults += str("\n  steps_per_epoch must be at least 0, got ", o.steps_per_epoch);
  const i64 most = o.steps_per_epoch > 0 ? std::numeric_limits<i64>::max() / o.steps_per_epoch
                                         : std::numeric_limits<i64>::max();
  for (size_t i = 0; i < at.size(); ++i)
    if (at[i] < 0 || at[i] > most)
      faults += str("\n  number ", i, " is ", at[i],
                    at[i] < 0 ? ": they count from 0" : ", whose steps 64 bits cannot count");
  return faults;
}

}  // namespace

LrTable lr_at(const Schedule& schedule, std::vector<i64> at, const LrAtOptions& o) {
  if (const std::string faults = faults_of(at, o); !faults.empty())
    throw UsageError("[lr_at] no such table:" + faults);
  const i64 each = std::max<i64>(o.steps_per_epoch, 1);
  LrTable table{.unit = o.steps_per_epoch > 0 ? "epoch" : "step", .at = std::move(at), .lr = {}};
  for (const i64 k : table.at) table.lr.push_back(o.lr * schedule.at(k * each));
  return table;
}

std::vector<i64> steps(i64 begin, i64 end, i64 every) {
  if (every < 1) throw UsageError(str("[steps] every must be at least 1, got ", every));
  std::vector<i64> all;
  for (i64 k = begin; k < end; k += every) {
    all.push_back(k);
    if (k > std::numeric_limits<i64>::max() - every) break;
  }
  return all;
}

std::string LrTable::text() const {
  std::vector<std::string> numbers{unit};
  for (const i64 k : at) numbers.push_back(str(k));
  size_t width = 0;
  for (const std::string& n : numbers) width = std::max(width, n.size());
  std::string out;
  for (size_t i = 0; i < numbers.size(); ++i)
    out += str(std::string(width - numbers[i].size(), ' '), numbers[i], "  ",
               i == 0 ? "lr" : str(lr[i - 1]), "\n");
  return out;
}

std::ostream& operator<<(std::ostream& out, const LrTable& table) { return out << table.text(); }

}  // namespace wt::optim
