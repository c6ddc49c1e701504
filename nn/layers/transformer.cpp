#include "warptape/nn/transformer.h"

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/nn/init.h"
#include "warptape/nn/make_parameter.h"

namespace wt::nn {
namespace {

MultiheadAttention attention(i64 d_model, i64 nhead, const TransformerLayerOptions& o) {
  return {d_model,
          nhead,
          {.dropout = o.dropout, .bias = o.bias, .batch_first = o.batch_first, .dtype = o.dtype}};
}
Linear linear_of(i64 in, i64 out, const TransformerLayerOptions& o) {
  return {in, out, {.bias = o.bias, .dtype = o.dtype}};
}
LayerNorm norm_of(i64 d_model, const TransformerLayerOptions& o) {
  return LayerNorm{d_model, {.eps = o.layer_norm_eps, .bias = o.bias, .dtype = o.dtype}};
}
Tensor activate(TransformerActivation f, Tensor x) {
  return f == TransformerActivation::gelu ? gelu(std::move(x)) : relu(std::move(x));
}

template <class Layer>
ModuleList<Layer> stack_of(const char* type, i64 d_model, i64 nhead, i64 layers,
                           const TransformerLayerOptions& o) {
  return {detail::at_least_1(type, "num_layers", layers), [&] { return Layer{d_model, nhead, o}; }};
}

}  // namespace

// --- encoder ---

TransformerEncoderLayer::TransformerEncoderLayer(i64 d_model, i64 nhead,
                                                 const TransformerLayerOptions& o)
    : self_attn(add("self_attn", attention(d_model, nhead, o))),
      linear1(add("linear1", linear_of(d_model, o.dim_feedforward, o))),
      dropout(add("dropout", Dropout{o.dropout})),
      linear2(add("linear2", linear_of(o.dim_feedforward, d_model, o))),
      norm1(add("norm1", norm_of(d_model, o))),
      norm2(add("norm2", norm_of(d_model, o))),
      dropout1(add("dropout1", Dropout{o.dropout})),
      dropout2(add("dropout2", Dropout{o.dropout})),
      norm_first_(o.norm_first),
      activation_(o.activation) {}

Tensor TransformerEncoderLayer::attend(const Tensor& x, const EncoderMasks& m) {
  return dropout1(self_attn(x, x, x,
                            AttentionCall{.key_padding_mask = m.src_key_padding_mask,
                                          .need_weights = false,
                                          .attn_mask = m.src_mask,
                                          .is_causal = m.is_causal})
                      .output);
}

Tensor TransformerEncoderLayer::feed_forward(Tensor x) {
  return dropout2(linear2(dropout(activate(activation_, linear1(std::move(x))))));
}

Tensor TransformerEncoderLayer::forward(Tensor x, const EncoderMasks& masks) {
  if (norm_first_) {
    AddNormResult r = norm2.of_sum(attend(norm1(x), masks), x);
    return feed_forward(std::move(r.y)) + r.sum;
  }
  x = norm1.of_sum(attend(x, masks), x).y;
  return norm2.of_sum(feed_forward(x), x).y;
}

TransformerEncoder::TransformerEncoder(i64 d_model, i64 nhead, i64 num_layers,
                                       const TransformerLayerOptions& o,
                                       const TransformerStackOptions& stack)
    : layers(add("layers", stack_of<TransformerEncoderLayer>("TransformerEncoder", d_model, nhead,
                                                             num_layers, o))) {
  if (stack.norm) norm.emplace(add("norm", norm_of(d_model, o)));
}

Tensor TransformerEncoder::forward(Tensor x, const EncoderMasks& masks) {
  for (TransformerEncoderLayer& layer : layers) x = layer(std::move(x), masks);
  return norm ? (*norm)(std::move(x)) : x;
}

// --- decoder ---

TransformerDecoderLayer::TransformerDecoderLayer(i64 d_model, i64 nhead,
                                                 const TransformerLayerOptions& o)
    : self_attn(add("self_attn", attention(d_model, nhead, o))),
      multihead_attn(add("multihead_attn", attention(d_model, nhead, o))),
      linear1(add("linear1", linear_of(d_model, o.dim_feedforward, o))),
      dropout(add("dropout", Dropout{o.dropout})),
      linear2(add("linear2", linear_of(o.dim_feedforward, d_model, o))),
      norm1(add("norm1", norm_of(d_model, o))),
      norm2(add("norm2", norm_of(d_model, o))),
      norm3(add("norm3", norm_of(d_model, o))),
      dropout1(add("dropout1", Dropout{o.dropout})),
      dropout2(add("dropout2", Dropout{o.dropout})),
      dropout3(add("dropout3", Dropout{o.dropout})),
      norm_first_(o.norm_first),
      activation_(o.activation) {}

Tensor TransformerDecoderLayer::attend_self(const Tensor& x, const DecoderMasks& m) {
  return dropout1(self_attn(x, x, x,
                            AttentionCall{.key_padding_mask = m.tgt_key_padding_mask,
                                          .need_weights = false,
                                          .attn_mask = m.tgt_mask,
                                          .is_causal = m.tgt_is_causal})
                      .output);
}

Tensor TransformerDecoderLayer::attend_memory(const Tensor& x, const Tensor& memory,
                                              const DecoderMasks& m) {
  return dropout2(multihead_attn(x, memory, memory,
                                 AttentionCall{.key_padding_mask = m.memory_key_padding_mask,
                                               .need_weights = false,
                                               .attn_mask = m.memory_mask,
                                               .is_causal = m.memory_is_causal})
                      .output);
}

Tensor TransformerDecoderLayer::feed_forward(Tensor x) {
  return dropout3(linear2(dropout(activate(activation_, linear1(std::move(x))))));
}

Tensor TransformerDecoderLayer::forward(Tensor x, const Tensor& memory, const DecoderMasks& masks) {
  if (norm_first_) {
    AddNormResult r = norm2.of_sum(attend_self(norm1(x), masks), x);
    r = norm3.of_sum(attend_memory(r.y, memory, masks), r.sum);
    return feed_forward(std::move(r.y)) + r.sum;
  }
  x = norm1.of_sum(attend_self(x, masks), x).y;
  x = norm2.of_sum(attend_memory(x, memory, masks), x).y;
  return norm3.of_sum(feed_forward(x), x).y;
}

TransformerDecoder::TransformerDecoder(i64 d_model, i64 nhead, i64 num_layers,
                                       const TransformerLayerOptions& o,
                                       const TransformerStackOptions& stack)
    : layers(add("layers", stack_of<TransformerDecoderLayer>("TransformerDecoder", d_model, nhead,
                                                             num_layers, o))) {
  if (stack.norm) norm.emplace(add("norm", norm_of(d_model, o)));
}

Tensor TransformerDecoder::forward(Tensor x, const Tensor& memory, const DecoderMasks& masks) {
  for (TransformerDecoderLayer& layer : layers) x = layer(std::move(x), memory, masks);
  return norm ? (*norm)(std::move(x)) : x;
}

// --- both ---

Transformer::Transformer(const TransformerOptions& o)
    : encoder(add(
          "encoder",
          TransformerEncoder{o.d_model, o.nhead, o.num_encoder_layers, o.layer, {.norm = true}})),
      decoder(add(
          "decoder",
          TransformerDecoder{o.d_model, o.nhead, o.num_decoder_layers, o.layer, {.norm = true}})) {
  for (const Tensor& p : parameters())
    if (p.ndim() > 1) init::xavier_uniform_(p);
}

Tensor Transformer::forward(Tensor src, const Tensor& tgt, const TransformerMasks& masks) {
  const Tensor memory = encoder(std::move(src), masks.encoder);
  return decoder(tgt, memory, masks.decoder);
}

}  // namespace wt::nn
