// The U-Net (Ronneberger et al. 2015, arXiv:1505.04597), padded so that a mask has its picture's
// size, with the names of milesial's Pytorch-UNet (torch.hub's "unet_carvana").
#pragma once
#include <optional>

#include "warptape/core/misnamed.h"
#include "warptape/nn/containers.h"
#include "warptape/nn/conv.h"

namespace wt::models {

// The sizes of a Unet.
struct UnetOptions {
  i64 classes = 2;        // channels of the logits
  i64 in_channels = 3;    // of the images
  i64 width = 64;         // channels of the first level; each of four more has twice as many
  bool bilinear = false;  // up by interpolation and half the width, not by transposed convolutions
  WT_MISNAMED(n_classes, classes);
  WT_MISNAMED(n_channels, in_channels);
};

// Twice: a convolution of 3 x 3 without bias, batch norm, relu.
class WT_API DoubleConv : public nn::Module<DoubleConv> {
 public:
  // From `in` channels to `out`, with `between` after the first convolution. Throws ShapeError for
  // numbers below 1.
  DoubleConv(i64 in, i64 out, i64 between);
  // [N, in, H, W] to [N, out, H, W].
  Tensor forward(Tensor x);
  // "0" and "3" are the convolutions, "1" and "4" the norms, with the relu in them.
  nn::Sequential double_conv;
};

// One level down: the maximum of 2 x 2, then DoubleConv.
class WT_API UnetDown : public nn::Module<UnetDown> {
 public:
  // From `in` channels to `out`.
  UnetDown(i64 in, i64 out);
  // [N, in, H, W] to [N, out, H / 2, W / 2], rounded down.
  Tensor forward(Tensor x);
  // "0" is the pooling, "1" the DoubleConv.
  nn::Sequential maxpool_conv;
};

// One level up: x twice as large, beside what the way down saw, which it is padded to, then
// DoubleConv.
class WT_API UnetUp : public nn::Module<UnetUp> {
 public:
  // `in` is the number of channels of both together, once x is twice as large.
  UnetUp(i64 in, i64 out, bool bilinear);
  // x [N, in, h, w], with bilinear [N, in / 2, h, w], and seen [N, in / 2, H, W] to [N, out, H, W].
  Tensor forward(Tensor x, const Tensor& seen);
  // The transposed convolution of 2 x 2 that halves x's channels; none with bilinear.
  std::optional<nn::ConvTranspose2d> up;
  // What comes behind; with bilinear in / 2 channels are between its convolutions.
  DoubleConv conv;
};

// The last layer: a convolution of 1 x 1 to the classes.
class WT_API UnetHead : public nn::Module<UnetHead> {
 public:
  // From `in` channels to so many classes.
  UnetHead(i64 in, i64 classes);
  // [N, in, H, W] to logits [N, classes, H, W].
  Tensor forward(Tensor x);
  // The convolution, with a bias.
  nn::Conv2d conv;
};

// Images [N, in_channels, H, W] to logits [N, classes, H, W]; H and W from 16 on.
class WT_API Unet : public nn::Module<Unet> {
 public:
  // Throws ShapeError for sizes below 1.
  explicit Unet(const UnetOptions& o = {});
  // [N, in_channels, H, W] to logits [N, classes, H, W].
  Tensor forward(Tensor x);
  // inc at the images' size; down1 to down4 and up1 to up4, the four levels below it; outc, which
  // makes the logits.
  DoubleConv inc;
  UnetDown down1, down2, down3, down4;
  UnetUp up1, up2, up3, up4;
  UnetHead outc;
};

}  // namespace wt::models
