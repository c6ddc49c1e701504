// Activation checkpointing: what it saves, that gradients of every order are the same bits, that a
// second run draws, writes and casts like the first, and what it refuses.
#include "warptape/autograd/checkpoint.h"

#include "warptape/autograd/autocast.h"
#include "warptape/autograd/custom.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using wt_test::kernel_devices;

namespace {

using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }

struct Mlp {
  std::vector<Tensor> weights;
  Mlp(int layers, i64 width, Device d, DType t = f32) {
    manual_seed(3);
    for (int i = 0; i < layers; ++i)
      weights.push_back(
          mul(randn({width, width}, {.dtype = t}), 0.2).to(d).detach().set_requires_grad());
  }
  static Tensor block(const Tensor& x, const Tensor& w) { return dropout(tanh(matmul(x, w)), 0.1); }
  Tensor operator()(Tensor x, bool checkpointed) const {
    for (const Tensor& w : weights) {
      if (checkpointed)
        x = checkpoint([w](const Tensor& in) { return block(in, w); }, x);
      else
        x = block(x, w);
    }
    return x;
  }
};

// Gradients of the sum with respect to the weights and the input.
std::vector<Values> gradients(const Mlp& net, const Tensor& x, bool checkpointed) {
  manual_seed(11);
  std::vector<Tensor> in = net.weights;
  in.push_back(x);
  std::vector<Values> all;
  for (const Tensor& g : grads({{square(net(x, checkpointed)).sum()}}, in))
    all.push_back(values(g));
  return all;
}

}  // namespace

TEST_CASE("checkpoint: holds less, and gradients are the same bits on every device") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const LeakGuard guard;
    const bool on_cpu = d == Device::cpu();
    const Mlp net(on_cpu ? 12 : 3, on_cpu ? 64 : 16, d);
    const Tensor x = rand({on_cpu ? 128 : 8, on_cpu ? 64 : 16}).to(d).set_requires_grad();
    CHECK(gradients(net, x, true) == gradients(net, x, false));
    const auto held = [&](bool checkpointed) {
      const i64 before = memory::stats(d).live;
      const Tensor y = net(x, checkpointed);
      return memory::stats(d).live - before;
    };
    // A layer keeps its input beside tanh's output; checkpointed only its input.
    const i64 kept = held(false), checkpointed = held(true);
    CAPTURE(kept, checkpointed);
    CHECK(checkpointed * 10 <= kept * 6);
  }
}

TEST_CASE("checkpoint: one segment over 12 layers holds its input and its output") {
  const LeakGuard guard;
  const Mlp net(12, 64, Device::cpu());
  const Tensor x = rand({128, 64}, {.requires_grad = true});
  const i64 one = 128 * 64 * 4, before = memory::stats(Device::cpu()).live;
  const auto whole = [&](const Tensor& in) { return net(in, false); };
  manual_seed(11);
  const Tensor y = checkpoint(whole, x);
  CHECK(memory::stats(Device::cpu()).live - before <= one + 4096);
  const Tensor g = grad(square(y).sum(), x);
  manual_seed(11);
  const Tensor kept = net(x, false);
  CHECK(memory::stats(Device::cpu()).live - before >= 20 * one);
  CHECK(values(y) == values(kept));
  CHECK(values(g) == values(grad(square(kept).sum(), x)));
}

TEST_CASE("checkpoint: second derivatives, and a graph walked twice") {
  const LeakGuard guard;
  const Mlp net(3, 4, Device::cpu(), f64);
  const Tensor x = rand({2, 4}, {.dtype = f64, .requires_grad = true});
  const auto second = [&](bool checkpointed) {
    manual_seed(5);
    const Tensor y = square(net(x, checkpointed)).sum();
    const Tensor g = grad(y, x, {.create_graph = true});
    std::vector<Values> all{values(g)};
    for (const Tensor& t :
         grads({{square(g).sum()}}, std::vector<Tensor>{x, net.weights[0], net.weights[2]},
               {.retain_graph = true}))
      all.push_back(values(t));
    all.push_back(values(grad(y, x)));
    return all;
  };
  const auto kept = second(false);
  CHECK(second(true) == kept);
  CHECK(kept[0] == kept.back());
  CHECK(kept[1] != Values(8, 0.0));
}

