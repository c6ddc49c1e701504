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

// Sizes of the network; the defaults are airbench94's.
struct CifarSpeedrunOptions {
  i64 classes = 10;                             // logits of an image
  i64 in_channels = 3;                          // of the images
  i64 width1 = 64, width2 = 256, width3 = 256;  // channels of the groups
  double scale = 1.0 / 9;                       // of the logits
};

// A group of layers: 3 x 3, the largest of 2 x 2, norm, GELU, 3 x 3, norm, GELU: half the picture.
// Convolutions begin as the identity on the first channels (nn::init::dirac_); weights of norms are
// 1 and frozen.
class WT_API SpeedrunGroup : public nn::Module<SpeedrunGroup> {
 public:
  // `in` channels to `out`. Throws ShapeError for sizes below 1.
  SpeedrunGroup(i64 in, i64 out);
  // [N, in, H, W] to [N, out, H / 2, W / 2], rounded down.
  Tensor forward(Tensor x);
  nn::Conv2d conv1;       // 3 x 3, from `in` to `out` channels, without bias
  nn::BatchNorm2d norm1;  // and gelu
  nn::Conv2d conv2;       // 3 x 3, from `out` to `out` channels, without bias
  nn::BatchNorm2d norm2;  // and gelu
};

// The network: images [N, in_channels, H, W] to logits [N, classes], sides from 25 to 48, for which
// the last pooling leaves one place. Before whiten_by() the frozen convolution has random weights.
class WT_API CifarSpeedrun : public nn::Module<CifarSpeedrun> {
 public:
  // The head's weight begins with a standard deviation of 1. Throws ShapeError for sizes below 1.
  explicit CifarSpeedrun(const CifarSpeedrunOptions& o = {});
  // [N, in_channels, H, W] to [N, classes], times the scale. Throws ShapeError for other sides than
  // from 25 to 48.
  Tensor forward(Tensor x);
  // Sets the frozen convolution so that the patches of these images come out uncorrelated and of
  // one variance: their principal directions over the square root of (variance + eps), and the
  // negatives. images is [N, in_channels, H, W]; the sum over patches is taken in f64 on the host.
  // Throws ShapeError for other shapes.
  void whiten_by(const Tensor& images, double eps = 5e-4);
  nn::Conv2d whiten;      // its weight is frozen, its bias is learned
  nn::Sequential layers;  // GELU, the three groups, the largest of 3 x 3
  nn::Linear head;        // from width3 features to the classes, without bias

 private:
  double scale_;
};

}  // namespace wt::models
