#include <algorithm>
#include <cstdio>

#include "warptape/optim/doctor/rule.h"

namespace wt::doctor {

const std::vector<Rule>& all_rules() {
  static const std::vector<Rule> all = [] {
    std::vector<Rule> list;
    for (const std::span<const Rule> part :
         {failure_rules(), data_rules(), input_rules(), loop_rules(), optimizer_rules(),
          model_rules(), loss_rules(), precision_rules(), device_rules(), machine_rules()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

const std::vector<RuleInfo>& rules() {
  static const std::vector<RuleInfo> all = [] {
    std::vector<RuleInfo> list;
    for (const Rule& r : all_rules()) list.push_back(r.info);
    return list;
  }();
  return all;
}

std::vector<Finding> findings_of(const Evidence& e) {
  std::vector<Finding> found;
  for (const Rule& r : all_rules()) {
    Found f = r.look(e);
    if (!f) continue;
    f->rule = r.info.id;
    found.push_back(std::move(*f));
  }
  // A step that failed explains the others; it stays in front.
  const auto first = found.begin() + (!found.empty() && !e.failure.empty());
  std::stable_sort(first, found.end(), [](const Finding& a, const Finding& b) {
    return a.severity != b.severity ? a.severity < b.severity : a.cost_us > b.cost_us;
  });
  return found;
}

std::string percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, share < 0.0995 ? "%.1f %%" : "%.0f %%", 100 * share);
  return text;
}

std::string figure(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", v);
  return text;
}

std::string time_text(double us) {
  return us < 1e3   ? figure(us) + " us"
         : us < 1e6 ? figure(us / 1e3) + " ms"
                    : figure(us / 1e6) + " s";
}

double step_us(const Evidence& e) {
  std::vector<double> all;
  for (const StepSeen& s : e.steps) all.push_back(s.us);
  if (all.empty()) return 0;
  std::nth_element(all.begin(), all.begin() + i64(all.size() / 2), all.end());
  return all[all.size() / 2];
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > kShown) text += str(" and ", names.size() - kShown, " more");
  return text;
}

}  // namespace wt::doctor
