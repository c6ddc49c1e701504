// Hooks of modules: what they see, what they change, in which order.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

struct Scale : nn::Module<Scale> {
  nn::Param w = add("w", tensor({3.0}, {.dtype = f64}));
  Tensor forward(Tensor x) { return x * w; }
};
struct Net : nn::Module<Net> {
  Scale a = add("a", Scale{});
  Scale b = add("b", Scale{});
  Tensor forward(Tensor x) { return b(a(std::move(x))); }
};

}  // namespace

TEST_CASE("Module hooks: forward hooks see and replace, in order, until removed",
          "[hooks][modules]") {
  const LeakGuard guard;
  Scale m;
  const Tensor x = leaf({2});
  std::vector<std::string> seen;
  const u64 pre = m.register_forward_pre_hook([&](const nn::ModuleBase&, const Tensor& v) {
    seen.push_back(str("pre ", v.item()));
    return v + 1;
  });
  m.register_forward_pre_hook(
      [&](const nn::ModuleBase&, const Tensor& v) { seen.push_back(str("pre2 ", v.item())); });
  m.register_forward_hook([&](const nn::ModuleBase&, const Tensor& in, const Tensor& y) {
    seen.push_back(str("out ", in.item(), " ", y.item()));
    return y * 10;
  });
  const u64 last = m.register_forward_hook([&](const nn::ModuleBase& self, const Tensor& y) {
    seen.push_back(str("out2 ", y.item(), " ", self.parameter_count()));
  });
  const Tensor y = m(x);
  CHECK(seen == std::vector<std::string>{"pre 2", "pre2 3", "out 3 9", "out2 90 1"});
  CHECK(y.item() == 90);
  y.backward();  // what hooks compute is on the tape
  CHECK(x.grad().item() == 30);
  CHECK(m.forward(x).item() == 6);  // forward() runs none
  m.remove_hook(pre);
  m.remove_hook(last);
  CHECK(m(x).item() == 60);
  CHECK(seen.size() == 6);
}

TEST_CASE("Module hooks: a hook may keep a state and remove itself", "[hooks][modules]") {
  const LeakGuard guard;
  Scale m;
  u64 id = 0;
  int calls = 0;
  id = m.register_forward_hook([&, n = 0](const nn::ModuleBase& self, const Tensor&) mutable {
    calls = ++n;
    if (n == 2) self.remove_hook(id);
  });
  for (int i = 0; i < 4; ++i) (void)m(leaf({1}));
  CHECK(calls == 2);
}

TEST_CASE("Module hooks: backward hooks see both gradients of their call and may replace them",
          "[hooks][modules]") {
  const LeakGuard guard;
  Net net;
  const Tensor x = leaf({2});
  std::vector<std::string> seen;
  net.b.register_full_backward_pre_hook([&](const nn::ModuleBase&, const Tensor& gy) {
    seen.push_back(str("b gy ", gy.item()));
    return gy * 5;
  });
  net.a.register_full_backward_hook([&](const nn::ModuleBase&, const Tensor& gx, const Tensor& gy) {
    seen.push_back(str("a ", gx.item(), " ", gy.item()));
    return gx * 100;
  });
  net.b.register_full_backward_hook([&](const nn::ModuleBase&, const Tensor& gx, const Tensor& gy) {
    seen.push_back(str("b ", gx.item(), " ", gy.item()));
  });
  // x goes another way too, of which the hooks hear nothing.
  (net(x) + x * 7).backward();
  CHECK(seen == std::vector<std::string>{"b gy 1", "b 15 5", "a 45 15"});
  CHECK(x.grad().item() == 4500 + 7);
  CHECK(net.b.w->grad().item() == 5 * 6);   // the gradient of y was replaced before its use
  CHECK(net.a.w->grad().item() == 15 * 2);  // replacing that of x does not reach the parameter
}

TEST_CASE("Module hooks: backward hooks of an input without gradient, of one call of several",
          "[hooks][modules]") {
  const LeakGuard guard;
  Scale m;
  int calls = 0;
  const u64 id =
      m.register_full_backward_hook([&](const nn::ModuleBase&, const Tensor& gx, const Tensor& gy) {
        CHECK_FALSE(gx.defined());
        CHECK(gy.item() == 2);
        ++calls;
      });
  const Tensor plain = tensor({4.0}, {.dtype = f64});
  (m(plain) * 2).backward();
  CHECK(calls == 1);
  CHECK(m.w->grad().item() == 8);
  m.remove_hook(id);
  // Twice the same module: each call has its own gradients.
  std::vector<double> gradients;
  m.register_full_backward_hook([&](const nn::ModuleBase&, const Tensor& gx, const Tensor&) {
    gradients.push_back(gx.item());
  });
  const Tensor x = leaf({1});
  (m(m(x))).backward();
  CHECK(gradients == std::vector<double>{3, 9});
  {
    const NoGrad no_grad;
    CHECK(m(x).item() == 3);
  }
  CHECK(gradients.size() == 2);
}

TEST_CASE("Module hooks: under create_graph nothing is held for ever", "[hooks][modules]") {
  const LeakGuard guard;
  struct Square : nn::Module<Square> {
    Tensor forward(Tensor x) { return x * x; }
  } m;
  m.register_full_backward_hook(
      [](const nn::ModuleBase&, const Tensor& gx, const Tensor&) { return gx * 3; });
  const Tensor x = leaf({5});
  const Tensor y = m(x) * x;  // x^3
  const Tensor g = grad(y, x, {.create_graph = true});
  CHECK(g.item() == 25 + 3 * 50);  // x^2 + 3 * (2 x) x
  // The input's hook also hears of what the second derivative sends through the input: 3 (2 x + 6
  // x) there and 6 x past the module.
  CHECK(grad(g, x).item() == 3 * 40 + 30);
}

TEST_CASE("Module hooks: a result without a tensor is refused, one in a struct is found",
          "[hooks][modules]") {
  const LeakGuard guard;
  nn::MSELoss loss;
  const u64 id = loss.register_forward_hook([](const nn::ModuleBase&, const Tensor&) {});
  CHECK(mentions(message_of([&] { (void)loss(leaf({1}), leaf({2})); }), "[MSELoss] has hooks"));
  loss.remove_hook(id);
  CHECK(loss(leaf({1}), leaf({2})).item() == 1);
  struct Two : nn::Module<Two> {
    std::pair<Tensor, int> forward(Tensor x) { return {x * 2, 1}; }
  } two;
  two.register_forward_hook([](const nn::ModuleBase&, const Tensor& y) { return y + 1; });
  CHECK(two(leaf({1})).first.item() == 3);
  // Without a tensor as first argument pre-hooks see an undefined one.
  struct Count : nn::Module<Count> {
    Tensor forward(int n) { return ones({n}); }
  } count;
  bool undefined = false;
  count.register_forward_pre_hook(
      [&](const nn::ModuleBase&, const Tensor& x) { undefined = !x.defined(); });
  CHECK(count(3).numel() == 3);
  CHECK(undefined);
  // What takes a gradient's place must look like it.
  Scale m;
  m.register_full_backward_hook(
      [](const nn::ModuleBase&, const Tensor& gx, const Tensor&) { return gx.unsqueeze(0); });
  CHECK(mentions(message_of([&] { m(leaf({1})).backward(); }), "must look like the gradient"));
}
