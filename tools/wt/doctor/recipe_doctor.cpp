#include "warptape/tools/wt/doctor/recipe_doctor.h"

#include <numeric>
#include <optional>

#include "warptape/core/random.h"
#include "warptape/tools/wt/measure/race.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/recipes/recipe_training.h"
#include "warptape/tools/wt/training/evaluation.h"

namespace wt::tools {
namespace {

constexpr i64 kEvaluated = 64;  // samples of the evaluation

data::AnyDataset few_of(const data::AnyDataset& set) {
  std::vector<i64> samples(size_t(std::min(kEvaluated, set.size())));
  std::iota(samples.begin(), samples.end(), i64{0});
  return data::Subset<data::AnyDataset>(set, std::move(samples));
}

class RecipePatient {
 public:
  RecipePatient(const TrainOptions& o, Recipe& recipe, Device device)
      : o_(o),
        recipe_(recipe),
        d_(resolve(o, recipe)),
        data_(load(device)),
        batches_(d_, data_, o.seed, o.workers),
        total_(o.steps    ? o.steps
               : o.epochs ? steps_of_epochs(o.epochs, batches_.size())
               : d_.steps ? d_.steps
                          : d_.epochs * batches_.size()),
        training_(o, d_, recipe, total_),
        few_(few_of(data_.held_out)) {
    training_.without_rounds();
    recipe_.begin(data_.train);
  }

  doctor::Report examine(const doctor::Options& how, bool on_cuda) {
    doctor::Subject s{.net = &recipe_.model(),
                      .optimizers = {&training_.optimizer()},
                      .micro_batches = o_.micro_batches,
                      .precision = precision_of(o_.precision),
                      .planned_steps = total_,
                      .workers = o_.workers,
                      .captures = o_.graph,
                      .evaluate = [this] { (void)evaluate(recipe_, few_); }};
    if (on_cuda && !o_.graph) s.captured = [this] { step_as_graph(); };
    return doctor::examine(
        s, [this] { return next(); },
        [this](const data::Batch& b) { return training_.step(b).of_train_step(); }, how);
  }

 private:
  RecipeData load(Device device) const {
    const DefaultDevice host(Device::cpu());
    RecipeData data = recipe_.load(o_.data);
    check_samples(o_.data, "training", data.train.size());
    check_samples(o_.data, "held-out", data.held_out.size());
    if (keeps_data_on_device(o_, recipe_, device)) data.train = data.resident(device);
    data.resident = {};
    return data;
  }
  data::Batch next() {
    if (!batches_.next(last_) && !batches_.next(last_)) throw DataError("the data has no batch");
    return last_;
  }
  // The second training takes the parameters over: nothing comes behind this.
  void step_as_graph() {
    if (!captured_) {
      TrainOptions o = o_;
      o.graph = true;
      captured_ = std::make_unique<RecipeTraining>(o, d_, recipe_, total_);
      captured_->without_rounds();
    }
    (void)captured_->step(last_);
  }

  const TrainOptions& o_;
  Recipe& recipe_;
  RecipeDefaults d_;
  RecipeData data_;
  TrainBatches batches_;
  i64 total_;
  RecipeTraining training_;
  data::AnyDataset few_;
  data::Batch last_;
  std::unique_ptr<RecipeTraining> captured_;
};

doctor::Report failed(const std::exception& e) {
  return {.findings = {{.rule = "step-fails",
                        .severity = doctor::Severity::wrong,
                        .title = "the training does not begin",
                        .evidence = e.what(),
                        .fix = "see the error"}}};
}

}  // namespace

RecipeExam examine_recipe(const TrainOptions& options, const doctor::Options& how) {
  if (is_race(options.recipe))
    throw UsageError(str("a doctor sees one training, and ", options.recipe,
                         " is many\n  Try the recipe that races"));
  TrainOptions o = options;
  if (o.data.empty()) o.data = kSyntheticData;
  if (o.threads > 0) set_num_threads(o.threads);
  const Device device = device_for(o.device);
  manual_seed(o.seed);
  const std::unique_ptr<Recipe> recipe = make_recipe(o.recipe, o.set, o.data);
  RecipeExam exam{.device = to_string(device), .batch = resolve(o, *recipe).batch};
  std::optional<RecipePatient> patient;
  try {
    recipe->model().to(device);
    patient.emplace(o, *recipe, device);
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& e) {
    exam.report = failed(e);
    return exam;
  }
  exam.report = patient->examine(how, device.kind == DeviceKind::cuda);
  return exam;
}

}  // namespace wt::tools
