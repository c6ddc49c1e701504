// The network of the CIFAR-10 speed run (Jordan 2024, arXiv:2404.00498: airbench94): a frozen
// convolution that whitens patches of 2 x 2, three groups of convolutions with GELU and batch norms
// that only shift. Names are airbench's.
//
//   models::CifarSpeedrun net;
//   net.whiten_by(images);                             // some thousands, as the network gets them
//   Tensor logits = net(images);                       // [N, 3, 32, 32] -> [N, 10]
#pragma once
#include "warptape/nn/containers.h"
#include "warptape/nn/conv.h"
#include "warptape/nn/linear.h"
#include "warptape/nn/norms.h"

namespace wt::models {

struct CifarSpeedrunOptions {
  i64 classes = 10;
  i64 in_channels = 3;
  i64 width1 = 64, width2 = 256, width3 = 256;  // channels of the groups
  double scale = 1.0 / 9;                       // of the logits
};

// 3 x 3, the larger of 2 x 2, norm, GELU, 3 x 3, norm, GELU: half the picture. Convolutions begin
// as the identity on the first channels (nn::init::dirac_); weights of norms are 1 and frozen.
class WT_API SpeedrunGroup : public nn::Module<SpeedrunGroup> {
 public:
  SpeedrunGroup(i64 in, i64 out);
  Tensor forward(Tensor x);
  nn::Conv2d conv1;
  nn::BatchNorm2d norm1;  // and gelu
  nn::Conv2d conv2;
  nn::BatchNorm2d norm2;  // and gelu
};

// Images [N, in_channels, H, W] from 31 x 31 on to logits [N, classes]; of 32 x 32 the last pooling
// leaves one place.
class WT_API CifarSpeedrun : public nn::Module<CifarSpeedrun> {
 public:
  explicit CifarSpeedrun(const CifarSpeedrunOptions& o = {});
  Tensor forward(Tensor x);
  // Sets the frozen convolution so that the patches of these images come out uncorrelated and of
  // one variance: their principal directions over the square root of (variance + eps), and the
  // negatives. images is [N, in_channels, H, W]; the sum over patches is taken in f64 on the host.
  // Throws ShapeError for other shapes.
  void whiten_by(const Tensor& images, double eps = 5e-4);
  nn::Conv2d whiten;  // its weight is frozen, its bias is learned
  nn::Sequential layers;
  nn::Linear head;

 private:
  double scale_;
};

}  // namespace wt::models
