#include "warptape/nn/embedding.h"

#include "warptape/autograd/ops/index.h"
#include "warptape/core/at_line.h"
#include "warptape/core/mode.h"
#include "warptape/nn/init.h"
#include "warptape/nn/make_parameter.h"

namespace wt::nn {
namespace {

// `layer`: what messages call it.
Shape table_shape(const char* layer, i64 count, i64 features) {
  if (count < 1 || features < 1)
    throw ShapeError(
        str("[", layer, "] sizes must be at least 1, got ", count, " and ", features, at_line()));
  return {count, features};
}

std::optional<i64> checked_padding(const char* layer, std::optional<i64> index, i64 count) {
  if (!index) return index;
  if (*index < -count || *index >= count)
    throw IndexError(str("[", layer, "] padding_idx ", *index, " is outside [", -count, ", ", count,
                         ")", at_line()));
  return *index < 0 ? *index + count : *index;
}

void draw_table(const Tensor& table, std::optional<i64> padding_idx) {
  init::normal_(table);
  if (!padding_idx) return;
  const NoGrad no_grad;
  Tensor row = table[*padding_idx];
  row.zero_();
}

// A leaf of the table's values.
Tensor own_table(const char* layer, const Tensor& weight) {
  if (weight.ndim() != 2)
    throw ShapeError(str("[", layer, "] a table has 2 axes, got ", weight.shape(), at_line()));
  return weight.is_leaf() ? weight : weight.detach();
}

}  // namespace

Embedding::Embedding(Tensor table, std::optional<i64> padding_idx, const CallLine&)
    : weight(add("weight", table)),
      padding_idx_(checked_padding("Embedding", padding_idx, table.size(0))) {}

Embedding::Embedding(i64 count, i64 features, const EmbeddingLayerOptions& o, const CallLine&)
    : Embedding(detail::make_parameter(table_shape("Embedding", count, features), o.dtype),
                o.padding_idx) {
  draw_table(weight.tensor(), padding_idx_);
}

Embedding Embedding::from_pretrained(const Tensor& weight, bool freeze,
                                     std::optional<i64> padding_idx, const CallLine&) {
  Embedding e(own_table("Embedding", weight), padding_idx);
  if (freeze) e.requires_grad_(false);
  return e;
}

Tensor Embedding::forward(Tensor indices) {
  return embedding(indices, weight, {.padding_idx = padding_idx_});
}

EmbeddingBag::EmbeddingBag(Tensor table, const EmbeddingBagLayerOptions& o, const CallLine&)
    : weight(add("weight", table)), options_(o) {
  options_.padding_idx = checked_padding("EmbeddingBag", o.padding_idx, table.size(0));
}

EmbeddingBag::EmbeddingBag(i64 count, i64 features, const EmbeddingBagLayerOptions& o,
                           const CallLine&)
    : EmbeddingBag(detail::make_parameter(table_shape("EmbeddingBag", count, features), o.dtype),
                   o) {
  draw_table(weight.tensor(), options_.padding_idx);
}

EmbeddingBag EmbeddingBag::from_pretrained(const Tensor& weight, bool freeze,
                                           const EmbeddingBagLayerOptions& o, const CallLine&) {
  EmbeddingBag e(own_table("EmbeddingBag", weight), o);
  if (freeze) e.requires_grad_(false);
  return e;
}

Tensor EmbeddingBag::forward(Tensor indices, const Tensor& offsets,
                             const Tensor& per_sample_weights) {
  return embedding_bag(indices, weight,
                       {.offsets = offsets,
                        .mode = options_.mode,
                        .per_sample_weights = per_sample_weights,
                        .include_last_offset = options_.include_last_offset,
                        .padding_idx = options_.padding_idx});
}

}  // namespace wt::nn
