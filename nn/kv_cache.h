// Keys and values of the tokens that a model of text has seen, so that the next token is computed
// alone. What a model's forward asks of it is below; generate() (nn/generate.h) makes and feeds it.
#pragma once
#include <vector>

#include "warptape/core/factories.h"
#include "warptape/core/tensor.h"

namespace wt::models {

// What a cache has room for, as the model has it: none below 0.
struct KvCacheSize {
  i64 layers = 0, heads = 0;  // of the model, and of each of its layers
  i64 context = 0;            // the most tokens of a row
  i64 channels = 0;           // of a head
};

// The keys and values of all tokens so far, [layers, batch, heads, context, channels], whose memory
// is taken at once. Rows have lengths of their own. A step adds tokens to them:
//
//   cache.begin(1);                                     // a token to each row
//   for each layer: y = cache.attend(layer, q, k, v);   // the model's forward
//   cache.end();                                        // now they are there
//
// Until end() the lengths are as before, so a step that throws has added nothing. Gradients are not
// recorded: use it under NoGrad.
class WT_API KvCache {
 public:
  // Takes the memory, zeros of o's dtype on its device, for `batch` empty rows. Throws UsageError
  // for sizes below 0, OutOfMemory.
  KvCache(const KvCacheSize& size, i64 batch, const TensorOptions& o = {});

  // The number of rows.
  i64 batch() const { return i64(lengths_.size()); }
  // The most tokens that a row takes.
  i64 context() const { return context_; }
  // How many tokens of each row are there, [batch]; they change at end() and clear().
  const std::vector<i64>& lengths() const { return lengths_; }
  // A cache of one row: its keys and values are this one's. Its length is its own: clear() and a
  // step of it are followed by take_length(row, ...).
  KvCache row(i64 row) const;
  // Row `row` becomes as long as the one row of `of`, a cache that row() made and that has gone on.
  void take_length(i64 row, const KvCache& of);
  // Every row is empty again; the memory stays.
  void clear();

  // Begins a step: `tokens` are given to each row, the first counts[row] of them its own: all, or
  // fewer where the cache is empty (prompts of different lengths, filled up behind), or 0 of 1 for
  // a row that is to stay as it is. Throws UsageError for counts that are none of these, ShapeError
  // where a row would have more than the context, naming all such rows.
  void begin(i64 tokens, std::vector<i64> counts = {});
  // Ends the step: each row is longer by the tokens of its own.
  void end();

  // Where the step's tokens are in their rows, i64, for a forward: [tokens] if they are at the same
  // places in all of them, else [batch, tokens].
  const Tensor& positions() const { return positions_; }
  // Keeps k and v in `layer` and returns what each query sees of the tokens up to its own: q, k, v
  // and the result are [batch, heads, tokens, channels].
  Tensor attend(i64 layer, const Tensor& q, const Tensor& k, const Tensor& v);
  // What x has at the last token of each row of the step: [batch, tokens, ...] to [batch, ...].
  Tensor last(const Tensor& x) const;

  Tensor keys, values;  // [layers, batch, heads, context, channels] each; row() has views of them

 private:
  KvCache() = default;
  void check_row(i64 row) const;
  void keep(const Tensor& to, const Tensor& part) const;

  i64 context_ = 0;
  std::vector<i64> lengths_;
  Tensor places_;  // i64 [context]: 0, 1, ...
  // Of the step:
  std::vector<i64> counts_;
  i64 tokens_ = 0, seen_ = 0;  // keys that the longest row's last query sees
  bool even_ = true;           // all rows are equally long, and written
  Tensor positions_, rows_;    // rows_: i64 [batch, 1], where they are not even
  Tensor written_;             // i64: the rows that keep what is new, where not all do
  Tensor mask_;                // bool [batch or 1, 1, tokens, seen]; undefined: nothing to hide
};

}  // namespace wt::models
