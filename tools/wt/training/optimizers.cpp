#include "warptape/tools/wt/training/optimizers.h"

#include "warptape/core/suggest.h"
#include "warptape/nn/name_pattern.h"
#include "warptape/optim/more_rules.h"
#include "warptape/optim/muon.h"

namespace wt::tools {

const std::vector<OptimizerInfo>& optimizers() {
  static const std::vector<OptimizerInfo> kAll = {
      {"sgd", 30, true},    {"adam", 1, false},        {"adamw", 1, false}, {"adagrad", 10, false},
      {"rmsprop", 1, true}, {"lion", 0.2, false},      {"nadam", 1, false}, {"radam", 1, false},
      {"adamax", 2, false}, {"adadelta", 1000, false}, {"muon", 20, true}};
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

// Muon is for hidden layers: embeddings and the layer that gives the output are AdamW's. The latter
// is called head, or it is the last one.
static std::vector<std::string> not_hidden(const nn::ModuleBase& m) {
  std::vector<std::string> names;
  std::string last;
  bool head = false;
  for (const nn::NamedTensor& p : m.named_parameters()) {
    if (p.tensor.ndim() < 2) continue;
    last = p.name;
    const auto fits = [&](const char* pattern) { return nn::fits_pattern(pattern, p.name); };
    const bool is_head = fits("*head.*");
    head |= is_head;
    if (is_head || fits("*token*.*") || fits("*place*.*") || fits("*embedding*.*"))
      names.push_back(p.name);
  }
  if (!head && !last.empty()) names.push_back(last);
  return names;
}

static std::unique_ptr<optim::Optimizer> make_muon(const nn::ModuleBase& m,
                                                   const OptimizerChoice& c) {
  const double rest = c.lr / find_optimizer("muon").lr_factor;  // AdamW's rate, of one schedule
  return std::make_unique<optim::Muon>(
      m, optim::MuonOptions{
             .lr = c.lr,
             .momentum = c.momentum,
             .weight_decay = c.weight_decay,
             .adamw = {.lr = rest, .weight_decay = c.weight_decay, .names = not_hidden(m)}});
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
  if (c.name == "radam")
    return std::make_unique<optim::RAdam>(m, optim::RAdamOptions{.lr = lr, .weight_decay = decay});
  if (c.name == "adamax")
    return std::make_unique<optim::Adamax>(m,
                                           optim::AdamaxOptions{.lr = lr, .weight_decay = decay});
  if (c.name == "adadelta")
    return std::make_unique<optim::Adadelta>(
        m, optim::AdadeltaOptions{.lr = lr, .weight_decay = decay});
  return make_muon(m, c);
}

}  // namespace wt::tools
