// The U-Net (Ronneberger et al. 2015, arXiv:1505.04597), padded so that a mask has its picture's
// size, with the names of milesial's Pytorch-UNet (torch.hub's "unet_carvana").
#pragma once
#include <optional>

#include "warptape/core/misnamed.h"
#include "warptape/nn/containers.h"
#include "warptape/nn/conv.h"

namespace wt::models {

struct UnetOptions {
  i64 classes = 2;
  i64 in_channels = 3;
  i64 width = 64;         // channels of the first level; each of four more has twice as many
  bool bilinear = false;  // up by interpolation and half the width, not by transposed convolutions
  WT_MISNAMED(n_classes, classes);
  WT_MISNAMED(n_channels, in_channels);
};

// Twice: 3 x 3, batch norm, relu.
class WT_API DoubleConv : public nn::Module<DoubleConv> {
 public:
  DoubleConv(i64 in, i64 out, i64 between);
  Tensor forward(Tensor x);
  nn::Sequential double_conv;
};

class WT_API UnetDown : public nn::Module<UnetDown> {
 public:
  UnetDown(i64 in, i64 out);
  Tensor forward(Tensor x);
  nn::Sequential maxpool_conv;
};

// x twice as large, beside what the way down saw, which it is padded to.
class WT_API UnetUp : public nn::Module<UnetUp> {
 public:
  UnetUp(i64 in, i64 out, bool bilinear);
  Tensor forward(Tensor x, const Tensor& seen);
  std::optional<nn::ConvTranspose2d> up;
  DoubleConv conv;
};

class WT_API UnetHead : public nn::Module<UnetHead> {
 public:
  UnetHead(i64 in, i64 classes);
  Tensor forward(Tensor x);
  nn::Conv2d conv;
};

// Images [N, in_channels, H, W] to logits [N, classes, H, W]; H and W from 16 on.
class WT_API Unet : public nn::Module<Unet> {
 public:
  explicit Unet(const UnetOptions& o = {});
  Tensor forward(Tensor x);
  DoubleConv inc;
  UnetDown down1, down2, down3, down4;
  UnetUp up1, up2, up3, up4;
  UnetHead outc;
};

}  // namespace wt::models
