// Losses: cross_entropy and mse_loss are in autograd/ops.h beside the other operators; this is the
// type that they return, under the name that users of modules look for.
#pragma once
#include "warptape/autograd/loss.h"

namespace wt::nn {
using wt::Loss;
}  // namespace wt::nn
