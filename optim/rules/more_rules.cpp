#include "warptape/optim/more_rules.h"

#include "warptape/core/at_line.h"
#include "warptape/kernels/optim_rule.h"
#include "warptape/kernels/optim_step.h"
#include "warptape/kernels/run.h"
#include "warptape/optim/kind.h"
#include "warptape/optim/rules/rule_args.h"

namespace wt::optim {

using detail::rule_args;
using detail::Run;
using detail::state_at;

// --- Adamax ---

Adamax::Adamax(std::vector<detail::Entry> entries, const AdamaxOptions& o)
    : Optimizer(std::move(entries),
                {.name = "Adamax",
                 .slots = {"exp_avg", "exp_inf"},
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
Adamax::Adamax(const nn::ModuleBase& m, const AdamaxOptions& o, const CallLine&)
    : Adamax(entries_of(m), o) {}
Adamax::Adamax(std::span<const nn::NamedTensor> p, const AdamaxOptions& o, const CallLine&)
    : Adamax(entries_of(p), o) {}

void Adamax::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  auto args = rule_args<AdamaxStepArgs>(r, block(r), grad_factor, flags);
  args.state[0] = state_at(r, 0);
  args.state[1] = state_at(r, 1);
  run(args, launch());
}

// --- Adadelta ---

Adadelta::Adadelta(std::vector<detail::Entry> entries, const AdadeltaOptions& o)
    : Optimizer(std::move(entries),
                {.name = "Adadelta",
                 .slots = {"square_avg", "acc_delta"},
                 .scalars = {{"lr", &OptimBlock::lr},
                             {"lr_factor", &OptimBlock::lr_factor},
                             {"alpha", &OptimBlock::alpha},
                             {"eps", &OptimBlock::eps},
                             {"weight_decay", &OptimBlock::weight_decay}}},
                {.lr = o.lr, .weight_decay = o.weight_decay, .eps = o.eps, .alpha = o.rho},
                o.groups) {
  if (!(o.rho >= 0 && o.rho < 1))
    throw UsageError(str("[Adadelta] rho must be in [0, 1), got ", o.rho, at_line()));
}
Adadelta::Adadelta(const nn::ModuleBase& m, const AdadeltaOptions& o, const CallLine&)
    : Adadelta(entries_of(m), o) {}
Adadelta::Adadelta(std::span<const nn::NamedTensor> p, const AdadeltaOptions& o, const CallLine&)
    : Adadelta(entries_of(p), o) {}

void Adadelta::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  auto args = rule_args<AdadeltaStepArgs>(r, block(r), grad_factor, flags);
  args.state[0] = state_at(r, 0);
  args.state[1] = state_at(r, 1);
  run(args, launch());
}

// --- Rprop ---

static void check_steps(const RpropOptions& o) {
  if (!(o.eta_minus > 0 && o.eta_minus < 1 && o.eta_plus > 1))
    throw UsageError(str("[Rprop] 0 < eta_minus < 1 < eta_plus must hold, got ", o.eta_minus,
                         " and ", o.eta_plus, at_line()));
  if (!(o.least_step >= 0 && o.least_step <= o.largest_step))
    throw UsageError(str("[Rprop] 0 <= least_step <= largest_step must hold, got ", o.least_step,
                         " and ", o.largest_step, at_line()));
}

Rprop::Rprop(std::vector<detail::Entry> entries, const RpropOptions& o)
    : Optimizer(std::move(entries),
                {.name = "Rprop",
                 .slots = {"prev", "step_size"},
                 .scalars = {{"lr", &OptimBlock::lr}, {"lr_factor", &OptimBlock::lr_factor}}},
                {.lr = o.lr}, std::vector<ParamGroup>()),
      options_(o) {
  check_steps(o);
  fill_state(1, o.lr);
}
Rprop::Rprop(const nn::ModuleBase& m, const RpropOptions& o, const CallLine&)
    : Rprop(entries_of(m), o) {}
Rprop::Rprop(std::span<const nn::NamedTensor> p, const RpropOptions& o, const CallLine&)
    : Rprop(entries_of(p), o) {}

void Rprop::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  auto args = rule_args<RpropStepArgs>(r, block(r), grad_factor, flags);
  args.state[0] = state_at(r, 0);
  args.state[1] = state_at(r, 1);
  args.eta_minus = options_.eta_minus;
  args.eta_plus = options_.eta_plus;
  args.least = options_.least_step;
  args.most = options_.largest_step;
  run(args, launch());
}

Betas Adamax::betas(i64 group) const { return {hyper(group).beta1, hyper(group).beta2}; }

}  // namespace wt::optim
