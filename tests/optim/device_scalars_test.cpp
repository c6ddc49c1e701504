// Device scalars: rate, counts, factors and flags are 0-d tensors on the parameters' device, read
// by the step; and what only clipping may do to .grad.
#include <cmath>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/mailbox.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/clip.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {
struct One : nn::Module<One> {
  nn::Param w = add("w", tensor({1.0, 2.0}, {.dtype = f64}));
};
void give_gradient(const One& net, std::initializer_list<Scalar> g) {
  net.w->set_grad(tensor(g, {.dtype = f64, .device = net.w->device()}));
}
Tensor flag(Device d, int v) { return tensor({v}, {.dtype = DType::i32, .device = d}).reshape({}); }
}  // namespace

TEST_CASE("Device scalars: every hyperparameter is in one block on the parameters' device",
          "[wall][device_scalars]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const LeakGuard guard;
  const One net;
  net.to(d);
  const optim::AdamW opt{net};
  const Storage* block = nullptr;
  int scalars = 0;
  for (const auto& [name, t] : opt.state()) {
    if (t.ndim() != 0) continue;
    CAPTURE(name);
    ++scalars;
    CHECK(t.device() == d);
    CHECK((t.dtype() == f64 || t.dtype() == DType::i64));
    if (!block) block = t.impl()->storage;
    CHECK(t.impl()->storage == block);
  }
  CHECK(scalars >= 7);
}

TEST_CASE("Device scalars: step takes factor and skip from the device, .grad is not edited",
          "[wall][device_scalars]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  const LeakGuard guard;
  const One net;
  net.to(d);
  optim::Sgd opt{net, {.lr = 1}};
  give_gradient(net, {3, 4});
  u32 gradient = 0;
  const Tensor factor = optim::clip_factor(opt, 1);
  CHECK(factor.device() == d);
  CHECK(factor.ndim() == 0);
  {
    const SyncGuard no_wait;
    opt.step({.grad_factor = factor});
    give_gradient(net, {3, 4});
    opt.step({.skip = flag(d, 1)});
    give_gradient(net, {3, 4});
    gradient = net.w->grad().version();
    opt.step({.skip = flag(d, 0)});
  }
  const double f = 1 / (5 + 1e-6);
  const Values w = values(net.w);
  CHECK(std::abs(w[0] - (1 - 3 * f - 3)) < 1e-14);
  CHECK(std::abs(w[1] - (2 - 4 * f - 4)) < 1e-14);
  CHECK(values(net.w->grad()) == Values{3, 4});
  CHECK(net.w->grad().version() == gradient);
  CHECK(opt.applied() == 2);
  CHECK(opt.attempted() == 3);
}

TEST_CASE("Tensor: step bumps the version of each tensor that it writes, skipped or not",
          "[wall][tensor][device_scalars]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  const LeakGuard guard;
  const One net;
  net.to(d);
  optim::Sgd opt{net, {.lr = 1}};
  give_gradient(net, {1, 1});
  const u32 version = net.w->version();
  const Tensor y = net.w * net.w;  // a pending backward
  opt.step({.skip = flag(d, 1)});
  CHECK(net.w->version() == version + 1);  // the host cannot know
  CHECK(values(net.w) == Values{1, 2});
  give_gradient(net, {1, 1});
  opt.step();
  CHECK(net.w->version() == version + 2);
  CHECK(mentions(message_of([&] { sum(y).backward(); }), "modified in place"));
}

TEST_CASE("Device scalars: set_lr and lr_factor reach the next step", "[wall][device_scalars]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  const LeakGuard guard;
  const One net;
  net.to(d);
  optim::Sgd opt{net, {.lr = 1}};
  give_gradient(net, {1, 1});
  opt.set_lr(0.5);
  opt.step();
  CHECK(values(net.w) == Values{0.5, 1.5});
  opt.set_lr_factor(0.5);  // what a rule that watches the loss writes, between steps
  give_gradient(net, {1, 1});
  opt.step();
  CHECK(values(net.w) == Values{0.25, 1.25});
  CHECK(opt.rate() == 0.25);
}

TEST_CASE("Device scalars: only clip_grad_norm_ and clip_grad_value_ write .grad",
          "[wall][device_scalars]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  const LeakGuard guard;
  const One net;
  net.to(d);
  give_gradient(net, {3, -4});
  const Tensor norm = optim::clip_grad_norm_(net, 2.5);
  CHECK(norm.item() == 5);
  const Values halved = values(net.w->grad());
  CHECK(std::abs(halved[0] - 1.5) < 1e-6);
  CHECK(std::abs(halved[1] + 2) < 1e-6);
  give_gradient(net, {3, -4});
  const u32 version = net.w->grad().version();
  optim::clip_grad_value_(net, 3.5);
  CHECK(values(net.w->grad()) == Values{3, -3.5});
  CHECK(net.w->grad().version() > version);
  CHECK_THROWS_AS(optim::clip_grad_value_(net, 0), UsageError);
  CHECK_THROWS_AS(optim::clip_grad_norm_(net, -1), UsageError);
  net.zero_grad();
  optim::clip_grad_value_(net, 1);  // nothing to clip
  CHECK_FALSE(net.w->grad().defined());
}
