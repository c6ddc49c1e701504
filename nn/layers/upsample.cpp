#include "warptape/nn/upsample.h"

namespace wt::nn {

Tensor Upsample::forward(Tensor x) { return upsample(std::move(x), options_); }

}  // namespace wt::nn
