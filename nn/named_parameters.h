// Lists of parameters for one optimizer over several modules, or over tensors without a module.
//
//   optim::AdamW opt{nn::named_parameters({{"encoder", encoder}, {"decoder", decoder}})};
//   optim::Sgd sgd{nn::named_parameters({w, b}), {.lr = 0.1}};
#pragma once
#include <initializer_list>
#include <span>
#include <vector>

#include "warptape/nn/module.h"

namespace wt::nn {

// Lists the parameters of each module in turn that want a gradient, behind the module's name:
// "encoder.fc1.weight". A parameter that two of them share appears once, under its first name.
// Throws UsageError for a name given twice.
WT_API std::vector<NamedTensor> named_parameters(std::initializer_list<NamedModule> modules,
                                                 Frame at = Frame::here());
// Lists tensors under their places as names: "0", "1", ...
WT_API std::vector<NamedTensor> named_parameters(std::span<const Tensor> tensors);
WT_API std::vector<NamedTensor> named_parameters(std::initializer_list<Tensor> tensors);

}  // namespace wt::nn
