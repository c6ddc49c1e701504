#include "warptape/nn/unet.h"

#include "warptape/autograd/ops/pad.h"
#include "warptape/autograd/ops/resize.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/nn/norms.h"
#include "warptape/nn/pooling.h"

namespace wt::models {
namespace {

nn::Conv2d conv3(i64 in, i64 out) { return {in, out, {.kernel = 3, .padding = 1, .bias = false}}; }

// What comes up has half the channels where it is interpolated: nothing else takes them down.
i64 halved(const UnetOptions& o, i64 channels) { return o.bilinear ? channels / 2 : channels; }

}  // namespace

DoubleConv::DoubleConv(i64 in, i64 out, i64 between) {
  double_conv.push_back("0", conv3(in, between));
  double_conv.push_back("1", nn::BatchNorm2d{between, {.activation = Activation::relu}});
  double_conv.push_back("3", conv3(between, out));  // "2" is the relu, which the norm has
  double_conv.push_back("4", nn::BatchNorm2d{out, {.activation = Activation::relu}});
  add("double_conv", double_conv);
}
Tensor DoubleConv::forward(Tensor x) { return double_conv(std::move(x)); }

UnetDown::UnetDown(i64 in, i64 out)
    : maxpool_conv(
          add("maxpool_conv", nn::Sequential{nn::MaxPool2d{2}, DoubleConv{in, out, out}})) {}
Tensor UnetDown::forward(Tensor x) { return maxpool_conv(std::move(x)); }

UnetUp::UnetUp(i64 in, i64 out, bool bilinear) : conv(in, out, bilinear ? in / 2 : out) {
  if (!bilinear) up.emplace(add("up", nn::ConvTranspose2d{in, in / 2, {.kernel = 2, .stride = 2}}));
  add("conv", conv);
}

Tensor UnetUp::forward(Tensor x, const Tensor& seen) {
  x = up ? (*up)(std::move(x))
         : upsample(std::move(x),
                    {.scale = {2}, .mode = UpsampleMode::bilinear, .align_corners = true});
  const i64 below = seen.size(-2) - x.size(-2), right = seen.size(-1) - x.size(-1);
  if (below != 0 || right != 0)
    x = pad(std::move(x), {right / 2, right - right / 2, below / 2, below - below / 2});
  return conv(cat({seen, x}, 1));
}

UnetHead::UnetHead(i64 in, i64 classes)
    : conv(add("conv", nn::Conv2d{in, classes, {.kernel = 1}})) {}
Tensor UnetHead::forward(Tensor x) { return conv(std::move(x)); }

Unet::Unet(const UnetOptions& o)
    : inc(add("inc", DoubleConv{o.in_channels, o.width, o.width})),
      down1(add("down1", UnetDown{o.width, 2 * o.width})),
      down2(add("down2", UnetDown{2 * o.width, 4 * o.width})),
      down3(add("down3", UnetDown{4 * o.width, 8 * o.width})),
      down4(add("down4", UnetDown{8 * o.width, halved(o, 16 * o.width)})),
      up1(add("up1", UnetUp{16 * o.width, halved(o, 8 * o.width), o.bilinear})),
      up2(add("up2", UnetUp{8 * o.width, halved(o, 4 * o.width), o.bilinear})),
      up3(add("up3", UnetUp{4 * o.width, halved(o, 2 * o.width), o.bilinear})),
      up4(add("up4", UnetUp{2 * o.width, o.width, o.bilinear})),
      outc(add("outc", UnetHead{o.width, o.classes})) {}

Tensor Unet::forward(Tensor x) {
  const Tensor x1 = inc(std::move(x)), x2 = down1(x1), x3 = down2(x2), x4 = down3(x3);
  x = up1(down4(x4), x4);
  x = up2(std::move(x), x3);
  x = up3(std::move(x), x2);
  return outc(up4(std::move(x), x1));
}

}  // namespace wt::models
