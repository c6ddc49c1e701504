// Rows of a table, picked by index.
#pragma once
#include <optional>

#include "warptape/autograd/ops/embedding_bag.h"
#include "warptape/nn/module.h"

namespace wt::nn {

// What an Embedding is made with, beside its sizes.
struct EmbeddingLayerOptions {
  std::optional<i64> padding_idx{};  // this row starts at zero and gets no gradient; negative
                                     // counts from the end
  DType dtype = DType::f32;          // of the table
};
// Rows of weight [count, features] by i64 or i32 indices of any shape, which gets the axis of the
// features appended (wt::embedding). weight ~ N(0, 1). Throws IndexError for padding_idx outside
// [-count, count) and for an index outside [0, count): at once on the cpu, elsewhere at the next
// wait.
class WT_API Embedding : public Module<Embedding> {
 public:
  // `count` rows of `features` numbers. Throws ShapeError for sizes below 1, IndexError for
  // padding_idx.
  Embedding(i64 count, i64 features, const EmbeddingLayerOptions& o = {}, const CallLine& = {});
  // An embedding with a table that is there, not copied; freeze: without gradient. Throws
  // ShapeError for other than two axes, IndexError as above.
  static Embedding from_pretrained(const Tensor& weight, bool freeze = true,
                                   std::optional<i64> padding_idx = {}, const CallLine& = {});
  // [..] to [.., features].
  Tensor forward(Tensor indices);
  // [count, features], the table.
  Param weight;

 private:
  Embedding(Tensor weight, std::optional<i64> padding_idx, const CallLine& = {});
  std::optional<i64> padding_idx_;
};

// What an EmbeddingBag is made with, beside its sizes.
struct EmbeddingBagLayerOptions {
  EmbeddingBagMode mode = EmbeddingBagMode::mean;  // what is made of the rows of a bag
  bool include_last_offset = false;                // the last offset is where the last bag ends
  std::optional<i64> padding_idx{};                // passed over; this row starts at zero
  DType dtype = DType::f32;                        // of the table
};
// Bags of rows of weight [count, features], added up, averaged, or their largest elements: [bags,
// features] (wt::embedding_bag). The bags are the rows of indices [bags, L], or begin at `offsets`
// in 1-d indices. weight ~ N(0, 1). Throws as Embedding, and as the function.
class WT_API EmbeddingBag : public Module<EmbeddingBag> {
 public:
  // `count` rows of `features` numbers. Throws ShapeError for sizes below 1, IndexError for
  // padding_idx.
  EmbeddingBag(i64 count, i64 features, const EmbeddingBagLayerOptions& o = {},
               const CallLine& = {});
  // Bags of a table that is there, as of Embedding; its dtype is the table's.
  static EmbeddingBag from_pretrained(const Tensor& weight, bool freeze = true,
                                      const EmbeddingBagLayerOptions& o = {}, const CallLine& = {});
  // [bags, L], or [n] and offsets [bags] (with include_last_offset [bags + 1]), to [bags,
  // features]. per_sample_weights, of the indices' shape, multiply the rows that are added up:
  // UsageError with another mode.
  Tensor forward(Tensor indices, const Tensor& offsets = {}, const Tensor& per_sample_weights = {});
  // [count, features], the table.
  Param weight;

 private:
  EmbeddingBag(Tensor weight, const EmbeddingBagLayerOptions& o, const CallLine& = {});
  EmbeddingBagLayerOptions options_;
};

}  // namespace wt::nn
