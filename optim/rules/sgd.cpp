#include "warptape/kernels/optim_rule.h"
#include "warptape/kernels/optim_step.h"
#include "warptape/kernels/run.h"
#include "warptape/optim/kind.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/rules/rule_args.h"

namespace wt::optim {

using detail::Run;

namespace {

[[noreturn]] void refuse_mixed_momentum() {
  throw UsageError(
      "[Sgd] momentum cannot be turned on or off, nor be on in some groups only: its buffers are "
      "made with the optimizer");
}

OptimBlock checked(const SgdOptions& o) {
  if (o.nesterov && (o.momentum == 0 || o.dampening != 0))
    throw UsageError("[Sgd] nesterov needs momentum and no dampening");
  for (const ParamGroup& g : o.groups) {
    if (g.momentum && (*g.momentum == 0) != (o.momentum == 0)) refuse_mixed_momentum();
    if (o.nesterov && g.dampening && *g.dampening != 0)
      throw UsageError("[Sgd] nesterov needs no dampening in every group");
  }
  return {
      .lr = o.lr, .momentum = o.momentum, .dampening = o.dampening, .weight_decay = o.weight_decay};
}

}  // namespace

Sgd::Sgd(std::vector<detail::Entry> entries, const SgdOptions& o)
    : Optimizer(std::move(entries),
                {.name = "Sgd",
                 .slots = o.momentum == 0 ? std::vector<const char*>{}
                                          : std::vector<const char*>{"momentum"},
                 .scalars = {{"lr", &OptimBlock::lr},
                             {"lr_factor", &OptimBlock::lr_factor},
                             {"momentum", &OptimBlock::momentum},
                             {"dampening", &OptimBlock::dampening},
                             {"weight_decay", &OptimBlock::weight_decay}}},
                checked(o), o.groups),
      nesterov_(o.nesterov) {}
Sgd::Sgd(const nn::ModuleBase& m, const SgdOptions& o, const CallLine&) : Sgd(entries_of(m), o) {}
Sgd::Sgd(std::span<const nn::NamedTensor> p, const SgdOptions& o, const CallLine&)
    : Sgd(entries_of(p), o) {}

void Sgd::set_momentum(double v, i64 group) {
  if ((momentum(group) == 0) != (v == 0)) refuse_mixed_momentum();
  set(&OptimBlock::momentum, v, group);
}

void Sgd::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  auto args = detail::rule_args<SgdStepArgs>(r, block(r), grad_factor, flags);
  if (r.arena->state[0]) args.state[0] = detail::state_at(r, 0);
  args.nesterov = nesterov_;
  run(args, launch());
}

double Sgd::momentum(i64 group) const { return hyper(group).momentum; }

}  // namespace wt::optim
