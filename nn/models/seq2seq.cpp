#include "warptape/nn/seq2seq.h"

#include <cmath>
#include <vector>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/at_line.h"
#include "warptape/core/factories.h"
#include "warptape/nn/init.h"
#include "warptape/nn/make_parameter.h"

namespace wt::models {
namespace {

nn::Transformer transformer_of(const Seq2SeqOptions& o) {
  return nn::Transformer{
      {.d_model = o.channels,
       .nhead = o.heads,
       .num_encoder_layers = o.encoder_layers,
       .num_decoder_layers = o.decoder_layers,
       .layer = {.dim_feedforward = o.feed_forward, .dropout = o.dropout, .batch_first = true}}};
}

i64 given_vocabulary(const char* name, i64 vocabulary) {
  if (vocabulary < 1)
    throw UsageError(
        str("[Seq2Seq] .", name, " must be given: how many tokens there are", at_line()));
  return vocabulary;
}

// sin and cos of p / 10000^(2 i / channels) in turns, for places p from 0.
std::vector<float> waves(i64 channels, i64 longest) {
  std::vector<float> all(size_t(channels * longest));
  for (i64 p = 0; p < longest; ++p)
    for (i64 c = 0; c < channels; ++c) {
      const double rate = std::exp(-double(c / 2 * 2) * std::log(10000.0) / double(channels));
      all[size_t(p * channels + c)] =
          float(c % 2 == 0 ? std::sin(double(p) * rate) : std::cos(double(p) * rate));
    }
  return all;
}

const Tensor& checked_tokens(const char* name, const Tensor& ids) {
  if (ids.ndim() != 2)
    throw ShapeError(str("[Seq2Seq] ", name, " must be [N, T], got ", ids.shape(), at_line()));
  return ids;
}

}  // namespace

TokenEmbedding::TokenEmbedding(i64 vocabulary, i64 channels)
    : embedding(add("embedding", nn::Embedding{vocabulary, channels})),
      scale_(std::sqrt(double(channels))) {}
Tensor TokenEmbedding::forward(Tensor ids) { return embedding(std::move(ids)) * scale_; }

PositionalEncoding::PositionalEncoding(i64 channels, i64 longest, double p)
    : dropout(add("dropout", nn::Dropout{p})),
      pos_embedding(add_buffer("pos_embedding",
                               nn::detail::make_buffer({longest, 1, channels}, DType::f32, 0))) {
  Tensor table = pos_embedding;
  if (!table.device().is_meta)
    table.copy_(tensor(waves(channels, longest), {.device = Device::cpu()}).reshape(table.shape()));
}

Tensor PositionalEncoding::forward(Tensor x) {
  const i64 t = x.size(1);
  if (t > pos_embedding->size(0))
    throw ShapeError(str("[PositionalEncoding] ", t, " tokens in a row are more than the ",
                         pos_embedding->size(0), " places there are", at_line()));
  return dropout(std::move(x) + pos_embedding->slice(0, {0, t}).transpose(0, 1));
}

Seq2Seq::Seq2Seq(const Seq2SeqOptions& o)
    : transformer((given_vocabulary("source_vocabulary", o.source_vocabulary),
                   given_vocabulary("target_vocabulary", o.target_vocabulary),
                   add("transformer", transformer_of(o)))),
      generator(add("generator", nn::Linear{o.channels, o.target_vocabulary})),
      src_tok_emb(add("src_tok_emb", TokenEmbedding{o.source_vocabulary, o.channels})),
      tgt_tok_emb(add("tgt_tok_emb", TokenEmbedding{o.target_vocabulary, o.channels})),
      positional_encoding(
          add("positional_encoding", PositionalEncoding{o.channels, o.longest, o.dropout})),
      options_(o) {
  for (const Tensor& p : parameters())
    if (p.ndim() > 1) nn::init::xavier_uniform_(p);
}

Tensor Seq2Seq::hidden(const Tensor& ids) const {
  return options_.padding ? eq(ids, *options_.padding) : Tensor();
}

nn::TransformerMasks Seq2Seq::masks(const Tensor& source, const Tensor& target) const {
  const Tensor of_source = hidden(source);
  return {.encoder = {.src_key_padding_mask = of_source},
          .decoder = {.tgt_key_padding_mask = hidden(target),
                      .memory_key_padding_mask = of_source,
                      .tgt_is_causal = true}};
}

Tensor Seq2Seq::encode(const Tensor& source) {
  return transformer.encoder(positional_encoding(src_tok_emb(checked_tokens("source", source))),
                             nn::EncoderMasks{.src_key_padding_mask = hidden(source)});
}

Tensor Seq2Seq::decode(const Tensor& target, const Tensor& memory, const Tensor& source) {
  return generator(
      transformer.decoder(positional_encoding(tgt_tok_emb(checked_tokens("target", target))),
                          memory, masks(source, target).decoder));
}

Tensor Seq2Seq::forward(Tensor source, const Tensor& target) {
  const nn::TransformerMasks m = masks(source, target);
  return generator(transformer(positional_encoding(src_tok_emb(checked_tokens("source", source))),
                               positional_encoding(tgt_tok_emb(checked_tokens("target", target))),
                               m));
}

}  // namespace wt::models
