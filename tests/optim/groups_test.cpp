// Parameter groups by name pattern.
#include "warptape/optim/optimizer.h"

#include <cmath>

#include "warptape/tests/optim/devices.h"
#include "warptape/tests/optim/problem.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;

namespace {

const optim::AdamWOptions kTwo{
    .lr = 0.01,
    .weight_decay = 0.1,
    .groups = {{.names = {"b"}, .lr = 0.05, .weight_decay = 0, .betas = optim::Betas{0.5, 0.75}}}};

// Parameters of a net with one element each; their gradient is 1.
std::vector<nn::NamedTensor> named(std::initializer_list<const char*> names) {
  std::vector<nn::NamedTensor> all;
  for (const char* n : names) {
    const Tensor x = tensor({1.0}, {.dtype = f64, .requires_grad = true});
    x.set_grad(tensor({1.0}, {.dtype = f64}));
    all.push_back({n, x});
  }
  return all;
}

std::string message(std::vector<optim::ParamGroup> groups) {
  const auto p = named({"fc1.weight", "fc1.bias", "norm.weight"});
  try {
    optim::Sgd opt{p, {.lr = 1, .groups = std::move(groups)}};
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("two groups follow PyTorch for 50 steps, resumed in the middle") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  const Arrays r = load_reference(reference_path("adamw_groups"));
  const Problem p(f64, d);
  optim::AdamW opt{p.parameters(), kTwo};
  CHECK(opt.group_count() == 2);
  CHECK(opt.lr() == 0.01);
  CHECK(opt.lr(1) == 0.05);
  CHECK(follow(p, opt, r, 0, 25) <= 1e-12);
  std::vector<nn::NamedTensor> saved;
  for (const nn::NamedTensor& t : opt.state()) saved.push_back({t.name, t.tensor.clone()});
  Problem other(f64, d);
  optim::AdamWOptions rates = kTwo;  // what differs comes from the state
  rates.lr = 7;
  rates.groups[0].betas = optim::Betas{};
  optim::AdamW resumed{other.parameters(), rates};
  resumed.load_state(saved);
  {
    const NoGrad no_grad;
    other.w.copy_(p.w);
    other.b.copy_(p.b);
  }
  CHECK(resumed.lr() == 0.01);
  CHECK(resumed.betas(1).second == 0.75);
  CHECK(follow(other, resumed, r, 25) <= 1e-12);
  CHECK(resumed.applied() == 50);
  const Problem third(f64, d);
  optim::AdamW one_group{third.parameters()};
  CHECK_THROWS_AS(one_group.load_state(saved), UsageError);
}

TEST_CASE("patterns choose parameters; schedules and factors reach every group") {
  const LeakGuard guard;
  const auto p = named({"fc1.weight", "fc1.bias", "norm.weight", "fc10.weight", "head"});
  optim::Sgd opt{
      p,
      {.lr = 1,
       .groups = {{.names = {"*.bias", "norm.*"}, .lr = 2}, {.names = {"fc?.weight"}, .lr = 4}}}};
  opt.step();
  const auto moved = [&](size_t i) { return 1 - p[i].tensor.item(); };
  CHECK(moved(0) == 4);
  CHECK(moved(1) == 2);
  CHECK(moved(2) == 2);
  CHECK(moved(3) == 1);
  CHECK(moved(4) == 1);
  opt.set_schedule(optim::linear(10, 0.5, 0.5));
  CHECK(opt.rate() == 0.5);
  CHECK(opt.rate(2) == 2);
  opt.set_lr_factor(0.5);
  CHECK(opt.rate(1) == 0.5);
  opt.set_lr(16, 2);
  opt.set_lr_factor(1, 2);
  for (const nn::NamedTensor& n : p) n.tensor.set_grad(n.tensor.grad());  // the same once more
  opt.step();
  CHECK(moved(0) == 4 + 8);
  CHECK(moved(1) == 2 + 0.5);
  CHECK(moved(4) == 1 + 0.25);
  CHECK(opt.applied() == 2);
}

TEST_CASE("groups that make no sense are refused before anything is changed") {
  const auto says = [](const std::string& text, const char* part) {
    INFO(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(says(message({{.names = {"*.bais"}, .lr = 1}}),
             "[Sgd] '*.bais' of group 1 matches none of the 3 parameters"));
  CHECK(says(message({{.names = {"fc1.wieght"}, .lr = 1}}), "did you mean 'fc1.weight'?"));
  CHECK(says(message({{.names = {"*.bias"}}, {.names = {"fc1.*"}}}),
             "parameter fc1.bias is in two groups: '*.bias' of group 1 and 'fc1.*' of group 2"));
  CHECK(says(message({{.lr = 1}}), "group 1 has no names"));
  CHECK(says(message({{.names = {"*"}, .lr = -1}}), "[Sgd] lr must be at least 0, got -1"));
  CHECK(says(message({{.names = {"*"}, .alpha = 0.5}}),
             "group 1 sets alpha, which Sgd does not have"));
  CHECK(says(message({{.names = {"*"}, .momentum = 0.5}}), "momentum cannot be turned on or off"));
  CHECK(message({{.names = {"*"}, .lr = 1}}).empty());
  CHECK(says(message({{.names = {"*"}, .lr = HUGE_VAL}}), "[Sgd] lr must be finite, got inf"));
  // Names are what state is saved and found by.
  auto twice = named({"a", "b"});
  twice.push_back(named({"a"})[0]);
  CHECK(says(message_of([&] { optim::Sgd{twice, {}}; }), "two parameters are named 'a'"));
  // The parameters of a refused optimizer are nobody's.
  const auto p = named({"a"});
  const void* const at = p[0].tensor.data<const double>();
  CHECK_THROWS_AS((optim::Sgd{p, {.groups = {{.names = {"z"}}}}}), UsageError);
  CHECK(p[0].tensor.data<const double>() == at);
}

TEST_CASE("groups follow Module::to's device change with their state") {
  const LeakGuard guard;
  const Device simt = ready(Device::simt());
  struct Two : nn::Module<Two> {
    nn::Param a = add("a", ones({2}, {.dtype = f64}));
    nn::Param b = add("b", ones({2}, {.dtype = f64}));
    Tensor forward(Tensor x) { return x; }
  } net;
  optim::Sgd opt{net, {.lr = 1, .momentum = 0.5, .groups = {{.names = {"b"}, .lr = 2}}}};
  opt.track_ema(0.5);
  const auto step = [&](Device d) {
    for (const Tensor& p : net.parameters()) p.set_grad(ones({2}, {.dtype = f64, .device = d}));
    opt.step();
  };
  step(Device::cpu());
  net.to(simt);
  step(simt);
  CHECK(net.a.tensor().to_vector<double>()[0] == 1 - 1 - 1.5);
  CHECK(net.b.tensor().to_vector<double>()[1] == 1 - 2 - 3);
  CHECK(opt.ema()[1].tensor.to_vector<double>()[0] == ((1 + -1) / 2.0 + -4) / 2);
  CHECK(opt.applied() == 2);
}
