#include "warptape/nn/containers.h"

#include "warptape/core/suggest.h"
#include "warptape/nn/module_state.h"

namespace wt::nn {

SequentialStep::SequentialStep(const ModuleBase* module) {
  if (module)
    ModuleBase::operator=(ModuleBase(*module));
  else
    set_type("Function");
}

Tensor SequentialStep::operator()(const In& x) const {
  const FrameScope at(x.frame());
  return (*call_)(detail::argument(x));
}

size_t Sequential::size() const { return steps_->size(); }

void Sequential::add_step(const ModuleBase* child, SequentialStep::Call call) {
  SequentialStep step(child);
  step.call_ = detail::Shared<SequentialStep::Call>(std::move(call));
  steps_->push_back(std::move(step));
}

Tensor Sequential::forward(Tensor x) {
  for (const SequentialStep& step : *steps_) x = (*step.call_)(std::move(x));
  return x;
}

SequentialStep Sequential::operator[](Position i) const {
  const i64 n = i64(size()), at = i.value < 0 ? i.value + n : i.value;
  if (at < 0 || at >= n)
    throw IndexError(str("[Sequential] index ", i.value, " is outside [", -n, ", ", n, ")\n  at ",
                         describe(i.at)));
  return (*steps_)[size_t(at)];
}

namespace detail {

void no_such_module(const ModuleBase& dict, std::string_view name) {
  std::vector<std::string> names;
  for (const auto& c : dict.state()->children) names.push_back(c.first);
  throw UsageError(
      str("[ModuleDict] there is no module '", printable(name), "'", did_you_mean(name, names)));
}

}  // namespace detail
}  // namespace wt::nn
