// The loss of sequences whose alignment is not known.
#pragma once
#include "warptape/autograd/loss.h"
#include "warptape/core/in.h"

namespace wt {

struct CtcOptions {
  i64 blank = 0;                 // the class between labels
  bool divide_by_length = true;  // each sample's loss by the number of its labels (at least 1)
  bool zero_infinity = false;    // samples whose labels do not fit count as 0, without gradient
  [[no_unique_address]] detail::LossNames::No_reduction reduction{};
};
// Connectionist temporal classification (Graves, Fernandez, Gomez, Schmidhuber 2006): minus the
// logarithm of the probability of all paths of classes, one a step, that become the labels when
// repetitions are joined and blanks removed. log_probs [T, N, C] are logarithms of probabilities
// (log_softmax's); targets i64 [N, L], or [sum of target_lengths] one after another;
// input_lengths and target_lengths i64 [N]. The sum is f32 (f64 for f64 log_probs); the loss's
// weight is N: the mean is PyTorch's reduction="mean", and without divide_by_length the sum is its
// reduction="sum". A sample whose labels need more steps than it has gives an infinite loss, and a
// NaN gradient, unless zero_infinity.
//
// The gradient is the derivative with respect to log_probs whatever they sum to; behind log_softmax
// it is PyTorch's, which is meant for there alone. The host reads the lengths: it waits for the
// device. Throws ShapeError, DtypeError, UsageError for a length out of range, and IndexError for
// the blank or a label outside [0, C).
WT_API Loss ctc_loss(const In& log_probs, const In& targets, const In& input_lengths,
                     const In& target_lengths, const CtcOptions& options = {});

struct CtcUnreducedOptions {
  i64 blank = 0;               // the class between labels
  bool zero_infinity = false;  // as in CtcOptions
};
// The losses of the samples, [N], undivided: PyTorch's reduction="none". Throws as the other form.
WT_API Tensor ctc_loss(const In& log_probs, const In& targets, const In& input_lengths,
                       const In& target_lengths, Unreduced,
                       const CtcUnreducedOptions& options = {});

}  // namespace wt
