// Adam, and AdamW, which differs in where the decay goes.
#include "warptape/kernels/optim_rule.h"
#include "warptape/kernels/run.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/rule_args.h"

namespace wt::optim {

using detail::rule_args;
using detail::Run;
using detail::state_at;

Adam::Adam(const char* name, std::vector<detail::Entry> entries, const AdamOptions& o)
    : Optimizer(std::move(entries),
                {.name = name,
                 .slots = {"exp_avg", "exp_avg_sq"},
                 .scalars = {{"lr", &OptimBlock::lr},
                             {"lr_factor", &OptimBlock::lr_factor},
                             {"beta1", &OptimBlock::beta1},
                             {"beta2", &OptimBlock::beta2},
                             {"eps", &OptimBlock::eps},
                             {"weight_decay", &OptimBlock::weight_decay}}},
                {.lr = o.lr,
                 .weight_decay = o.weight_decay,
                 .beta1 = o.betas.first,
                 .beta2 = o.betas.second,
                 .eps = o.eps},
                o.groups) {}
Adam::Adam(const nn::ModuleBase& m, const AdamOptions& o, const CallLine&)
    : Adam("Adam", entries_of(m), o) {}
Adam::Adam(std::span<const nn::NamedTensor> p, const AdamOptions& o, const CallLine&)
    : Adam("Adam", entries_of(p), o) {}

void Adam::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  auto args = rule_args<AdamStepArgs>(r, block(r), grad_factor, flags);
  args.state[0] = state_at(r, 0);
  args.state[1] = state_at(r, 1);
  run(args, launch());
}

static AdamOptions as_adam(const AdamWOptions& o) {
  return {.lr = o.lr,
          .betas = o.betas,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .groups = o.groups};
}
AdamW::AdamW(const nn::ModuleBase& m, const AdamWOptions& o, const CallLine&)
    : Adam("AdamW", entries_of(m), as_adam(o)) {}
AdamW::AdamW(std::span<const nn::NamedTensor> p, const AdamWOptions& o, const CallLine&)
    : Adam("AdamW", entries_of(p), as_adam(o)) {}

void AdamW::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  auto args = rule_args<AdamwStepArgs>(r, block(r), grad_factor, flags);
  args.state[0] = state_at(r, 0);
  args.state[1] = state_at(r, 1);
  run(args, launch());
}

}  // namespace wt::optim
