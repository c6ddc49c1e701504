#include "warptape/tools/optimizers.h"

#include "warptape/core/suggest.h"

namespace wt::tools {

const std::vector<OptimizerInfo>& optimizers() {
  static const std::vector<OptimizerInfo> kAll = {
      {"sgd", 30, true},    {"adam", 1, false},   {"adamw", 1, false}, {"adagrad", 10, false},
      {"rmsprop", 1, true}, {"lion", 0.2, false}, {"nadam", 1, false}, {"radam", 1, false}};
  return kAll;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerInfo& o : optimizers()) names.push_back(o.name);
  return names;
}

const OptimizerInfo& find_optimizer(const std::string& name) {
  for (const OptimizerInfo& o : optimizers())
    if (name == o.name) return o;
  throw UsageError(
      str("there is no optimizer '", printable(name), "'", did_you_mean(name, optimizer_names())));
}

std::unique_ptr<optim::Optimizer> make_optimizer(const nn::ModuleBase& m,
                                                 const OptimizerChoice& c) {
  find_optimizer(c.name);  // throws for an unknown one, so that the last one below is known
  const double lr = c.lr, decay = c.weight_decay;
  if (c.name == "sgd")
    return std::make_unique<optim::Sgd>(
        m, optim::SgdOptions{.lr = lr, .momentum = c.momentum, .weight_decay = decay});
  if (c.name == "adam")
    return std::make_unique<optim::Adam>(m, optim::AdamOptions{.lr = lr, .weight_decay = decay});
  if (c.name == "adamw")
    return std::make_unique<optim::AdamW>(m, optim::AdamWOptions{.lr = lr, .weight_decay = decay});
  if (c.name == "adagrad")
    return std::make_unique<optim::Adagrad>(m,
                                            optim::AdagradOptions{.lr = lr, .weight_decay = decay});
  if (c.name == "rmsprop")
    return std::make_unique<optim::RmsProp>(
        m, optim::RmsPropOptions{.lr = lr, .weight_decay = decay, .momentum = c.momentum});
  if (c.name == "lion")
    return std::make_unique<optim::Lion>(m, optim::LionOptions{.lr = lr, .weight_decay = decay});
  if (c.name == "nadam")
    return std::make_unique<optim::NAdam>(m, optim::NAdamOptions{.lr = lr, .weight_decay = decay});
  return std::make_unique<optim::RAdam>(m, optim::RAdamOptions{.lr = lr, .weight_decay = decay});
}

}  // namespace wt::tools
