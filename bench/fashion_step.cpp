// fashion_cnn: a whole step of the CNN of `wt train fashion` without its dropout, as bench/peers
// does it.
#include <cmath>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/pool.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/bench/overhead_rows.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/loss.h"
#include "warptape/optim/optimizer.h"

namespace wt::bench {
namespace {

constexpr i64 kFlat = 64 * 7 * 7;

void fill(const Tensor& t, u64 seed, double fan_in) {
  const Tensor from = hashed(t.shape(), seed, 1 / std::sqrt(fan_in));
  copy_bytes(t.impl()->data, t.device(), from.impl()->data, from.device(),
             t.numel() * i64(sizeof(float)));
}

struct FashionCnn : nn::Module<FashionCnn> {
  nn::Conv2d conv1 = add("conv1", nn::Conv2d{1, 32, {.kernel = 3, .padding = 1, .bias = false}});
  nn::BatchNorm2d norm1 = add("norm1", nn::BatchNorm2d{32});
  nn::Conv2d conv2 = add("conv2", nn::Conv2d{32, 64, {.kernel = 3, .padding = 1, .bias = false}});
  nn::BatchNorm2d norm2 = add("norm2", nn::BatchNorm2d{64});
  nn::Linear fc1 = add("fc1", nn::Linear{kFlat, 128});
  nn::Linear fc2 = add("fc2", nn::Linear{128, 10});
  FashionCnn() {
    fill(conv1.weight, 1, 9);
    fill(conv2.weight, 2, 288);
    fill(fc1.weight, 3, kFlat);
    fill(fc1.bias, 4, kFlat);
    fill(fc2.weight, 5, 128);
    fill(fc2.bias, 6, 128);
  }
  Tensor forward(Tensor x) {
    x = max_pool2d(relu(norm1(conv1(std::move(x)))), 2);
    x = max_pool2d(relu(norm2(conv2(std::move(x)))), 2);
    return fc2(relu(fc1(flatten(std::move(x), 1))));
  }
};

}  // namespace

OverheadRow fashion_cnn(const OverheadOptions& o) {
  FashionCnn net;
  optim::AdamW opt{net, {.lr = 1e-4, .weight_decay = 0.01}};
  const auto [x, y] = hashed_images(64);
  const auto step = [&] {
    auto loss = cross_entropy(net(x), y);
    opt.zero_grad();
    loss.backward();
    opt.step();
  };
  return measure_steps(o, "fashion_cnn", "1-32-64 k3 bn pool 3136-128-10 b64", step,
                       [&] { return cross_entropy(net(x), y).mean().item(); });
}

}  // namespace wt::bench
