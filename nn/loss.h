// Losses as modules: around the operators, which have formulas, shapes and errors. What they return
// stands for its mean (`loss.backward()`); its `sum` is what reduction="sum" is in PyTorch, and
// reduction="none" is a way of calling the operators (`unreduced`, autograd/loss.h).
// Weights of options are buffers: they follow to(device).
#pragma once
#include "warptape/autograd/loss.h"
#include "warptape/autograd/ops/ctc.h"
#include "warptape/autograd/ops/distance.h"
#include "warptape/autograd/ops/elementwise_loss.h"
#include "warptape/autograd/ops/likelihood_loss.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/margin_loss.h"
#include "warptape/nn/module.h"

namespace wt::nn {

// What the calls of losses return: a sum and the weight that it stands for (autograd/loss.h).
using wt::Loss;

// Mean absolute error, |input - target| (wt::l1_loss).
struct L1Loss : Module<L1Loss> {
  // Two tensors of one shape, to a loss whose weight is the number of elements. Throws ShapeError.
  WT_API Loss forward(Tensor input, const Tensor& target);
};
// Mean squared error, (input - target)^2 (wt::mse_loss).
struct MSELoss : Module<MSELoss> {
  // Two tensors of one shape, to a loss whose weight is the number of elements. Throws ShapeError.
  WT_API Loss forward(Tensor input, const Tensor& target);
};
// Quadratic for differences below beta, linear beyond (wt::smooth_l1_loss).
struct SmoothL1Loss : Module<SmoothL1Loss> {
  // By default {.beta = 1}; a beta below 0 is a UsageError of the call.
  WT_API explicit SmoothL1Loss(const SmoothL1Options& o = {});
  // Two tensors of one shape, to a loss whose weight is the number of elements. Throws ShapeError.
  WT_API Loss forward(Tensor input, const Tensor& target);

 private:
  SmoothL1Options options_;
};
// Quadratic for differences below delta, linear with slope delta beyond (wt::huber_loss).
struct HuberLoss : Module<HuberLoss> {
  // By default {.delta = 1}; one that is not above 0 is a UsageError of the call.
  WT_API explicit HuberLoss(const HuberOptions& o = {});
  // Two tensors of one shape, to a loss whose weight is the number of elements. Throws ShapeError.
  WT_API Loss forward(Tensor input, const Tensor& target);

 private:
  HuberOptions options_;
};
// Kullback-Leibler divergence (wt::kl_div): its mean is PyTorch's reduction="batchmean".
struct KLDivLoss : Module<KLDivLoss> {
  // Whether the target holds logarithms too: {.log_target = true}.
  WT_API explicit KLDivLoss(const KlDivOptions& o = {});
  // Log-probabilities and a target of the same shape; the loss's weight is the size of the first
  // axis. Throws ShapeError.
  WT_API Loss forward(Tensor input, const Tensor& target);

 private:
  KlDivOptions options_;
};
// Connectionist temporal classification, the loss of sequences whose alignment is not known
// (wt::ctc_loss).
struct CTCLoss : Module<CTCLoss> {
  // By default class 0 is the blank, and each sample's loss is divided by the number of its labels.
  WT_API explicit CTCLoss(const CtcOptions& o = {});
  // log_probs [T, N, C], targets i64 [N, L] or all in one, lengths i64 [N]; the loss's weight is N.
  // The host waits for the lengths. Throws ShapeError, DtypeError, UsageError and IndexError.
  WT_API Loss forward(Tensor log_probs, const Tensor& targets, const Tensor& input_lengths,
                      const Tensor& target_lengths);

 private:
  CtcOptions options_;
};
// Wants pairs of vectors alike or apart, by their cosine (wt::cosine_embedding_loss).
struct CosineEmbeddingLoss : Module<CosineEmbeddingLoss> {
  // By default {.margin = 0}: the cosine that a pair which is not alike may have for nothing.
  WT_API explicit CosineEmbeddingLoss(const CosineEmbeddingOptions& o = {});
  // a and b [N, D] or [D]; target [N] or [] is 1 for a pair that is alike, -1 for one that is not.
  // Throws ShapeError.
  WT_API Loss forward(Tensor a, const Tensor& b, const Tensor& target);

