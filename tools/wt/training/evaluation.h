// A recipe's model over held-out data.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "warptape/dist/communicator.h"
#include "warptape/nn/metrics.h"
#include "warptape/tools/wt/recipes/recipes.h"

namespace wt::tools {

// Every sample once, in eval mode and without gradients, on the model's device.
void evaluate(Recipe& r, const data::AnyDataset& set, i64 batch,
              const std::vector<metrics::Metric*>& list);

struct EvalResult {
  double loss = 0;                                        // mean over the items, nats; of recipes
                                                          // that do not classify the first measure
  std::optional<double> accuracy{};                       // in [0, 1], of those that do
  std::shared_ptr<metrics::ConfusionMatrix> confusion{};  // where the recipe names its classes
  std::vector<Measure> measures{};                        // of those that do not classify
};
EvalResult evaluate(Recipe& r, const data::AnyDataset& set);
// Each rank its part of the samples, or all of them where the recipe does not classify; the result
// is the same on all of them.
EvalResult evaluate(Recipe& r, const data::AnyDataset& set, dist::Communicator& ranks);
// Recipe::outcome() in eval mode and without gradients.
Outcome outcome_of(Recipe& r, const data::AnyDataset& set, const std::string& data);

}  // namespace wt::tools
