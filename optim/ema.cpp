// The average of the weights.
#include "warptape/core/at_line.h"
#include "warptape/kernels/optim_rule.h"
#include "warptape/kernels/optim_step.h"
#include "warptape/kernels/run.h"
#include "warptape/optim/arena.h"
#include "warptape/optim/optimizer.h"

namespace wt::optim {

using detail::Arena;

void Optimizer::check_decay(double v) {
  if (!(v >= 0 && v < 1))
    throw UsageError(str("[track_ema] decay must be in [0, 1), got ", v, at_line()));
}

void Optimizer::track_ema(double decay, Frame at) { track_ema({.decay = decay}, at); }
void Optimizer::track_ema(const EmaOptions& options, Frame at) {
  const FrameScope frame(at);
  check_decay(options.decay);
  const bool begins = !has_ema();
  if (begins) {
    prepare();
    arenas_->add_average();
  }
  const i64 copies_at = begins && options.copy_first ? applied() : kEmaNeverCopies;
  for (i64 g = 0; g < group_count(); ++g) {
    OptimBlock b = hyper(g);
    b.ema_decay = options.decay;
    if (begins) b.ema_copies_at = copies_at;
    set_hyper(b, g);
  }
}
bool Optimizer::has_ema() const { return arenas_->has_average(); }

std::vector<nn::NamedTensor> Optimizer::ema() const {
  std::vector<nn::NamedTensor> all;
  if (!has_ema()) return all;
  for (const auto& [a, s] : arenas_->in_order())
    all.push_back(
        {s->entry.name, detail::tensor_over(a->average.get(), s->offset * item_size(a->dtype),
                                            s->entry.tensor.impl()->geometry)});
  return all;
}

// Whole arenas: a parameter without a gradient stays, and its average still comes nearer.
void Optimizer::update_average(const StepFlags& flags) {
  for (const Arena& a : arenas_->all()) {
    EmaStepArgs args;
    args.param = a.average->data;
    args.grad = a.param->data;
    args.n = a.elements;
    args.dtype = a.dtype;
    args.block = block({&a, 0, a.elements, 0});
    args.flags = flags;
    run(args, launch());
  }
}

static void write(Tensor to, const Tensor& from) { to.copy_(from); }

EmaScope::EmaScope(Optimizer& opt, const CallLine&) : opt_(opt) {
  opt.prepare();
  if (!opt.has_ema())
    throw UsageError(
        str("[EmaScope] the optimizer has no average", at_line(), "\n  Try track_ema()"));
  const std::vector<nn::NamedTensor> now = opt.parameters(), averages = opt.ema();
  const NoGrad no_grad;
  for (const nn::NamedTensor& p : now) weights_.push_back(p.tensor.clone());
  for (size_t i = 0; i < now.size(); ++i) write(now[i].tensor, averages[i].tensor);
  opt.averaged_ = true;
}

EmaScope::~EmaScope() {
  const NoGrad no_grad;
  const std::vector<nn::NamedTensor> now = opt_.parameters();
  for (size_t i = 0; i < now.size(); ++i) write(now[i].tensor, weights_[i]);
  opt_.averaged_ = false;
}

}  // namespace wt::optim
