// A rule: what it looks for in the evidence, and the words of what it found.
#pragma once
#include <span>
#include <string>

#include "warptape/core/str.h"
#include "warptape/optim/doctor.h"
#include "warptape/optim/doctor/evidence.h"

namespace wt::doctor {

using Found = std::optional<Finding>;  // Finding::rule is filled in by who asked

struct Rule {
  RuleInfo info;
  Found (*look)(const Evidence&);
};

// One list a subject.
std::span<const Rule> failure_rules();
std::span<const Rule> data_rules();
std::span<const Rule> input_rules();
std::span<const Rule> loop_rules();
std::span<const Rule> optimizer_rules();
std::span<const Rule> model_rules();
std::span<const Rule> loss_rules();
std::span<const Rule> precision_rules();
std::span<const Rule> device_rules();
std::span<const Rule> machine_rules();

const std::vector<Rule>& all_rules();
// Ranked.
std::vector<Finding> findings_of(const Evidence& e);

// --- what rules share ---
std::string percent(double share);  // "34 %"
std::string time_text(double us);   // "1.2 ms"
std::string figure(double v);       // three digits
double step_us(const Evidence& e);  // the median; 0: no steps
// The mean of a figure over the measured steps; 0 without any.
template <class F>
double mean_of(const Evidence& e, const F& f) {
  double sum = 0;
  for (const StepSeen& s : e.steps) sum += double(f(s));
  return e.steps.empty() ? 0 : sum / double(e.steps.size());
}
// "a, b, c and 5 more"
std::string some_of(const std::vector<std::string>& names);

}  // namespace wt::doctor
