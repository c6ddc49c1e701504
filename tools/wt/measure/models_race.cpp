#include "warptape/tools/wt/measure/models_race.h"

#include "warptape/bench/gpu/measure.h"
#include "warptape/core/random.h"
#include "warptape/optim/train_step.h"
#include "warptape/tools/wt/recipes/picture_models.h"
#include "warptape/tools/wt/training/optimizers.h"

namespace wt::tools {
namespace {

bench::Timing timing_of(const ModelsRaceOptions& o, const std::function<void()>& work) {
  return bench::time_batch(o.device, 1, [&](int) { work(); }, {.seconds = o.seconds});
}

void time_forward(const models::ModelInfo& model, const ModelsRaceOptions& o, ModelsRaceRow& row) {
  const models::AnyModel net = model.make(model.classes);
  net.eval();
  const models::AnyModel::Inputs batch = model.made_up_inputs(o.batch);
  const NoGrad no_grad;
  const bench::Timing t = timing_of(o, [&] { (void)net(batch); });
  row.forward_ms = t.median_us * 1e-3;
  row.forward_least_ms = t.min_us * 1e-3;
}

void time_step(const models::ModelInfo& model, const ModelsRaceOptions& o, ModelsRaceRow& row) {
  const models::AnyModel net = model.make(model.classes);
  const auto optimizer = make_optimizer(net, {.name = o.optimizer, .lr = 1e-3});
  // One batch again and again teaches nothing: batch norm of two values may well overflow.
  TrainStep step{net, *optimizer, {.on_nonfinite = NonFinite::ignore}};
  const models::AnyModel::Inputs batch = model.made_up_inputs(o.batch);
  const bench::Timing t = timing_of(o, [&] {
    step(batch, [&](const models::AnyModel::Inputs& b) { return model.made_up_loss(net(b)); });
  });
  row.step_ms = t.median_us * 1e-3;
  row.step_least_ms = t.min_us * 1e-3;
}

}  // namespace

ModelsRace race_models(const ModelsRaceOptions& o,
                       const std::function<void(const ModelsRace&)>& done) {
  std::vector<models::ModelInfo> models;
  for (const std::string& name : o.models) models.push_back(picture_model(name, o.size));
  ModelsRace race{.options = o, .threads = num_threads(), .rows = {}};
  const DefaultDevice there(o.device);
  for (const models::ModelInfo& model : models) {
    const ModelCostOptions cost{.batch = o.batch, .device = o.device, .optimizer = o.optimizer};
    ModelsRaceRow row{.model = model.name, .cost = cost_of(model, cost)};
    row.measured_bytes = measured_step_bytes(model, cost);
    time_forward(model, o, row);
    time_step(model, o, row);
    race.rows.push_back(row);
    if (done) done(race);
  }
  return race;
}

}  // namespace wt::tools
