// nn::DataParallel: one process, several devices, the results of the plain module.
#include "warptape/nn/data_parallel.h"

#include "warptape/autograd/ops.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/mode.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/nn/linear.h"
#include "warptape/nn/norms.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

// Small whole numbers: every sum is exact, whatever its order.
Tensor whole(const Shape& shape, int seed) {
  manual_seed(u64(seed));
  return randint(-3, 4, shape).to(wt::f32);
}

struct Net : nn::Module<Net> {
  nn::Linear fc1 = add("fc1", nn::Linear{6, 5});
  nn::Linear fc2 = add("fc2", nn::Linear{5, 3});
  Net() {
    const NoGrad no_grad;
    int seed = 1;
    for (Tensor& p : parameters()) p.copy_(whole(p.shape(), seed++));
  }
  Tensor forward(const Tensor& x) { return fc2(relu(fc1(x))); }
};

// Gradients of sum(f(x) * weights), by name without "module.".
std::vector<Values> gradients(const nn::ModuleBase& net) {
  std::vector<Values> all;
  for (const Tensor& p : net.parameters()) all.push_back(values(p.grad().to(Device::cpu())));
  return all;
}

const std::vector<std::vector<Device>> kLists = {
    {Device::cpu()},
    {Device::cpu(), Device::cpu()},
    {Device::cpu(), Device::simt()},
    {Device::simt(), Device::cpu(), Device::simt()},
    {Device::simt(), Device::simt()},
};

}  // namespace

TEST_CASE("nn::DataParallel: results and gradients are those of the plain module") {
  NEEDS_OPERATORS(Device::simt());
  for (const i64 samples : {1, 2, 5, 8}) {
    const Tensor x = whole({samples, 6}, 11), w = whole({samples, 3}, 12);
    Net plain;
    const Tensor y = plain(x);
    sum(y * w).backward();
    for (const std::vector<Device>& devices : kLists) {
      INFO(samples << " samples on " << devices.size() << " devices from "
                   << to_string(devices[0]));
      Net net;
      net.to(devices[0]);
      nn::DataParallel parallel{net, {.devices = devices}};
      const Tensor got = parallel(x);  // on the cpu: parts go where they belong
      CHECK(got.device() == devices[0]);
      CHECK(got.shape() == y.shape());
      CHECK(values(got.to(Device::cpu())) == values(y));
      sum(got * w.to(devices[0])).backward();
      CHECK(gradients(net) == gradients(plain));
      // A second backward adds up.
      sum(parallel(x) * w.to(devices[0])).backward();
      for (const Tensor& p : net.parameters()) p.grad().mul_(0.5);
      CHECK(gradients(net) == gradients(plain));
    }
  }
}

TEST_CASE("nn::DataParallel: an optimizer steps the module's own parameters") {
  const auto train = [](bool parallel) {
    Net net;
    nn::DataParallel both{net, {.devices = {Device::cpu(), Device::cpu()}}};
    optim::Sgd opt{net, {.lr = 0.5}};
    for (int i = 0; i < 3; ++i) {
      opt.zero_grad();
      const Tensor x = whole({6, 6}, 20 + i);
      mean(parallel ? both(x) : net(x)).backward();
      opt.step();
    }
    return values(net(whole({2, 6}, 30)));
  };
  const Values plain = train(false), parallel = train(true);
  REQUIRE(plain.size() == parallel.size());
  for (size_t i = 0; i < plain.size(); ++i) CHECK(parallel[i] == Approx(plain[i]).epsilon(1e-5));
}

TEST_CASE("nn::DataParallel: names are PyTorch's, and a copy is the same one") {
  nn::DataParallel net{Net{}};
  std::vector<std::string> names;
  for (const auto& p : net.named_parameters()) names.push_back(p.name);
  CHECK(names == std::vector<std::string>{"module.fc1.weight", "module.fc1.bias",
                                          "module.fc2.weight", "module.fc2.bias"});
  CHECK(net.type() == "DataParallel");
  CHECK(net.module.fc1.weight->same_as(net.parameters()[0]));
  auto copy = net.clone();
  CHECK(!copy.module.fc1.weight->same_as(net.parameters()[0]));
  CHECK(values(copy(whole({4, 6}, 3))) == values(net(whole({4, 6}, 3))));
}

