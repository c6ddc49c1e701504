#include "warptape/bench/steps/steps_models.h"

#include <cmath>

#include "warptape/autograd/ops/fused_linear.h"
#include "warptape/autograd/ops/pool.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/loss.h"

namespace wt::bench {
namespace {

constexpr i64 kClasses = 10;

u64 hash_of(i64 i, i64 seed) { return u64(i + 1 + seed * 1000003) * 2654435761u & 0xffffffffu; }

Tensor labels(i64 n) { return step_labels(n, kClasses); }

Tensor fused(const nn::Linear& layer, const Tensor& x, Activation f) {
  return fused_linear(x, layer.weight, {.bias = layer.bias, .activation = f});
}

// --- mlp_small ---

struct MlpSizes {
  i64 inputs, hidden, batch;
};

struct Mlp : nn::Module<Mlp> {
  nn::Linear fc1, fc2, fc3;
  explicit Mlp(const MlpSizes& s)
      : fc1(add("fc1", nn::Linear{s.inputs, s.hidden})),
        fc2(add("fc2", nn::Linear{s.hidden, s.hidden})),
        fc3(add("fc3", nn::Linear{s.hidden, kClasses})) {}
  Tensor forward(Tensor x) {
    x = fused(fc1, x, Activation::relu);
    x = fused(fc2, x, Activation::relu);
    return fc3(std::move(x));
  }
};

// All peers of mlp_small have their weights as [in, out].
void set_mlp_numbers(const Mlp& net) {
  set_step_numbers(net);
  const NoGrad no_grad;
  i64 seed = 1;
  for (const nn::Linear& layer : {net.fc1, net.fc2, net.fc3}) {
    const i64 out = layer.weight->size(0), in = layer.weight->size(1);
    Tensor w = layer.weight;
    w.copy_(step_numbers({in, out}, seed, 1 / std::sqrt(double(in))).transpose(0, 1));
    seed += 2;
  }
}

StepModel make_mlp(const MlpSizes& s) {
  Mlp net{s};
  set_mlp_numbers(net);
  StepModel m;
  m.shape = str(s.inputs, "-", s.hidden, "-", s.hidden, "-", kClasses, " b", s.batch);
  const double first = double(s.inputs * s.hidden);
  const double rest = double(s.hidden * s.hidden + s.hidden * kClasses);
  m.flops = 2 * double(s.batch) * (2 * first + 3 * rest);
  m.net = net;
  m.logits = [net](const Tensor& x) mutable { return net(x); };
  m.batch = {step_numbers({s.batch, s.inputs}, 101, 1), labels(s.batch)};
  return m;
}

// --- fashion: of `wt train fashion`, without its dropout ---

struct CnnSizes {
  i64 image, width, hidden, batch;
  i64 flat() const { return 2 * width * (image / 4) * (image / 4); }
};

struct ConvBlock : nn::Module<ConvBlock> {
  nn::Conv2d conv;
  nn::BatchNorm2d norm;
  ConvBlock(i64 in, i64 out)
      : conv(add("conv", nn::Conv2d{in, out, {.kernel = 3, .padding = 1, .bias = false}})),
        norm(add("norm", nn::BatchNorm2d{out, {.activation = Activation::relu}})) {}
  Tensor forward(Tensor x) { return norm(conv(std::move(x))); }
};

struct Cnn : nn::Module<Cnn> {
  ConvBlock first, second;
  nn::Linear fc1, fc2;
  explicit Cnn(const CnnSizes& s)
      : first(add("first", ConvBlock{1, s.width})),
        second(add("second", ConvBlock{s.width, 2 * s.width})),
        fc1(add("fc1", nn::Linear{s.flat(), s.hidden})),
        fc2(add("fc2", nn::Linear{s.hidden, kClasses})) {}
  Tensor forward(Tensor x) {
    x = max_pool2d(first(std::move(x)), 2);
    x = max_pool2d(second(std::move(x)), 2);
    return fc2(fused(fc1, flatten(std::move(x), 1), Activation::relu));
  }
};

StepModel make_fashion(const CnnSizes& s) {
  Cnn net{s};
  set_step_numbers(net);
  StepModel m;
  m.shape = str("1-", s.width, "-", 2 * s.width, " k3 bn pool ", s.flat(), "-", s.hidden, "-",
                kClasses, " b", s.batch);
  const double pixels = double(s.image * s.image), width = double(s.width);
  const double first = 9 * width * pixels, second = 9 * width * 2 * width * pixels / 4;
  const double linears = double(s.flat() * s.hidden + s.hidden * kClasses);
  m.flops = 2 * double(s.batch) * (2 * first + 3 * (second + linears));
  m.net = net;
  m.logits = [net](const Tensor& x) mutable { return net(x); };
  m.batch = {step_numbers({s.batch, 1, s.image, s.image}, 101, 1), labels(s.batch)};
  m.clip = 1;
  return m;
}

// --- all of them ---

StepModel with_sgd(StepModel m) {
  m.optimizer = std::make_unique<optim::Sgd>(m.net, optim::SgdOptions{.lr = 0.01});
  return m;
}
StepModel with_adamw(StepModel m, double decay) {
  m.optimizer =
      std::make_unique<optim::AdamW>(m.net, optim::AdamWOptions{.lr = 1e-4, .weight_decay = decay});
  return m;
}

}  // namespace

Tensor step_numbers(const Shape& shape, i64 seed, double scale) {
  std::vector<float> v(size_t(numel_of(shape)));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = float((double(hash_of(i64(i), seed)) / 4294967296.0 * 2 - 1) * scale);
  return tensor(v).reshape(shape);
}

Tensor step_indices(const Shape& shape, i64 seed, i64 count) {
  std::vector<i64> v(size_t(numel_of(shape)));
  for (size_t i = 0; i < v.size(); ++i) v[i] = i64(hash_of(i64(i), seed) * u64(count) >> 32);
  return tensor(v).reshape(shape);
}

Tensor step_labels(i64 n, i64 classes) {
  std::vector<i64> v;
  for (i64 i = 0; i < n; ++i) v.push_back(i * 7 % classes);
  return tensor(v);
}

void set_step_numbers(const nn::ModuleBase& net) {
  const NoGrad no_grad;
  double scale = 1;
  i64 place = 0;
  for (nn::NamedTensor& p : net.named_parameters()) {
    ++place;
    if (p.name.find("norm") != std::string::npos) continue;
    if (p.tensor.ndim() > 1) scale = 1 / std::sqrt(double(p.tensor.numel() / p.tensor.size(0)));
    p.tensor.copy_(step_numbers(p.tensor.shape(), place, scale));
  }
}

Loss StepModel::loss(const data::Batch& b) const {
  return is_regression ? mse_loss(logits(b.x), b.y) : cross_entropy(logits(b.x), b.y);
}

// The rate is that of bench/peers: at the recipes' own, and without their warm-up, roundings grow
// within 20 steps until losses of equal networks are a hundredth apart. Decays are the recipes'.
StepModel make_step_model(const StepOptions& o) {
  const DefaultDevice here(o.device);
  const bool small = o.scale == Scale::small;
  const auto with_batch = [&](auto sizes) {
    if (o.batch > 0) sizes.batch = o.batch;
    return sizes;
  };
  if (is_named_step(o.model)) return make_named_step(o);
  if (o.model == "mlp_small")
    return with_sgd(make_mlp(with_batch(small ? MlpSizes{20, 16, 8} : MlpSizes{784, 512, 128})));
  if (o.model == "gpt") {
    const StepGptSizes s =
        small ? StepGptSizes{2, 2, 32, 16, 64, 2} : StepGptSizes{12, 12, 768, 1024, 50304, 8};
    return with_adamw(make_step_gpt(with_batch(s)), 0.1);
  }
  if (o.model == "charlm") {
    const StepGptSizes s =
        small ? StepGptSizes{2, 2, 32, 16, 256, 2} : StepGptSizes{4, 4, 128, 128, 256, 16};
    return with_adamw(make_step_charlm(with_batch(s)), 0.1);
  }
  WT_INTERNAL_ASSERT(o.model == "fashion");
  const CnnSizes s = small ? CnnSizes{16, 8, 32, 16} : CnnSizes{28, 32, 128, 64};
  return with_adamw(make_fashion(with_batch(s)), 0.01);
}

}  // namespace wt::bench
