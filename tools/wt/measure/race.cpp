#include "warptape/tools/wt/measure/race.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>

#include "warptape/core/files/atomic_file.h"
#include "warptape/core/input_file.h"
#include "warptape/core/progress.h"
#include "warptape/core/random.h"
#include "warptape/tools/wt/measure/race_output.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/recipes/recipe_training.h"
#include "warptape/tools/wt/std_output.h"
#include "warptape/tools/wt/training/evaluation.h"
#include "warptape/tools/wt/training/optimizers.h"
#include "warptape/tools/wt/training/run_signals.h"

namespace wt::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr i64 kPoints = 100;  // of a training curve
constexpr i64 kEvals = 5;
constexpr i64 kMostSteps = 500;  // unless more are asked for: there are many runs

// lr_factor: of the recipe's rate, which is AdamW's; among factors about three apart it was the
// best or close to it both on the synthetic images and on Fashion-MNIST, and one above still
// learnt. Only decoupled weight decay is the recipe's: as a part of the gradient it is another
// thing for each.
struct Entrant {
  const char *name, *optimizer;
  double lr_factor, momentum;
  bool decay;
};
constexpr Entrant kEntrants[] = {
    {"sgd", "sgd", 50, 0, false},         {"momentum", "sgd", 10, 0.9, false},
    {"adam", "adam", 1, 0, false},        {"adamw", "adamw", 1, 0, true},
    {"adagrad", "adagrad", 10, 0, false}, {"rmsprop", "rmsprop", 1, 0, false},
    {"lion", "lion", 0.5, 0, true},       {"nadam", "nadam", 1, 0, false},
    {"radam", "radam", 1, 0, false},      {"muon", "muon", 20, 0.95, true}};

void refuse_options(const TrainOptions& o) {
  const TrainOptions plain;
  const bool precisions = o.recipe == kPrecisionRace;
  const std::pair<bool, const char*> given[] = {
      {precisions && o.precision != plain.precision, "--precision: all of them take part"},
      {!precisions && o.optimizer != plain.optimizer, "--optimizer: all of them take part"},
      {!precisions && o.lr != plain.lr, "--lr: each has its own\n  Try --set lr_adam=1e-3"},
      {o.resume, "--resume: every run is made from the start"},
      {o.dry_run, "--dry-run\n  Try --steps 1"},
      {o.graph, "--graph"},
      {o.ranks != 0, "--ranks"},
      {!o.init_from.empty(), "--init-from: all start from the same random weights"},
      {o.patience != plain.patience, "--patience: all make the same steps"},
      {o.eval_batches >= 0, "--eval-batches\n  Try --set held_out=2000"},
      {o.ema != plain.ema, "--ema"},
      {o.schedule == "plateau", "--schedule plateau: all have the same schedule"},
      {!o.kernels.empty(), "--kernel"}};
  for (const auto& [is_given, what] : given) {
    if (is_given) throw UsageError(str(o.recipe, " takes no ", what));
  }
}

bool is_own(const std::string& assignment, bool precisions) {
  const std::string key = assignment.substr(0, assignment.find('='));
  return key == "recipe" || key == "seeds" || key == "held_out" ||
         (!precisions && key.starts_with("lr_"));
}

std::vector<Racer> optimizers(Settings& s, const TrainOptions& o, const RecipeDefaults& d) {
  std::vector<Racer> racers;
  for (const Entrant& e : kEntrants) {
    Racer r{.name = e.name, .optimizer = e.optimizer, .momentum = e.momentum};
    r.lr = s.real(str("lr_", e.name).c_str(), d.lr * e.lr_factor, 0, 1e6);
    if (o.weight_decay >= 0 || e.decay) r.weight_decay = d.weight_decay;
    r.precision = o.precision;
    racers.push_back(r);
  }
  return racers;
}

// f32 first: the others are compared with it.
std::vector<Racer> precisions(const TrainOptions& o, const RecipeDefaults& d) {
  std::vector<Racer> racers;
  for (const char* name : {"f32", "f16", "bf16"})
    racers.push_back({.name = name,
                      .optimizer = o.optimizer,
                      .lr = d.lr,
                      .momentum = o.momentum,
                      .weight_decay = d.weight_decay,
                      .precision = name});
  return racers;
}

}  // namespace

