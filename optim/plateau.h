// A learning rate that falls when a metric stops improving.
//
//   optim::ReduceLROnPlateau plateau{opt, {.patience = 3}};
//   plateau.step(evaluate(net, loader));      // between steps, once an evaluation
#pragma once
#include <limits>
#include <vector>

#include "warptape/optim/optimizer.h"

namespace wt::optim {

// Whether a lower metric is better (min: a loss) or a higher one (max: an accuracy).
enum class PlateauMode { min, max };
// What an improvement must exceed: rel, a part of the best metric; abs, a fixed amount.
enum class ThresholdMode { rel, abs };

// When the rate falls and how far; names, defaults and meaning are PyTorch's.
struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::min;  // which metric is better
  double factor = 0.1;                  // of the rate, in (0, 1)
  i64 patience = 10;                    // evaluations without improvement that are waited for
  double threshold = 1e-4;              // what an improvement must exceed
  ThresholdMode threshold_mode = ThresholdMode::rel;  // a part or an amount
  i64 cooldown = 0;   // evaluations after a fall that are not counted as bad
  double min_lr = 0;  // of lr * lr_factor, in every group
  double eps = 1e-8;  // a smaller change is not made
};

// Lowers the rate when a metric stops improving. Only writes the optimizer's lr_factor, so it
// composes with a schedule. Keeps a reference to the optimizer.
class WT_API ReduceLROnPlateau {
 public:
  // Throws UsageError for a factor outside (0, 1) and other options below 0.
  explicit ReduceLROnPlateau(Optimizer& opt, const ReduceLROnPlateauOptions& o = {},
                             const CallLine& = {});

  // Takes the metric of one evaluation, and lowers the rate of every group where it is due. NaN is
  // no improvement.
  void step(double metric);
  // The best metric so far; at first infinity, of PlateauMode::max -infinity.
  double best() const { return best_; }
  // Evaluations without improvement since the last one with it, the last fall or the cooldown.
  i64 bad_epochs() const { return bad_; }

  // What a checkpoint needs, as 0-d tensors on the cpu: sched.best, sched.bad_epochs,
  // sched.cooldown. The factor is in the optimizer's state.
  std::vector<nn::NamedTensor> state() const;
  // Takes a state() over. Throws UsageError unless these three are there; then nothing was loaded.
  void load_state(const std::vector<nn::NamedTensor>& values, Frame at = Frame::here());

 private:
  bool is_better(double metric) const;
  void reduce();

  Optimizer& opt_;
  ReduceLROnPlateauOptions o_;
  double best_;
  i64 bad_ = 0, cooldown_ = 0;
};

}  // namespace wt::optim
