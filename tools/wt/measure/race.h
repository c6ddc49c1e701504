// `wt train optimizer-race | precision-race`: the same model, data and steps for every optimizer,
// or for f32, f16 and bf16, over equal seeds.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "warptape/tools/wt/recipes/recipes.h"
#include "warptape/tools/wt/training/train.h"

namespace wt::tools {

inline constexpr const char* kOptimizerRace = "optimizer-race";
inline constexpr const char* kPrecisionRace = "precision-race";
inline bool is_race(const std::string& recipe) {
  return recipe == kOptimizerRace || recipe == kPrecisionRace;
}

// One of those that are compared, as it starts.
struct Racer {
  std::string name;       // "momentum", "f16"
  std::string optimizer;  // of optimizers.h: "sgd"
  double lr = 0;
  double momentum = 0;
  double weight_decay = 0;
  std::string precision = "f32";
};

struct RaceEval {
  i64 step = 0;
  double loss = 0, accuracy = 0;  // held out
};

// One racer with one seed.
struct RaceRun {
  std::size_t racer = 0;
  u64 seed = 0;
  std::vector<std::pair<double, double>> train{};  // step, mean loss since the point before
  std::vector<RaceEval> evals{};
  i64 steps = 0;
  i64 skipped = 0;        // of them, by a loss scale
  double seconds = 0;     // of training
  bool finished = false;  // false: it was interrupted, or
  bool diverged = false;  // its loss was not finite
};

struct Race {
  std::string name;  // kOptimizerRace or kPrecisionRace
  std::string recipe, settings, device, item;
  i64 steps = 0, batch = 0, seeds = 0, train_samples = 0, held_out = 0;
  std::vector<Racer> racers;
  std::vector<RaceRun> runs;  // in the order in which they were made

  bool of_precisions() const { return name == kPrecisionRace; }
  const char* varied() const { return of_precisions() ? "precision" : "optimizer"; }
};

// What the race of these options is about; nothing is read or trained yet. Its own settings
// (options.set): recipe, seeds, held_out (samples used, 0: all) and, of optimizers, lr_<racer>; the
// others go to the recipe. Throws UsageError for options that have no meaning for it.
class RacePlan {
 public:
  explicit RacePlan(const TrainOptions& options);

  std::unique_ptr<Recipe> make_recipe() const;
  const Race& start() const { return start_; }  // without runs; sizes once load() was called
  RecipeData load();
  // Every racer with every seed, seed by seed. `stop` is asked after every step; `done` is
  // called after every run, and after the one that was stopped.
  Race run(const std::function<bool()>& stop, const std::function<void(const Race&)>& done = {});

 private:
  RaceRun run_one(std::size_t racer, u64 seed, const RecipeData& data,
                  const std::function<bool()>& stop, const std::function<void()>& stepped) const;

  TrainOptions options_;
  std::vector<std::string> recipe_set_;
  RecipeDefaults defaults_;
  i64 held_out_ = 0;
  Device device_ = Device::cpu();
  Race start_;
};

// The command: prints the table and a JSON line, writes race.csv, race.svg and report.html to
// options.out after every run. Returns the exit code.
int run_race(const TrainOptions& options);

// Images of ten shifted patterns in noise: needs no data. Settings: model (mlp, cnn), noise.
std::unique_ptr<Recipe> make_synthetic(Settings s);

}  // namespace wt::tools
