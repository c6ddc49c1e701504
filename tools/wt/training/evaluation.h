// A recipe's model over held-out data.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "warptape/dist/communicator.h"
#include "warptape/nn/bleu.h"
#include "warptape/nn/metrics.h"
#include "warptape/tools/wt/recipes/recipes.h"

namespace wt::tools {

// `held_out` itself, or where `taken` are fewer than it has, the drawn_samples() of it.
data::AnyDataset sample_of(const data::AnyDataset& held_out, i64 taken);

// Every sample once, in eval mode and without gradients, on the model's device. `bleu` is for a
// recipe that translates.
void evaluate(Recipe& r, const data::AnyDataset& set, i64 batch,
              const std::vector<metrics::Metric*>& list, metrics::Bleu* bleu = nullptr);

// A loss in nats a token as bits a byte of the text, which does not depend on how it is cut into
// tokens; NaN where the recipe's tokens are no pieces of a text.
double bits_per_byte(const Recipe& r, double loss);

struct EvalResult {
  double loss = 0;                   // mean over the items, nats; of recipes that do not classify
                                     // the first measure
  std::optional<double> accuracy{};  // in [0, 1], of those that do
  std::shared_ptr<metrics::ConfusionMatrix> confusion{};  // where the recipe names a few classes
  std::optional<double> top5{};              // in [0, 1], where the recipe judges by it
  std::optional<metrics::BleuScore> bleu{};  // where it translates: greedily, each line once
  std::vector<Measure> measures{};           // of those that do not classify
};
EvalResult evaluate(Recipe& r, const data::AnyDataset& set);
// Each rank its part of the samples, or all of them where the recipe does not classify; the result
// is the same on all of them.
EvalResult evaluate(Recipe& r, const data::AnyDataset& set, dist::Communicator& ranks);
// Recipe::outcome() in eval mode and without gradients.
Outcome outcome_of(Recipe& r, const data::AnyDataset& set);

}  // namespace wt::tools
