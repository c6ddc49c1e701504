// A model in training: the recipe's model, its optimizer, the step, and all of their state by name.
#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "warptape/core/input_file.h"
#include "warptape/data/resident_loader.h"
#include "warptape/dist/data_parallel.h"
#include "warptape/optim/plateau.h"
#include "warptape/optim/train_step.h"
#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/reports/error_words.h"
#include "warptape/tools/wt/training/train.h"

namespace wt::tools {

// Iterations that a round of L-BFGS remembers.
inline constexpr i64 kRoundHistory = 50;

// f32, f16 or bf16 of `--precision`, whose O0 to O3 are the levels that apex named.
DType precision_of(const std::string& name);
// The recipe's defaults with what the options say.
RecipeDefaults resolve(const TrainOptions& o, const Recipe& r);

// Throws DataError for data of which a part is empty; `path` is where it is from.
void check_samples(const std::string& path, const char* part, i64 samples);
// Throws UsageError where there are more than an integer counts.
i64 steps_of_epochs(i64 epochs, i64 steps_each);
// Throws UsageError for a batch that is larger than the data.
void check_batch(i64 batch, const RecipeData& data);
data::Loader<data::AnyDataset> make_loader(const RecipeDefaults& d, const RecipeData& data,
                                           u64 seed, int workers);

// Whether the training data lies on the model's device. Throws UsageError where --resident insists
// and the recipe has no such data.
bool keeps_data_on_device(const TrainOptions& o, const Recipe& r, Device d);

// The batches of a training: a Loader's, or a ResidentLoader's where the training data is on a
// device; the same ones.
class TrainBatches {
 public:
  // Throws UsageError for a batch that is larger than the data.
  // rank, world: which part of each batch (data/loader.h).
  TrainBatches(const RecipeDefaults& d, const RecipeData& data, u64 seed, int workers, i64 rank = 0,
               i64 world = 1);
  bool next(data::Batch& batch);
  i64 size() const;
  const data::LoaderState& state() const;
  void set_state(const data::LoaderState& s);

 private:
  std::optional<data::Loader<data::AnyDataset>> host_;
  std::optional<data::ResidentLoader<data::AnyDataset>> resident_;
};

// What a step did: one of TrainStep's, read when somebody asks, or a round of L-BFGS, known at
// once.
class RecipeStep {
 public:
  RecipeStep() = default;
  explicit RecipeStep(StepResult step) : step_(std::move(step)) {}
  explicit RecipeStep(const wt::StepRecord& round) : round_(round) {}
  wt::StepRecord read() const { return round_ ? *round_ : step_.read(); }
  bool skipped() const { return round_ ? round_->skipped != 0 : step_.skipped(); }
  const StepResult& of_train_step() const { return step_; }

 private:
  StepResult step_{};
  std::optional<wt::StepRecord> round_{};
};

class RecipeTraining {
 public:
  // `d` is resolved; `steps` is the length of the schedule; `before_stop` as in TrainStepOptions;
  // `ranks`: those that take the steps together. The last ones are the recipe's rounds of L-BFGS,
  // unless there are no more steps than rounds.
  // Throws UsageError for options that have no effect on the device, or that rounds have not.
  RecipeTraining(const TrainOptions& o, const RecipeDefaults& d, Recipe& r, i64 steps,
                 std::function<void(const wt::StepRecord&)> before_stop = {},
                 dist::Communicator* ranks = nullptr);

  RecipeStep step(const data::Batch& b);
  // Every step is the optimizer's: of those who look at single ones.
  void without_rounds() { rounds_ = {}; }
  // What a round holds at its peak, without the round.
  void rehearse_round(const data::Batch& b);
  // Where that step, which was skipped, met inf or NaN first.
  OverflowReport explain(const data::Batch& b, double scale);
  // Of the gradients of the last step, unless it was explained since.
  GradientExponents exponents() { return step_->gradient_exponents(); }
  // Given to a rate that waits for a plateau.
  void evaluated(double monitored);
  optim::Optimizer& optimizer() { return *optimizer_; }
  // Whether the next step is a round.
  bool in_rounds() const {
    return rounds_.rounds > 0 && optimizer_->attempted() >= optimizer_steps_;
  }
  double waited() const { return parallel_ ? parallel_->waited() : 0; }  // seconds, for other ranks

  // model.*, recipe.*, optim.*, ema.*, sched.*, scaler.*, rng.*. With --zero all ranks call it
  // together, and load_state(); what is gathered of optim.* comes to those that want it `here`.
  std::vector<nn::NamedTensor> state(bool here = true);
  // Throws DataError for random state, UsageError for a model or optimizer, that is not like ours.
  void load_state(const std::vector<nn::NamedTensor>& values);

 private:
  Loss loss(const data::Batch& part);
  RecipeStep round(const data::Batch& b);

  Recipe& recipe_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<optim::ReduceLROnPlateau> plateau_;
  std::unique_ptr<dist::DataParallel> parallel_;  // of several ranks
  std::unique_ptr<TrainStep> step_;
  LbfgsRounds rounds_;   // the last steps
  i64 optimizer_steps_;  // those before
  // The optimizer's state when the rounds took its parameters over; empty before.
  std::vector<nn::NamedTensor> state_before_rounds_;
  bool scaled_;  // by a loss scale
  bool offload_;
};

// f(), which takes something from that file: what it finds to be wrong is a DataError that names
// the file. A UsageError too: nobody asked for what a file holds.
template <class F>
auto from_file(const std::string& path, const F& f) {
  const auto told = [&](const Error& e) {
    return DataError(str(printable_path(path), ": ", without_kind(e)));
  };
  try {
    return f();
  } catch (const UsageError& e) {
    throw told(e);
  } catch (const DataError& e) {
    throw told(e);
  }
}

// 0-d numbers on the cpu, as checkpoints keep them.
nn::NamedTensor named_number(const std::string& name, i64 v);
nn::NamedTensor named_number(const std::string& name, double v);
// These read a file's content, so anything but a number of that kind is a DataError that names it.
double number_of(const std::vector<nn::NamedTensor>& values, const std::string& name);
// From `least` to `most`; a double in between would round what is above 2^53.
i64 integer_of(const std::vector<nn::NamedTensor>& values, const std::string& name, i64 least = 0,
               i64 most = std::numeric_limits<i64>::max());

}  // namespace wt::tools
