#include "warptape/nn/pooling.h"

#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"

namespace wt::nn {

Tensor MaxPool1d::forward(Tensor x) { return max_pool1d(std::move(x), kernel_, options_); }
Tensor AvgPool1d::forward(Tensor x) { return avg_pool1d(std::move(x), kernel_, options_); }
Tensor MaxPool2d::forward(Tensor x) { return max_pool2d(std::move(x), kernel_, options_); }
Tensor AvgPool2d::forward(Tensor x) { return avg_pool2d(std::move(x), kernel_, options_); }
Tensor MaxPool3d::forward(Tensor x) { return max_pool3d(std::move(x), kernel_, options_); }
Tensor AvgPool3d::forward(Tensor x) { return avg_pool3d(std::move(x), kernel_, options_); }
Tensor AdaptiveAvgPool1d::forward(Tensor x) { return adaptive_avg_pool1d(std::move(x), sizes_); }
Tensor AdaptiveAvgPool2d::forward(Tensor x) { return adaptive_avg_pool2d(std::move(x), sizes_); }
Tensor AdaptiveAvgPool3d::forward(Tensor x) { return adaptive_avg_pool3d(std::move(x), sizes_); }
Tensor AdaptiveMaxPool2d::forward(Tensor x) { return adaptive_max_pool2d(std::move(x), sizes_); }
// Over rows of height 1.
Tensor AdaptiveMaxPool1d::forward(Tensor x) {
  if (x.ndim() != 2 && x.ndim() != 3)
    throw ShapeError(
        str("[AdaptiveMaxPool1d] x must have 2 or 3 axes, got ", x.shape(), at_line()));
  if (sizes_.size() != 1)
    throw UsageError(
        str("[AdaptiveMaxPool1d] sizes has ", sizes_.size(), " numbers, needs 1", at_line()));
  return squeeze(adaptive_max_pool2d(unsqueeze(std::move(x), -2), {1, sizes_[0]}), -2);
}

MaxPool1d::MaxPool1d(const PerAxis& kernel, const MaxPoolOptions& o)
    : kernel_(kernel), options_(o) {}
AvgPool1d::AvgPool1d(const PerAxis& kernel, const AvgPoolOptions& o)
    : kernel_(kernel), options_(o) {}
MaxPool2d::MaxPool2d(const PerAxis& kernel, const MaxPoolOptions& o)
    : kernel_(kernel), options_(o) {}
AvgPool2d::AvgPool2d(const PerAxis& kernel, const AvgPoolOptions& o)
    : kernel_(kernel), options_(o) {}
MaxPool3d::MaxPool3d(const PerAxis& kernel, const MaxPoolOptions& o)
    : kernel_(kernel), options_(o) {}
AvgPool3d::AvgPool3d(const PerAxis& kernel, const AvgPoolOptions& o)
    : kernel_(kernel), options_(o) {}
AdaptiveAvgPool1d::AdaptiveAvgPool1d(const PerAxis& sizes) : sizes_(sizes) {}
AdaptiveAvgPool2d::AdaptiveAvgPool2d(const PerAxis& sizes) : sizes_(sizes) {}
AdaptiveAvgPool3d::AdaptiveAvgPool3d(const PerAxis& sizes) : sizes_(sizes) {}
AdaptiveMaxPool1d::AdaptiveMaxPool1d(const PerAxis& sizes, const CallLine&) : sizes_(sizes) {}
AdaptiveMaxPool2d::AdaptiveMaxPool2d(const PerAxis& sizes) : sizes_(sizes) {}

}  // namespace wt::nn
