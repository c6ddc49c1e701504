// Adagrad, RMSprop and Lion.
#include "warptape/core/at_line.h"
#include "warptape/kernels/optim_rule.h"
#include "warptape/kernels/optim_step.h"
#include "warptape/kernels/run.h"
#include "warptape/optim/kind.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/rules/rule_args.h"

namespace wt::optim {

using detail::rule_args;
using detail::Run;
using detail::state_at;

// --- Adagrad ---

Adagrad::Adagrad(std::vector<detail::Entry> entries, const AdagradOptions& o)
    : Optimizer(std::move(entries),
                {.name = "Adagrad",
                 .slots = {"sum"},
                 .scalars = {{"lr", &OptimBlock::lr},
                             {"lr_factor", &OptimBlock::lr_factor},
                             {"lr_decay", &OptimBlock::lr_decay},
                             {"eps", &OptimBlock::eps},
                             {"weight_decay", &OptimBlock::weight_decay}}},
                {.lr = o.lr, .weight_decay = o.weight_decay, .eps = o.eps, .lr_decay = o.lr_decay},
                o.groups) {
  const double start = o.initial_accumulator_value;
  if (!(start >= 0))
    throw UsageError(
        str("[Adagrad] initial_accumulator_value must be at least 0, got ", start, at_line()));
  if (start > 0) fill_state(0, start);
}
Adagrad::Adagrad(const nn::ModuleBase& m, const AdagradOptions& o, const CallLine&)
    : Adagrad(entries_of(m), o) {}
Adagrad::Adagrad(std::span<const nn::NamedTensor> p, const AdagradOptions& o, const CallLine&)
    : Adagrad(entries_of(p), o) {}

void Adagrad::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  auto args = rule_args<AdagradStepArgs>(r, block(r), grad_factor, flags);
  args.state[0] = state_at(r, 0);
  run(args, launch());
}

// --- RMSprop ---

namespace {

std::vector<const char*> slots_of(const RmsPropOptions& o) {
  std::vector<const char*> slots{"square_avg"};
  if (o.momentum != 0) slots.push_back("momentum_buffer");
  if (o.centered) slots.push_back("grad_avg");
  return slots;
}
[[noreturn]] void refuse_momentum() {
  throw UsageError(
      str("[RmsProp] momentum cannot be on in some groups only: its buffers are made with the "
          "optimizer",
          at_line()));
}
OptimBlock checked(const RmsPropOptions& o) {
  for (const ParamGroup& g : o.groups)
    if (g.momentum && (*g.momentum == 0) != (o.momentum == 0)) refuse_momentum();
  return {.lr = o.lr,
          .momentum = o.momentum,
          .weight_decay = o.weight_decay,
          .eps = o.eps,
          .alpha = o.alpha};
}

}  // namespace

RmsProp::RmsProp(std::vector<detail::Entry> entries, const RmsPropOptions& o)
    : Optimizer(std::move(entries),
                {.name = "RmsProp",
                 .slots = slots_of(o),
                 .scalars = {{"lr", &OptimBlock::lr},
                             {"lr_factor", &OptimBlock::lr_factor},
                             {"alpha", &OptimBlock::alpha},
                             {"eps", &OptimBlock::eps},
                             {"weight_decay", &OptimBlock::weight_decay},
                             {"momentum", &OptimBlock::momentum}}},
                checked(o), o.groups),
      has_momentum_(o.momentum != 0),
      centered_(o.centered) {}
RmsProp::RmsProp(const nn::ModuleBase& m, const RmsPropOptions& o, const CallLine&)
    : RmsProp(entries_of(m), o) {}
RmsProp::RmsProp(std::span<const nn::NamedTensor> p, const RmsPropOptions& o, const CallLine&)
    : RmsProp(entries_of(p), o) {}

void RmsProp::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  auto args = rule_args<RmspropStepArgs>(r, block(r), grad_factor, flags);
  args.state[0] = state_at(r, 0);
  size_t next = 1;
  if (has_momentum_) args.state[1] = state_at(r, next++);
  if (centered_) args.state[2] = state_at(r, next);
  run(args, launch());
}

// --- Lion ---

Lion::Lion(std::vector<detail::Entry> entries, const LionOptions& o)
    : Optimizer(std::move(entries),
                {.name = "Lion",
                 .slots = {"exp_avg"},
                 .scalars = {{"lr", &OptimBlock::lr},
                             {"lr_factor", &OptimBlock::lr_factor},
                             {"beta1", &OptimBlock::beta1},
                             {"beta2", &OptimBlock::beta2},
                             {"weight_decay", &OptimBlock::weight_decay}}},
                {.lr = o.lr,
                 .weight_decay = o.weight_decay,
                 .beta1 = o.betas.first,
                 .beta2 = o.betas.second},
                o.groups) {}
Lion::Lion(const nn::ModuleBase& m, const LionOptions& o, const CallLine&)
    : Lion(entries_of(m), o) {}
Lion::Lion(std::span<const nn::NamedTensor> p, const LionOptions& o, const CallLine&)
    : Lion(entries_of(p), o) {}

void Lion::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  auto args = rule_args<LionStepArgs>(r, block(r), grad_factor, flags);
  args.state[0] = state_at(r, 0);
  run(args, launch());
}

Betas Lion::betas(i64 group) const { return {hyper(group).beta1, hyper(group).beta2}; }

}  // namespace wt::optim