RacePlan::RacePlan(const TrainOptions& options) : options_(options) {
  refuse_options(options);
  start_.name = options.recipe;
  const bool of_precisions = start_.of_precisions();
  std::vector<std::string> own;
  for (const std::string& a : options.set)
    (is_own(a, of_precisions) ? own : recipe_set_).push_back(a);
  Settings settings(own);
  std::vector<std::string> names{"synthetic"};
  for (const RecipeInfo& r : recipes()) names.push_back(r.name);
  // With data and nothing said, images of the usual kind.
  if (!options.data.empty()) std::swap(names[0], *std::find(names.begin(), names.end(), "fashion"));
  start_.recipe = settings.choice("recipe", names);
  start_.seeds = settings.integer("seeds", 3, 1, 1000);
  held_out_ = settings.integer("held_out", 2000, 0, 1'000'000'000);
  const std::unique_ptr<Recipe> recipe = make_recipe();
  TrainOptions o = options_;
  if (!of_precisions) {
    o.lr = recipe->defaults().lr;
    if (o.clip < 0) o.clip = 0;  // it would hide what a rule does with large gradients
  }
  defaults_ = resolve(o, *recipe);
  start_.racers =
      of_precisions ? precisions(options_, defaults_) : optimizers(settings, options_, defaults_);
  settings.finish(start_.name.c_str());
  start_.settings = recipe->settings();
  start_.item = recipe->item();
  device_ = device_for(options.device);
  start_.device = to_string(device_);
  start_.batch = defaults_.batch;
}

std::unique_ptr<Recipe> RacePlan::make_recipe() const {
  if (start_.recipe == "synthetic") return make_synthetic(Settings(recipe_set_));
  return tools::make_recipe(start_.recipe, recipe_set_, options_.data);
}

RecipeData RacePlan::load() {
  RecipeData data = make_recipe()->load(options_.data);
  const i64 n = data.train.size();
  check_samples(options_.data, "training", n);
  check_samples(options_.data, "held-out", data.held_out.size());
  check_batch(defaults_.batch, data);
  if (held_out_ > 0 && held_out_ < data.held_out.size()) {
    std::vector<i64> first(static_cast<std::size_t>(held_out_));
    std::iota(first.begin(), first.end(), 0);
    data.held_out = data::Subset<data::AnyDataset>(data.held_out, std::move(first));
  }
  const i64 epoch = std::max<i64>(1, n / defaults_.batch);
  start_.steps =
      options_.steps ? options_.steps
      : options_.epochs
          ? steps_of_epochs(options_.epochs, epoch)
          : std::min(kMostSteps, defaults_.steps ? defaults_.steps : defaults_.epochs * epoch);
  start_.train_samples = n;
  start_.held_out = data.held_out.size();
  return data;
}

RaceRun RacePlan::run_one(std::size_t racer, u64 seed, const RecipeData& data,
                          const std::function<bool()>& stop,
                          const std::function<void()>& stepped) const {
  const Racer& r = start_.racers[racer];
  TrainOptions o = options_;
  o.optimizer = r.optimizer;
  o.momentum = r.momentum;
  o.precision = r.precision;
  RecipeDefaults d = defaults_;
  d.lr = r.lr;
  d.weight_decay = r.weight_decay;
  // The same start, order and masks for every racer.
  manual_seed(seed);
  const std::unique_ptr<Recipe> recipe = make_recipe();
  recipe->begin(data.train);
  recipe->model().to(device_);
  RecipeTraining training(o, d, *recipe, start_.steps);
  data::Loader<data::AnyDataset> loader = make_loader(d, data, seed, o.workers);
  RaceRun run{.racer = racer, .seed = seed};
  const i64 point = std::max<i64>(1, start_.steps / kPoints);
  const i64 eval = std::max<i64>(1, start_.steps / kEvals);
  const auto evaluate = [&] {
    const EvalResult e = tools::evaluate(*recipe, data.held_out);
    run.evals.push_back({run.steps, e.loss, e.accuracy.value_or(NAN)});
  };
  evaluate();
  double sum = 0;
  i64 summed = 0;
  data::Batch batch;
  while (run.steps < start_.steps && !stop()) {
    if (!loader.next(batch) && !loader.next(batch)) throw DataError("the data has no batch");
    const Clock::time_point begin = Clock::now();
    try {
      const StepRecord r = training.step(batch).read();
      r.skipped ? ++run.skipped : (sum += r.loss, ++summed);
    } catch (const NumericError&) {
      run.diverged = true;
      return run;
    }
    run.seconds += std::chrono::duration<double>(Clock::now() - begin).count();
    ++run.steps;
    if (summed > 0 && (run.steps % point == 0 || run.steps == start_.steps)) {
      run.train.emplace_back(double(run.steps), sum / double(summed));
      sum = 0, summed = 0;
    }
    if (run.steps % eval == 0 || run.steps == start_.steps) evaluate();
    stepped();
  }
  run.finished = run.steps == start_.steps;
  run.diverged = run.finished && !std::isfinite(run.evals.back().loss);
  if (run.diverged) run.finished = false;
  return run;
}

Race RacePlan::run(const std::function<bool()>& stop,
                   const std::function<void(const Race&)>& done) {
  if (options_.threads > 0) set_num_threads(options_.threads);
  const RecipeData data = load();
  Race race = start_;
  const i64 runs = race.seeds * i64(race.racers.size());
  Progress bar({.desc = race.name,
                .total = runs * race.steps,
                .unit = "step",
                .disable = options_.quiet,
                .leave = false});
  for (i64 s = 0; s < race.seeds; ++s) {
    for (std::size_t r = 0; r < race.racers.size(); ++r) {
      if (stop()) return race;
      bar.set_postfix(str(race.racers[r].name, ", seed ", options_.seed + u64(s)));
      race.runs.push_back(run_one(r, options_.seed + u64(s), data, stop, [&] { bar.update(); }));
      bar.update(race.steps - race.runs.back().steps);
      if (done) done(race);
    }
  }
  return race;
}

int run_race(const TrainOptions& options) {
  RacePlan plan(options);
  std::optional<DirectoryLock> lock;
  if (!options.out.empty()) {
    lock.emplace(options.out);
    for (const char* name : {"race.csv", "metrics.jsonl"}) {
      std::error_code unknown;  // what cannot be looked at cannot be written either, which says so
      if (std::filesystem::exists(options.out + "/" + name, unknown))
        throw CheckpointError(str(printable_path(options.out), " holds ", name,
                                  " of another run; give this one another folder"));
    }
  }
  RunSignals signals;
  const Race race = plan.run([&] { return signals.stop_requested(); },
                             [&](const Race& r) {
                               if (lock) write_race(options.out, r);
                             });
  end_progress_line();
  std::printf("%s\n%s\n", race_table(race).c_str(), race_json(race).c_str());
  flush_stdout();
  if (signals.stop_requested())
    std::fprintf(stderr, "interrupted after %zu of %zu runs; %s\n", race.runs.size(),
                 std::size_t(race.seeds) * race.racers.size(),
                 !lock               ? "nothing was kept"
                 : race.runs.empty() ? "there was nothing to write yet"
                                     : "what there is has been written");
  return signals.exit_code();
}

}  // namespace wt::tools
