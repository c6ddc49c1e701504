// A rule: what it looks for in the evidence, and the words of what it found.
#pragma once
#include <span>
#include <string>

#include "warptape/core/str.h"
#include "warptape/optim/doctor.h"
#include "warptape/optim/doctor/evidence.h"

namespace wt::doctor {

// What a rule says: nothing, or a finding whose Finding::rule is filled in by who asked.
using Found = std::optional<Finding>;

// A rule and how it looks.
struct Rule {
  RuleInfo info;                   // what it is called
  Found (*look)(const Evidence&);  // asks the evidence
};

// One list a subject: failure_rules(), data_rules(), input_rules(), loop_rules(),
// optimizer_rules(), model_rules(), loss_rules(), precision_rules(), device_rules() and
// machine_rules().
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

// All of them in this order.
const std::vector<Rule>& all_rules();
// What all rules say, ranked: a failure first, then by severity, then by cost.
std::vector<Finding> findings_of(const Evidence& e);

// --- what rules share ---

// "34 %" of 0.34; below 10 with one digit more.
std::string percent(double share);
// "1.2 ms" of 1200.
std::string time_text(double us);
// Three digits.
std::string figure(double v);
// Microseconds of a measured step, the median; 0: there are none.
double step_us(const Evidence& e);
// The mean of a figure over the measured steps; 0 without any.
template <class F>
double mean_of(const Evidence& e, const F& f) {
  double sum = 0;
  for (const StepSeen& s : e.steps) sum += double(f(s));
  return e.steps.empty() ? 0 : sum / double(e.steps.size());
}
// "a, b, c, d and 5 more".
std::string some_of(const std::vector<std::string>& names);

}  // namespace wt::doctor
