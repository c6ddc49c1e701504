#include "warptape/tools/wt/measure/model_cost.h"

#include "warptape/bench/steps/flop_count.h"
#include "warptape/core/memory_fit.h"
#include "warptape/core/random.h"
#include "warptape/optim/train_step.h"
#include "warptape/tools/wt/training/optimizers.h"

namespace wt::tools {
namespace {

constexpr int kCostSteps = 3;  // the second has all of the optimizer's state, the third is like it

void train(const models::ModelInfo& model, const ModelCostOptions& o) {
  const models::AnyModel net = model.make(model.classes);
  const auto optimizer = make_optimizer(net, {.name = o.optimizer});
  TrainStep step{net, *optimizer, {.on_nonfinite = NonFinite::ignore}};  // of made-up numbers
  for (int i = 0; i < kCostSteps; ++i) {
    const models::AnyModel::Inputs batch = [&] {
      const CategoryScope scope(Category::dataset);
      return model.made_up_inputs(o.batch);
    }();
    step(batch, [&](const models::AnyModel::Inputs& b) { return model.made_up_loss(net(b)); });
  }
}

}  // namespace

ModelCost cost_of(const models::ModelInfo& model, const ModelCostOptions& o) {
  ModelCost cost;
  bench::FlopCount count;
  (void)memory::predict(o.device, [&] {
    const models::AnyModel net = model.make(model.classes);
    cost.parameters = net.parameter_count();
    net.eval();
    const models::AnyModel::Inputs sample = model.made_up_inputs(1);
    const NoGrad no_grad;
    const profiler::ObserverScope watch(count);
    (void)net(sample);
  });
  cost.flops = count.flops;
  cost.step_bytes = memory::predict(o.device, [&] { train(model, o); }).peak;
  return cost;
}

i64 measured_step_bytes(const models::ModelInfo& model, const ModelCostOptions& o) {
  const DefaultDevice there(o.device);
  memory::reset_peak(o.device);
  const i64 before = memory::stats(o.device).live;
  train(model, o);
  return memory::stats(o.device).peak - before;
}

}  // namespace wt::tools
