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

}  // namespace wt::nn