TEST_CASE("checkpoint: the second run draws the same mask and advances no generator") {
  const LeakGuard guard;
  const Tensor x = ones({64}, {.dtype = f64, .requires_grad = true});
  manual_seed(1);
  const Tensor y = checkpoint(
      [](const Tensor& in) {
        const Tensor noise = rand({64}, {.dtype = f64});  // a draw of a factory counts too
        return dropout(mul(square(in), noise), 0.5);
      },
      x);
  const Generator before = generator();
  (void)dropout(x, 0.5);  // draws in between
  const Generator after = generator();
  // y = mask * x^2 * noise * 2, so y' = 2 y at x = 1, if both draws come again.
  const Values v = values(y), g = values(grad(y.sum(), x));
  for (size_t i = 0; i < v.size(); ++i) CHECK(g[i] == 2 * v[i]);
  CHECK(generator() == after);
  CHECK_FALSE(before == after);
}

TEST_CASE("checkpoint: nested, over several devices' worth of layers") {
  const LeakGuard guard;
  const Mlp net(4, 8, Device::cpu(), f64);
  const Tensor x = rand({3, 8}, {.dtype = f64, .requires_grad = true});
  const auto inner = [&](const Tensor& in) {
    return checkpoint([&](const Tensor& a) { return net(a, true); }, dropout(in, 0.2));
  };
  const auto run = [&](bool checkpointed) {
    manual_seed(9);
    const Tensor y = checkpointed ? checkpoint([&](const Tensor& a) { return inner(a); }, x)
                                  : net(dropout(x, 0.2), false);
    return std::pair(values(y), values(grad(square(y).sum(), x)));
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("checkpoint: what was there before is written once") {
  const LeakGuard guard;
  const Tensor x = tensor({1, 2, 3}, {.dtype = f64, .requires_grad = true});
  Tensor running = zeros({3}, {.dtype = f64});
  int runs = 0;
  const auto f = [&](const Tensor& in) {
    ++runs;
    {
      const NoGrad no_grad;
      running.mul_(0.5);
      running.add_(in);
      running.index_put_({0}, tensor(7.0, {.dtype = f64}));
    }
    Tensor own = zeros({3}, {.dtype = f64});  // made inside: written in both runs
    own.add_(ones({3}, {.dtype = f64}));
    return mul(tanh(in), mul(own, tanh(in)));
  };
  const Tensor y = checkpoint(f, x);
  const Values once = values(running);
  CHECK(once == Values{7, 2, 3});
  const Tensor t = tanh(x.detach());
  CHECK(values(grad(y.sum(), x)) == values(grad(mul(tanh(x), tanh(x)).sum(), x)));
  CHECK(runs == 2);
  CHECK(values(running) == once);
  CHECK_FALSE(recomputing());
}

TEST_CASE("checkpoint: every way of writing to what was there before writes once") {
  using Write = void (*)(Tensor&, const Tensor&);
  const Write all[] = {[](Tensor& t, const Tensor& x) { t.add_(x); },
                       [](Tensor& t, const Tensor&) { t.sub_(1); },
                       [](Tensor& t, const Tensor& x) { t.div_(x); },
                       [](Tensor& t, const Tensor&) { t.mul_(3); },
                       [](Tensor& t, const Tensor& x) { t.lerp_(x, 0.5); },
                       [](Tensor& t, const Tensor& x) { t.lerp_(x, x); },
                       [](Tensor& t, const Tensor& x) { t.copy_(add(t, x)); },
                       [](Tensor& t, const Tensor&) { t.fill_(t.sum().item() + 1); },
                       [](Tensor& t, const Tensor&) { t.tanh_(); },
                       [](Tensor& t, const Tensor& x) { t.index_put_({0}, t[1] + x[0]); }};
  for (const Write& write : all) {
    CAPTURE(&write - all);
    const Tensor x = tensor({1, 2, 4}, {.dtype = f64, .requires_grad = true});
    Tensor running = full({3}, 0.5, {.dtype = f64}), once = running.clone();
    int runs = 0;
    const Tensor y = checkpoint(
        [&](const Tensor& in) {
          ++runs;
          {
            const NoGrad no_grad;
            write(running, in);
          }
          const Tensor t = tanh(in);
          return mul(t, t);
        },
        x);
    write(once, x.detach());
    y.sum().backward();
    CHECK(runs == 2);
    CHECK(values(running) == values(once));
  }
}

TEST_CASE("checkpoint: the second run has the first one's autocast") {
  const LeakGuard guard;
  const Tensor x = rand({8, 8}, {.requires_grad = true}), w = rand({8, 8}, {.requires_grad = true});
  const auto run = [&](bool checkpointed) {
    Tensor y;
    {
      const AutocastScope autocast(DType::bf16);
      const auto f = [&](const Tensor& in) { return tanh(matmul(tanh(matmul(in, w)), w)); };
      y = checkpointed ? checkpoint(f, x) : f(x);
    }
    CHECK(y.dtype() == bf16);
    std::vector<Values> all;
    for (const Tensor& g : grads({y.to(f32).sum()}, {x, w})) all.push_back(values(g));
    return all;
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("checkpoint: several inputs and outputs, no gradient wanted, tensors captured") {
  const LeakGuard guard;
  const Tensor a = tensor({2.0}, {.dtype = f64, .requires_grad = true});
  const Tensor b = tensor({3.0}, {.dtype = f64, .requires_grad = true});
  const Tensor h = square(b);  // captured, no leaf
  const auto f = [&](const Tensor& x, const Tensor& y) {
    const Tensor p = mul(x, y);
    return std::vector<Tensor>{tanh(p), mul(mul(p, p), h)};
  };
  const std::vector<Tensor> y = checkpoint(f, a, b);
  const std::vector<Tensor> g = grads({y[1].sum()}, {a, b});
  CHECK(values(g[0]) == Values{2 * 2 * 9 * 9});
  CHECK(values(g[1]) == Values{4.0 * 4 * 27});
  const NoGrad no_grad;
  CHECK_FALSE(checkpoint(f, a, b)[0].requires_grad());
}

TEST_CASE("checkpoint: a changed input or parameter and another computation are errors") {
  const LeakGuard guard;
  Tensor x = tensor({1, 2}, {.dtype = f64}), w = tensor({3, 4}, {.dtype = f64});
  w.set_requires_grad();
  const auto f = [&](const Tensor& in) { return square(add(in, w)); };
  const Tensor changed_input = checkpoint(f, x);
  x.fill_(0);
  CHECK(mentions(message_of([&] { changed_input.sum().backward(); }), "an input [2] f64 cpu"));
  const Tensor changed_leaf = checkpoint(f, x);
  {
    const NoGrad no_grad;
    w.add_(w);
  }
  w.zero_grad();
  const std::string text = message_of([&] { changed_leaf.sum().backward(); });
  CHECK(mentions(text, "a leaf that the function reads"));
  CHECK(mentions(text, "modified in place"));
  w.zero_grad();
  int run = 0;
  const Tensor other =
      checkpoint([&](const Tensor& in) { return ++run == 1 ? square(add(in, w)) : add(in, w); }, x);
  CHECK(mentions(message_of([&] { other.sum().backward(); }), "must do the same"));
  w.zero_grad();
  const Tensor outside = mul(w, 2);
  CHECK(mentions(message_of([&] {
                   Tensor o = outside;
                   (void)checkpoint([&](const Tensor& in) { return o.add_(in), mul(in, w); }, x);
                 }),
                 "from outside of the checkpointed function"));
}

TEST_CASE("checkpoint: an allocation that fails leaves nothing behind") {
  const LeakGuard guard;
  const Mlp net(2, 4, Device::cpu());
  const Tensor x = rand({2, 4}, {.requires_grad = true});
  manual_seed(2);
  const Values want = values(grad(net(x, false).sum(), x));
  for (u64 n = 1;; ++n) {
    manual_seed(2);
    const Tensor y = net(x, true).sum();
    const Generator before = generator();
    memory::fail_nth_request(n);
    Tensor g;
    try {
      g = grad(y, x, {.retain_graph = true});
    } catch (const OutOfMemory&) {}
    memory::fail_nth_request(0);
    CHECK(generator() == before);
    CHECK_FALSE(recomputing());
    CHECK(values(grad(y, x)) == want);
    if (g.defined()) break;
    REQUIRE(n < 100);
  }
}
