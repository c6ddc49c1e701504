// What you write in loss_scaling.cpp. The lab's checks call these functions and nothing else.
#pragma once
#include <functional>
#include <vector>

#include "warptape/core/tensor.h"

namespace scaling {

using wt::Device;
using wt::Tensor;

// --- 1. Where FP16 fails ---

// Runs forward and backward in f16 with the loss multiplied by `scale`. What it returns is the
// gradient as it arrives, [n] f32 on the cpu: still multiplied by the scale, with zeros where f16
// had nothing small enough, inf (or NaN) where it had nothing large enough. A backward needs the
// tape: not under NoGrad.
using Gradient = std::function<Tensor(double scale)>;

struct Cliffs {
  // The largest power of two from 1 to 2^24 at which every element is finite; 0 if there is none.
  double largest = 0;
  // Of the elements that are not zero at `largest`: the part, 0 to 1, that is zero at a scale of 1.
  // 0 where there are no such elements, or no `largest`.
  double lost = 0;
};
// Every call of `gradient` is a forward and a backward: at most 60 of them.
Cliffs find_cliffs(const Gradient& gradient);

// --- 2. The scaler ---

struct Options {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  double growth_interval = 2000;  // good steps in a row before the scale grows
};
inline constexpr double kLeast = 1, kMost = 0x1p127;  // the scale stays within these

// All that changes lies on the device: three f32 tensors without axes.
struct Scaler {
  Tensor scale;
  Tensor good_steps;  // in a row, since the scale last changed
  Tensor found;       // 1: the last unscale_() met inf or NaN; else 0
};
Scaler make_scaler(Device device, const Options& options);

// The loss (f32, one element) times the scale, recorded on the tape.
Tensor scale_loss(const Scaler& scaler, const Tensor& loss);

// Divides every gradient (one at least) by the scale, in place, and sets `found`: one inf or NaN
// anywhere counts.
void unscale_(Scaler& scaler, const std::vector<Tensor>& gradients);

// weights[i] -= rate * gradients[i], in place. Where the last unscale_() has found something, every
// bit of every weight stays as it is.
void sgd_step_(const Scaler& scaler, const std::vector<Tensor>& weights,
               const std::vector<Tensor>& gradients, double rate);

// The rule, once a step. Found something: scale *= backoff_factor, and counting begins again.
// Otherwise one more good step; at growth_interval of them scale *= growth_factor, and counting
// begins again. A scale that would leave [kLeast, kMost] stays at the bound.
void update_(Scaler& scaler, const Options& options);

}  // namespace scaling
