// Keys and values of the tokens that a model of text has seen, so that the next token is computed
// alone. What a model's forward asks of it is below; generate() (nn/generate.h) makes and feeds it.
#pragma once
#include <vector>

#include "warptape/core/factories.h"
#include "warptape/core/tensor.h"

namespace wt::models {

struct KvCacheSize {
  i64 layers = 0, heads = 0;
  i64 context = 0;   // the most tokens of a row
  i64 channels = 0;  // of a head
};

// All memory is taken at once: keys and values [layers, batch, heads, context, channels]. Rows have
// lengths of their own. A step adds tokens to them:
//
//   cache.begin(1);                                     // a token to each row
//   for each layer: y = cache.attend(layer, q, k, v);   // the model's forward
//   cache.end();                                        // now they are there
//
// Until end() the lengths are as before, so a step that throws has added nothing. Gradients are not
// recorded: use it under NoGrad.
class WT_API KvCache {
 public:
  // Throws UsageError for sizes below 0, OutOfMemory.
  KvCache(const KvCacheSize& size, i64 batch, const TensorOptions& o = {});

  i64 batch() const { return i64(lengths_.size()); }
  i64 context() const { return context_; }
  // How many tokens of each row are there.
  const std::vector<i64>& lengths() const { return lengths_; }
  // A cache of one row: its keys and values are this one's. Its length is its own: clear() and a
  // step of it are followed by take_length(row, ...).
  KvCache row(i64 row) const;
  void take_length(i64 row, const KvCache& of) { lengths_.at(size_t(row)) = of.lengths_.at(0); }
  void clear();

  // `tokens` are given to each row, of which the first counts[row] are its own: all of them, or
  // fewer where the cache is empty (prompts of different lengths, filled up behind), or 0 of 1 for
  // a row that is to stay as it is. Throws UsageError for counts that are none of these, ShapeError
  // where a row would have more than the context, naming all such rows.
  void begin(i64 tokens, std::vector<i64> counts = {});
  void end();

  // Of the step, for a forward: i64, where its tokens are in their rows: [tokens] if they are at
  // the same places in all of them, else [batch, tokens].
  const Tensor& positions() const { return positions_; }
  // q, k, v [batch, heads, tokens, channels]: keeps k and v and returns what each query sees of the
  // tokens up to its own, in the shape of q.
  Tensor attend(i64 layer, const Tensor& q, const Tensor& k, const Tensor& v);
  // [batch, tokens, ...] to [batch, ...]: at the last token of each row.
  Tensor last(const Tensor& x) const;

  Tensor keys, values;

 private:
  KvCache() = default;
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
