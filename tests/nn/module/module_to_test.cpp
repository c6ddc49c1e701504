// What to(), train(), eval() and requires_grad_() give back: the module, of its own type.
#include <memory>
#include <type_traits>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/nn/init.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/models.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

template <class M>
using To = decltype(std::declval<M>().to(Device::cpu()));
template <class M>
constexpr bool keeps_type() {
  return std::is_same_v<To<M>, M> && std::is_same_v<To<M&>, M> && std::is_same_v<To<const M&>, M> &&
         std::is_same_v<decltype(std::declval<M>().to(f64)), M> &&
         std::is_same_v<decltype(std::declval<M>().to(Device::cpu(), f64)), M> &&
         std::is_same_v<decltype(std::declval<M>().train()), M> &&
         std::is_same_v<decltype(std::declval<M>().eval()), M> &&
         std::is_same_v<decltype(std::declval<M>().requires_grad_(false)), M> &&
         std::is_same_v<decltype(std::declval<M>().clone()), M>;
}
template <class... M>
constexpr bool all_keep_type() {
  return (keeps_type<M>() && ...);
}

// Classes that derive from a class of modules, through nn::Derived, and one of each kind else.
static_assert(all_keep_type<nn::Conv1d, nn::Conv2d, nn::Conv3d, nn::ConvTranspose1d,
                            nn::ConvTranspose2d, nn::ConvTranspose3d, nn::Dropout1d, nn::Dropout2d,
                            nn::Dropout3d, nn::BatchNorm1d, nn::BatchNorm2d, nn::BatchNorm3d,
                            nn::InstanceNorm1d, nn::InstanceNorm2d, nn::InstanceNorm3d>());
static_assert(
    all_keep_type<nn::Linear, nn::Embedding, nn::LSTM, nn::GRU, nn::GRUCell, nn::ReLU, nn::PReLU,
                  nn::MaxPool2d, nn::LayerNorm, nn::GroupNorm, nn::CrossEntropyLoss,
                  nn::MultiheadAttention, nn::Transformer, nn::Sequential, nn::SequentialStep,
                  nn::ModuleList<nn::Linear>, nn::ModuleDict<nn::Conv2d>>());
static_assert(all_keep_type<models::AnyModel, models::ResNet, models::Gpt2, models::Unet>());

struct MovedNet : nn::Module<MovedNet> {
  nn::Linear fc = add("fc", nn::Linear{3, 2});
  nn::BatchNorm1d norm = add("norm", nn::BatchNorm1d{2});
  int calls = 0;
  Tensor forward(Tensor x) {
    ++calls;
    return norm(fc(std::move(x)));
  }
  i64 generate() { return calls; }  // not const
};
static_assert(keeps_type<MovedNet>());

struct Doubled : nn::Derived<Doubled, nn::Conv2d> {
  using Derived::Derived;
  double factor = 2;
};
static_assert(keeps_type<Doubled>());

// Has no copies: it moves as before, and gives nothing back.
struct Unique : nn::Module<Unique> {
  std::unique_ptr<int> only = std::make_unique<int>(3);
  nn::Param w = add("w", ones({2}));
  Tensor forward(Tensor x) { return x * w; }
};
static_assert(std::is_void_v<To<Unique&>>);

}  // namespace

TEST_CASE("to: a module is made, moved and named in one line", "[module]") {
  const LeakGuard guard;
  for (const Device d : {Device::cpu(), Device::simt()}) {
    CAPTURE(to_string(d));
    auto net = nn::Linear{3, 1}.to(d);
    CHECK(net.weight->device() == d);
    CHECK(net(ones({2, 3}, {.device = d})).shape() == Shape{2, 1});
    auto wide = MovedNet{}.to(d, f64).eval();
    CHECK(wide.fc.weight->dtype() == f64);
    CHECK(wide.fc.weight->device() == d);
    CHECK_FALSE(wide.norm.is_training());
    CHECK(wide.eval().generate() == 0);
    CHECK(wide.train().norm.is_training());
    auto frozen = nn::Conv2d{1, 2, 3}.to(d).eval().requires_grad_(false);
    CHECK_FALSE(frozen.weight->requires_grad());
    CHECK(frozen(ones({1, 1, 3, 3}, {.device = d})).shape() == Shape{1, 2, 1, 1});
  }
}

TEST_CASE("to: what it gives is the same module, not a copy", "[module]") {
  const LeakGuard guard;
  MovedNet net;
  const MovedNet there = net.to(f64);
  CHECK(there.state() == net.state());
  CHECK(there.fc.weight->same_as(net.fc.weight.tensor()));
  CHECK(net.fc.weight->dtype() == f64);
  const Doubled twice = Doubled{1, 1, 3}.to(f64);
  CHECK(twice.factor == 2);
  CHECK(twice.type() == "Conv2d");
  Unique unique;
  unique.to(f64);
  CHECK(unique.w->dtype() == f64);
}

TEST_CASE("to: net = net.to(device), with an optimizer too", "[module]") {
  const Device d = ready(Device::simt());
  const LeakGuard guard;
  nn::Linear net{2, 1};
  const Tensor weight = net.weight;
  nn::init::ones_(weight);
  optim::Sgd opt{net, {.lr = 0.5}};
  net = net.to(d);
  net = net.train();
  CHECK(net.weight->same_as(weight));
  CHECK(weight.device() == d);
  sum(net(ones({1, 2}, {.device = d}))).backward();
  opt.step();
  CHECK(values(net.weight) == Values{0.5, 0.5});
}

TEST_CASE("to: what cannot be leaves the module as it was", "[module]") {
  nn::Linear net{2, 1};
  optim::Sgd opt{net, {.lr = 0.5}};
  CHECK(mentions(message_of([&] { (void)net.eval().to(f64); }), "belongs to an optimizer"));
  CHECK(net.weight->dtype() == f32);
  CHECK_THROWS_AS((void)nn::Linear(2, 1).to(DType::i64), DtypeError);
}
