// What `wt models` says of a model: FLOPs beside PyTorch's count, memory beside what a step takes.
// The command itself: wt_models_test.sh.
#include "warptape/tools/wt/measure/model_cost.h"

#include "warptape/core/profiler.h"
#include "warptape/tests/reference/reader.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt::tools;

namespace {

// Of convolutions and products alone, which is what PyTorch's counters count.
struct Products final : profiler::Observer {
  double flops = 0;
  int kernels = 0;
  void begin(const profiler::Range& r) noexcept override {
    const std::string_view name = r.name;
    if (r.kind != profiler::Kind::kernel) return;
    ++kernels;
    if (name == "matmul" || name == "conv_forward") flops += r.flops;
  }
};

double products_of(const std::string& name) {
  const DefaultDevice meta(Device::meta(DeviceKind::cpu));
  const models::AnyModel net = models::make(name);
  net.eval();
  const NoGrad no_grad;
  const models::AnyModel::Inputs x = models::find_model(name).made_up_inputs(1);
  Products products;
  const profiler::ObserverScope watch(products);
  (void)net(x);
  CHECK(products.kernels > 20);
  return products.flops;
}

}  // namespace

TEST_CASE("FLOPs of a model are PyTorch's: products counted on the meta device", "[models]") {
  const LeakGuard guard;
  for (const std::string name :
       {"resnet18", "resnet34", "resnet50", "resnet18_cifar", "cifar_speedrun", "mobilenet_v2",
        "mobilenet_v3_small", "efficientnet_b0"}) {
    INFO(name);
    const reference::Arrays a =
        reference::load_reference(reference::reference_path("models/" + name));
    CHECK(products_of(name) == a.at("flops").values.at(0));
    CHECK(cost_of(models::find_model(name), {.batch = 1}).parameters ==
          i64(a.at("parameters").values.at(0)));
  }
}

TEST_CASE("memory of a model's training step is predicted within 3 %", "[models][memory]") {
  if (!wt_test::whole_walk()) SKIP_TEST("seconds in an instrumented build");
  const LeakGuard guard;
  for (const std::string name : {"resnet18_cifar", "cifar_speedrun", "pinn", "deepsdf"})
    for (const std::string optimizer : {"adamw", "sgd"}) {
      INFO(name << " with " << optimizer);
      const ModelCostOptions o{.batch = 4, .optimizer = optimizer};
      const models::ModelInfo& m = models::find_model(name);
      const double predicted = double(cost_of(m, o).step_bytes);
      const double measured = double(measured_step_bytes(m, o));
      CAPTURE(predicted, measured);
      CHECK(predicted >= 0.97 * measured);
      CHECK(predicted <= 1.03 * measured);
    }
}
