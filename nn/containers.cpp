#include "warptape/nn/containers.h"

#include "warptape/core/suggest.h"

namespace wt::nn {

Tensor Sequential::forward(Tensor x) {
  for (auto& step : *steps_) x = step(std::move(x));
  return x;
}

namespace detail {

void no_such_module(const ModuleBase& dict, std::string_view name) {
  std::vector<std::string> names;
  for (const auto& c : dict.state()->children) names.push_back(c.first);
  throw UsageError(str("[ModuleDict] there is no module '", name, "'", did_you_mean(name, names)));
}

}  // namespace detail
}  // namespace wt::nn
