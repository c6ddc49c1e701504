// Rows of a table, picked by index.
#pragma once
#include <optional>

#include "warptape/autograd/ops/embedding_bag.h"
#include "warptape/nn/module.h"

namespace wt::nn {

struct EmbeddingLayerOptions {
  std::optional<i64> padding_idx{};  // this row starts at zero and gets no gradient; negative
                                     // counts from the end
  DType dtype = DType::f32;
};
// Rows of weight [count, features] by i64 or i32 indices of any shape, which gets the axis of the
// features appended (wt::embedding). weight ~ N(0, 1). Throws IndexError for padding_idx outside
// [-count, count) and for an index outside [0, count).
class WT_API Embedding : public Module<Embedding> {
 public:
  Embedding(i64 count, i64 features, const EmbeddingLayerOptions& o = {}, const CallLine& = {});
  // A table that is there, not copied; frozen: without gradient. Throws ShapeError for other than
  // two axes, IndexError as above.
  static Embedding from_pretrained(const Tensor& weight, bool freeze = true,
                                   std::optional<i64> padding_idx = {}, const CallLine& = {});
  Tensor forward(Tensor indices);
  Param weight;

 private:
  Embedding(Tensor weight, std::optional<i64> padding_idx, const CallLine& = {});
  std::optional<i64> padding_idx_;
};

struct EmbeddingBagLayerOptions {
  EmbeddingBagMode mode = EmbeddingBagMode::mean;
  bool include_last_offset = false;  // the last offset is where the last bag ends
  std::optional<i64> padding_idx{};  // passed over; this row starts at zero
  DType dtype = DType::f32;
};
// Bags of rows of weight [count, features], added up, averaged, or their largest elements: [bags,
// features] (wt::embedding_bag). The bags are the rows of indices [bags, L], or begin at `offsets`
// in 1-d indices. weight ~ N(0, 1). Throws as Embedding, and as the function.
class WT_API EmbeddingBag : public Module<EmbeddingBag> {
 public:
  EmbeddingBag(i64 count, i64 features, const EmbeddingBagLayerOptions& o = {},
               const CallLine& = {});
  // As of Embedding; its dtype is the table's.
  static EmbeddingBag from_pretrained(const Tensor& weight, bool freeze = true,
                                      const EmbeddingBagLayerOptions& o = {}, const CallLine& = {});
  Tensor forward(Tensor indices, const Tensor& offsets = {}, const Tensor& per_sample_weights = {});
  Param weight;

 private:
  EmbeddingBag(Tensor weight, const EmbeddingBagLayerOptions& o, const CallLine& = {});
  EmbeddingBagLayerOptions options_;
};

}  // namespace wt::nn
