// Arenas: who owns parameters, gradients and state, and what happens when they move.
#include <cmath>
#include <functional>
#include <limits>

#include "warptape/autograd/node.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/optim/clip.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;

namespace {

using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
bool mentions(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

struct Two : nn::Module<Two> {
  nn::Param a = add("a", tensor({1.0, 2.0, 3.0}, {.dtype = f64}));
  nn::Param b = add("b", tensor({{4.0, 5.0}, {6.0, 7.0}}, {.dtype = f64}));
};

}  // namespace

TEST_CASE("Arenas: parameters move into an arena and keep identity, values and version",
          "[wall][arenas]") {
  const LeakGuard guard;
  Two net;
  const Tensor a = net.a.tensor(), b = net.b.tensor();
  const Tensor y = mul(a, a);
  y.backward(ones({3}, {.dtype = f64}));
  const u32 version = a.version();
  optim::Sgd opt{net, {.lr = 1}};
  CHECK(net.a.tensor().same_as(a));
  CHECK(a.version() == version);
  CHECK(values(a) == Values{1, 2, 3});
  CHECK(values(b) == Values{4, 5, 6, 7});
  CHECK(values(a.grad()) == Values{2, 4, 6});  // what was there moved along
  CHECK(a.impl()->storage == b.impl()->storage);
  const auto* first = static_cast<const char*>(a.impl()->data);
  CHECK(static_cast<const char*>(b.impl()->data) - first == 256);
  for (int i = 3; i < 32; ++i) CHECK(static_cast<const double*>(a.impl()->data)[i] == 0);
  opt.step();
  CHECK(values(a) == Values{-1, -2, -3});
  CHECK(a.version() == version + 1);
  CHECK(values(b) == Values{4, 5, 6, 7});
}

TEST_CASE("Arenas: memory of an optimizer is counted where it belongs and is given back",
          "[wall][arenas][memory]") {
  const LeakGuard guard;
  const auto before = memory::stats(Device::cpu());
  const auto category = [&](Category c) {
    return memory::stats(Device::cpu()).by_category[int(c)] - before.by_category[int(c)];
  };
  {
    Two net;
    optim::AdamW opt{net};
    CHECK(category(Category::parameter) == 512);
    CHECK(category(Category::gradient) == 512);
    CHECK(category(Category::optimizer) >= 1024);
    CHECK(category(Category::optimizer) <= 1024 + 512);
  }
  CHECK(memory::stats(Device::cpu()).live == before.live);
}

TEST_CASE("Arenas: a parameter outlives its optimizer", "[wall][arenas]") {
  const LeakGuard guard;
  Two net;
  const Tensor a = net.a.tensor();
  {
    optim::Sgd opt{net, {.lr = 1}};
    CHECK_THROWS_AS(net.a = zeros({3}, {.dtype = f64}), UsageError);
  }
  sum(a).backward();
  CHECK(values(a.grad()) == Values{1, 1, 1});
  a.zero_grad();
  CHECK(!a.grad().defined());
  CHECK_NOTHROW(net.a = zeros({3}, {.dtype = f64}));
}

TEST_CASE("Arenas: a slot that no backward reached is not updated, not decayed, in no norm",
          "[wall][arenas][engine]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  const LeakGuard guard;
  Two net;
  net.to(d);
  const Tensor a = net.a.tensor(), b = net.b.tensor();
  optim::Sgd opt{net, {.lr = 1, .weight_decay = 0.5}};
  sum(mul(b, 100.0)).backward();
  opt.step();
  const Values b_after = values(b);
  opt.zero_grad();  // b's slot holds old bytes now
  sum(mul(a, 3.0)).backward();
  const double f = optim::clip_factor(opt, 1).item();
  CHECK(std::abs(f - 1 / (std::sqrt(27.0) + 1e-6)) < 1e-15);
  opt.step();
  CHECK(values(a) == Values{1 - 3 - 0.5, 2 - 3 - 1, 3 - 3 - 1.5});
  CHECK(values(b) == b_after);
  // A first write never reads the old bytes.
  opt.zero_grad();
  sum(b).backward();
  CHECK(values(b.grad()) == Values{1, 1, 1, 1});
  // Nothing at all is no step.
  opt.zero_grad();
  CHECK_THROWS_AS(opt.step(), UsageError);
  CHECK(values(b) == b_after);
}

TEST_CASE("Arenas: a second optimizer takes the parameters over", "[wall][arenas]") {
  const LeakGuard guard;
  Two net;
  optim::Sgd first{net, {.lr = 1}};
  {
    optim::Sgd second{net, {.lr = 0.5}};
    sum(net.a.tensor()).backward();
    CHECK(mentions(message_of([&] { first.step(); }),
                   "parameter a was taken over by another optimizer"));
    second.step();
    CHECK(values(net.a.tensor()) == Values{0.5, 1.5, 2.5});
  }
  // The second is gone: the first may take them up again.
  first.step();
  CHECK(values(net.a.tensor()) == Values{-0.5, 0.5, 1.5});
}

TEST_CASE("Arenas: after Module::to another optimizer's parameters are still its own",
          "[wall][arenas]") {
  Two net;
  optim::Sgd first{net, {.lr = 1}};
  optim::Sgd second{net, {.lr = 0.5}};
  net.to(Device::simt());
  net.a.tensor().set_grad(ones({3}, {.dtype = f64, .device = Device::simt()}));
  CHECK_THROWS_AS(first.step(), UsageError);
  CHECK_NOTHROW(second.step());
}

TEST_CASE("Arenas: tied parameters are one, under the first name", "[wall][arenas][modules]") {
  const LeakGuard guard;
  Two one, two;
  struct Both : nn::Module<Both> {
    Both(Two a, Two b) : one(add("one", a)), two(add("two", b)) {}
    Two one, two;
  } net{one, two};
  net.two.b = net.one.b;
  optim::Sgd opt{net, {.lr = 1, .momentum = 0.9}};
  std::vector<std::string> names;
  for (const auto& p : opt.parameters()) names.push_back(p.name);
  CHECK(names == std::vector<std::string>{"one.a", "one.b", "two.a"});
  const Tensor loss = sum(add(net.one.b, mul(net.two.b, 2.0)));
  loss.backward();
  opt.step();
  CHECK(values(net.two.b.tensor()) == Values{1, 2, 3, 4});
  CHECK_THROWS_AS(net.two.b = net.one.b, UsageError);
}

TEST_CASE("Arenas: after Module::to the optimizer moves its state at its next step",
          "[wall][arenas]") {
  NEEDS_OPERATORS(ready(Device::simt()));
  const LeakGuard guard;
  const bool adam = GENERATE(false, true);
  const auto train = [&](bool move) {
    Two net;
    std::unique_ptr<optim::Optimizer> opt;
    if (adam)
      opt = std::make_unique<optim::AdamW>(net, optim::AdamWOptions{.lr = 0.1});
    else
      opt = std::make_unique<optim::Sgd>(net, optim::SgdOptions{.lr = 0.1, .momentum = 0.9});
    opt->set_schedule(optim::linear(10, 1, 0));
    const Tensor a = net.a.tensor();
    for (int step = 0; step < 6; ++step) {
      if (move && step == 3) net.to(Device::simt());
      opt->zero_grad();
      sum(mul(net.a, net.a)).backward();
      opt->step();
    }
    CHECK(a.same_as(net.a.tensor()));
    CHECK(a.device() == (move ? Device::simt() : Device::cpu()));
    CHECK(opt->device() == a.device());
    CHECK(opt->applied() == 6);
    return values(a);
  };
  const Values stay = train(false), moved = train(true);
  for (size_t i = 0; i < stay.size(); ++i) CHECK(std::abs(stay[i] - moved[i]) < 1e-15);
}

TEST_CASE("Arenas: an optimizer refuses what it cannot lay out, and nothing has changed",
          "[wall][arenas]") {
  const LeakGuard guard;
  Two net;
  const Tensor a = net.a.tensor(), b = net.b.tensor();
  const void* const at = a.impl()->data;
  SECTION("a live view") {
    const Tensor view = b[0];
    CHECK(mentions(message_of([&] { optim::Sgd opt{net}; }), "parameter b has live views"));
    CHECK(a.impl()->data == at);
  }
  SECTION("no room") {
    for (u64 n = 1; n < 100; ++n) {
      memory::fail_nth_request(n);
      bool made = true;
      try {
        optim::AdamW opt{net};
      } catch (const OutOfMemory&) {
        made = false;
        CHECK(values(a) == Values{1, 2, 3});
      }
      memory::fail_nth_request(0);
      if (made) {
        CHECK(n > 5);
        return;
      }
      CHECK_NOTHROW(net.a = a);  // not held
    }
    FAIL("never succeeded");
  }
  SECTION("nothing to train") {
    a.impl();
    Tensor x = a, y = b;
    x.set_requires_grad(false);
    y.set_requires_grad(false);
    CHECK_THROWS_AS(optim::Sgd{net}, UsageError);
  }
}

TEST_CASE("Arenas: frozen parameters are left alone", "[wall][arenas]") {
  const LeakGuard guard;
  Two net;
  Tensor b = net.b.tensor();
  b.set_requires_grad(false);
  optim::Sgd opt{net, {.lr = 1, .weight_decay = 0.1}};
  CHECK(opt.parameters().size() == 1);
  Tensor a = net.a.tensor();
  sum(a).backward();
  a.set_requires_grad(false);  // frozen later: there is nothing to step
  CHECK_THROWS_AS(opt.step(), UsageError);
  CHECK(values(a) == Values{1, 2, 3});
  a.set_requires_grad();  // and thawed: a new leaf, a new slot
  opt.zero_grad();
  sum(a).backward();
  opt.step();
  CHECK(values(a) == Values{1 - 1.1, 2 - 1.2, 3 - 1.3});
}

TEST_CASE("Arenas: state is keyed by name and loads back", "[wall][arenas][checkpoint]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  const LeakGuard guard;
  Two net;
  net.to(d);
  optim::AdamW opt{net, {.lr = 0.25}};
  const auto train = [](Two& n, optim::Optimizer& o) {
    o.zero_grad();
    sum(mul(n.a, n.a)).backward();
    o.step();
  };
  for (int i = 0; i < 3; ++i) train(net, opt);
  std::vector<nn::NamedTensor> saved;
  std::vector<std::string> names;
  for (const auto& [name, t] : opt.state()) {
    names.push_back(name);
    saved.push_back({name, t.to(Device::cpu()).clone()});
  }
  CHECK(names == std::vector<std::string>{
                     "optim.exp_avg.a", "optim.exp_avg_sq.a", "optim.exp_avg.b",
                     "optim.exp_avg_sq.b", "optim.lr", "optim.lr_factor", "optim.beta1",
                     "optim.beta2", "optim.eps", "optim.weight_decay", "optim.kind.AdamW",
                     "optim.applied", "optim.attempted", "optim.step.b"});  // no step was b's
  Two other;
  other.load_state_dict(net.state_dict());
  optim::AdamW resumed{other};
  resumed.load_state(saved);
  CHECK(resumed.lr() == 0.25);
  CHECK(resumed.applied() == 3);
  CHECK(resumed.attempted() == 3);
  for (int i = 0; i < 3; ++i) {
    train(net, opt);
    train(other, resumed);
  }
  const Values x = values(net.a.tensor()), y = values(other.a.tensor());
  for (size_t i = 0; i < x.size(); ++i)
    CHECK(std::abs(x[i] - y[i]) <= (d == Device::cpu() ? 0 : 1e-15));
  for (const auto& [name, value] :
       {std::pair{"optim.applied", tensor(1e300, {.dtype = f64})},
        {"optim.applied", tensor(std::nan(""), {.dtype = f64})},
        {"optim.attempted", tensor(std::numeric_limits<i64>::min(), {.dtype = DType::i64})},
        {"optim.attempted", tensor(std::numeric_limits<i64>::max(), {.dtype = DType::i64})},
        {"optim.applied", tensor(i64{4}, {.dtype = DType::i64})}}) {
    auto damaged = saved;
    for (nn::NamedTensor& t : damaged)
      if (t.name == name) t.tensor = value;
    CAPTURE(name);
    CHECK_THROWS_AS(resumed.load_state(damaged), UsageError);
    CHECK(resumed.attempted() == 6);
  }
  saved[0].name = "optim.exp_avg.c";
  const std::string text = message_of([&] { resumed.load_state(saved); });
  CHECK(mentions(text, "missing optim.exp_avg.a"));
  CHECK(mentions(text, "unexpected optim.exp_avg.c"));
}

TEST_CASE("Arenas: invalid gradients stop a bare step", "[wall][arenas][engine]") {
  Two net;
  optim::Sgd opt{net, {.lr = 1}};
  sum(net.a.tensor()).backward();
  leaf_of(net.a.tensor().impl())->invalid = true;
  CHECK_THROWS_AS(opt.step(), NumericError);
  CHECK(values(net.a.tensor()) == Values{1, 2, 3});
  opt.zero_grad();
  sum(net.a.tensor()).backward();
  CHECK_NOTHROW(opt.step());
}
