// Predicted against measured memory of five models, and what checkpointing saves of a Transformer.
#include <functional>

#include "warptape/autograd/checkpoint.h"
#include "warptape/autograd/ops/attention.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory_fit.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/loss.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;

namespace {

// A model in training: three steps on the default device.
template <class Net, class Opt, class F>
void train(Net net, const Tensor& x, const F& loss_of) {
  Opt opt{net};
  TrainStep step{net, opt, {.clip_norm = 1}};
  for (int i = 0; i < 3; ++i) step(x, [&](const Tensor& in) { return loss_of(net, in); });
}

void mlp(i64 n) {
  train<nn::Sequential, optim::Adam>(
      nn::Sequential{nn::Linear{64, 256}, nn::ReLU{}, nn::Linear{256, 256}, nn::Tanh{},
                     nn::Linear{256, 10}},
      rand({8 * n, 64}), [](auto& net, const Tensor& x) { return mean(square(net(x))); });
}

// Two residual blocks of convolutions with batch norm (He et al. 2015).
struct Residual : nn::Module<Residual> {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d norm1, norm2;
  explicit Residual(i64 c)
      : conv1(add("conv1", nn::Conv2d{c, c, {.kernel = 3, .padding = 1, .bias = false}})),
        conv2(add("conv2", nn::Conv2d{c, c, {.kernel = 3, .padding = 1, .bias = false}})),
        norm1(add("norm1", nn::BatchNorm2d{c})),
        norm2(add("norm2", nn::BatchNorm2d{c})) {}
  Tensor forward(const Tensor& x) { return relu(norm2(conv2(relu(norm1(conv1(x))))) + x); }
};
void resnet(i64 n) {
  nn::Sequential net{nn::Conv2d{3, 16, {.kernel = 3, .padding = 1}},
                     Residual{16},
                     nn::MaxPool2d{2},
                     Residual{16},
                     nn::Flatten{},
                     nn::Linear{16 * 64, 10}};
  train<nn::Sequential, optim::Sgd>(std::move(net), rand({n, 3, 16, 16}),
                                    [](auto& m, const Tensor& x) { return mean(square(m(x))); });
}

struct Gpt : nn::Module<Gpt> {
  nn::Embedding token = add("token", nn::Embedding{64, 32});
  nn::LayerNorm norm = add("norm", nn::LayerNorm{32});
  nn::Linear qkv = add("qkv", nn::Linear{32, 96}), head = add("head", nn::Linear{32, 64});
  Tensor forward(const Tensor& x) {  // [N, T]
    const Tensor h = token(x);
    const i64 n = x.size(0), t = x.size(1);
    const Tensor all = transpose(reshape(qkv(norm(h)), {n, t, 12, 8}), 1, 2);
    const Tensor y = scaled_dot_product_attention(slice(all, 1, {0, 4}), slice(all, 1, {4, 8}),
                                                  slice(all, 1, {8, 12}), {.causal = true});
    return head(gelu(h + reshape(transpose(y, 1, 2), {n, t, 32})));
  }
};
void gpt(i64 n) {
  train<Gpt, optim::AdamW>(Gpt{}, zeros({n, 32}, {.dtype = DType::i64}),
                           [](auto& net, const Tensor& x) {
                             return cross_entropy(reshape(net(x), {-1, 64}), reshape(x, {-1}));
                           });
}

struct Lstm : nn::Module<Lstm> {
  nn::LSTM lstm = add("lstm", nn::LSTM{16, 32, {.num_layers = 2, .batch_first = true}});
  nn::Linear head = add("head", nn::Linear{32, 4});
  Tensor forward(const Tensor& x) { return head(lstm(x).output); }
};
void lstm(i64 n) {
  train<Lstm, optim::RmsProp>(Lstm{}, rand({n, 12, 16}),
                              [](auto& net, const Tensor& x) { return mean(square(net(x))); });
}

constexpr i64 kWidth = 32, kLength = 48;

// The 4+4-layer Transformer with 8 heads, each layer checkpointed or not.
struct Seq2Seq : nn::Module<Seq2Seq> {
  nn::Transformer t =
      add("t", nn::Transformer{{.d_model = kWidth,
                                .nhead = 8,
                                .num_encoder_layers = 4,
                                .num_decoder_layers = 4,
                                .layer = {.dim_feedforward = 4 * kWidth, .batch_first = true}}});
  bool checkpointed = false;

