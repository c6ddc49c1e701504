#include "warptape/optim/clip.h"

#include "warptape/autograd/ops_pointwise.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/run.h"

namespace wt::optim {

namespace info {
constexpr OpInfo clip{.name = "clip", .derivative = Derivative::none};
}

static void check_max_norm(const char* what, double max_norm) {
  if (!(max_norm > 0))
    throw UsageError(str("[", what, "] max_norm must be above 0, got ", max_norm));
}

Tensor clip_factor(Optimizer& opt, double max_norm, Frame at) {
  const FrameScope frame(at);
  check_max_norm("clip_factor", max_norm);
  opt.prepare();
  const i64 n = opt.add_norm();
  Tensor factor = opt.own_factor();
  run(StepDecideArgs{.partials = opt.partials(),
                     .count = n,
                     .max_norm = max_norm,
                     .norm = opt.own_norm(),
                     .factor = static_cast<double*>(factor.impl()->data),
                     .step = nullptr,
                     .on_found = NonFinite::ignore,
                     .mailbox = nullptr},
      {&info::clip, mode.native_stream, nullptr, opt.device()});
  return factor;
}

Tensor clip_grad_norm_(const nn::ModuleBase& m, double max_norm, Frame at) {
  return clip_grad_norm_(m.parameters(), max_norm, at);
}

Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm, Frame at) {
  const FrameScope frame(at);
  check_max_norm("clip_grad_norm_", max_norm);
  std::vector<Tensor> grads;
  i64 chunks = 0;
  for (const Tensor& p : parameters) {
    Tensor g = p.grad();
    if (!g.defined()) continue;
    if (!grads.empty() && g.device() != grads[0].device())
      throw UsageError("[clip_grad_norm_] the gradients lie on several devices");
    chunks += norm_chunks(g.numel());
    grads.push_back(std::move(g));
  }
  const Device d = grads.empty() ? Device::cpu() : grads[0].device();
  const TensorOptions like{.dtype = DType::f64, .device = d};
  Tensor partials = empty({chunks}, like), norm = zeros({}, like), factor = zeros({}, like);
  const Launch launch{&info::clip, mode.native_stream, nullptr, d};
  auto* next = static_cast<double*>(partials.impl()->data);
  for (const Tensor& g : grads) {
    run(GradNormArgs{g.impl()->data, g.numel(), g.dtype(), next}, launch);
    next += norm_chunks(g.numel());
  }
  auto* const c = static_cast<double*>(factor.impl()->data);
  run(StepDecideArgs{.partials = static_cast<const double*>(partials.impl()->data),
                     .count = chunks,
                     .max_norm = max_norm,
                     .norm = static_cast<double*>(norm.impl()->data),
                     .factor = c,
                     .step = nullptr,
                     .on_found = NonFinite::ignore,
                     .mailbox = nullptr},
      launch);
  for (const Tensor& g : grads) {
    run(GradScaleArgs{g.impl()->data, g.numel(), g.dtype(), c}, launch);
    g.impl()->cell->wrote(mode.frame);
  }
  return norm;
}

void clip_grad_value_(const nn::ModuleBase& m, double limit, Frame at) {
  clip_grad_value_(m.parameters(), limit, at);
}

void clip_grad_value_(std::span<const Tensor> parameters, double limit, Frame at) {
  const FrameScope frame(at);
  if (!(limit > 0))
    throw UsageError(str("[clip_grad_value_] the limit must be above 0, got ", limit));
  const NoGrad no_grad;
  for (const Tensor& p : parameters) {
    Tensor g = p.grad();
    if (g.defined()) g.copy_(clamp(g, -limit, limit));
  }
}

}  // namespace wt::optim
