#include "warptape/nn/named_parameters.h"

#include <set>

#include "warptape/core/at_line.h"
#include "warptape/nn/module_state.h"

namespace wt::nn {

std::vector<NamedTensor> named_parameters(std::initializer_list<NamedModule> modules, Frame at) {
  const FrameScope frame(at);
  std::set<std::string> names;
  std::set<const TensorImpl*> seen;
  std::vector<NamedTensor> all;
  for (const NamedModule& m : modules) {
    if (!names.insert(m.name).second)
      throw UsageError(str("[named_parameters] '", m.name, "' names two modules", at_line()));
    for (NamedTensor& p : m.module.named_parameters())
      if (p.tensor.requires_grad() && seen.insert(p.tensor.impl()).second)
        all.push_back({detail::join_names(m.name, p.name), std::move(p.tensor)});
  }
  return all;
}

std::vector<NamedTensor> named_parameters(std::span<const Tensor> tensors) {
  std::vector<NamedTensor> all;
  for (const Tensor& t : tensors) all.push_back({std::to_string(all.size()), t});
  return all;
}
std::vector<NamedTensor> named_parameters(std::initializer_list<Tensor> tensors) {
  return named_parameters(std::span(tensors.begin(), tensors.size()));
}

}  // namespace wt::nn
