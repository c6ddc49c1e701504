// gpt and charlm: a stack of pre-norm blocks (Radford et al. 2019). Each sum of a residual is one
// kernel with the norm behind it, and the feed-forward layers are one operator.
#include <optional>

#include "warptape/autograd/ops/attention.h"
#include "warptape/autograd/ops/fused_linear.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/bench/steps/steps_models.h"
#include "warptape/nn/layers.h"

namespace wt::bench {
namespace {

struct GptKind {
  bool rotary;  // positions turn queries and keys; else they are learnt
  bool tied;    // the tokens' table gives the logits, too
  Activation activation;
};
constexpr GptKind kGpt2{.rotary = false, .tied = true, .activation = Activation::gelu_tanh};
constexpr GptKind kCharLm{.rotary = true, .tied = false, .activation = Activation::gelu};

struct Attention : nn::Module<Attention> {
  i64 heads;
  bool rotary;
  nn::Linear qkv, out;
  Attention(const StepGptSizes& s, const GptKind& kind)
      : heads(s.heads),
        rotary(kind.rotary),
        qkv(add("qkv", nn::Linear{s.channels, 3 * s.channels})),
        out(add("out", nn::Linear{s.channels, s.channels})) {}

  Tensor forward(Tensor x) {  // [N, T, C]
    const i64 n = x.size(0), t = x.size(1), c = x.size(2);
    const Tensor all = qkv(std::move(x));
    const auto part = [&](i64 from, i64 to) {  // [N, heads of these channels, T, C / heads]
      const Tensor some = slice(all, -1, {from, to});
      return transpose(reshape(some, {n, t, (to - from) * heads / c, c / heads}), 1, 2);
    };
    Tensor q, k;
    if (rotary) {
      const Tensor both = rotary_embedding(part(0, 2 * c));
      q = slice(both, 1, {0, heads});
      k = slice(both, 1, {heads, 2 * heads});
    } else {
      q = part(0, c);
      k = part(c, 2 * c);
    }
    Tensor y = scaled_dot_product_attention(q, k, part(2 * c, 3 * c), {.causal = true});
    return out(reshape(transpose(std::move(y), 1, 2), {n, t, c}));
  }
};

struct FeedForward : nn::Module<FeedForward> {
  Activation activation;
  nn::Linear up, down;
  FeedForward(const StepGptSizes& s, const GptKind& kind)
      : activation(kind.activation),
        up(add("up", nn::Linear{s.channels, 4 * s.channels})),
        down(add("down", nn::Linear{4 * s.channels, s.channels})) {}
  Tensor forward(Tensor x) {
    return feed_forward(std::move(x), up.weight, down.weight,
                        {.bias1 = up.bias, .bias2 = down.bias, .activation = activation});
  }
};

struct Block : nn::Module<Block> {
  nn::LayerNorm norm1;
  Attention attention;
  nn::LayerNorm norm2;
  FeedForward feed;
  Block(const StepGptSizes& s, const GptKind& kind)
      : norm1(add("norm1", nn::LayerNorm{s.channels})),
        attention(add("attention", Attention{s, kind})),
        norm2(add("norm2", nn::LayerNorm{s.channels})),
        feed(add("feed", FeedForward{s, kind})) {}
};

struct Gpt : nn::Module<Gpt> {
  nn::Embedding token;
  std::optional<nn::Embedding> place;
  std::vector<Block> blocks;
  std::optional<nn::LayerNorm> norm;
  std::optional<nn::Linear> head;

  Gpt(const StepGptSizes& s, const GptKind& kind)
      : token(add("token", nn::Embedding{s.vocabulary, s.channels})) {
    if (!kind.rotary) place = add("place", nn::Embedding{s.context, s.channels});
    for (i64 i = 0; i < s.layers; ++i) blocks.push_back(add(str("block", i), Block{s, kind}));
    norm = add("norm", nn::LayerNorm{s.channels});
    if (!kind.tied) head = add("head", nn::Linear{s.channels, s.vocabulary});
  }

  Tensor forward(Tensor x) {  // indices [N, T] -> logits [N * T, vocabulary]
    Tensor sum = token(std::move(x));
    if (place) sum = std::move(sum) + place->weight.tensor();
    Tensor y = blocks[0].norm1(sum);
    for (size_t i = 0; i < blocks.size(); ++i) {
      AddNormResult r = blocks[i].norm2.of_sum(blocks[i].attention(std::move(y)), sum);
      nn::LayerNorm& next = i + 1 < blocks.size() ? blocks[i + 1].norm1 : *norm;
      r = next.of_sum(blocks[i].feed(std::move(r.y)), r.sum);
      y = std::move(r.y);
      sum = std::move(r.sum);
    }
    Tensor logits = head ? (*head)(std::move(y)) : linear(std::move(y), token.weight);
    return flatten(std::move(logits), 0, 1);
  }
};

double flops_of(const StepGptSizes& s) {
  const double c = double(s.channels), tokens = double(s.batch * s.context);
  const double linears = double(s.layers) * 12 * c * c + c * double(s.vocabulary);
  const double attention = double(s.layers) * c * double(s.context + 1);
  return 2 * tokens * 3 * (linears + attention);
}

StepModel make(const StepGptSizes& s, const GptKind& kind) {
  Gpt net{s, kind};
  StepModel m;
  m.shape = str("L", s.layers, " H", s.heads, " C", s.channels, " T", s.context, " V", s.vocabulary,
                " b", s.batch);
  m.flops = flops_of(s);
  m.net = net;
  m.logits = [net](const Tensor& x) mutable { return net(x); };
  m.batch = {step_indices({s.batch, s.context}, 101, s.vocabulary),
             step_indices({s.batch * s.context}, 102, s.vocabulary)};
  m.clip = 1;
  set_step_numbers(m.net);
  return m;
}

}  // namespace

StepModel make_step_gpt(const StepGptSizes& s) { return make(s, kGpt2); }
StepModel make_step_charlm(const StepGptSizes& s) { return make(s, kCharLm); }

}  // namespace wt::bench
