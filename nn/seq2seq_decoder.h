// Sentences of a Seq2Seq, token by token: keys and values of what is there already are kept, so
// that a token costs one place and not the whole sentence.
//
//   models::Seq2SeqDecoder decoder(net, source);
//   const auto best = models::greedy_search(
//       source.size(0), [&](auto tokens, auto rows) { return decoder.next(tokens, rows); },
//       {.begin = 1, .end = 2});
#pragma once
#include <span>
#include <vector>

#include "warptape/nn/seq2seq.h"

namespace wt::models {

// What a Seq2Seq says next, for rows of sentences that grow by a token a call. Keeps the keys and
// values of all tokens so far.
class WT_API Seq2SeqDecoder {
 public:
  // Encodes `source`, i64 or i32 [N, S] on the model's device. The model computes as in evaluation,
  // whatever its mode, and must not change while this is in use. Throws as Seq2Seq::encode().
  Seq2SeqDecoder(const Seq2Seq& net, const Tensor& source);

  // Logits [R, target vocabulary] of what follows tokens, each at the end of the sentence that row
  // rows[i] of the call before was (of the source in the first call). What Seq2Seq::decode() gives
  // for the whole sentence at its last place. Records nothing. Throws UsageError for as many tokens
  // as rows are not, IndexError for rows that were not there and tokens beyond the vocabulary, and
  // ShapeError beyond the model's longest sentence; all is then as before.
  Tensor next(std::span<const i64> tokens, std::span<const i64> rows);
  // Tokens so far of each row, the calls of next().
  i64 length() const { return length_; }

 private:
  struct Layer {
    Tensor keys, values;                // of the target so far, [R, heads, t, E / heads]
    Tensor source_keys, source_values;  // [R, heads, S, E / heads]
  };
  Tensor heads_of(const Tensor& x) const;
  Tensor attend_self(nn::MultiheadAttention& a, Layer& l, const Tensor& x) const;
  Tensor attend_source(nn::MultiheadAttention& a, const Layer& l, const Tensor& seen,
                       const Tensor& x) const;
  void check(std::span<const i64> tokens, std::span<const i64> rows) const;
  void take_rows(std::vector<Layer>& layers, Tensor& seen, std::span<const i64> rows) const;

  Seq2Seq net_;
  std::vector<Layer> layers_;
  Tensor seen_;  // [R, 1, 1, S]: source tokens that are none of padding; undefined: all
  std::vector<i64> sentences_;  // of each row
  i64 length_ = 0;
};

}  // namespace wt::models
