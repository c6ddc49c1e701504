// Whether the loss falls.
#include <algorithm>
#include <cmath>

#include "warptape/optim/doctor/rule.h"

namespace wt::doctor {
namespace {

// The loss of one batch before the steps and behind them, or the first steps' and the last ones'.
struct Progress {
  double before = NAN, after = NAN;
  bool known() const { return std::isfinite(before) && std::isfinite(after); }
  double change() const { return (after - before) / std::max(std::abs(before), 1e-12); }
  std::string text() const { return str(figure(before), " -> ", figure(after)); }
};
Progress progress_of(const Evidence& e) {
  if (std::isfinite(e.first_loss) && std::isfinite(e.first_loss_again))
    return {e.first_loss, e.first_loss_again};
  const size_t third = e.steps.size() / 3;
  if (third < 2) return {};
  double before = 0, after = 0;
  for (size_t i = 0; i < third; ++i)
    before += e.steps[i].loss, after += e.steps[e.steps.size() - 1 - i].loss;
  return {before / double(third), after / double(third)};
}

// The rate is still on its way up.
bool warms_up(const Evidence& e) {
  return !e.steps.empty() && e.steps.back().rate > 1.5 * e.steps.front().rate;
}

// Of the steps' losses, which differ as their batches do.
double spread_of(const Evidence& e) {
  double n = 0, sum = 0, squares = 0;
  for (const StepSeen& s : e.steps)
    if (std::isfinite(s.loss)) ++n, sum += s.loss, squares += s.loss * s.loss;
  return n > 1 ? std::sqrt(std::max(0.0, squares / n - sum / n * (sum / n))) : 0;
}

std::string rate_fix(const Evidence& e) {
  if (!std::isfinite(e.steepest_rate))
    return std::isfinite(e.highest_rate)
               ? str("no rate up to ", figure(e.highest_rate), " makes it fall: a larger one")
               : "another rate";
  return str("set_lr(", figure(e.steepest_rate),
             ");  // at three times this the search for a rate saw ", figure(e.steepest_loss));
}

Found loss_not_finite(const Evidence& e) {
  i64 bad = 0;
  for (const StepSeen& s : e.steps) bad += s.told_loss && !s.skipped && !std::isfinite(s.loss);
  if (bad == 0) return {};
  return Finding{.severity = Severity::wrong,
                 .title = "the loss is not finite",
                 .evidence = str("in ", bad, " of ", e.steps.size(), " steps"),
                 .fix = "const AnomalyMode anomaly;  // names the operator; or step.explain()"};
}

Found loss_rises(const Evidence& e) {
  const Progress p = progress_of(e);
  if (!p.known() || p.change() < 0.1 || p.after - p.before < 1e-2) return {};
  const bool same_batch = std::isfinite(e.first_loss_again);
  if (!same_batch && p.after - p.before < 2 * spread_of(e)) return {};
  return Finding{.severity = same_batch ? Severity::wrong : Severity::hint,
                 .title = "the loss rises",
                 .evidence = str(p.text(), " over ", e.steps.size(), " steps"),
                 .fix = rate_fix(e)};
}

Found loss_flat(const Evidence& e) {
  const Progress p = progress_of(e);
  if (!p.known() || std::abs(p.change()) >= 1e-3 || e.steps.size() < 6) return {};
  if (std::abs(p.before) < 1e-6 || warms_up(e)) return {};  // it has learnt all there is
  return Finding{.severity = Severity::wrong,
                 .title = "the loss does not fall",
                 .evidence = str(p.text(), " over ", e.steps.size(), " steps"),
                 .fix = rate_fix(e)};
}

constexpr Rule kLossRules[] = {
    {{"loss-not-finite", "loss", "a loss that is infinite or NaN"}, loss_not_finite},
    {{"loss-rises", "loss", "a loss of the same batch that is a tenth higher behind the steps"},
     loss_rises},
    {{"loss-flat", "loss", "a loss of the same batch that changes by less than a thousandth"},
     loss_flat}};

}  // namespace

std::span<const Rule> loss_rules() { return kLossRules; }

}  // namespace wt::doctor
