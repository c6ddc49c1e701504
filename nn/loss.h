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

using wt::Loss;

// wt::l1_loss.
struct L1Loss : Module<L1Loss> {
  WT_API Loss forward(Tensor input, const Tensor& target);
};
// wt::mse_loss.
struct MSELoss : Module<MSELoss> {
  WT_API Loss forward(Tensor input, const Tensor& target);
};
// wt::smooth_l1_loss.
struct SmoothL1Loss : Module<SmoothL1Loss> {
  WT_API explicit SmoothL1Loss(const SmoothL1Options& o = {});
  WT_API Loss forward(Tensor input, const Tensor& target);

 private:
  SmoothL1Options options_;
};
// wt::huber_loss.
struct HuberLoss : Module<HuberLoss> {
  WT_API explicit HuberLoss(const HuberOptions& o = {});
  WT_API Loss forward(Tensor input, const Tensor& target);

 private:
  HuberOptions options_;
};
// wt::kl_div: its mean is PyTorch's reduction="batchmean".
struct KLDivLoss : Module<KLDivLoss> {
  WT_API explicit KLDivLoss(const KlDivOptions& o = {});
  WT_API Loss forward(Tensor input, const Tensor& target);

 private:
  KlDivOptions options_;
};
// wt::ctc_loss.
struct CTCLoss : Module<CTCLoss> {
  WT_API explicit CTCLoss(const CtcOptions& o = {});
  WT_API Loss forward(Tensor log_probs, const Tensor& targets, const Tensor& input_lengths,
                      const Tensor& target_lengths);

 private:
  CtcOptions options_;
};
// wt::cosine_embedding_loss.
struct CosineEmbeddingLoss : Module<CosineEmbeddingLoss> {
  WT_API explicit CosineEmbeddingLoss(const CosineEmbeddingOptions& o = {});
  WT_API Loss forward(Tensor a, const Tensor& b, const Tensor& target);

 private:
  CosineEmbeddingOptions options_;
};
// wt::triplet_margin_loss.
struct TripletMarginLoss : Module<TripletMarginLoss> {
  WT_API explicit TripletMarginLoss(const TripletMarginOptions& o = {});
  WT_API Loss forward(Tensor anchor, const Tensor& positive, const Tensor& negative);

 private:
  TripletMarginOptions options_;
};
// wt::poisson_nll_loss.
struct PoissonNLLLoss : Module<PoissonNLLLoss> {
  WT_API explicit PoissonNLLLoss(const PoissonNllOptions& o = {});
  WT_API Loss forward(Tensor input, const Tensor& target);

 private:
  PoissonNllOptions options_;
};
// wt::gaussian_nll_loss.
struct GaussianNLLLoss : Module<GaussianNLLLoss> {
  WT_API explicit GaussianNLLLoss(const GaussianNllOptions& o = {});
  WT_API Loss forward(Tensor input, const Tensor& target, const Tensor& var);

 private:
  GaussianNllOptions options_;
};
// wt::margin_ranking_loss.
struct MarginRankingLoss : Module<MarginRankingLoss> {
  WT_API explicit MarginRankingLoss(const MarginRankingOptions& o = {});
  WT_API Loss forward(Tensor a, const Tensor& b, const Tensor& target);

 private:
  MarginRankingOptions options_;
};
// wt::hinge_embedding_loss.
struct HingeEmbeddingLoss : Module<HingeEmbeddingLoss> {
  WT_API explicit HingeEmbeddingLoss(const HingeEmbeddingOptions& o = {});
  WT_API Loss forward(Tensor input, const Tensor& target);

 private:
  HingeEmbeddingOptions options_;
};
// wt::soft_margin_loss.
struct SoftMarginLoss : Module<SoftMarginLoss> {
  WT_API Loss forward(Tensor input, const Tensor& target);
};
// wt::multi_margin_loss.
class WT_API MultiMarginLoss : public Module<MultiMarginLoss> {
 public:
  explicit MultiMarginLoss(const MultiMarginOptions& o = {});
  Loss forward(Tensor input, const Tensor& labels);
  Buffer weight;

 private:
  MultiMarginOptions options_;
};
// wt::cross_entropy.
class WT_API CrossEntropyLoss : public Module<CrossEntropyLoss> {
 public:
  explicit CrossEntropyLoss(const CrossEntropyOptions& o = {});
  Loss forward(Tensor logits, const Tensor& labels);
  Buffer weight;

 private:
  CrossEntropyOptions options_;
};
// wt::nll_loss.
class WT_API NLLLoss : public Module<NLLLoss> {
 public:
  explicit NLLLoss(const NllOptions& o = {});
  Loss forward(Tensor log_probs, const Tensor& labels);
  Buffer weight;

 private:
  NllOptions options_;
};
// wt::binary_cross_entropy.
class WT_API BCELoss : public Module<BCELoss> {
 public:
  explicit BCELoss(const BinaryCrossEntropyOptions& o = {});
  Loss forward(Tensor input, const Tensor& target);
  Buffer weight;

 private:
  BinaryCrossEntropyOptions options_;
};
// wt::binary_cross_entropy_with_logits.
class WT_API BCEWithLogitsLoss : public Module<BCEWithLogitsLoss> {
 public:
  explicit BCEWithLogitsLoss(const BinaryCrossEntropyWithLogitsOptions& o = {});
  Loss forward(Tensor input, const Tensor& target);
  Buffer weight;
  Buffer pos_weight;

 private:
  BinaryCrossEntropyWithLogitsOptions options_;
};

// Distances, which are no losses: wt::cosine_similarity and wt::pairwise_distance.
struct CosineSimilarity : Module<CosineSimilarity> {
  WT_API explicit CosineSimilarity(const CosineSimilarityOptions& o = {});
  WT_API Tensor forward(Tensor a, const Tensor& b);

 private:
  CosineSimilarityOptions options_;
};
struct PairwiseDistance : Module<PairwiseDistance> {
  WT_API explicit PairwiseDistance(const PairwiseDistanceOptions& o = {});
  WT_API Tensor forward(Tensor a, const Tensor& b);

 private:
  PairwiseDistanceOptions options_;
};

}  // namespace wt::nn
