// Hooks: what they see, when, and what they may put in a gradient's place.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/operators.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

TEST_CASE("Hooks: a leaf with a tensor hook sees this backward's sum before accumulation",
          "[wall][engine][hooks]") {
  const LeakGuard guard;
  // linear writes straight into a leaf's slot; with a hook none may be offered.
  const Tensor w = tensor({{1, 2}}, {.dtype = f64, .requires_grad = true});
  const Tensor x = tensor({{3, 4}}, {.dtype = f64});
  sum(linear(x, w)).backward();
  std::vector<Values> seen;
  const u64 id = register_hook(w, [&](const Tensor& g) {
    seen.push_back(values(g));
    return Tensor();
  });
  sum(linear(x, w) + linear(x * 10, w)).backward();
  CHECK(seen == std::vector<Values>{{33, 44}});  // one call, the sum, without the first backward's
  CHECK(values(w.grad()) == Values{36, 48});
  remove_hook(w, id);
  sum(linear(x, w)).backward();
  CHECK(seen.size() == 1);
}

TEST_CASE("Hooks: they run in order, each on what the one before returned", "[wall][hooks]") {
  const LeakGuard guard;
  const Tensor w = leaf({2});
  const Tensor y = w * 3;
  register_hook(y, [](const Tensor& g) { return g + 1; });
  register_hook(y, [](const Tensor& g) { return g * 10; });
  register_hook(w, [](const Tensor& g) { return g + 0.5; });
  y.backward();
  CHECK(w.grad().item() == (1 + 1) * 10 * 3 + 0.5);
}

TEST_CASE("Hooks: what a hook returns must look like the gradient", "[wall][hooks][engine]") {
  const LeakGuard guard;
  (void)zeros({1}, {.device = Device::simt()});
  for (const bool on_leaf : {true, false}) {
    for (const int what : {0, 1, 2}) {
      const Tensor w = leaf({1, 2});
      const Tensor y = w * 3;
      register_hook(on_leaf ? w : y, [what](const Tensor& g) {
        return what == 0 ? g.unsqueeze(0) : what == 1 ? g.to(f32) : g.to(Device::simt());
      });
      CHECK(mentions(message_of([&] { y.backward(ones_like(y)); }),
                     "[hook] what a hook returns must look like the gradient"));
    }
  }
}

TEST_CASE("Hooks: under create_graph what they compute is recorded", "[wall][hooks]") {
  const LeakGuard guard;
  const Tensor w = leaf({2});
  const Tensor y = w * w;
  const u64 id = register_hook(y, [&](const Tensor& g) { return g * w; });
  const Tensor g = grad(y, w, {.create_graph = true});  // 2 w * w
  CHECK(g.item() == 8);
  CHECK(grad(g, w).item() == 8);  // 4 w
  remove_hook(y, id);
}

TEST_CASE("Hooks: they die with their tensor, and refuse one without gradient", "[wall][hooks]") {
  const auto counted = std::make_shared<int>(0);
  {
    const Tensor w = leaf({2});
    register_hook(w, [counted](const Tensor& g) { return g; });
    register_hook(w * 2, [counted](const Tensor& g) { return g; });
    CHECK(counted.use_count() == 2);  // the product is gone already
  }
  CHECK(counted.use_count() == 1);
  CHECK_THROWS_AS(register_hook(tensor({1.0}), [counted](const Tensor& g) { return g; }),
                  UsageError);
  CHECK(counted.use_count() == 1);
}
