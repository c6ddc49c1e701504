// The encoder-decoder Transformer (Vaswani et al. 2017, arXiv:1706.03762) for pairs of sentences,
// with the names of PyTorch's translation tutorial around its nn.Transformer.
//
//   models::Seq2Seq net{{.source_vocabulary = 8000, .target_vocabulary = 6000}};
//   Tensor logits = net(source, target);               // i64 [N, S], [N, T] -> [N, T, 6000]
#pragma once
#include <optional>

#include "warptape/core/misnamed.h"
#include "warptape/nn/embedding.h"
#include "warptape/nn/transformer.h"

namespace wt::models {

struct Seq2SeqOptions {
  i64 source_vocabulary = 0, target_vocabulary = 0;  // must be given
  i64 channels = 512, heads = 8;
  i64 encoder_layers = 4, decoder_layers = 4;
  i64 feed_forward = 512;
  double dropout = 0.1;
  i64 longest = 5000;            // places that there are sines and cosines for
  std::optional<i64> padding{};  // this id is no token: nobody attends to it
  WT_MISNAMED(d_model, channels);
  WT_MISNAMED(emb_size, channels);
  WT_MISNAMED(nhead, heads);
  WT_MISNAMED(dim_feedforward, feed_forward);
  WT_MISNAMED(num_encoder_layers, encoder_layers);
  WT_MISNAMED(num_decoder_layers, decoder_layers);
};

// Rows of a table times sqrt(channels).
class WT_API TokenEmbedding : public nn::Module<TokenEmbedding> {
 public:
  TokenEmbedding(i64 vocabulary, i64 channels);
  Tensor forward(Tensor ids);
  nn::Embedding embedding;

 private:
  double scale_;
};

// Adds sines and cosines of the places to x [N, T, channels].
class WT_API PositionalEncoding : public nn::Module<PositionalEncoding> {
 public:
  PositionalEncoding(i64 channels, i64 longest, double dropout);
  Tensor forward(Tensor x);
  nn::Dropout dropout;
  nn::Buffer pos_embedding;  // [longest, 1, channels]
};

// Tokens of both languages, i64 or i32, to the logits of the next token of the target at each of
// its places; a place sees the target up to itself. Matrices begin as xavier_uniform_. Throws
// ShapeError for other ranks and for sentences beyond `longest`, UsageError for a vocabulary that
// is not given, IndexError for ids beyond it.
class WT_API Seq2Seq : public nn::Module<Seq2Seq> {
 public:
  explicit Seq2Seq(const Seq2SeqOptions& o);
  Tensor forward(Tensor source, const Tensor& target);
  // The two halves, for generating: what the encoder makes of the source [N, S, channels], and the
  // logits for a target so far.
  Tensor encode(const Tensor& source);
  Tensor decode(const Tensor& target, const Tensor& memory, const Tensor& source);

  const Seq2SeqOptions& options() const { return options_; }

  nn::Transformer transformer;
  nn::Linear generator;
  TokenEmbedding src_tok_emb, tgt_tok_emb;
  PositionalEncoding positional_encoding;

 private:
  Tensor hidden(const Tensor& ids) const;  // true where an id is padding; undefined: nowhere
  nn::TransformerMasks masks(const Tensor& source, const Tensor& target) const;
  Seq2SeqOptions options_;
};

}  // namespace wt::models
