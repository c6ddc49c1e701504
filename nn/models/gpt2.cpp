#include "warptape/nn/gpt2.h"

#include <cmath>

#include "warptape/autograd/ops/arrange.h"
#include "warptape/autograd/ops/attention.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/nn/init.h"
#include "warptape/nn/kv_cache.h"
#include "warptape/nn/make_parameter.h"

namespace wt::models {
namespace {

constexpr double kGpt2Std = 0.02;

i64 padded_vocabulary(const Gpt2Options& o) {
  const i64 to = nn::detail::at_least_1("Gpt2", "pad_vocabulary_to", o.pad_vocabulary_to);
  return (o.vocabulary + to - 1) / to * to;
}

}  // namespace

TransposedLinear::TransposedLinear(i64 in, i64 out)
    : weight(add("weight", nn::detail::make_parameter({in, out}, DType::f32))),
      bias(add("bias", nn::detail::make_constant({out}, DType::f32, 0))) {
  nn::init::normal_(weight, 0, kGpt2Std);
}

Tensor TransposedLinear::forward(Tensor x) {
  return linear(std::move(x), weight->transpose(0, 1), bias);
}

// --- a block ---

Gpt2Attention::Gpt2Attention(const Gpt2Options& o)
    : c_attn(add("c_attn", TransposedLinear{o.channels, 3 * o.channels})),
      c_proj(add("c_proj", TransposedLinear{o.channels, o.channels})),
      resid_dropout(add("resid_dropout", nn::Dropout{o.dropout})),
      heads_(o.heads),
      dropout_(o.dropout) {
  if (o.heads < 1 || o.channels % o.heads != 0)
    throw ShapeError(
        str("[Gpt2] ", o.heads, " heads do not divide ", o.channels, " channels", at_line()));
}

Tensor Gpt2Attention::forward(Tensor x, KvCache* cache, i64 layer) {
  const i64 n = x.size(0), t = x.size(1), channels = x.size(2);
  const std::vector<Tensor> qkv = chunk(c_attn(std::move(x)), 3, -1);
  const auto heads = [&](const Tensor& part) {
    return part.reshape({n, t, heads_, channels / heads_}).transpose(1, 2);
  };
  Tensor y = cache ? cache->attend(layer, heads(qkv[0]), heads(qkv[1]), heads(qkv[2]))
                   : scaled_dot_product_attention(
                         heads(qkv[0]), heads(qkv[1]), heads(qkv[2]),
                         {.causal = true, .dropout_p = is_training() ? dropout_ : 0});
  return resid_dropout(c_proj(std::move(y).transpose(1, 2).reshape({n, t, channels})));
}

Gpt2Mlp::Gpt2Mlp(const Gpt2Options& o)
    : c_fc(add("c_fc", TransposedLinear{o.channels, 4 * o.channels})),
      c_proj(add("c_proj", TransposedLinear{4 * o.channels, o.channels})),
      dropout(add("dropout", nn::Dropout{o.dropout})) {}

Tensor Gpt2Mlp::forward(Tensor x) { return dropout(c_proj(gelu_tanh(c_fc(std::move(x))))); }

Gpt2Block::Gpt2Block(const Gpt2Options& o)
    : ln_1(add("ln_1", nn::LayerNorm{o.channels})),
      attn(add("attn", Gpt2Attention{o})),
      ln_2(add("ln_2", nn::LayerNorm{o.channels})),
      mlp(add("mlp", Gpt2Mlp{o})) {}

Tensor Gpt2Block::forward(Tensor x, KvCache* cache, i64 layer) {
  AddNormResult r = ln_2.of_sum(attn(ln_1(x), cache, layer), x);
  return mlp(std::move(r.y)) + r.sum;
}

// --- the whole ---

Gpt2Body::Gpt2Body(const Gpt2Options& o)
    : wte(add("wte", nn::Embedding{padded_vocabulary(o), o.channels})),
      wpe(add("wpe", nn::Embedding{o.context, o.channels})),
      drop(add("drop", nn::Dropout{o.dropout})),
      h(add("h", nn::ModuleList<Gpt2Block>(o.layers, [&] { return Gpt2Block{o}; }))),
      ln_f(add("ln_f", nn::LayerNorm{o.channels})),
      context_(o.context) {}

Tensor Gpt2Body::forward(Tensor ids, KvCache* cache) {
  if (ids.ndim() != 2)
    throw ShapeError(str("[Gpt2] tokens must be [N, T], got ", ids.shape(), at_line()));
  const i64 t = ids.size(1);
  if (t > context_)
    throw ShapeError(
        str("[Gpt2] ", t, " tokens in a row are more than the context of ", context_, at_line()));
  const Tensor places = cache ? wpe(cache->positions()) : wpe.weight->slice(0, {0, t});
  Tensor x = drop(wte(std::move(ids)) + places);
  i64 layer = 0;
  for (Gpt2Block& block : h) x = block(std::move(x), cache, layer++);
  return ln_f(std::move(x));
}

Gpt2::Gpt2(const Gpt2Options& o)
    : transformer(add("transformer", Gpt2Body{o})),
      lm_head(add("lm_head", nn::Linear{o.channels, padded_vocabulary(o), {.bias = false}})),
      o_(o) {
  lm_head.weight = transformer.wte.weight;
  nn::init::normal_(transformer.wte.weight, 0, kGpt2Std);
  nn::init::normal_(transformer.wpe.weight, 0, kGpt2Std);
  const double added = kGpt2Std / std::sqrt(2.0 * double(o.layers));
  for (const Gpt2Block& block : transformer.h) {
    nn::init::normal_(block.attn.c_proj.weight, 0, added);
    nn::init::normal_(block.mlp.c_proj.weight, 0, added);
  }
}

Tensor Gpt2::head(Tensor x) {
  Tensor logits = lm_head(std::move(x));
  if (logits.size(-1) == o_.vocabulary) return logits;
  return slice(std::move(logits), -1, {0, o_.vocabulary});
}

Tensor Gpt2::forward(Tensor ids) { return head(transformer(std::move(ids))); }

Tensor Gpt2::next_logits(const Tensor& ids, KvCache& cache) {
  return head(cache.last(transformer(ids, &cache)));
}

Gpt2 gpt2(const Gpt2Options& o) { return Gpt2(o); }
Gpt2 gpt2_medium(Gpt2Options o) {
  o.channels = 1024, o.layers = 24, o.heads = 16;
  return Gpt2(o);
}

std::vector<nn::NamedTensor> gpt2_state(const std::vector<nn::NamedTensor>& state,
                                        const Gpt2Options& o) {
  const std::string body = "transformer.";
  std::vector<nn::NamedTensor> fitting;
  for (nn::NamedTensor t : state) {
    if (t.name.ends_with(".attn.bias") || t.name.ends_with(".attn.masked_bias")) continue;
    if (t.name != "lm_head.weight" && !t.name.starts_with(body)) t.name.insert(0, body);
    const bool table = t.name == "lm_head.weight" || t.name == body + "wte.weight";
    if (table && t.tensor.ndim() == 2 && t.tensor.size(0) < padded_vocabulary(o)) {
      const Shape rows{padded_vocabulary(o) - t.tensor.size(0), t.tensor.size(1)};
      t.tensor =
          cat({t.tensor, zeros(rows, {.dtype = t.tensor.dtype(), .device = t.tensor.device()})});
    }
    fitting.push_back(std::move(t));
  }
  return fitting;
}

}  // namespace wt::models
