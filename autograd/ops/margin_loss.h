// Losses that want a margin between numbers. All return Loss{sum, weight}, whose mean is what
// PyTorch returns by default, or with `unreduced` the loss of each. They refuse unequal shapes
// (ShapeError) instead of broadcasting; 16-bit operands are computed and summed in f32.
#pragma once
#include "warptape/autograd/loss.h"
#include "warptape/core/in.h"

namespace wt {

struct MarginRankingOptions {
  double margin = 0;
  [[no_unique_address]] detail::LossNames::No_reduction reduction{};
};
// The sum of max(0, -target (a - b) + margin): a target of 1 wants a above b, one of -1 below. Its
// weight is the number of elements.
WT_API Loss margin_ranking_loss(const In& a, const In& b, const In& target,
                                const MarginRankingOptions& options = {});
WT_API Tensor margin_ranking_loss(const In& a, const In& b, const In& target, Unreduced,
                                  const MarginRankingOptions& options = {});

struct HingeEmbeddingOptions {
  double margin = 1;
  [[no_unique_address]] detail::LossNames::No_reduction reduction{};
};
// The sum of input where the target is 1 and of max(0, margin - input) where it is -1 (of both
// elsewhere, as PyTorch does). Its weight is the number of elements.
WT_API Loss hinge_embedding_loss(const In& input, const In& target,
                                 const HingeEmbeddingOptions& options = {});
WT_API Tensor hinge_embedding_loss(const In& input, const In& target, Unreduced,
                                   const HingeEmbeddingOptions& options = {});

// The sum of log(1 + exp(-target input)) for targets of 1 and -1. Its weight is the number of
// elements.
WT_API Loss soft_margin_loss(const In& input, const In& target);
WT_API Tensor soft_margin_loss(const In& input, const In& target, Unreduced);

struct MultiMarginOptions {
  i64 p = 1;  // or 2
  double margin = 1;
  Tensor weight{};  // of each class, [C]; no gradient
  [[no_unique_address]] detail::LossNames::No_reduction reduction{};
};
// Of scores [N, C] or [C] and i64 labels [N] or []: the sum of w max(0, margin - x[label] + x[c])^p
// / C over the other classes c, with w the label's class weight or 1. Its weight is the number of
// samples, whatever the class weights. Throws UsageError for another p, and as cross_entropy does
// for labels and weights.
WT_API Loss multi_margin_loss(const In& input, const In& labels,
                              const MultiMarginOptions& options = {});
WT_API Tensor multi_margin_loss(const In& input, const In& labels, Unreduced,
                                const MultiMarginOptions& options = {});

}  // namespace wt
