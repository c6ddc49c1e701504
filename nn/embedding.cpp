#include "warptape/nn/embedding.h"

#include "warptape/autograd/ops/index.h"
#include "warptape/core/at_line.h"
#include "warptape/core/mode.h"
#include "warptape/nn/init.h"
#include "warptape/nn/make_parameter.h"

namespace wt::nn {
namespace {

Shape table_shape(i64 count, i64 features) {
  if (count < 1 || features < 1)
    throw ShapeError(
        str("[Embedding] sizes must be at least 1, got ", count, " and ", features, at_line()));
  return {count, features};
}

std::optional<i64> checked_padding(std::optional<i64> index, i64 count) {
  if (!index) return index;
  if (*index < -count || *index >= count)
    throw IndexError(str("[Embedding] padding_idx ", *index, " is outside [", -count, ", ", count,
                         ")", at_line()));
  return *index < 0 ? *index + count : *index;
}

}  // namespace

Embedding::Embedding(Tensor table, std::optional<i64> padding_idx, const CallLine&)
    : weight(add("weight", table)), padding_idx_(checked_padding(padding_idx, table.size(0))) {}

Embedding::Embedding(i64 count, i64 features, const EmbeddingLayerOptions& o, const CallLine&)
    : Embedding(detail::make_parameter(table_shape(count, features), o.dtype), o.padding_idx) {
  init::normal_(weight.tensor());
  if (padding_idx_) {
    const NoGrad no_grad;
    Tensor row = weight.tensor()[*padding_idx_];
    row.zero_();
  }
}

Embedding Embedding::from_pretrained(const Tensor& weight, bool freeze,
                                     std::optional<i64> padding_idx, const CallLine&) {
  if (weight.ndim() != 2)
    throw ShapeError(str("[Embedding] a table has 2 axes, got ", weight.shape(), at_line()));
  Embedding e(weight.is_leaf() ? weight : weight.detach(), padding_idx);
  if (freeze) e.requires_grad_(false);
  return e;
}

Tensor Embedding::forward(Tensor indices) {
  return embedding(indices, weight, {.padding_idx = padding_idx_});
}

}  // namespace wt::nn
