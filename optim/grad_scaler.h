// Loss scaling for f16 in loops of your own. TrainStep{.precision = f16} does all of this by
// itself.
//
//   optim::GradScaler scaler;
//   for (auto& [x, y] : loader) {
//     opt.zero_grad();
//     const auto loss = [&] {
//       const AutocastScope autocast(DType::f16);
//       return cross_entropy(net(x), y);
//     }();
//     scaler.scale(loss).backward();
//     scaler.unscale_(opt);                      // only to clip or look at gradients
//     const Tensor norm = optim::clip_grad_norm_(net, 1.0);
//     scaler.step(opt);                          // nothing where a gradient is inf or NaN
//     scaler.update();
//   }
//
// Gradients that are too small for f16 (below 6e-8) would become zero; the scale lifts them, and is
// divided out in f32. Scale, growth count and what was found lie on the device: nothing here waits
// for it. Names, defaults and the rule are those of torch.amp.GradScaler.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "warptape/autograd/loss.h"
#include "warptape/core/owned.h"
#include "warptape/optim/optimizer.h"

namespace wt {
struct LossScale;  // kernels/optim/loss_scale_state.h
}

namespace wt::optim {

// Where the scale begins and how it moves; names and defaults are those of torch.amp.GradScaler,
// but for min_scale.
struct GradScalerOptions {
  double init_scale = 65536;    // from min_scale to 2^127
  double growth_factor = 2;     // of the scale, where nothing was found for a while; above 1
  double backoff_factor = 0.5;  // of the scale, where inf or NaN was found; in (0, 1)
  i64 growth_interval = 2000;   // steps without inf before the scale grows
  // inf or NaN at this scale is no matter of scaling any more: NumericError.
  double min_scale = 1;
  bool enabled = true;  // false: a scale of 1 that never moves; nothing is skipped
};

class GradScaler;

// A loss whose backward begins with the scale.
class [[nodiscard]] ScaledLoss {
 public:
  // Gradients of the mean loss times the scale. Throws UsageError where they would be added to
  // gradients of another scale.
  WT_API void backward(BackwardOptions options = {}, Frame at = Frame::here()) const;

 private:
  friend class GradScaler;
  ScaledLoss(const GradScaler& scaler, Tensor loss) : scaler_(scaler), loss_(std::move(loss)) {}
  const GradScaler& scaler_;
  Tensor loss_;
};

// The loss scale of f16: what losses are multiplied by, how it moves, and steps that are skipped
// where a gradient is inf or NaN. Works on the device of the loss or optimizer that it sees.
class WT_API GradScaler {
 public:
  // Throws UsageError for options out of range.
  explicit GradScaler(const GradScalerOptions& options = {}, const CallLine& = {});
  ~GradScaler();
  GradScaler(const GradScaler&) = delete;
  GradScaler& operator=(const GradScaler&) = delete;

  // Takes what backward() is called on: a loss or a tensor of one element. The result does nothing
  // but backward(). Throws ShapeError for another tensor.
  ScaledLoss scale(const Loss& loss, Frame at = Frame::here()) const;
  ScaledLoss scale(const Tensor& loss, Frame at = Frame::here()) const;

  // Divides the gradients of `opt` by the scale, in place, in one pass that also looks for inf and
  // NaN: for clipping, or to look at them. After the last backward of a step, once. Throws
  // UsageError otherwise, and where the gradients are not this scaler's; nothing has changed then.
  void unscale_(Optimizer& opt, Frame at = Frame::here());
  // opt.step() with unscaled gradients, unless one of them is inf or NaN (then the optimizer only
  // counts an attempt). Does not change .grad. A grad_factor wants unscale_() before. Throws what
  // opt.step() throws, and UsageError for a second call before update().
  void step(Optimizer& opt, const StepOptions& options = {}, Frame at = Frame::here());
  // The rule, once a step, after all optimizers: found inf: scale *= backoff_factor; else, after
  // growth_interval steps, scale *= growth_factor. Throws UsageError when no step() came before,
  // and NumericError, once, when inf was found at min_scale already: at once where the device has
  // no queue, else get_scale() does.
  void update(Frame at = Frame::here());

  // Whether GradScalerOptions::enabled was set.
  bool is_enabled() const { return options_.enabled; }
  // The present scale; waits for the device. Throws NumericError, once, where update() would have
  // if it had waited.
  double get_scale(Frame at = Frame::here()) const;
  // Steps without inf or NaN since the scale last changed; waits for the device.
  i64 get_growth_tracker(Frame at = Frame::here()) const;
  // What a checkpoint needs, as 0-d tensors on the cpu: scaler.scale, .growth_factor,
  // .backoff_factor, .min_scale (f64), .growth_interval, .growth_tracker (i64).
  std::vector<nn::NamedTensor> state_dict(Frame at = Frame::here()) const;
  // Takes the values with these names from among `values`. Throws UsageError for one that is
  // missing or out of range; then nothing has changed.
  void load_state_dict(const std::vector<nn::NamedTensor>& values, Frame at = Frame::here());

  // --- internal: what TrainStep is made of ---

  // This scaler's number among all of the process, from 1: Leaf::scaler.
  u32 id() const { return id_; }
  // The scalars in d's memory; those of another device move there, which waits for it.
  LossScale* on_device(Device d) const;
  // Sets another scale, with the count as it is, unless `scale` is 0; returns the one before.
  double exchange_scale(double scale) const;
  // The scale as a 0-d tensor on d: f64 where t is, else f32.
  Tensor seed(Device d, DType t) const;

 private:
  enum class Stage : u8 { unscaled, stepped };
  struct Memory;

  LossScale read() const;
  // The same; throws NumericError where inf was met at the smallest scale, and forgets it.
  LossScale read_checked() const;
  void write(const LossScale& values) const;
  Stage* stage_of(const Optimizer& opt);
  void decide(Optimizer& opt, i64 n, bool unscaled) const;

  GradScalerOptions options_;
  u32 id_;
  // A scaler works on the device of the first loss it is given, and follows later ones.
  mutable Owned<Memory> memory_;
  struct Stages;
  Owned<Stages> stages_;  // since the last update()
};

}  // namespace wt::optim
