#include "warptape/tools/wt/training/step_times.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "warptape/core/str.h"
#include "warptape/tools/wt/number_text.h"

namespace wt::tools {
namespace {

constexpr i64 kFirstSteps = 3;
constexpr double kMuchWaiting = 0.2;
constexpr double kLeast = 1e-6, kMost = 86400, kBin = 1.01;

size_t class_of(double seconds) {
  return size_t(std::log(std::clamp(seconds, kLeast, kMost) / kLeast) / std::log(kBin));
}
double middle_of(size_t k) { return kLeast * std::pow(kBin, double(k) + 0.5); }

std::string time_text(double seconds) {
  return seconds < 1 ? three_digits(1e3 * seconds) + " ms" : three_digits(seconds) + " s";
}

std::string slow_text(const SlowStep& s) {
  return str(time_text(s.time.total), " (step ", s.time.step, ": ", cause_text(s.cause), ")");
}

}  // namespace

const char* cause_text(StepCause c) {
  switch (c) {
    case StepCause::first_steps:
      return "one of the first steps";
    case StepCause::data_wait:
      return "waiting for data";
    case StepCause::evaluation:
      return "an evaluation";
    case StepCause::checkpoint:
      return "a checkpoint";
    case StepCause::recording:
      return "exponents or an explanation";
    case StepCause::skipped:
      return "a skipped step";
    case StepCause::unknown:
      break;
  }
  return "cause unknown";
}

StepCause cause_of(const StepTime& t, double median, i64 turn) {
  const std::pair<double, StepCause> parts[] = {{t.data, StepCause::data_wait},
                                                {t.evaluation, StepCause::evaluation},
                                                {t.checkpoint, StepCause::checkpoint},
                                                {t.recording, StepCause::recording}};
  const auto& [most, cause] =
      *std::max_element(std::begin(parts), std::end(parts),
                        [](const auto& a, const auto& b) { return a.first < b.first; });
  const double beyond = t.total - median;
  if (beyond > 0 && most >= beyond / 2) return cause;
  if (turn <= kFirstSteps) return StepCause::first_steps;
  return t.skipped ? StepCause::skipped : StepCause::unknown;
}

void StepTimes::add(const StepTime& t) {
  const size_t k = class_of(t.total);
  if (k >= classes_.size()) classes_.resize(k + 1);
  ++classes_[k];
  ++count_;
  least_ = count_ == 1 ? t.total : std::min(least_, t.total);
  if (count_ == 1 || t.total > worst_.total) worst_ = t, worst_turn_ = count_;
  if (count_ > kFirstSteps && (later_turn_ == 0 || t.total > later_.total))
    later_ = t, later_turn_ = count_;
  longest_ = std::max(longest_.value_or(0), t.total);
  if (count_ <= kFirstSteps) return;
  data_ += t.data;
  others_ += t.others;
  stepping_ += std::max(t.data, t.total - t.evaluation - t.checkpoint - t.recording);
}

double StepTimes::quantile(double q) const {
  const auto wanted = std::max<i64>(1, i64(std::ceil(q * double(count_))));
  i64 so_far = 0;
  for (size_t k = 0; k < classes_.size(); ++k)
    if ((so_far += classes_[k]) >= wanted) return std::clamp(middle_of(k), least_, worst_.total);
  return 0;
}

std::optional<double> StepTimes::data_share() const {
  if (stepping_ <= 0) return {};
  return data_ / stepping_;
}

StepTimes::Shares StepTimes::per_step() const {
  const double steps = double(std::max<i64>(1, count_ - kFirstSteps));
  return {std::max(0.0, stepping_ - others_) / steps, others_ / steps};
}

std::string data_wait_text(double share, int workers, int cores, bool may_stay) {
  std::string text = str("waiting for data: ", std::lround(100 * share), " % of the steps' time");
  if (share <= kMuchWaiting) return text;
  if (may_stay) return text + "; try --resident on, which keeps the data on the device";
  if (workers < cores) return text + str("; try --workers ", cores, " (there are ", workers, ")");
  return text + "; the machine has no more cores: make the samples cheaper, or read them packed";
}

std::optional<double> StepTimes::take_longest() { return std::exchange(longest_, {}); }

std::optional<SlowStep> StepTimes::slow(const StepTime& t, i64 turn) const {
  if (turn == 0) return {};
  return SlowStep{t, cause_of(t, quantile(0.5), turn)};
}

std::string StepTimes::text() const {
  const std::optional<SlowStep> slowest = worst(), later = worst_later();
  if (!slowest) return "no step";
  std::string text = str("p50 ", time_text(quantile(0.5)), ", p99 ", time_text(quantile(0.99)),
                         ", slowest ", slow_text(*slowest));
  if (later && later->time.step != slowest->time.step) text += ", then " + slow_text(*later);
  return text;
}

}  // namespace wt::tools
