#include "warptape/nn/models/conv_norm.h"

#include <algorithm>

#include "warptape/nn/init.h"

namespace wt::models {
nn::Sequential conv_norm(i64 in, i64 out, const ConvNormOptions& o) {
  return nn::Sequential{
      nn::Conv2d{in,
                 out,
                 {.kernel = o.kernel,
                  .stride = o.stride,
                  .padding = o.kernel / 2,
                  .groups = o.groups,
                  .bias = false}},
      nn::BatchNorm2d{out, {.eps = o.eps, .momentum = o.momentum, .activation = o.behind}}};
}

i64 multiple_of_8(double channels) {
  const i64 nearest = std::max<i64>(8, i64(channels + 4) / 8 * 8);
  return double(nearest) < 0.9 * channels ? nearest + 8 : nearest;
}

void begin_convolutions(const nn::ModuleBase& net) {
  net.apply([](const nn::ModuleBase& m) {
    if (m.type() != "Conv2d") return;
    nn::init::kaiming_normal_(m.parameter("weight"), {.mode = nn::init::FanMode::fan_out});
    if (const nn::Param bias = m.parameter("bias"); bias.defined()) nn::init::zeros_(bias);
  });
}

}  // namespace wt::models
