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

// The sizes of a Seq2Seq.
struct Seq2SeqOptions {
  i64 source_vocabulary = 0, target_vocabulary = 0;  // numbers of tokens, must be given
  i64 channels = 512, heads = 8;                     // of a place; heads divide them
  i64 encoder_layers = 4, decoder_layers = 4;        // one on top of the other
  i64 feed_forward = 512;        // channels within each layer's feed-forward part
  double dropout = 0.1;          // in training, also of tokens with their places
  i64 longest = 5000;            // places that there are sines and cosines for
  std::optional<i64> padding{};  // this id is no token: nobody attends to it
  WT_MISNAMED(d_model, channels);
  WT_MISNAMED(emb_size, channels);
  WT_MISNAMED(nhead, heads);
  WT_MISNAMED(dim_feedforward, feed_forward);
  WT_MISNAMED(num_encoder_layers, encoder_layers);
  WT_MISNAMED(num_decoder_layers, decoder_layers);
};

// Rows of a table times sqrt(channels), one for each token.
class WT_API TokenEmbedding : public nn::Module<TokenEmbedding> {
 public:
  // A table [vocabulary, channels].
  TokenEmbedding(i64 vocabulary, i64 channels);
  // i64 or i32 [N, T] to [N, T, channels].
  Tensor forward(Tensor ids);
  nn::Embedding embedding;  // the table

 private:
  double scale_;
};

// Adds sines and cosines of the places to x [N, T, channels], then dropout. Throws ShapeError for T
// above `longest`.
class WT_API PositionalEncoding : public nn::Module<PositionalEncoding> {
 public:
  // For up to `longest` places; dropout in [0, 1].
  PositionalEncoding(i64 channels, i64 longest, double dropout);
  // [N, T, channels] to the same shape.
  Tensor forward(Tensor x);
  nn::Dropout dropout;       // of the sum
  nn::Buffer pos_embedding;  // [longest, 1, channels]
};

// The whole model: tokens of both languages, i64 or i32, to the logits of the next token of the
// target at each of its places; a place sees the target up to itself. Matrices begin as
// xavier_uniform_. Throws ShapeError for other ranks and for sentences beyond `longest`, UsageError
// for a vocabulary that is not given, IndexError for ids beyond it.
class WT_API Seq2Seq : public nn::Module<Seq2Seq> {
 public:
  // Throws UsageError for a vocabulary that is not given.
  explicit Seq2Seq(const Seq2SeqOptions& o);
  // [N, S] and [N, T] to [N, T, target_vocabulary].
  Tensor forward(Tensor source, const Tensor& target);
  // The first half, for generating: what the encoder makes of the source [N, S], [N, S, channels].
  Tensor encode(const Tensor& source);
  // The second half: the logits [N, T, target_vocabulary] for a target [N, T] so far. `memory` is
  // what encode() gave for `source`, of which only the padding is looked at.
  Tensor decode(const Tensor& target, const Tensor& memory, const Tensor& source);

  // What it was made with.
  const Seq2SeqOptions& options() const { return options_; }

  nn::Transformer transformer;              // encoder and decoder
  nn::Linear generator;                     // to the logits
  TokenEmbedding src_tok_emb, tgt_tok_emb;  // of source and target
  PositionalEncoding positional_encoding;   // of both

 private:
  Tensor hidden(const Tensor& ids) const;  // true where an id is padding; undefined: nowhere
  nn::TransformerMasks masks(const Tensor& source, const Tensor& target) const;
  Seq2SeqOptions options_;
};

}  // namespace wt::models
