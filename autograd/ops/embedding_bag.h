// Bags of rows of a table.
#pragma once
#include <optional>

#include "warptape/core/in.h"

namespace wt {

enum class EmbeddingBagMode : u8 { sum, mean, max };
struct EmbeddingBagOptions {
  Tensor offsets{};  // i64 or i32, of 1-d indices: where each bag begins
  EmbeddingBagMode mode = EmbeddingBagMode::mean;
  Tensor per_sample_weights{};  // what rows are multiplied with, of the indices' shape; for sum
  // The last offset is where the last bag ends, and what follows is in no bag. (PyTorch takes it
  // into the last bag in f64, and in part in f32: let the last offset be the number of indices.)
  bool include_last_offset = false;
  std::optional<i64> padding_idx{};
};
// Rows of weight [V, D] by i64 or i32 indices, those of a bag added up, averaged, or of each column
// the largest: [bags, D]. The bags are the rows of indices [bags, L], or the pieces of 1-d indices
// that begin at `offsets`, which ascend from 0. A bag without rows gives zeros. Indices that are
// padding_idx (negative counts from the end) are passed over, in the mean's number too. Of equal
// largest elements the first has the gradient; NaN is the largest. The weights of samples have
// weight's dtype and a gradient. 16-bit floats are added in f32, in an order that is fixed.
// PyTorch: F.embedding_bag, without max_norm, scale_grad_by_freq and sparse. Throws ShapeError,
// DtypeError, UsageError for options that do not go together, IndexError for indices outside [0, V)
// and for offsets that are not as said or lie outside the indices: at once on the cpu. On other
// devices it is thrown at the next wait, and there and inside vmap() offsets that do not ascend
// from 0 are not found.
WT_API Tensor embedding_bag(const In& indices, const In& weight,
                            const EmbeddingBagOptions& options = {});

}  // namespace wt