  Tensor forward(Tensor x) {
    Tensor memory = x, y = std::move(x);
    for (auto& layer : t.encoder.layers) {
      const auto f = [layer](const Tensor& in) mutable { return layer(in); };
      memory = checkpointed ? checkpoint(f, memory) : layer(std::move(memory));
    }
    memory = (*t.encoder.norm)(std::move(memory));
    for (auto& layer : t.decoder.layers) {
      const auto f = [layer](const Tensor& in, const Tensor& from) mutable {
        return layer(in, from, nn::DecoderMasks{.tgt_is_causal = true});
      };
      y = checkpointed ? checkpoint(f, y, memory)
                       : layer(std::move(y), memory, nn::DecoderMasks{.tgt_is_causal = true});
    }
    return (*t.decoder.norm)(std::move(y));
  }
};
void transformer(i64 n) {
  train<Seq2Seq, optim::Adagrad>(Seq2Seq{}, rand({n, kLength, kWidth}),
                                 [](auto& net, const Tensor& x) { return mean(square(net(x))); });
}

}  // namespace

TEST_CASE("memory of five models is predicted within 3 %", "[memory]") {
  const std::pair<const char*, void (*)(i64)> models[] = {
      {"mlp", mlp}, {"resnet", resnet}, {"gpt", gpt}, {"lstm", lstm}, {"transformer", transformer}};
  for (const Device d : wt_test::kernel_devices()) {
    {
      const DefaultDevice there(d);
      mlp(1);  // the device has started, with what it keeps
    }
    for (const auto& [name, steps] : models) {
      if (d == Device::simt() && std::string(name) == "transformer") continue;  // a minute
      if (d == Device::simt() && steps != gpt && !wt_test::whole_walk()) continue;
      const i64 n = d == Device::simt() ? 2 : 8;
      CAPTURE(to_string(d), name);
      const LeakGuard guard;
      const memory::Prediction p = memory::predict(d, [&, run = steps] { run(n); });
      memory::reset_peak(d);
      const i64 before = memory::stats(d).live;
      {
        const DefaultDevice there(d);
        steps(n);
      }
      const i64 there = memory::stats(d).peak - before;
      CAPTURE(p.peak, there);
      CHECK(double(p.peak) >= 0.97 * double(there));
      CHECK(double(p.peak) <= 1.03 * double(there));
    }
  }
}

TEST_CASE("the 4+4-layer Transformer takes at least 35 % less with checkpoints, same gradients",
          "[memory]") {
  const LeakGuard guard;
  const Device d = Device::cpu();
  std::vector<std::vector<double>> gradients[2];
  i64 peaks[2] = {}, predicted[2] = {};
  for (const bool checkpointed : {false, true}) {
    const auto backward = [&] {
      manual_seed(5);
      Seq2Seq net;
      net.checkpointed = checkpointed;
      const Tensor x = rand({16, kLength, kWidth});
      mean(square(net(x))).backward();
      if (x.device().is_meta) return;
      for (const Tensor& p : net.parameters())
        gradients[checkpointed].push_back(p.grad().to_vector<double>());
    };
    memory::reset_peak(d);
    const i64 before = memory::stats(d).live;
    backward();
    peaks[checkpointed] = memory::stats(d).peak - before;
    predicted[checkpointed] = memory::predict(d, backward).peak;
  }
  CAPTURE(peaks[0], peaks[1]);
  CHECK(peaks[1] * 100 <= peaks[0] * 65);
  CHECK(gradients[0].size() > 100);
  const bool same = gradients[0] == gradients[1];
  CHECK(same);
  for (const int i : {0, 1}) {
    CAPTURE(predicted[i], peaks[i]);
    CHECK(double(predicted[i]) >= 0.97 * double(peaks[i]));
    CHECK(double(predicted[i]) <= 1.03 * double(peaks[i]));
  }
}
