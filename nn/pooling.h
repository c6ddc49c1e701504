// Poolings: modules around the operators of autograd/ops/pool.h, which have formulas, shapes and
// errors.
#pragma once
#include "warptape/autograd/ops/pool.h"
#include "warptape/nn/module.h"

namespace wt::nn {

// The largest element of each window; x is [N, C, L] or [C, L].
struct MaxPool1d : Module<MaxPool1d> {
  WT_API explicit MaxPool1d(const PerAxis& kernel, const MaxPoolOptions& o = {});
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  MaxPoolOptions options_;
};
// The mean of each window; x is [N, C, L] or [C, L].
struct AvgPool1d : Module<AvgPool1d> {
  WT_API explicit AvgPool1d(const PerAxis& kernel, const AvgPoolOptions& o = {});
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  AvgPoolOptions options_;
};
// The largest element of each window; x is [N, C, H, W] or [C, H, W].
struct MaxPool2d : Module<MaxPool2d> {
  WT_API explicit MaxPool2d(const PerAxis& kernel, const MaxPoolOptions& o = {});
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  MaxPoolOptions options_;
};
// The mean of each window; x is [N, C, H, W] or [C, H, W].
struct AvgPool2d : Module<AvgPool2d> {
  WT_API explicit AvgPool2d(const PerAxis& kernel, const AvgPoolOptions& o = {});
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  AvgPoolOptions options_;
};
// The largest element of each window; x is [N, C, D, H, W] or [C, D, H, W].
struct MaxPool3d : Module<MaxPool3d> {
  WT_API explicit MaxPool3d(const PerAxis& kernel, const MaxPoolOptions& o = {});
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  MaxPoolOptions options_;
};
// The mean of each window; x is [N, C, D, H, W] or [C, D, H, W].
struct AvgPool3d : Module<AvgPool3d> {
  WT_API explicit AvgPool3d(const PerAxis& kernel, const AvgPoolOptions& o = {});
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  AvgPoolOptions options_;
};

// The same over windows of nearly equal length, so many that the result has `sizes`: one number for
// all spatial axes or one for each.
// x is [N, C, L] or [C, L].
struct AdaptiveAvgPool1d : Module<AdaptiveAvgPool1d> {
  WT_API explicit AdaptiveAvgPool1d(const PerAxis& sizes);
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis sizes_;
};
// x is [N, C, H, W] or [C, H, W].
struct AdaptiveAvgPool2d : Module<AdaptiveAvgPool2d> {
  WT_API explicit AdaptiveAvgPool2d(const PerAxis& sizes);
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis sizes_;
};
// x is [N, C, D, H, W] or [C, D, H, W].
struct AdaptiveAvgPool3d : Module<AdaptiveAvgPool3d> {
  WT_API explicit AdaptiveAvgPool3d(const PerAxis& sizes);
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis sizes_;
};
// x is [N, C, L] or [C, L].
struct AdaptiveMaxPool1d : Module<AdaptiveMaxPool1d> {
  WT_API explicit AdaptiveMaxPool1d(const PerAxis& sizes, const CallLine& = {});
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis sizes_;
};
// x is [N, C, H, W] or [C, H, W].
struct AdaptiveMaxPool2d : Module<AdaptiveMaxPool2d> {
  WT_API explicit AdaptiveMaxPool2d(const PerAxis& sizes);
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis sizes_;
};

}  // namespace wt::nn
