#include "warptape/optim/plateau.h"

#include <algorithm>
#include <limits>

#include "warptape/core/at_line.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/optim/arena.h"

namespace wt::optim {

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& opt, const ReduceLROnPlateauOptions& o,
                                     const CallLine&)
    : opt_(opt),
      o_(o),
      best_(o.mode == PlateauMode::min ? std::numeric_limits<double>::infinity()
                                       : -std::numeric_limits<double>::infinity()) {
  if (!(o.factor > 0 && o.factor < 1))
    throw UsageError(
        str("[ReduceLROnPlateau] factor must be in (0, 1), got ", o.factor, at_line()));
  const auto at_least_0 = [](const char* name, auto v) {
    if (!(v >= 0))
      throw UsageError(
          str("[ReduceLROnPlateau] ", name, " must be at least 0, got ", v, at_line()));
  };
  at_least_0("patience", o.patience);
  at_least_0("threshold", o.threshold);
  at_least_0("cooldown", o.cooldown);
  at_least_0("min_lr", o.min_lr);
  at_least_0("eps", o.eps);
}

bool ReduceLROnPlateau::is_better(double metric) const {
  const bool rel = o_.threshold_mode == ThresholdMode::rel;
  if (o_.mode == PlateauMode::min)
    return metric < (rel ? best_ * (1 - o_.threshold) : best_ - o_.threshold);
  return metric > (rel ? best_ * (1 + o_.threshold) : best_ + o_.threshold);
}

void ReduceLROnPlateau::step(double metric) {
  if (is_better(metric)) {
    best_ = metric;
    bad_ = 0;
  } else {
    ++bad_;
  }
  if (cooldown_ > 0) {
    --cooldown_;
    bad_ = 0;
  }
  if (bad_ <= o_.patience) return;
  reduce();
  cooldown_ = o_.cooldown;
  bad_ = 0;
}

void ReduceLROnPlateau::reduce() {
  for (i64 g = 0; g < opt_.group_count(); ++g) {
    const double lr = opt_.lr(g), now = lr * opt_.lr_factor(g);
    const double next = std::max(now * o_.factor, o_.min_lr);
    if (now - next > o_.eps) opt_.set_lr_factor(next / lr, g);
  }
}

std::vector<nn::NamedTensor> ReduceLROnPlateau::state() const {
  return {{"sched.best", tensor(best_, {.dtype = f64})},
          {"sched.bad_epochs", tensor(bad_, {.dtype = DType::i64})},
          {"sched.cooldown", tensor(cooldown_, {.dtype = DType::i64})}};
}

void ReduceLROnPlateau::load_state(const std::vector<nn::NamedTensor>& values, Frame at) {
  const FrameScope frame(at);
  const auto best = std::find_if(values.begin(), values.end(),
                                 [](const auto& t) { return t.name == "sched.best"; });
  if (best == values.end() || best->tensor.numel() != 1)
    throw UsageError(str("[ReduceLROnPlateau] the state has no number sched.best", at_line()));
  const double found = best->tensor.item();
  const i64 bad = detail::count_of(values, "sched.bad_epochs");
  const i64 cooldown = detail::count_of(values, "sched.cooldown");
  best_ = found;
  bad_ = bad;
  cooldown_ = cooldown;
}

}  // namespace wt::optim
