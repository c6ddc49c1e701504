#include "warptape/optim/clip.h"

#include <cmath>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/kernels/run.h"
#include "warptape/optim/arena.h"

namespace wt::optim {

namespace info {
constexpr OpInfo clip{.name = "clip", .derivative = Derivative::none};
}

static void check_max_norm(const char* what, double max_norm) {
  if (!(max_norm > 0))
    throw UsageError(str("[", what, "] max_norm must be above 0, got ", max_norm, at_line()));
}

// What limits a scaled gradient limits the scale, not the gradient.
static void check_unscaled(const char* what, const Tensor& parameter) {
  const Leaf* l = leaf_of(parameter.impl());
  if (!l || !l->written || l->scaler == 0 || l->scaler & kUnscaledBit) return;
  throw UsageError(str("[", what, "] the gradients are scaled by a GradScaler", at_line(),
                       "\n  Try scaler.unscale_(opt) before it"));
}

Tensor clip_factor(Optimizer& opt, double max_norm, Frame at) {
  const FrameScope frame(at);
  check_max_norm("clip_factor", max_norm);
  opt.prepare();
  if (const detail::Slot* s = opt.arenas().written().first)
    check_unscaled("clip_factor", s->entry.tensor);
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

namespace {

struct Norm {
  Tensor norm, factor;  // f64, 0-d
};

// Powers of large gradients overflow, and those of small ones vanish: there the norm is taken of
// the gradients in units of the largest one. From 1 / usual to `usual` the unit is 1, and no bit is
// changed.
Tensor unit_of(const std::vector<Tensor>& grads, double usual, const TensorOptions& like) {
  Tensor largest = zeros({}, like);
  for (const Tensor& g : grads)
    if (g.numel() != 0) largest = maximum(largest, max(abs(g)).to(DType::f64));
  const Tensor far = logical_or(gt(largest, usual), lt(largest, 1 / usual));
  const Tensor counts = logical_and(far, logical_and(isfinite(largest), gt(largest, 0)));
  return where(counts, largest, 1);
}

// The 2-norm: one pass of the kernel that steps use.
Norm two_norm(const std::vector<Tensor>& grads, double max_norm, const Launch& launch) {
  i64 chunks = 0;
  for (const Tensor& g : grads) chunks += norm_chunks(g.numel());
  const TensorOptions like{.dtype = DType::f64, .device = launch.device};
  Norm n{zeros({}, like), zeros({}, like)};
  const Tensor partials = empty({chunks}, like);
  auto* next = static_cast<double*>(partials.impl()->data);
  for (const Tensor& g : grads) {
    run(GradNormArgs{g.impl()->data, g.numel(), g.dtype(), next}, launch);
    next += norm_chunks(g.numel());
  }
  run(StepDecideArgs{.partials = static_cast<const double*>(partials.impl()->data),
                     .count = chunks,
                     .max_norm = max_norm,
                     .norm = static_cast<double*>(n.norm.impl()->data),
                     .factor = static_cast<double*>(n.factor.impl()->data),
                     .step = nullptr,
                     .on_found = NonFinite::ignore,
                     .mailbox = nullptr},
      launch);
  return n;
}

bool any_f64(const std::vector<Tensor>& grads) {
  for (const Tensor& g : grads)
    if (g.dtype() == DType::f64) return true;
  return false;
}
Tensor factor_of(const Tensor& norm, double max_norm) {
  return minimum(div(max_norm, add(norm, 1e-6)), 1.0);
}

Norm two_norm_f64(const std::vector<Tensor>& grads, double max_norm, const Launch& launch) {
  const Tensor unit = unit_of(grads, 1e140, {.dtype = DType::f64, .device = launch.device});
  std::vector<Tensor> in_units;
  for (const Tensor& g : grads) in_units.push_back(div(g.to(DType::f64), unit));
  Norm n = two_norm(in_units, max_norm, launch);
  n.norm = mul(n.norm, unit);
  n.factor = factor_of(n.norm, max_norm);
  return n;
}

// 16-bit gradients in f32, in memory of their own: their squares would overflow from 256 on.
std::vector<Tensor> widened(const std::vector<Tensor>& grads) {
  std::vector<Tensor> wide;
  for (const Tensor& g : grads) wide.push_back(item_size(g.dtype()) < 4 ? g.to(DType::f32) : g);
  return wide;
}

// Any other p, made of operators.
Norm p_norm(const std::vector<Tensor>& grads, double max_norm, double p, Device d) {
  const bool largest = std::isinf(p);
  const TensorOptions like{.dtype = DType::f64, .device = d};
  Norm n{zeros({}, like), {}};
  const Tensor unit = largest ? ones({}, like) : unit_of(grads, std::pow(1e140, 1 / p), like);
  for (const Tensor& g : grads) {
    if (g.numel() == 0) continue;
    const Tensor a = abs(g.to(DType::f64));
    n.norm = largest ? maximum(n.norm, max(a)) : add(n.norm, sum(pow(div(a, unit), p)));
  }
  if (!largest) n.norm = mul(pow(n.norm, 1 / p), unit);
  n.factor = factor_of(n.norm, max_norm);
  return n;
}

}  // namespace

Tensor clip_grad_norm_(const nn::ModuleBase& m, double max_norm, const ClipNormOptions& options,
                       Frame at) {
  return clip_grad_norm_(m.parameters(), max_norm, options, at);
}

Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm,
                       const ClipNormOptions& options, Frame at) {
  const FrameScope frame(at);
  const NoGrad no_grad;
  check_max_norm("clip_grad_norm_", max_norm);
  if (!(options.norm_type > 0))
    throw UsageError(
        str("[clip_grad_norm_] norm_type must be above 0, got ", options.norm_type, at_line()));
  std::vector<Tensor> grads;
  for (const Tensor& p : parameters) {
    Tensor g = p.grad(at);
    if (!g.defined()) continue;
    check_unscaled("clip_grad_norm_", p);
    if (!grads.empty() && g.device() != grads[0].device())
      throw UsageError(str("[clip_grad_norm_] the gradients lie on several devices", at_line()));
    grads.push_back(std::move(g));
  }
  const Device d = grads.empty() ? Device::cpu() : grads[0].device();
  const Launch launch{&info::clip, mode.native_stream, nullptr, d};
  const std::vector<Tensor> wide = widened(grads);
  const Norm n = options.norm_type != 2 ? p_norm(wide, max_norm, options.norm_type, d)
                 : any_f64(wide)        ? two_norm_f64(wide, max_norm, launch)
                                        : two_norm(wide, max_norm, launch);
  if (options.error_if_nonfinite && !std::isfinite(n.norm.item()))
    throw NumericError(str("[clip_grad_norm_] the norm of the gradients is ", n.norm.item(),
                           ": none was changed", at_line()));
  for (size_t i = 0; i < grads.size(); ++i) {
    const Tensor& w = wide[i];
    run(GradScaleArgs{w.impl()->data, w.numel(), w.dtype(),
                      static_cast<double*>(n.factor.impl()->data)},
        launch);
    if (w.same_as(grads[i]))
      w.impl()->cell->wrote(mode.frame);
    else
      grads[i].copy_(w);
  }
  return n.norm;
}

void clip_grad_value_(const nn::ModuleBase& m, double limit, Frame at) {
  clip_grad_value_(m.parameters(), limit, at);
}

void clip_grad_value_(std::span<const Tensor> parameters, double limit, Frame at) {
  const FrameScope frame(at);
  if (!(limit > 0))
    throw UsageError(str("[clip_grad_value_] the limit must be above 0, got ", limit, at_line()));
  const NoGrad no_grad;
  for (const Tensor& p : parameters) check_unscaled("clip_grad_value_", p);
  for (const Tensor& p : parameters) {
    Tensor g = p.grad(at);
    if (g.defined()) g.clamp_(-limit, limit);  // takes no memory: all are limited, or none
  }
}

}  // namespace wt::optim
