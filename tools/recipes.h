// Recipes: what `wt train` can train. A recipe has a model, its data and a way to judge it; the
// loop is the same for all (tools/trainer.h).
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "warptape/data/loader.h"
#include "warptape/nn/loss.h"
#include "warptape/nn/module.h"

namespace wt::tools {

struct RecipeOptions {
  std::string data{};  // empty: what the recipe brings along
  i64 batch = 0;       // 0: the recipe's
  u64 seed = 1;
  bool shapes_only = false;  // --dry-run: no tensor bytes, the data is not read
};

struct EvalResult {
  double loss = 0;                   // mean over the held-out items
  std::optional<double> accuracy{};  // in [0, 1]
};

class Recipe {
 public:
  virtual ~Recipe() = default;

  virtual nn::ModuleBase& model() = 0;
  virtual Loss loss(const data::Batch& b) = 0;
  // The next training batch of the running epoch; false at its end.
  virtual bool next(data::Batch& b) = 0;
  virtual i64 batches_per_epoch() const = 0;
  virtual data::LoaderState position() const = 0;
  virtual void set_position(const data::LoaderState& s) = 0;
  // A batch of the right shapes on the meta device.
  virtual data::Batch shape_batch() const = 0;
  // Bytes that the data set holds on the cpu while training, from file headers alone. Asked of a
  // recipe made with shapes_only.
  virtual i64 dataset_bytes() const = 0;
  // Loss and accuracy on the held-out part, on the model's device, in eval mode.
  virtual EvalResult evaluate(Device d) = 0;

  struct Defaults {
    i64 batch = 64;
    i64 epochs = 0, steps = 0;  // one of them
    double lr = 1e-3, weight_decay = 0.01, clip = 1.0;
    i64 warmup = 0;
    i64 evals = 20;  // evaluations over the run, beside the one before step 1
  };
  virtual Defaults defaults() const = 0;
  virtual const char* item() const = 0;  // what items_per_second counts
  struct Baseline {
    std::string label;
    double loss;
  };
  virtual std::optional<Baseline> baseline() const { return {}; }
};

struct RecipeInfo {
  const char* name;
  const char* summary;
  std::unique_ptr<Recipe> (*make)(const RecipeOptions& o);
};
const std::vector<RecipeInfo>& recipes();
// Throws UsageError with the near name.
const RecipeInfo& find_recipe(const std::string& name);

std::unique_ptr<Recipe> make_charlm(const RecipeOptions& o);
std::unique_ptr<Recipe> make_fashion(const RecipeOptions& o);

}  // namespace wt::tools
