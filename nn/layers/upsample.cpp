#include "warptape/nn/upsample.h"

namespace wt::nn {

Tensor Upsample::forward(Tensor x) { return upsample(std::move(x), options_); }

Upsample::Upsample(const UpsampleOptions& o) : options_(o) {}

}  // namespace wt::nn
