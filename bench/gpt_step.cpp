// gpt_small: a whole step of a small GPT, as bench/peers does it.
#include <cmath>

#include "warptape/autograd/ops/attention.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/norm.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/bench/overhead_rows.h"
#include "warptape/core/factories.h"
#include "warptape/nn/loss.h"
#include "warptape/optim/clip.h"
#include "warptape/optim/optimizer.h"

namespace wt::bench {
namespace {

constexpr i64 kLayers = 4, kHeads = 4, kChannels = 128, kContext = 64, kBatch = 12, kBytes = 256;

// Radford et al. 2019 with learnt positions, an untied head and the exact GELU.
struct Gpt {
  std::vector<nn::NamedTensor> parameters;

  Gpt() {
    put("tokens", hashed({kBytes, kChannels}, 1, 0.5));
    put("positions", hashed({kContext, kChannels}, 2, 0.5));
    for (int l = 0; l < kLayers; ++l) {
      norm();
      linear_of(kChannels, 3 * kChannels);
      linear_of(kChannels, kChannels);
      norm();
      linear_of(kChannels, 4 * kChannels);
      linear_of(4 * kChannels, kChannels);
    }
    norm();
    linear_of(kChannels, kBytes);
  }

  // x [N, kContext] i64 -> logits [N * kContext, kBytes]
  Tensor operator()(const Tensor& x) const {
    at_ = 0;
    const Tensor &tokens = next(), &positions = next();
    Tensor h = embedding(x, tokens) + positions;
    for (int l = 0; l < kLayers; ++l) {
      h = h + attend(normed(h));
      Tensor m = gelu(product(normed(h)));
      h = h + product(std::move(m));
    }
    return reshape(product(normed(h)), {-1, kBytes});
  }

 private:
  void put(const char* name, Tensor t) {
    t.set_requires_grad();
    parameters.push_back({str(parameters.size(), ".", name), std::move(t)});
  }
  void norm() {
    put("weight", ones({kChannels}));
    put("bias", zeros({kChannels}));
  }
  void linear_of(i64 in, i64 out) {
    const double scale = 1 / std::sqrt(double(in));
    const u64 seed = parameters.size() + 1;
    put("weight", hashed({out, in}, seed, scale));
    put("bias", hashed({out}, seed + 1, scale));
  }

  const Tensor& next() const { return parameters[at_++].tensor; }
  Tensor normed(const Tensor& x) const {
    const Tensor &weight = next(), &bias = next();
    return layer_norm(x, {kChannels}, weight, bias);
  }
  Tensor product(Tensor x) const {
    const Tensor &weight = next(), &bias = next();
    return linear(std::move(x), weight, bias);
  }
  Tensor attend(Tensor x) const {
    const i64 n = x.size(0);
    const std::vector<Tensor> qkv = split(product(std::move(x)), kChannels, 2);
    const auto heads = [&](const Tensor& t) {
      return transpose(reshape(t, {n, kContext, kHeads, kChannels / kHeads}), 1, 2);
    };
    Tensor y =
        scaled_dot_product_attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), {.causal = true});
    return product(reshape(transpose(std::move(y), 1, 2), {n, kContext, kChannels}));
  }

  mutable size_t at_ = 0;
};

}  // namespace

OverheadRow gpt_small(const OverheadOptions& o) {
  const Gpt net;
  optim::AdamW opt{net.parameters, {.lr = 1e-4, .weight_decay = 0.1}};
  const Tensor x = hashed_bytes({kBatch, kContext}, 101),
               y = hashed_bytes({kBatch * kContext}, 102);
  const auto step = [&] {
    auto loss = cross_entropy(net(x), y);
    opt.zero_grad();
    loss.backward();
    opt.step({.grad_factor = optim::clip_factor(opt, 1.0)});
  };
  return measure_steps(o, "gpt_small", "L4 H4 C128 T64 V256 b12", step,
                       [&] { return cross_entropy(net(x), y).mean().item(); });
}

}  // namespace wt::bench
