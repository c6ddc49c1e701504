// Channels weighed by what the whole picture says (Hu et al. 2017, arXiv:1709.01507).
#pragma once
#include "warptape/nn/conv.h"

namespace wt::nn {

enum class SqueezeActivation : u8 { relu, silu };
enum class SqueezeGate : u8 { sigmoid, hardsigmoid };
struct SqueezeExcitationOptions {
  SqueezeActivation activation = SqueezeActivation::relu;
  SqueezeGate gate = SqueezeGate::sigmoid;
};
// x * gate(fc2(activation(fc1(mean of x over the picture)))), x [N, C, H, W]. fc1 and fc2 are
// convolutions of 1 x 1 to `squeezed` channels and back, which is how torchvision's layer of this
// name has them. Throws ShapeError for sizes below 1.
class WT_API SqueezeExcitation : public Module<SqueezeExcitation> {
 public:
  SqueezeExcitation(i64 channels, i64 squeezed, const SqueezeExcitationOptions& o = {},
                    const CallLine& = {});
  Tensor forward(Tensor x);
  Conv2d fc1, fc2;

 private:
  SqueezeExcitationOptions options_;
};

}  // namespace wt::nn