namespace {

// Several arguments, and several results.
struct Both : nn::Module<Both> {
  nn::Linear fc = add("fc", nn::Linear{4, 4});
  std::pair<Tensor, Tensor> forward(const Tensor& a, const Tensor& b, double scale) {
    return {fc(a) * scale, sum(b, {1})};
  }
};
struct Scalars : nn::Module<Scalars> {
  std::vector<Tensor> forward(const Tensor& x) { return {sum(x), x}; }
};
struct Normed : nn::Module<Normed> {
  nn::BatchNorm1d bn = add("bn", nn::BatchNorm1d{3});
  Tensor forward(const Tensor& x) { return bn(x); }
};

}  // namespace

TEST_CASE("nn::DataParallel: arguments and results of several tensors, and without axes") {
  const std::vector<Device> two = {Device::cpu(), Device::cpu()};
  Both both;
  nn::DataParallel net{both, {.devices = two}};
  const Tensor a = randn({5, 4}), b = whole({5, 2}, 4);
  const auto [y, s] = net(a, b, 2.0);
  const auto [plain_y, plain_s] = both(a, b, 2.0);
  CHECK(max(abs(y - plain_y)).item<float>() < 1e-5f);
  CHECK(values(s) == values(plain_s));
  nn::DataParallel scalars{Scalars{}, {.devices = two}};
  const Tensor x = whole({3, 2}, 5);
  const std::vector<Tensor> r = scalars(x);
  CHECK(r[0].shape() == Shape{2});  // a sum a part, as in PyTorch
  CHECK(sum(r[0]).item<float>() == sum(x).item<float>());
  CHECK(values(r[1]) == values(x));
  // Along another axis.
  nn::DataParallel columns{Scalars{}, {.devices = two, .axis = 1}};
  CHECK(values(columns(x)[1]) == values(x));
}

TEST_CASE("nn::DataParallel: running statistics are the first part's") {
  Normed net, first;
  nn::DataParallel parallel{net, {.devices = {Device::cpu(), Device::cpu()}}};
  const Tensor x = randn({8, 3});
  (void)parallel(x);
  (void)first(x.narrow(0, 0, 4));
  CHECK(values(net.bn.running_mean) == values(first.bn.running_mean));
  CHECK(values(net.bn.running_var) == values(first.bn.running_var));
}

TEST_CASE("nn::DataParallel: what cannot be") {
  NEEDS_OPERATORS(Device::simt());
  Net net;
  nn::DataParallel wrong{net, {.devices = {Device::simt(), Device::cpu()}}};
  CHECK(message_of([&] {
          (void)wrong(zeros({4, 6}));
        }) ==
        "PlacementError: [DataParallel] the module must be on the first device, simt, and its "
        "fc1.weight is on cpu\n  Try module.to(...)");
  nn::DataParallel both{Both{}, {.devices = {Device::cpu(), Device::cpu()}}};
  CHECK_THROWS_AS((void)both(zeros({4, 4}), zeros({3, 2}), 1.0), ShapeError);
  CHECK_THROWS_AS((void)both(zeros({4, 4}), zeros({}), 1.0), ShapeError);
  // The module has its own parameters after a call that threw in a replica.
  nn::DataParallel two{net, {.devices = {Device::cpu(), Device::simt()}}};
  const Tensor before = net.fc1.weight;
  CHECK_THROWS_AS((void)two(zeros({4, 5})), ShapeError);
  CHECK(net.fc1.weight->same_as(before));
}

TEST_CASE("nn::DataParallel: an undefined tensor stays one, as an argument and as a result") {
  struct Masked : nn::Module<Masked> {
    nn::Linear fc = add("fc", nn::Linear{6, 5});
    std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& mask) {
      return {mask.defined() ? fc(x) * mask : fc(x), mask};
    }
  };
  const Masked plain;
  Masked alone = plain;
  nn::DataParallel net{plain, {.devices = {Device::cpu(), Device::cpu()}}};
  const Tensor x = whole({4, 6}, 1), mask = whole({4, 5}, 2);
  const auto [y, none] = net(x, Tensor());
  CHECK(values(y) == values(alone(x, Tensor()).first));
  CHECK(!none.defined());
  CHECK(values(net(x, mask).first) == values(alone(x, mask).first));
}
