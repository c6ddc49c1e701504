// Adam, AdamW, which differs in where the decay goes, NAdam and RAdam.
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

namespace {

using Scalars = std::vector<std::pair<const char*, double OptimBlock::*>>;

Scalars adam_scalars() {
  return {{"lr", &OptimBlock::lr},       {"lr_factor", &OptimBlock::lr_factor},
          {"beta1", &OptimBlock::beta1}, {"beta2", &OptimBlock::beta2},
          {"eps", &OptimBlock::eps},     {"weight_decay", &OptimBlock::weight_decay}};
}
template <class Options>
OptimBlock adam_block(const Options& o) {
  return {.lr = o.lr,
          .weight_decay = o.weight_decay,
          .beta1 = o.betas.first,
          .beta2 = o.betas.second,
          .eps = o.eps};
}
std::vector<const char*> adam_slots(bool amsgrad) {
  std::vector<const char*> slots{"exp_avg", "exp_avg_sq"};
  if (amsgrad) slots.push_back("max_exp_avg_sq");
  return slots;
}

}  // namespace

// --- Adam and AdamW ---

Adam::Adam(const char* name, std::vector<detail::Entry> entries, const AdamOptions& o)
    : Optimizer(std::move(entries),
                {.name = name, .slots = adam_slots(o.amsgrad), .scalars = adam_scalars()},
                adam_block(o), o.groups),
      amsgrad_(o.amsgrad) {}
Adam::Adam(const nn::ModuleBase& m, const AdamOptions& o, const CallLine&)
    : Adam("Adam", entries_of(m), o) {}
Adam::Adam(std::span<const nn::NamedTensor> p, const AdamOptions& o, const CallLine&)
    : Adam("Adam", entries_of(p), o) {}

template <class Args>
void Adam::update_by(const Run& r, const double* grad_factor, const StepFlags& flags) {
  auto args = rule_args<Args>(r, block(r), grad_factor, flags);
  for (size_t k = 0; k < (amsgrad_ ? 3 : 2); ++k) args.state[k] = state_at(r, k);
  run(args, launch());
}
void Adam::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  update_by<AdamStepArgs>(r, grad_factor, flags);
}

static AdamOptions as_adam(const AdamWOptions& o) {
  return {.lr = o.lr,
          .betas = o.betas,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .groups = o.groups,
          .amsgrad = o.amsgrad};
}
AdamW::AdamW(const nn::ModuleBase& m, const AdamWOptions& o, const CallLine&)
    : Adam("AdamW", entries_of(m), as_adam(o)) {}
AdamW::AdamW(std::span<const nn::NamedTensor> p, const AdamWOptions& o, const CallLine&)
    : Adam("AdamW", entries_of(p), as_adam(o)) {}

void AdamW::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  update_by<AdamwStepArgs>(r, grad_factor, flags);
}

// --- NAdam ---

static Scalars nadam_scalars() {
  Scalars all = adam_scalars();
  all.emplace_back("momentum_decay", &OptimBlock::momentum_decay);
  all.emplace_back("mu_product", &OptimBlock::mu_product);
  return all;
}
static OptimBlock nadam_block(const NAdamOptions& o) {
  OptimBlock b = adam_block(o);
  b.momentum_decay = o.momentum_decay;
  return b;
}

NAdam::NAdam(std::vector<detail::Entry> entries, const NAdamOptions& o)
    : Optimizer(std::move(entries),
                {.name = "NAdam", .slots = adam_slots(false), .scalars = nadam_scalars()},
                nadam_block(o), o.groups),
      decoupled_(o.decoupled_weight_decay) {}
NAdam::NAdam(const nn::ModuleBase& m, const NAdamOptions& o, const CallLine&)
    : NAdam(entries_of(m), o) {}
NAdam::NAdam(std::span<const nn::NamedTensor> p, const NAdamOptions& o, const CallLine&)
    : NAdam(entries_of(p), o) {}

void NAdam::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  auto args = rule_args<NadamStepArgs>(r, block(r), grad_factor, flags);
  args.state[0] = state_at(r, 0);
  args.state[1] = state_at(r, 1);
  args.decoupled = decoupled_;
  run(args, launch());
}

// --- RAdam ---

RAdam::RAdam(std::vector<detail::Entry> entries, const RAdamOptions& o)
    : Optimizer(std::move(entries),
                {.name = "RAdam", .slots = adam_slots(false), .scalars = adam_scalars()},
                adam_block(o), o.groups),
      decoupled_(o.decoupled_weight_decay) {}
RAdam::RAdam(const nn::ModuleBase& m, const RAdamOptions& o, const CallLine&)
    : RAdam(entries_of(m), o) {}
RAdam::RAdam(std::span<const nn::NamedTensor> p, const RAdamOptions& o, const CallLine&)
    : RAdam(entries_of(p), o) {}

void RAdam::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  auto args = rule_args<RadamStepArgs>(r, block(r), grad_factor, flags);
  args.state[0] = state_at(r, 0);
  args.state[1] = state_at(r, 1);
  args.decoupled = decoupled_;
  run(args, launch());
}

Betas Adam::betas(i64 group) const { return {hyper(group).beta1, hyper(group).beta2}; }
Betas NAdam::betas(i64 group) const { return {hyper(group).beta1, hyper(group).beta2}; }
Betas RAdam::betas(i64 group) const { return {hyper(group).beta1, hyper(group).beta2}; }

}  // namespace wt::optim
