// Adam, Adagrad, RMSprop and Lion.
#include "warptape/kernels/optim_rule.h"
#include "warptape/kernels/run.h"
#include "warptape/optim/arena.h"
#include "warptape/optim/optimizer.h"

namespace wt::optim {

using detail::Arena;
using detail::Run;

namespace {

// The arguments that all rules share; states in the order of the optimizer's slots.
template <class Args>
Args rule_args(const Run& r, const OptimBlock* block, const double* grad_factor,
               const StepFlags& flags, int states) {
  const Arena& a = *r.arena;
  Args args;
  args.param = a.at(a.param, r.begin);
  args.grad = a.at(a.grad, r.begin);
  for (int k = 0; k < states; ++k) args.state[k] = a.at(a.state[k], r.begin);
  args.n = r.count;
  args.dtype = a.dtype;
  args.block = block;
  args.grad_factor = grad_factor;
  args.flags = flags;
  return args;
}

}  // namespace

// --- Adam ----------------------------------------------------------------------------------------

Adam::Adam(std::vector<detail::Entry> entries, const AdamOptions& o)
    : Optimizer(std::move(entries),
                {.name = "Adam",
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
Adam::Adam(const nn::ModuleBase& m, const AdamOptions& o) : Adam(entries_of(m), o) {}
Adam::Adam(std::span<const nn::NamedTensor> p, const AdamOptions& o) : Adam(entries_of(p), o) {}

void Adam::set_weight_decay(double v, i64 group) { set(&OptimBlock::weight_decay, v, group); }
void Adam::set_betas(Betas v, i64 group) {
  OptimBlock b = hyper(group);
  b.beta1 = v.first;
  b.beta2 = v.second;
  set_hyper(b, group);
}
void Adam::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  run(rule_args<AdamStepArgs>(r, block(r), grad_factor, flags, 2), launch());
}

// --- Adagrad -------------------------------------------------------------------------------------

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
    throw UsageError(str("[Adagrad] initial_accumulator_value must be at least 0, got ", start));
  if (start > 0) fill_state(0, start);
}
Adagrad::Adagrad(const nn::ModuleBase& m, const AdagradOptions& o) : Adagrad(entries_of(m), o) {}
Adagrad::Adagrad(std::span<const nn::NamedTensor> p, const AdagradOptions& o)
    : Adagrad(entries_of(p), o) {}

void Adagrad::set_weight_decay(double v, i64 group) { set(&OptimBlock::weight_decay, v, group); }
void Adagrad::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  run(rule_args<AdagradStepArgs>(r, block(r), grad_factor, flags, 1), launch());
}

// --- RMSprop -------------------------------------------------------------------------------------

namespace {

std::vector<const char*> slots_of(const RmsPropOptions& o) {
  std::vector<const char*> slots{"square_avg"};
  if (o.momentum != 0) slots.push_back("momentum_buffer");
  if (o.centered) slots.push_back("grad_avg");
  return slots;
}
[[noreturn]] void refuse_momentum() {
  throw UsageError(
      "[RmsProp] momentum cannot be on in some groups only: its buffers are made with the "
      "optimizer");
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
RmsProp::RmsProp(const nn::ModuleBase& m, const RmsPropOptions& o) : RmsProp(entries_of(m), o) {}
RmsProp::RmsProp(std::span<const nn::NamedTensor> p, const RmsPropOptions& o)
    : RmsProp(entries_of(p), o) {}

void RmsProp::set_weight_decay(double v, i64 group) { set(&OptimBlock::weight_decay, v, group); }
void RmsProp::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  const Arena& a = *r.arena;
  auto args = rule_args<RmspropStepArgs>(r, block(r), grad_factor, flags, 1);
  int next = 1;
  if (has_momentum_) args.state[1] = a.at(a.state[next++], r.begin);
  if (centered_) args.state[2] = a.at(a.state[next], r.begin);
  run(args, launch());
}

// --- Lion ----------------------------------------------------------------------------------------

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
Lion::Lion(const nn::ModuleBase& m, const LionOptions& o) : Lion(entries_of(m), o) {}
Lion::Lion(std::span<const nn::NamedTensor> p, const LionOptions& o) : Lion(entries_of(p), o) {}

void Lion::set_weight_decay(double v, i64 group) { set(&OptimBlock::weight_decay, v, group); }
void Lion::set_betas(Betas v, i64 group) {
  OptimBlock b = hyper(group);
  b.beta1 = v.first;
  b.beta2 = v.second;
  set_hyper(b, group);
}
void Lion::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  run(rule_args<LionStepArgs>(r, block(r), grad_factor, flags, 1), launch());
}

}  // namespace wt::optim
