// A learning rate that falls when a metric stops improving.
//
//   optim::ReduceLROnPlateau plateau{opt, {.patience = 3}};
//   plateau.step(evaluate(net, loader));      // between steps, once an evaluation
#pragma once
#include <limits>
#include <vector>

#include "warptape/optim/optimizer.h"

namespace wt::optim {

enum class PlateauMode { min, max };
enum class ThresholdMode { rel, abs };

// Names, defaults and meaning are PyTorch's.
struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::min;
  double factor = 0.1;
  i64 patience = 10;  // evaluations without improvement that are waited for
  double threshold = 1e-4;
  ThresholdMode threshold_mode = ThresholdMode::rel;
  i64 cooldown = 0;
  double min_lr = 0;  // of lr * lr_factor, in every group
  double eps = 1e-8;  // a smaller change is not made
};

// Only writes the optimizer's lr_factor, so it composes with a schedule. Keeps a reference to it.
class WT_API ReduceLROnPlateau {
 public:
  // Throws UsageError for a factor outside (0, 1) and other options below 0.
  explicit ReduceLROnPlateau(Optimizer& opt, const ReduceLROnPlateauOptions& o = {},
                             const CallLine& = {});

  // NaN is no improvement.
  void step(double metric);
  double best() const { return best_; }
  i64 bad_epochs() const { return bad_; }

  // sched.best, sched.bad_epochs, sched.cooldown. The factor is in the optimizer's state.
  std::vector<nn::NamedTensor> state() const;
  // Throws UsageError unless these three are there; then nothing was loaded.
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
