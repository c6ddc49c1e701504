#include "warptape/optim/schedule.h"

#include <cmath>
#include <numbers>

#include "warptape/core/error.h"

namespace wt::optim {
namespace {

void check_steps(const char* schedule, i64 steps) {
  if (steps < 1) throw UsageError(str("[", schedule, "] needs at least 1 step, got ", steps));
}

}  // namespace

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
    const double turn = std::numbers::pi * double(k) / double(steps);
    return floor + (1 - floor) * (1 + std::cos(turn)) / 2;
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

}  // namespace wt::optim
