#include "warptape/nn/cifar_speedrun.h"

#include <algorithm>

#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/decompose.h"
#include "warptape/autograd/ops/fold.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/pool.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/stats.h"
#include "warptape/core/at_line.h"
#include "warptape/nn/activations.h"
#include "warptape/nn/init.h"
#include "warptape/nn/pooling.h"

namespace wt::models {
namespace {

constexpr i64 kPatch = 2;

// A patch's numbers, each with either sign.
i64 whitened(i64 channels) { return 2 * channels * kPatch * kPatch; }

nn::Conv2d speedrun_conv(i64 in, i64 out) {
  nn::Conv2d c{in, out, {.kernel = 3, .padding = Padding::same, .bias = false}};
  const NoGrad no_grad;
  nn::init::dirac_(c.weight->slice(0, {0, std::min(in, out)}));
  return c;
}
nn::BatchNorm2d speedrun_norm(i64 channels) {
  nn::BatchNorm2d n{channels, {.eps = 1e-12, .momentum = 0.4, .activation = Activation::gelu}};
  n.requires_grad_("weight", false);
  return n;
}

}  // namespace

SpeedrunGroup::SpeedrunGroup(i64 in, i64 out)
    : conv1(add("conv1", speedrun_conv(in, out))),
      norm1(add("norm1", speedrun_norm(out))),
      conv2(add("conv2", speedrun_conv(out, out))),
      norm2(add("norm2", speedrun_norm(out))) {}

Tensor SpeedrunGroup::forward(Tensor x) {
  x = norm1(max_pool2d(conv1(std::move(x)), 2));
  return norm2(conv2(std::move(x)));
}

CifarSpeedrun::CifarSpeedrun(const CifarSpeedrunOptions& o)
    : whiten(add("whiten", nn::Conv2d{o.in_channels, whitened(o.in_channels), {.kernel = kPatch}})),
      layers(
          add("layers", nn::Sequential{nn::GELU{}, SpeedrunGroup{whitened(o.in_channels), o.width1},
                                       SpeedrunGroup{o.width1, o.width2},
                                       SpeedrunGroup{o.width2, o.width3}, nn::MaxPool2d{3}})),
      head(add("head", nn::Linear{o.width3, o.classes, {.bias = false}})),
      scale_(o.scale) {
  whiten.requires_grad_("weight", false);
  const NoGrad no_grad;
  head.weight->mul_(1 / std(head.weight));
}

Tensor CifarSpeedrun::forward(Tensor x) {
  return head(layers(whiten(std::move(x))).flatten(1)) * scale_;
}

void CifarSpeedrun::whiten_by(const Tensor& images, double eps) {
  const i64 channels = whiten.weight->size(1);
  if (images.ndim() != 4 || images.size(1) != channels)
    throw ShapeError(str("[CifarSpeedrun] images must be [N, ", channels, ", H, W], got ",
                         images.shape(), at_line()));
  const NoGrad no_grad;
  const i64 n = channels * kPatch * kPatch;
  const Tensor columns = unfold2d(images.to(Device::cpu(), f64), kPatch);  // [N, n, places]
  const Tensor rows = columns.transpose(1, 2).reshape({-1, n});
  const EighResult e = eigh(matmul(rows.transpose(0, 1), rows) / double(rows.size(0)));
  // A direction a row, the largest variance first.
  const Tensor scaled = flip((e.vectors / sqrt(e.values + eps)).transpose(0, 1), {0});
  whiten.weight->copy_(cat({scaled, -scaled}).reshape(whiten.weight->shape()));
}

}  // namespace wt::models
