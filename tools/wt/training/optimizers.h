// Optimizers by name, as the command line takes them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "warptape/optim/optimizer.h"

namespace wt::tools {

struct OptimizerInfo {
  const char* name;
  // A recipe's rate is AdamW's; this makes it the optimizer's own. Rough: Lion's paper takes a
  // third to a tenth, the others are where PyTorch's users start.
  double lr_factor;
  bool momentum;  // whether it has one to set
};
const std::vector<OptimizerInfo>& optimizers();
std::vector<std::string> optimizer_names();
// Throws UsageError with the near name.
const OptimizerInfo& find_optimizer(const std::string& name);

struct OptimizerChoice {
  std::string name = "adamw";
  double lr = 1e-3;
  double weight_decay = 0;
  double momentum = 0.9;  // where there is one
};
std::unique_ptr<optim::Optimizer> make_optimizer(const nn::ModuleBase& m, const OptimizerChoice& c);

}  // namespace wt::tools
