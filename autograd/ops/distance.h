// Lengths of and distances between vectors, and the losses that compare them.
#pragma once
#include "warptape/autograd/loss.h"
#include "warptape/core/in.h"
#include "warptape/core/misnamed.h"

namespace wt {

struct CosineSimilarityOptions {
  i64 dim = 1;
  double eps = 1e-8;
};
// a . b / (max(|a|, eps) max(|b|, eps)) of the vectors along axis `dim`, which disappears. a and b
// broadcast and promote; 16-bit operands are computed in f32. A vector shorter than eps gets no
// gradient through its length. Throws ShapeError for the axis, UsageError unless eps >= 0.
WT_API Tensor cosine_similarity(const In& a, const In& b,
                                const CosineSimilarityOptions& options = {});

struct PairwiseDistanceOptions {
  double p = 2;
  double eps = 1e-6;  // added to each difference
  bool keep_dim = false;
  WT_MISNAMED(keepdim, keep_dim);
};
// The p-norm of a - b + eps along the last axis, which disappears unless keep_dim: sum(|d|^p)^(1 /
// p), the largest |d| for p infinite, the number of differences that are not 0 for p = 0. a and b
// broadcast and promote; 16-bit operands are computed in f32. The gradient of a norm that is 0 is
// 0. Throws ShapeError without an axis, UsageError unless p >= 0.
WT_API Tensor pairwise_distance(const In& a, const In& b,
                                const PairwiseDistanceOptions& options = {});

struct NormalizeOptions {
  double p = 2;
  i64 dim = 1;
  double eps = 1e-12;
};
// x / max(|x|, eps), with |x| the p-norm of the vectors along axis `dim`: sum(|x|^p)^(1 / p), the
// largest |x| for p infinite, the number of elements that are not 0 for p = 0. 16-bit floats are
// computed in f32. A vector shorter than eps gets no gradient through its length, so that of a
// vector of zeros is finite. PyTorch: F.normalize. Throws ShapeError for the axis, UsageError
// unless p and eps are at least 0.
WT_API Tensor normalize(const In& x, const NormalizeOptions& options = {});

struct CosineEmbeddingOptions {
  double margin = 0;
  [[no_unique_address]] detail::LossNames::No_reduction reduction{};
};
// Pairs of vectors a and b, [N, D] or [D], that target [N] or [] says to be alike (1) or not (-1):
// the sum of 1 - cos(a, b) over the former and of max(0, cos(a, b) - margin) over the latter; pairs
// with another target add nothing. Its weight is the number of pairs. Throws ShapeError unless a
// and b have one shape and target has it without the last axis.
WT_API Loss cosine_embedding_loss(const In& a, const In& b, const In& target,
                                  const CosineEmbeddingOptions& options = {});
WT_API Tensor cosine_embedding_loss(const In& a, const In& b, const In& target, Unreduced,
                                    const CosineEmbeddingOptions& options = {});

struct TripletMarginOptions {
  double margin = 1;
  double p = 2;
  double eps = 1e-6;
  bool swap = false;  // the negative's distance is the smaller of those from anchor and positive
  [[no_unique_address]] detail::LossNames::No_reduction reduction{};
};
// The sum of max(0, d(anchor, positive) - d(anchor, negative) + margin), with d the
// pairwise_distance of the last axis (Balntas et al. 2016 for `swap`); its weight is the number of
// triplets. Throws ShapeError unless all three have one shape, UsageError unless margin > 0 and
// p >= 0.
WT_API Loss triplet_margin_loss(const In& anchor, const In& positive, const In& negative,
                                const TripletMarginOptions& options = {});
WT_API Tensor triplet_margin_loss(const In& anchor, const In& positive, const In& negative,
                                  Unreduced, const TripletMarginOptions& options = {});

}  // namespace wt
