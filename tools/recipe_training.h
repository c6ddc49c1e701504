// A model in training: the recipe's model, its optimizer, the step, and all of their state by name.
#pragma once
#include <memory>
#include <vector>

#include "warptape/optim/plateau.h"
#include "warptape/optim/train_step.h"
#include "warptape/tools/recipes.h"
#include "warptape/tools/train.h"

namespace wt::tools {

// The recipe's defaults with what the options say.
RecipeDefaults resolve(const TrainOptions& o, const Recipe& r);

// Throws DataError for data of which a part is empty; `path` is where it is from.
void check_samples(const std::string& path, const char* part, i64 samples);
// Throws UsageError for a batch that is larger than the data.
void check_batch(i64 batch, const RecipeData& data);
data::Loader<data::AnyDataset> make_loader(const RecipeDefaults& d, const RecipeData& data,
                                           u64 seed, int workers);

class RecipeTraining {
 public:
  // `d` is resolved; `steps` is the length of the schedule.
  RecipeTraining(const TrainOptions& o, const RecipeDefaults& d, Recipe& r, i64 steps);

  StepResult step(const data::Batch& b);
  // Given to a rate that waits for a plateau.
  void evaluated(double monitored);
  optim::Optimizer& optimizer() { return *optimizer_; }

  // model.*, optim.*, ema.*, sched.*, rng.*.
  std::vector<nn::NamedTensor> state();
  void load_state(const std::vector<nn::NamedTensor>& values);

 private:
  Recipe& recipe_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::ReduceLROnPlateau> plateau_;
  std::unique_ptr<TrainStep> step_;
};

// 0-d numbers on the cpu, as checkpoints keep them.
nn::NamedTensor named_number(const std::string& name, i64 v);
nn::NamedTensor named_number(const std::string& name, double v);
// Throws DataError where there is none.
double number_of(const std::vector<nn::NamedTensor>& values, const std::string& name);
i64 integer_of(const std::vector<nn::NamedTensor>& values, const std::string& name);

}  // namespace wt::tools
