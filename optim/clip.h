// Gradient clipping by the global norm or by value.
#pragma once
#include "warptape/optim/optimizer.h"

namespace wt::optim {

// min(1, max_norm / (norm + 1e-6)) over all written gradients of `opt`, an f64 device scalar for
// opt.step({.grad_factor = ...}): .grad is not edited and nothing waits. It is the optimizer's own
// memory, valid until the next call. Throws UsageError unless max_norm > 0, and for gradients that
// a GradScaler has scaled.
WT_API Tensor clip_factor(Optimizer& opt, double max_norm, Frame at = Frame::here());

// Which norm clip_grad_norm_() takes, and what it does where that is not finite.
struct ClipNormOptions {
  double norm_type = 2;             // any p > 0, also infinity: the largest element
  bool error_if_nonfinite = false;  // throw NumericError, nothing changed; waits for the device
};
// The global norm of all gradients, and every .grad multiplied by the clip factor in place. Returns
// the norm before clipping, an f64 0-d tensor on the parameters' device. 16-bit gradients are
// computed in f32, and no square overflows. Throws UsageError unless max_norm and norm_type are
// above 0, for gradients on several devices and for those that a GradScaler has scaled.
WT_API Tensor clip_grad_norm_(const nn::ModuleBase& m, double max_norm,
                              const ClipNormOptions& options = {}, Frame at = Frame::here());
WT_API Tensor clip_grad_norm_(std::span<const Tensor> parameters, double max_norm,
                              const ClipNormOptions& options = {}, Frame at = Frame::here());

// Every element of every .grad limited to [-limit, limit] in place. Throws UsageError unless the
// limit is above 0, and for gradients that a GradScaler has scaled.
WT_API void clip_grad_value_(const nn::ModuleBase& m, double limit, Frame at = Frame::here());
WT_API void clip_grad_value_(std::span<const Tensor> parameters, double limit,
                             Frame at = Frame::here());

}  // namespace wt::optim
