// Models by name: each is made, called and differentiated by what the table says of it.
#include "warptape/autograd/compare.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/nn/init.h"
#include "warptape/nn/models.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;
using models::AnyModel;
using models::ModelInfo;

TEST_CASE("every model of the table takes the inputs and gives the outputs it says", "[models]") {
  const LeakGuard guard;
  const DefaultDevice meta(Device::meta(DeviceKind::cpu));
  for (const ModelInfo& m : models::all_models()) {
    INFO(m.name);
    const AnyModel net = models::make(m.name);
    const AnyModel::Inputs x = m.made_up_inputs(2);
    REQUIRE(x.size() == m.inputs.size());
    CHECK(x[0].size(0) == 2);
    const Tensor y = net(x);
    CHECK(y.size(0) == 2);
    if (m.output == models::ModelOutput::logits) CHECK(y.size(-1) == m.classes);
    if (m.output == models::ModelOutput::logits_of_pixels) CHECK(y.size(1) == m.classes);
    m.made_up_loss(y).backward();
    for (const auto& [name, p] : net.named_parameters()) {
      INFO(name);
      CHECK(p.grad().defined() == p.requires_grad());
    }
    CHECK(std::string(m.summary) != "");
    CHECK(std::string(m.weights) != "");
  }
  CHECK(models::all_models().size() == 18);
}

TEST_CASE("a model by name is the model: names, classes, a clone, a training mode", "[models]") {
  const LeakGuard guard;
  manual_seed(1);
  const AnyModel net = models::make("resnet18_cifar", {.classes = 7});
  CHECK(net.named_parameters()[0].name == "conv1.weight");
  CHECK(net.parameter("fc.bias")->shape() == Shape{7});
  CHECK(net.type() == "ResNet");
  net.eval();
  const NoGrad no_grad;
  const Tensor x = rand({1, 3, 32, 32}), y = net(x);
  models::ResNet same = models::resnet18({.classes = 7, .cifar_stem = true});
  same.load_state_dict(net.state_dict());
  same.eval();
  CHECK(equal(same(x), y));
  const AnyModel twin = net.clone();
  nn::init::zeros_(net.parameter("fc.weight"));
  CHECK(equal(twin(x), y));
  CHECK_FALSE(equal(net(x), y));
}

TEST_CASE("what is no model's name, and wrong calls, are answered in words", "[models]") {
  CHECK(mentions(message_of([] { models::make("resnet81"); }), "did you mean 'resnet18'?"));
  CHECK(mentions(message_of([] { models::make("mobilenetv2"); }), "did you mean 'mobilenet_v2'?"));
  CHECK(mentions(message_of([] { models::make("pinn", {.classes = -1}); }),
                 "values of the function must be at least 1, got -1"));
  const AnyModel net = models::make("deepsdf");
  CHECK(mentions(message_of([&] { (void)net(zeros({2}, {.dtype = DType::i64})); }),
                 "[DeepSdf] takes 2 inputs, got 1"));
}
