// Dropout. Draws come from the generator's dropout stream.
#pragma once
#include "warptape/nn/module.h"

namespace wt::nn {

// Zeroes elements with probability p in training and scales the rest by 1 / (1 - p). Throws
// UsageError unless 0 <= p <= 1.
class WT_API Dropout : public Module<Dropout> {
 public:
  // p is the probability that an element becomes 0. Throws UsageError unless 0 <= p <= 1.
  explicit Dropout(double p = 0.5, const CallLine& = {});
  // Elementwise, of any shape; in evaluation x itself.
  Tensor forward(Tensor x);
  // The probability, as it was given.
  double p() const { return p_; }

 private:
  double p_;
};

// What Dropout1d, 2d and 3d have in common: whole channels of a sample become zero at once, the
// rest is scaled (Tompson et al. 2015, arXiv:1411.4280).
class WT_API DropoutNd : public Module<DropoutNd> {
 public:
  // [N, C, d...] or [C, d...] to the same shape; in evaluation x itself. Throws ShapeError for
  // other ranks.
  Tensor forward(Tensor x);
  // The probability, as it was given.
  double p() const { return p_; }

 protected:
  // For a class with `axes` spatial axes that errors call `type`.
  DropoutNd(const char* type, int axes, double p);

 private:
  int axes_;
  double p_;
};
// Dropout of whole channels; x is [N, C, L] or [C, L].
struct Dropout1d : Derived<Dropout1d, DropoutNd> {
  // p is the probability that a channel becomes 0. Throws UsageError unless 0 <= p <= 1.
  explicit Dropout1d(double p = 0.5, const CallLine& = {}) : Derived("Dropout1d", 1, p) {}
};
// Dropout of whole channels; x is [N, C, H, W] or [C, H, W].
struct Dropout2d : Derived<Dropout2d, DropoutNd> {
  // p is the probability that a channel becomes 0. Throws UsageError unless 0 <= p <= 1.
  explicit Dropout2d(double p = 0.5, const CallLine& = {}) : Derived("Dropout2d", 2, p) {}
};
// Dropout of whole channels; x is [N, C, D, H, W] or [C, D, H, W].
struct Dropout3d : Derived<Dropout3d, DropoutNd> {
  // p is the probability that a channel becomes 0. Throws UsageError unless 0 <= p <= 1.
  explicit Dropout3d(double p = 0.5, const CallLine& = {}) : Derived("Dropout3d", 3, p) {}
};

// Dropout of whole samples: a residual branch is passed by (Huang et al. 2016, arXiv:1603.09382;
// torchvision's StochasticDepth in "row" mode). x is [N, ...].
class WT_API StochasticDepth : public Module<StochasticDepth> {
 public:
  // p is the probability that a sample becomes 0. Throws UsageError unless 0 <= p <= 1.
  explicit StochasticDepth(double p, const CallLine& = {});
  // [N, ...] to the same shape, what stays scaled by 1 / (1 - p); in evaluation x itself. Throws
  // ShapeError for a 0-d x.
  Tensor forward(Tensor x);
  // The probability, as it was given.
  double p() const { return p_; }

 private:
  double p_;
};

}  // namespace wt::nn
