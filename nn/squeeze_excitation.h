// Channels weighed by what the whole picture says (Hu et al. 2017, arXiv:1709.01507).
#pragma once
#include "warptape/nn/conv.h"

namespace wt::nn {

// What stands between the two layers: relu, or silu (EfficientNet's).
enum class SqueezeActivation : u8 { relu, silu };
// What makes weights of the second layer's results: sigmoid, or hardsigmoid (MobileNetV3's).
enum class SqueezeGate : u8 { sigmoid, hardsigmoid };
// The functions of a SqueezeExcitation.
struct SqueezeExcitationOptions {
  SqueezeActivation activation = SqueezeActivation::relu;  // behind fc1
  SqueezeGate gate = SqueezeGate::sigmoid;                 // behind fc2
};
// x * gate(fc2(activation(fc1(mean of x over the picture)))), x [N, C, H, W]. fc1 and fc2 are
// convolutions of 1 x 1 to `squeezed` channels and back, which is how torchvision's layer of this
// name has them. Throws ShapeError for sizes below 1.
class WT_API SqueezeExcitation : public Module<SqueezeExcitation> {
 public:
  // For x of so many channels, with `squeezed` of them between fc1 and fc2.
  SqueezeExcitation(i64 channels, i64 squeezed, const SqueezeExcitationOptions& o = {},
                    const CallLine& = {});
  // [N, C, H, W] to the same shape.
  Tensor forward(Tensor x);
  // fc1 [squeezed, C, 1, 1] and fc2 [C, squeezed, 1, 1], with biases.
  Conv2d fc1, fc2;

 private:
  SqueezeExcitationOptions options_;
};

}  // namespace wt::nn