 private:
  CosineEmbeddingOptions options_;
};
// Wants an anchor nearer to the positive than to the negative by a margin
// (wt::triplet_margin_loss).
struct TripletMarginLoss : Module<TripletMarginLoss> {
  // By default {.margin = 1, .p = 2}; a margin not above 0 and a p below 0 are UsageErrors of the
  // call.
  WT_API explicit TripletMarginLoss(const TripletMarginOptions& o = {});
  // Three tensors of one shape, vectors along the last axis; the loss's weight is the number of
  // triplets. Throws ShapeError.
  WT_API Loss forward(Tensor anchor, const Tensor& positive, const Tensor& negative);

 private:
  TripletMarginOptions options_;
};
// Negative log-likelihood of counts under a Poisson distribution (wt::poisson_nll_loss).
struct PoissonNLLLoss : Module<PoissonNLLLoss> {
  // By default the input is the logarithm of the rate; an eps not above 0 is a UsageError of the
  // call.
  WT_API explicit PoissonNLLLoss(const PoissonNllOptions& o = {});
  // Rates, or their logarithms, and counts of the same shape; the loss's weight is the number of
  // elements. Throws ShapeError.
  WT_API Loss forward(Tensor input, const Tensor& target);

 private:
  PoissonNllOptions options_;
};
// Negative log-likelihood under a normal distribution whose variance is given too
// (wt::gaussian_nll_loss).
struct GaussianNLLLoss : Module<GaussianNLLLoss> {
  // By default {.eps = 1e-6}, the least variance; one not above 0 is a UsageError of the call.
  WT_API explicit GaussianNLLLoss(const GaussianNllOptions& o = {});
  // Means and targets of one shape; var has it too, or 1 in place of its last axis, or lacks that.
  // Throws ShapeError, and on the cpu UsageError for a negative variance.
  WT_API Loss forward(Tensor input, const Tensor& target, const Tensor& var);

 private:
  GaussianNllOptions options_;
};
// Wants one number above the other by a margin (wt::margin_ranking_loss).
struct MarginRankingLoss : Module<MarginRankingLoss> {
  // By default {.margin = 0}.
  WT_API explicit MarginRankingLoss(const MarginRankingOptions& o = {});
  // Three tensors of one shape; a target of 1 wants a above b, one of -1 below. Throws ShapeError.
  WT_API Loss forward(Tensor a, const Tensor& b, const Tensor& target);

 private:
  MarginRankingOptions options_;
};
// Wants distances small where the target is 1, above a margin where it is -1
// (wt::hinge_embedding_loss).
struct HingeEmbeddingLoss : Module<HingeEmbeddingLoss> {
  // By default {.margin = 1}.
  WT_API explicit HingeEmbeddingLoss(const HingeEmbeddingOptions& o = {});
  // Distances and targets of one shape; the loss's weight is the number of elements. Throws
  // ShapeError.
  WT_API Loss forward(Tensor input, const Tensor& target);

 private:
  HingeEmbeddingOptions options_;
};
// Logistic loss for targets of 1 and -1, log(1 + exp(-target input)) (wt::soft_margin_loss).
struct SoftMarginLoss : Module<SoftMarginLoss> {
  // Two tensors of one shape, to a loss whose weight is the number of elements. Throws ShapeError.
  WT_API Loss forward(Tensor input, const Tensor& target);
};
// Wants the label's score above all others by a margin (wt::multi_margin_loss).
class WT_API MultiMarginLoss : public Module<MultiMarginLoss> {
 public:
  // By default {.p = 1, .margin = 1}; a p other than 1 and 2 is a UsageError of the call.
  explicit MultiMarginLoss(const MultiMarginOptions& o = {});
  // Scores [N, C] or [C] and i64 labels [N] or []. Throws ShapeError, DtypeError, UsageError and
  // IndexError.
  Loss forward(Tensor input, const Tensor& labels);
  Buffer weight;  // of each class, [C]; undefined: all 1

