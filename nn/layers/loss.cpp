#include "warptape/nn/loss.h"

namespace wt::nn {

Loss L1Loss::forward(Tensor input, const Tensor& target) {
  return l1_loss(std::move(input), target);
}
Loss MSELoss::forward(Tensor input, const Tensor& target) {
  return mse_loss(std::move(input), target);
}
Loss SmoothL1Loss::forward(Tensor input, const Tensor& target) {
  return smooth_l1_loss(std::move(input), target, options_);
}
Loss HuberLoss::forward(Tensor input, const Tensor& target) {
  return huber_loss(std::move(input), target, options_);
}
Loss KLDivLoss::forward(Tensor input, const Tensor& target) {
  return kl_div(std::move(input), target, options_);
}
Loss CTCLoss::forward(Tensor log_probs, const Tensor& targets, const Tensor& input_lengths,
                      const Tensor& target_lengths) {
  return ctc_loss(std::move(log_probs), targets, input_lengths, target_lengths, options_);
}
Loss CosineEmbeddingLoss::forward(Tensor a, const Tensor& b, const Tensor& target) {
  return cosine_embedding_loss(std::move(a), b, target, options_);
}
Loss TripletMarginLoss::forward(Tensor anchor, const Tensor& positive, const Tensor& negative) {
  return triplet_margin_loss(std::move(anchor), positive, negative, options_);
}
Loss PoissonNLLLoss::forward(Tensor input, const Tensor& target) {
  return poisson_nll_loss(std::move(input), target, options_);
}
Loss GaussianNLLLoss::forward(Tensor input, const Tensor& target, const Tensor& var) {
  return gaussian_nll_loss(std::move(input), target, var, options_);
}
Loss MarginRankingLoss::forward(Tensor a, const Tensor& b, const Tensor& target) {
  return margin_ranking_loss(std::move(a), b, target, options_);
}
Loss HingeEmbeddingLoss::forward(Tensor input, const Tensor& target) {
  return hinge_embedding_loss(std::move(input), target, options_);
}
Loss SoftMarginLoss::forward(Tensor input, const Tensor& target) {
  return soft_margin_loss(std::move(input), target);
}
MultiMarginLoss::MultiMarginLoss(const MultiMarginOptions& o)
    : weight(add_buffer("weight", o.weight)), options_(o) {}
Loss MultiMarginLoss::forward(Tensor input, const Tensor& labels) {
  MultiMarginOptions options = options_;
  options.weight = weight;
  return multi_margin_loss(std::move(input), labels, options);
}
CrossEntropyLoss::CrossEntropyLoss(const CrossEntropyOptions& o)
    : weight(add_buffer("weight", o.weight)), options_(o) {}
Loss CrossEntropyLoss::forward(Tensor logits, const Tensor& labels) {
  CrossEntropyOptions options = options_;
  options.weight = weight;
  return cross_entropy(std::move(logits), labels, options);
}
NLLLoss::NLLLoss(const NllOptions& o) : weight(add_buffer("weight", o.weight)), options_(o) {}
Loss NLLLoss::forward(Tensor log_probs, const Tensor& labels) {
  NllOptions options = options_;
  options.weight = weight;
  return nll_loss(std::move(log_probs), labels, options);
}
BCELoss::BCELoss(const BinaryCrossEntropyOptions& o)
    : weight(add_buffer("weight", o.weight)), options_(o) {}
Loss BCELoss::forward(Tensor input, const Tensor& target) {
  BinaryCrossEntropyOptions options = options_;
  options.weight = weight;
  return binary_cross_entropy(std::move(input), target, options);
}
BCEWithLogitsLoss::BCEWithLogitsLoss(const BinaryCrossEntropyWithLogitsOptions& o)
    : weight(add_buffer("weight", o.weight)),
      pos_weight(add_buffer("pos_weight", o.pos_weight)),
      options_(o) {}
Loss BCEWithLogitsLoss::forward(Tensor input, const Tensor& target) {
  BinaryCrossEntropyWithLogitsOptions options = options_;
  options.weight = weight;
  options.pos_weight = pos_weight;
  return binary_cross_entropy_with_logits(std::move(input), target, options);
}

Tensor CosineSimilarity::forward(Tensor a, const Tensor& b) {
  return cosine_similarity(std::move(a), b, options_);
}
Tensor PairwiseDistance::forward(Tensor a, const Tensor& b) {
  return pairwise_distance(std::move(a), b, options_);
}

SmoothL1Loss::SmoothL1Loss(const SmoothL1Options& o) : options_(o) {}
HuberLoss::HuberLoss(const HuberOptions& o) : options_(o) {}
KLDivLoss::KLDivLoss(const KlDivOptions& o) : options_(o) {}
CTCLoss::CTCLoss(const CtcOptions& o) : options_(o) {}
CosineEmbeddingLoss::CosineEmbeddingLoss(const CosineEmbeddingOptions& o) : options_(o) {}
TripletMarginLoss::TripletMarginLoss(const TripletMarginOptions& o) : options_(o) {}
PoissonNLLLoss::PoissonNLLLoss(const PoissonNllOptions& o) : options_(o) {}
GaussianNLLLoss::GaussianNLLLoss(const GaussianNllOptions& o) : options_(o) {}
MarginRankingLoss::MarginRankingLoss(const MarginRankingOptions& o) : options_(o) {}
HingeEmbeddingLoss::HingeEmbeddingLoss(const HingeEmbeddingOptions& o) : options_(o) {}
CosineSimilarity::CosineSimilarity(const CosineSimilarityOptions& o) : options_(o) {}
PairwiseDistance::PairwiseDistance(const PairwiseDistanceOptions& o) : options_(o) {}

}  // namespace wt::nn
