// What a program sees of a training step's kernels (optim/train_step.h). No STL: .cu files include
// this.
#pragma once
#include "warptape/core/types.h"

namespace wt {

// What the host learns of a step, whenever it looks.
struct StepRecord {
  double loss, grad_norm, lr;
  i64 attempt;  // its number, from 0
  i64 applied;  // applied count after it
  i32 skipped, found;
  double scale;  // of the loss; 1: none
};
inline constexpr i64 kStepRing = 256;  // records kept

enum class NonFinite : u8 { ignore, skip, stop };

}  // namespace wt
