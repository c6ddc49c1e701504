#include "warptape/kernels/run.h"
#include "warptape/optim/arena.h"
#include "warptape/optim/optimizer.h"

namespace wt::optim {

using detail::Arena;
using detail::Run;

AdamW::AdamW(std::vector<detail::Entry> entries, const AdamWOptions& o)
    : Optimizer(std::move(entries),
                {.name = "AdamW",
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
AdamW::AdamW(const nn::ModuleBase& m, const AdamWOptions& o) : AdamW(entries_of(m), o) {}
AdamW::AdamW(std::span<const nn::NamedTensor> p, const AdamWOptions& o) : AdamW(entries_of(p), o) {}

void AdamW::set_weight_decay(double v, i64 group) { set(&OptimBlock::weight_decay, v, group); }
void AdamW::set_betas(Betas v, i64 group) {
  OptimBlock b = hyper(group);
  b.beta1 = v.first;
  b.beta2 = v.second;
  set_hyper(b, group);
}

void AdamW::update(const Run& r, const double* grad_factor, const StepFlags& flags) {
  const Arena& a = *r.arena;
  run(AdamwStepArgs{.param = a.at(a.param, r.begin),
                    .grad = a.at(a.grad, r.begin),
                    .m = a.at(a.state[0], r.begin),
                    .v = a.at(a.state[1], r.begin),
                    .n = r.count,
                    .dtype = a.dtype,
                    .block = block(r),
                    .grad_factor = grad_factor,
                    .flags = flags},
      launch());
}

}  // namespace wt::optim