 private:
  MultiMarginOptions options_;
};
// Cross-entropy of logits with labels or probabilities (wt::cross_entropy).
class WT_API CrossEntropyLoss : public Module<CrossEntropyLoss> {
 public:
  // By default no smoothing, no class weights and an ignore_index of -100.
  explicit CrossEntropyLoss(const CrossEntropyOptions& o = {});
  // Logits [N, C], [N, C, d...] or [C] and i64 labels without that axis, or floating probabilities
  // of the logits' shape. Throws ShapeError, DtypeError, UsageError and IndexError. The backward
  // writes over logits that nobody else holds.
  Loss forward(Tensor logits, const Tensor& labels);
  Buffer weight;  // of each class, [C]; undefined: all 1

 private:
  CrossEntropyOptions options_;
};
// Negative log-likelihood of log-probabilities, log_softmax's (wt::nll_loss).
class WT_API NLLLoss : public Module<NLLLoss> {
 public:
  // By default no class weights and an ignore_index of -100.
  explicit NLLLoss(const NllOptions& o = {});
  // Log-probabilities [N, C], [N, C, d...] or [C] and i64 labels without that axis. Throws as
  // CrossEntropyLoss.
  Loss forward(Tensor log_probs, const Tensor& labels);
  Buffer weight;  // of each class, [C]; undefined: all 1

 private:
  NllOptions options_;
};
// Binary cross-entropy of probabilities (wt::binary_cross_entropy).
class WT_API BCELoss : public Module<BCELoss> {
 public:
  // By default every element counts the same.
  explicit BCELoss(const BinaryCrossEntropyOptions& o = {});
  // Probabilities and targets of one shape; the loss's weight is the number of elements. Throws
  // ShapeError, and on the cpu UsageError for an input outside [0, 1].
  Loss forward(Tensor input, const Tensor& target);
  Buffer weight;  // of each element, broadcasts to the input; undefined: all 1

 private:
  BinaryCrossEntropyOptions options_;
};
// Binary cross-entropy of logits, computed without the sigmoid
// (wt::binary_cross_entropy_with_logits).
class WT_API BCEWithLogitsLoss : public Module<BCEWithLogitsLoss> {
 public:
  // By default every element, and both answers, count the same.
  explicit BCEWithLogitsLoss(const BinaryCrossEntropyWithLogitsOptions& o = {});
  // Logits and targets of one shape; the loss's weight is the number of elements. Throws
  // ShapeError.
  Loss forward(Tensor input, const Tensor& target);
  Buffer weight;      // of each element, broadcasts to the input; undefined: all 1
  Buffer pos_weight;  // of the positive answers, mostly [classes]; undefined: all 1

 private:
  BinaryCrossEntropyWithLogitsOptions options_;
};

// The cosine of the angle between vectors, which is no loss (wt::cosine_similarity).
struct CosineSimilarity : Module<CosineSimilarity> {
  // By default {.dim = 1, .eps = 1e-8}; checked by the call.
  WT_API explicit CosineSimilarity(const CosineSimilarityOptions& o = {});
  // Two tensors that broadcast, to their shape without axis `dim`. Throws ShapeError for the axis,
  // UsageError for an eps below 0.
  WT_API Tensor forward(Tensor a, const Tensor& b);

 private:
  CosineSimilarityOptions options_;
};
// The p-norm of the difference of vectors, which is no loss (wt::pairwise_distance).
struct PairwiseDistance : Module<PairwiseDistance> {
  // By default {.p = 2, .eps = 1e-6}; checked by the call.
  WT_API explicit PairwiseDistance(const PairwiseDistanceOptions& o = {});
  // Two tensors that broadcast, to their shape without the last axis (1 there with keep_dim).
  // Throws ShapeError without an axis, UsageError for a p below 0.
  WT_API Tensor forward(Tensor a, const Tensor& b);

 private:
  PairwiseDistanceOptions options_;
};

}  // namespace wt::nn
