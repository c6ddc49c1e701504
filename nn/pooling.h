// Poolings: modules around the operators of autograd/ops/pool.h, which have formulas, shapes and
// errors.
#pragma once
#include "warptape/autograd/ops/pool.h"
#include "warptape/nn/module.h"

namespace wt::nn {

// The largest element of each window; x is [N, C, L] or [C, L].
struct MaxPool1d : Module<MaxPool1d> {
  // A window of `kernel` elements; its stride is its size unless given. The call checks them.
  WT_API explicit MaxPool1d(const PerAxis& kernel, const MaxPoolOptions& o = {});
  // [N, C, L] to [N, C, M]. Throws ShapeError, DtypeError and UsageError.
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  MaxPoolOptions options_;
};
// The mean of each window; x is [N, C, L] or [C, L].
struct AvgPool1d : Module<AvgPool1d> {
  // A window of `kernel` elements; its stride is its size unless given. The call checks them.
  WT_API explicit AvgPool1d(const PerAxis& kernel, const AvgPoolOptions& o = {});
  // [N, C, L] to [N, C, M]. Throws ShapeError, DtypeError and UsageError.
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  AvgPoolOptions options_;
};
// The largest element of each window; x is [N, C, H, W] or [C, H, W].
struct MaxPool2d : Module<MaxPool2d> {
  // A window of `kernel` elements along all spatial axes or along each; its stride is its size
  // unless given. The call checks them.
  WT_API explicit MaxPool2d(const PerAxis& kernel, const MaxPoolOptions& o = {});
  // [N, C, H, W] to [N, C, H', W']. Throws ShapeError, DtypeError and UsageError.
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  MaxPoolOptions options_;
};
// The mean of each window; x is [N, C, H, W] or [C, H, W].
struct AvgPool2d : Module<AvgPool2d> {
  // A window of `kernel` elements along all spatial axes or along each; its stride is its size
  // unless given. The call checks them.
  WT_API explicit AvgPool2d(const PerAxis& kernel, const AvgPoolOptions& o = {});
  // [N, C, H, W] to [N, C, H', W']. Throws ShapeError, DtypeError and UsageError.
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  AvgPoolOptions options_;
};
// The largest element of each window; x is [N, C, D, H, W] or [C, D, H, W].
struct MaxPool3d : Module<MaxPool3d> {
  // A window of `kernel` elements along all spatial axes or along each; its stride is its size
  // unless given. The call checks them.
  WT_API explicit MaxPool3d(const PerAxis& kernel, const MaxPoolOptions& o = {});
  // [N, C, D, H, W] to [N, C, D', H', W']. Throws ShapeError, DtypeError and UsageError.
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  MaxPoolOptions options_;
};
// The mean of each window; x is [N, C, D, H, W] or [C, D, H, W].
struct AvgPool3d : Module<AvgPool3d> {
  // A window of `kernel` elements along all spatial axes or along each; its stride is its size
  // unless given. The call checks them.
  WT_API explicit AvgPool3d(const PerAxis& kernel, const AvgPoolOptions& o = {});
  // [N, C, D, H, W] to [N, C, D', H', W']. Throws ShapeError, DtypeError and UsageError.
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis kernel_;
  AvgPoolOptions options_;
};

// The mean of each of `sizes` windows of nearly equal length; x is [N, C, L] or [C, L]
// (wt::adaptive_avg_pool1d).
struct AdaptiveAvgPool1d : Module<AdaptiveAvgPool1d> {
  // The size of the result along L; the call checks it.
  WT_API explicit AdaptiveAvgPool1d(const PerAxis& sizes);
  // [N, C, L] to [N, C, M] of the sizes given. Throws ShapeError, DtypeError and UsageError.
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis sizes_;
};
// The mean of each of `sizes` windows of nearly equal length; x is [N, C, H, W] or [C, H, W]
// (wt::adaptive_avg_pool2d).
struct AdaptiveAvgPool2d : Module<AdaptiveAvgPool2d> {
  // The size of the result along all spatial axes, or along each; the call checks it.
  WT_API explicit AdaptiveAvgPool2d(const PerAxis& sizes);
  // [N, C, H, W] to [N, C, H', W'] of the sizes given. Throws ShapeError, DtypeError and
  // UsageError.
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis sizes_;
};
// The mean of each of `sizes` windows of nearly equal length; x is [N, C, D, H, W] or [C, D, H, W]
// (wt::adaptive_avg_pool3d).
struct AdaptiveAvgPool3d : Module<AdaptiveAvgPool3d> {
  // The size of the result along all spatial axes, or along each; the call checks it.
  WT_API explicit AdaptiveAvgPool3d(const PerAxis& sizes);
  // [N, C, D, H, W] to [N, C, D', H', W'] of the sizes given. Throws ShapeError, DtypeError and
  // UsageError.
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis sizes_;
};
// The largest element of each of `sizes` windows of nearly equal length; x is [N, C, L] or [C, L]
// (wt::adaptive_max_pool2d).
struct AdaptiveMaxPool1d : Module<AdaptiveMaxPool1d> {
  // The size of the result along L; the call checks it.
  WT_API explicit AdaptiveMaxPool1d(const PerAxis& sizes, const CallLine& = {});
  // [N, C, L] to [N, C, M] of the sizes given. Throws ShapeError, DtypeError and UsageError.
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis sizes_;
};
// The largest element of each of `sizes` windows of nearly equal length; x is [N, C, H, W] or [C,
// H, W] (wt::adaptive_max_pool2d).
struct AdaptiveMaxPool2d : Module<AdaptiveMaxPool2d> {
  // The size of the result along all spatial axes, or along each; the call checks it.
  WT_API explicit AdaptiveMaxPool2d(const PerAxis& sizes);
  // [N, C, H, W] to [N, C, H', W'] of the sizes given. Throws ShapeError, DtypeError and
  // UsageError.
  WT_API Tensor forward(Tensor x);

 private:
  PerAxis sizes_;
};

}  // namespace wt::nn
