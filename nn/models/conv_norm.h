// What mobile networks are made of. Internal.
#pragma once
#include "warptape/nn/containers.h"
#include "warptape/nn/conv.h"
#include "warptape/nn/norms.h"

namespace wt::models {

struct ConvNormOptions {
  i64 kernel = 1, stride = 1, groups = 1;
  Activation behind = Activation::none;
  double eps = 1e-5, momentum = 0.1;
};
// A convolution without bias ("0") that pads to keep the picture's size, a batch norm ("1") and an
// activation, which is part of the norm's kernel.
nn::Sequential conv_norm(i64 in, i64 out, const ConvNormOptions& o);

// The multiple of 8 that is nearest to `channels`, at least 8 and never more than a tenth below it:
// what the MobileNets make of channels times a factor.
i64 multiple_of_8(double channels);

// The beginnings of torchvision's mobile networks: convolutions as kaiming_normal_ by their fan
// out, biases as zeros.
void begin_convolutions(const nn::ModuleBase& net);

}  // namespace wt::models
