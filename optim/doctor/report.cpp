#include <cmath>

#include "warptape/core/files/json.h"
#include "warptape/optim/doctor/rule.h"

namespace wt::doctor {

const char* severity_name(Severity s) {
  return s == Severity::wrong ? "wrong" : s == Severity::waste ? "waste" : "hint";
}

const Finding* Report::find(std::string_view rule) const {
  for (const Finding& f : findings)
    if (f.rule == rule) return &f;
  return nullptr;
}

std::string Report::text() const {
  std::string out;
  int number = 0;
  for (const Finding& f : findings) {
    out += str(++number, ". ", severity_name(f.severity), " [", f.rule, "] ", f.title, "\n   ",
               f.evidence, "\n");
    if (f.cost_us >= 0) {
      out += str("   cost: ", time_text(f.cost_us), " a step");
      if (step_us > 0) out += str(", ", percent(f.cost_us / step_us));
      out += "\n";
    }
    if (!f.gain.empty()) out += str("   gain: ", f.gain, "\n");
    out += str("   fix:  ", f.fix, "\n");
  }
  if (!rate_curve.empty()) {
    out += "loss by learning rate:";
    for (const auto& [rate, loss] : rate_curve) out += str("  ", figure(rate), " ", figure(loss));
    out += "\n";
  }
  return out + str(findings.size(), findings.size() == 1 ? " finding" : " findings", " in ", steps,
                   " steps of ", time_text(step_us), "\n");
}

std::string Report::json() const {
  std::string list, curve;
  for (const Finding& f : findings) {
    JsonObject j;
    j.add("rule", f.rule).add("severity", severity_name(f.severity)).add("title", f.title);
    j.add("evidence", f.evidence);
    if (f.cost_us >= 0)
      j.add("cost_us", f.cost_us);
    else
      j.add_null("cost_us");
    j.add("gain", f.gain).add("fix", f.fix);
    list += (list.empty() ? "" : ",") + j.str();
  }
  for (const auto& [rate, loss] : rate_curve)
    curve += str(curve.empty() ? "[" : ",[", json_number(rate), ",", json_number(loss), "]");
  return JsonObject()
      .add("steps", steps)
      .add("step_us", step_us)
      .add_raw("findings", "[" + list + "]")
      .add_raw("rate_curve", "[" + curve + "]")
      .str();
}

}  // namespace wt::doctor
