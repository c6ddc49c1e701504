// Poolings: modules around the operators of autograd/ops/pool.h, which have formulas, shapes and
// errors.
#pragma once
#include "warptape/autograd/ops/pool.h"
#include "warptape/nn/module.h"

namespace wt::nn {

// The largest element of each window; x is [N, C, L] or [C, L].
struct MaxPool1d : Module<MaxPool1d> {
  explicit MaxPool1d(const PerAxis& kernel, const MaxPoolOptions& o = {})
      : kernel_(kernel), options_(o) {}
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  MaxPoolOptions options_;
};
// The mean of each window; x is [N, C, L] or [C, L].
struct AvgPool1d : Module<AvgPool1d> {
  explicit AvgPool1d(const PerAxis& kernel, const AvgPoolOptions& o = {})
      : kernel_(kernel), options_(o) {}
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  AvgPoolOptions options_;
};
// The largest element of each window; x is [N, C, H, W] or [C, H, W].
struct MaxPool2d : Module<MaxPool2d> {
  explicit MaxPool2d(const PerAxis& kernel, const MaxPoolOptions& o = {})
      : kernel_(kernel), options_(o) {}
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  MaxPoolOptions options_;
};
// The mean of each window; x is [N, C, H, W] or [C, H, W].
struct AvgPool2d : Module<AvgPool2d> {
  explicit AvgPool2d(const PerAxis& kernel, const AvgPoolOptions& o = {})
      : kernel_(kernel), options_(o) {}
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  AvgPoolOptions options_;
};
// The largest element of each window; x is [N, C, D, H, W] or [C, D, H, W].
struct MaxPool3d : Module<MaxPool3d> {
  explicit MaxPool3d(const PerAxis& kernel, const MaxPoolOptions& o = {})
      : kernel_(kernel), options_(o) {}
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  MaxPoolOptions options_;
};
// The mean of each window; x is [N, C, D, H, W] or [C, D, H, W].
struct AvgPool3d : Module<AvgPool3d> {
  explicit AvgPool3d(const PerAxis& kernel, const AvgPoolOptions& o = {})
      : kernel_(kernel), options_(o) {}
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  AvgPoolOptions options_;
};

// The same over windows of nearly equal length, so many that the result has `sizes`: one number for
// all spatial axes or one for each.
// x is [N, C, L] or [C, L].
struct AdaptiveAvgPool1d : Module<AdaptiveAvgPool1d> {
  explicit AdaptiveAvgPool1d(const PerAxis& sizes) : sizes_(sizes) {}
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis sizes_;
};
// x is [N, C, H, W] or [C, H, W].
struct AdaptiveAvgPool2d : Module<AdaptiveAvgPool2d> {
  explicit AdaptiveAvgPool2d(const PerAxis& sizes) : sizes_(sizes) {}
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis sizes_;
};
// x is [N, C, D, H, W] or [C, D, H, W].
struct AdaptiveAvgPool3d : Module<AdaptiveAvgPool3d> {
  explicit AdaptiveAvgPool3d(const PerAxis& sizes) : sizes_(sizes) {}
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis sizes_;
};
// x is [N, C, L] or [C, L].
struct AdaptiveMaxPool1d : Module<AdaptiveMaxPool1d> {
  explicit AdaptiveMaxPool1d(const PerAxis& sizes, const CallLine& = {}) : sizes_(sizes) {}
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis sizes_;
};
// x is [N, C, H, W] or [C, H, W].
struct AdaptiveMaxPool2d : Module<AdaptiveMaxPool2d> {
  explicit AdaptiveMaxPool2d(const PerAxis& sizes) : sizes_(sizes) {}
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis sizes_;
};

}  // namespace wt::nn
