// Dropout. Draws come from the generator's dropout stream.
#pragma once
#include "warptape/nn/module.h"

namespace wt::nn {

// Zeroes elements with probability p in training and scales the rest by 1 / (1 - p). Throws
// UsageError unless 0 <= p <= 1.
class WT_API Dropout : public Module<Dropout> {
 public:
  explicit Dropout(double p = 0.5, const CallLine& = {});
  Tensor forward(Tensor x);
  double p() const { return p_; }

 private:
  double p_;
};

// The same to whole channels of a sample at once (Tompson et al. 2015, arXiv:1411.4280).
class WT_API DropoutNd : public Module<DropoutNd> {
 public:
  Tensor forward(Tensor x);
  double p() const { return p_; }

 protected:
  DropoutNd(const char* type, int axes, double p);

 private:
  int axes_;
  double p_;
};
// x is [N, C, L] or [C, L].
struct Dropout1d : Derived<Dropout1d, DropoutNd> {
  explicit Dropout1d(double p = 0.5, const CallLine& = {}) : Derived("Dropout1d", 1, p) {}
};
// x is [N, C, H, W] or [C, H, W].
struct Dropout2d : Derived<Dropout2d, DropoutNd> {
  explicit Dropout2d(double p = 0.5, const CallLine& = {}) : Derived("Dropout2d", 2, p) {}
};
// x is [N, C, D, H, W] or [C, D, H, W].
struct Dropout3d : Derived<Dropout3d, DropoutNd> {
  explicit Dropout3d(double p = 0.5, const CallLine& = {}) : Derived("Dropout3d", 3, p) {}
};

// The same to whole samples: a residual branch is passed by (Huang et al. 2016, arXiv:1603.09382;
// torchvision's StochasticDepth in "row" mode). x is [N, ...].
class WT_API StochasticDepth : public Module<StochasticDepth> {
 public:
  explicit StochasticDepth(double p, const CallLine& = {});
  Tensor forward(Tensor x);
  double p() const { return p_; }

 private:
  double p_;
};

}  // namespace wt::nn
