// Parameters and rates.
#include <algorithm>
#include <cmath>

#include "warptape/optim/doctor/rule.h"

namespace wt::doctor {
namespace {

template <class F>
std::vector<std::string> names_where(const Evidence& e, const F& f) {
  std::vector<std::string> names;
  for (const ParameterSeen& p : e.parameters)
    if (f(p)) names.push_back(p.name);
  return names;
}

Found parameters_unreached(const Evidence& e) {
  if (e.walks == 0) return {};
  const auto names = names_where(
      e, [](const ParameterSeen& p) { return p.optimizers > 0 && p.wants_gradient && !p.reached; });
  if (names.empty()) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "parameters without a gradient",
                 .evidence = str("no backward reached ", names.size(), " of ", e.parameters.size(),
                                 ": ", some_of(names)),
                 .fix = str("use the layer in forward, or net.requires_grad_(\"", names.front(),
                            "\", false)")};
}

Found parameters_forgotten(const Evidence& e) {
  const auto names = names_where(
      e, [](const ParameterSeen& p) { return p.of_net && p.wants_gradient && p.optimizers == 0; });
  const bool any = std::any_of(e.parameters.begin(), e.parameters.end(),
                               [](const ParameterSeen& p) { return p.optimizers > 0; });
  if (names.empty() || !any) return {};
  return Finding{
      .severity = Severity::wrong,
      .title = "parameters that no optimizer has",
      .evidence = str(names.size(), " want gradients and are never updated: ", some_of(names)),
      .fix = "optim::AdamW opt{net};  // of the whole model, once it is complete"};
}

Found parameters_shared(const Evidence& e) {
  const auto names = names_where(e, [](const ParameterSeen& p) { return p.optimizers > 1; });
  if (names.empty()) return {};
  return Finding{
      .severity = Severity::wrong,
      .title = "parameters in two optimizers",
      .evidence = str("the last one that was made took over ", names.size(), ": ", some_of(names)),
      .fix = "one optimizer with ParamGroups: {.groups = {{.names = {...}, .lr = ...}}}"};
}

Found rate_zero(const Evidence& e) {
  if (e.steps.size() < 2) return {};
  for (const StepSeen& s : e.steps)
    if (!(s.rate == 0)) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "the learning rate is 0",
                 .evidence = str("in all of ", e.steps.size(), " steps"),
                 .fix = "set_lr(), or the schedule: warmup() begins above 0"};
}

Found schedule_ignored(const Evidence& e) {
  if (e.schedule.size() != e.steps.size() || e.steps.size() < 3) return {};
  const auto [low, high] = std::minmax_element(e.schedule.begin(), e.schedule.end());
  if (!(*high - *low > 1e-3 * std::abs(*high))) return {};
  for (const StepSeen& s : e.steps)
    if (!(s.rate == e.steps.front().rate)) return {};
  return Finding{
      .severity = Severity::wrong,
      .title = "the schedule never reaches the optimizer",
      .evidence = str("the rate stays ", figure(e.steps.front().rate), ", the schedule goes from ",
                      figure(e.schedule.front()), " to ", figure(e.schedule.back()),
                      " times the rate meanwhile"),
      .fix = "opt.set_schedule(schedule);  // or TrainStepOptions{.schedule = schedule}"};
}

// The part of the plan from which on the factor does not change.
double still_from(const std::vector<double>& plan) {
  size_t n = plan.size();
  while (n > 1 && plan[n - 2] == plan.back()) --n;
  return double(n - 1) / double(plan.size());
}

Found schedule_in_epochs(const Evidence& e) {
  if (e.plan.size() < 32 || e.planned_steps < 200) return {};
  const double from = still_from(e.plan);
  // One that is 1 again, or still, is a warm-up or constant.
  if (from > 0.1 || e.plan.back() >= 0.5 * e.plan.front() || e.plan.back() >= 0.5) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "the schedule ends long before the training",
                 .evidence = str("its factor stays ", figure(e.plan.back()), " behind ",
                                 percent(from + 1 / double(e.plan.size())), " of ", e.planned_steps,
                                 " steps: schedules count steps, not epochs"),
                 .fix = str("optim::cosine(", e.planned_steps, ")")};
}

constexpr Rule kOptimizerRules[] = {
    {{"parameters-unreached", "optimizer", "parameters that no backward gives a gradient"},
     parameters_unreached},
    {{"parameters-forgotten", "optimizer", "parameters of the model that no optimizer has"},
     parameters_forgotten},
    {{"parameters-shared", "optimizer", "parameters that two optimizers list"}, parameters_shared},
    {{"rate-zero", "optimizer", "a rate of 0 in every step"}, rate_zero},
    {{"schedule-ignored", "optimizer", "a schedule that moves while the rate does not"},
     schedule_ignored},
    {{"schedule-in-epochs", "optimizer",
      "a schedule that has come to its low end within a tenth of the planned steps"},
     schedule_in_epochs}};

}  // namespace

std::span<const Rule> optimizer_rules() { return kOptimizerRules; }

}  // namespace wt::doctor
