// Resizing.
#pragma once
#include "warptape/autograd/ops/resize.h"
#include "warptape/nn/module.h"

namespace wt::nn {

// Resizes the axes after the second (wt::upsample has modes and errors):
// nn::Upsample{{.scale = {2}, .mode = UpsampleMode::bilinear}}.
struct Upsample : Module<Upsample> {
  // The options are checked by forward().
  WT_API explicit Upsample(const UpsampleOptions& o);
  // [N, C, L], [N, C, H, W] or [N, C, D, H, W] to the same rank. Throws ShapeError, UsageError.
  WT_API Tensor forward(Tensor x);

 private:
  UpsampleOptions options_;
};

}  // namespace wt::nn
