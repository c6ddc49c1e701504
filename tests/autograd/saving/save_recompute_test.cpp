// SavePolicy::recompute: what an operator or two make again from what is saved anyway is not held.
#include <cmath>
#include <functional>

#include "warptape/autograd/autopilot.h"
#include "warptape/autograd/checkpoint.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/channel_norm.h"
#include "warptape/autograd/ops/conv.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/norm.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/saved_by_rule.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using memory::SavingRule;
using wt_test::kernel_devices;

namespace {

using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }
i64 live(Device d) { return memory::stats(d).live; }

// h(x) and what reads it: a product with w of h's shape, which saves h.
using Hidden = std::function<Tensor(const Tensor&)>;

struct Outcome {
  i64 held = 0;  // bytes between forward and backward
  std::vector<Values> gradients{};
};
Outcome outcome(SavePolicy p, const Hidden& hidden, const Tensor& x, const Tensor& w, bool second) {
  const Device d = x.device();
  manual_seed(11);
  Outcome o;
  const i64 before = live(d);
  Tensor y;
  {
    const SaveScope scope(p);
    y = sum(to_dtype(mul(hidden(x), w), f64));
  }
  o.held = live(d) - before - i64(sizeof(double));
  if (!second) {
    for (const Tensor& g : grads({y}, {x, w})) o.gradients.push_back(values(g));
    return o;
  }
  const std::vector<Tensor> g = grads({y}, {x, w}, {.create_graph = true});
  const Tensor of = add(square(g[0]).sum(), square(g[1]).sum());
  for (const Tensor& t : g) o.gradients.push_back(values(t));
  for (const Tensor& t : grads({of}, {x, w})) o.gradients.push_back(values(t));
  return o;
}

struct Row {
  const char* name;
  Hidden hidden;
  int kept, recomputed;  // tensors of x's size
};
std::vector<Row> rows(const Tensor& weight, const Tensor& bias) {
  const Shape last{weight.numel()};
  const auto norm = [=](const Tensor& v) { return layer_norm(v, last, weight, bias); };
  // u(x): an intermediate that nobody else holds.
  const auto u = [](const Tensor& x) { return neg(x); };
  return {
      {"gelu", [=](const Tensor& x) { return gelu(u(x)); }, 2, 1},
      {"silu", [=](const Tensor& x) { return silu(u(x)); }, 2, 1},
      {"mish", [=](const Tensor& x) { return mish(u(x)); }, 2, 1},
      {"gelu_tanh", [=](const Tensor& x) { return gelu_tanh(u(x)); }, 2, 1},
      {"hardswish", [=](const Tensor& x) { return hardswish(u(x)); }, 2, 1},
      {"softplus", [=](const Tensor& x) { return softplus(u(x), 2.0); }, 2, 1},
      {"square", [=](const Tensor& x) { return square(u(x)); }, 2, 1},
      {"gelu_", [=](const Tensor& x) { return u(x).gelu_(); }, 2, 1},
      {"silu_", [=](const Tensor& x) { return u(x).silu_(); }, 2, 1},
      {"mish_", [=](const Tensor& x) { return u(x).mish_(); }, 2, 1},
      {"softplus_", [=](const Tensor& x) { return u(x).softplus_(2.0); }, 2, 1},
      {"layer_norm", [=](const Tensor& x) { return norm(u(x)); }, 2, 1},
      {"layer_norm, no bias", [=](const Tensor& x) { return layer_norm(u(x), last, weight); }, 2,
       1},
      {"layer_norm, plain", [=](const Tensor& x) { return layer_norm(u(x), last); }, 2, 1},
      {"rms_norm", [=](const Tensor& x) { return rms_norm(u(x), last, weight); }, 2, 1},
      {"rms_norm, plain", [=](const Tensor& x) { return rms_norm(u(x), last); }, 2, 1},
      {"batch_norm",
       [=](const Tensor& x) { return batch_norm(u(x), {.weight = weight, .bias = bias}); }, 2, 1},
      {"fused_batch_norm",
       [=](const Tensor& x) {
         return fused_batch_norm(u(x), Activation::silu, {.weight = weight, .bias = bias});
       },
       2, 1},
      {"group_norm",
       [=](const Tensor& x) { return group_norm(u(x), 2, {.weight = weight, .bias = bias}); }, 2,
       1},
      {"gelu of layer_norm", [=](const Tensor& x) { return gelu(norm(u(x))); }, 3, 1},
      {"gelu_ of layer_norm", [=](const Tensor& x) { return norm(u(x)).gelu_(); }, 3, 1},
      {"dropout of gelu", [=](const Tensor& x) { return dropout(gelu(u(x)), 0.3, true); }, 2, 1},
      {"dropout_ of gelu_", [=](const Tensor& x) { return u(x).gelu_().dropout_(0.3, true); }, 2,
       1},
      // Held by their own nodes: nothing to gain.
      {"tanh", [=](const Tensor& x) { return tanh(u(x)); }, 1, 1},
      {"sigmoid of gelu", [=](const Tensor& x) { return sigmoid(gelu(u(x))); }, 2, 2},
      // Made of what nobody holds.
      {"relu", [=](const Tensor& x) { return relu(u(x)); }, 1, 1},
      {"dropout", [=](const Tensor& x) { return dropout(u(x), 0.3, true); }, 1, 1},
      // Cut after three operators.
      {"six gelu", [=](const Tensor& x) { return gelu(gelu(gelu(gelu(gelu(gelu(u(x))))))); }, 7, 2},
  };
}

}  // namespace

TEST_CASE("recompute: operators' outputs are not held, and every derivative has the same bits") {
  for (const Device d : kernel_devices())
    for (const DType t : {f64, f32, bf16}) {
      const Shape shape{64, 32};
      manual_seed(3);
      const Tensor x = randn(shape).to(t).to(d).set_requires_grad();
      const Tensor w = randn(shape).to(t).to(d).set_requires_grad();
      const Tensor weight = rand({32}).to(t).to(d), bias = rand({32}).to(t).to(d);
      for (const Row& row : rows(weight, bias)) {
        CAPTURE(to_string(d), dtype_name(t), row.name);
        const LeakGuard guard;
        const Outcome kept = outcome(SavePolicy::keep, row.hidden, x, w, false);
        const Outcome again = outcome(SavePolicy::recompute, row.hidden, x, w, false);
        CHECK(again.gradients == kept.gradients);
        const i64 one = x.numel() * item_size(t), small = 64 * 64;  // statistics, bits
        CHECK(kept.held / one == row.kept);
        CHECK(again.held >= row.recomputed * one);
        CHECK(again.held < row.recomputed * one + small);
        if (t != f64) continue;
        CHECK(outcome(SavePolicy::recompute, row.hidden, x, w, true).gradients ==
              outcome(SavePolicy::keep, row.hidden, x, w, true).gradients);
      }
    }
}

TEST_CASE("recompute: of convolution, batch norm and relu the convolution's output stays") {
  for (const Device d : kernel_devices())
    for (const bool in_place : {false, true})
      for (const bool training : {false, true}) {
        CAPTURE(to_string(d), in_place, training);
        const LeakGuard guard;
        manual_seed(5);
        const Tensor x = randn({2, 3, 8, 8}).to(d);
        const Tensor kernel = randn({4, 3, 3, 3}).to(d).set_requires_grad();
        const Tensor v = randn({2, 4, 3, 3}).to(d).set_requires_grad();
        const Tensor gamma = rand({4}).to(d).set_requires_grad();
        const Tensor beta = rand({4}).to(d).set_requires_grad();
        const auto run = [&](SavePolicy p) {
          Tensor mean = zeros({4}).to(d), var = ones({4}).to(d);
          const i64 before = live(d);
          Tensor y;
          {
            const SaveScope scope(p);
            Tensor h = batch_norm(conv2d(x, kernel), {.weight = gamma,
                                                      .bias = beta,
                                                      .running_mean = mean,
                                                      .running_var = var,
                                                      .training = training});
            if (in_place)
              h.relu_();
            else
              h = relu(std::move(h));
            y = sum(conv2d(std::move(h), v));
          }
          const i64 held = live(d) - before;
          std::vector<Values> all{values(mean), values(var)};
          for (const Tensor& g : grads({y}, {kernel, v, gamma, beta})) all.push_back(values(g));
          all.push_back(values(mean));
          return std::pair(held, all);
        };
        const auto [kept, want] = run(SavePolicy::keep);
        const auto [again, got] = run(SavePolicy::recompute);
        CHECK(got == want);
        const i64 one = 2 * 4 * 6 * 6 * 4;
        CHECK(kept - again == one - one / 32);  // relu's output; its bits
      }
}

TEST_CASE("recompute: what is written without being recorded is kept as it was read") {
  const LeakGuard guard;
  const Tensor x = tensor({0.5, -1.0}, {.dtype = f64, .requires_grad = true});
  const Tensor w = tensor({2.0, 3.0}, {.dtype = f64, .requires_grad = true});
  const SaveScope scope(SavePolicy::recompute);
  const auto write = [](Tensor& h) {
    const NoGrad no_grad;
    h.mul_(10.0);
  };
  for (const bool chain : {false, true}) {
    Tensor h = gelu(mul(x, 1.0));
    write(h);
    const Values read = values(chain ? relu(h.detach()) : h);
    const Tensor z = chain ? mul(relu(h), w) : mul(h, w);
    CHECK(values(grad(z.sum(), w)) == read);
  }
  Tensor h = gelu(mul(x, 1.0));
  const Values read = values(h);
  const Tensor z = mul(h, w);
  write(h);  // with keep this would be an error in backward
  CHECK(values(grad(z.sum(), w)) == read);
}

TEST_CASE("recompute: writing what it is made from throws and names the lines") {
  const LeakGuard guard;
  const Tensor x = tensor({0.5, -1.0}, {.dtype = f64, .requires_grad = true});
  const Tensor w = tensor({2.0, 3.0}, {.dtype = f64, .requires_grad = true});
  const SaveScope scope(SavePolicy::recompute);
  Tensor u = mul(x, 1.0);
  const int line = __LINE__ + 1;
  const Tensor h = gelu(u);
  const Tensor z = mul(h, w);
  {
    const NoGrad no_grad;
    u.mul_(2.0);
  }
  const std::string text = message_of([&] { (void)grad(z.sum(), w); });
  CHECK(mentions(text, "[mul.backward] a saved tensor of gelu <- "));
  CHECK(mentions(text, "save_recompute_test.cpp:" + std::to_string(line) + " was modified"));
  CHECK(mentions(text, "written at "));
  CHECK(mentions(text, "save_recompute_test.cpp:" + std::to_string(line + 4)));
  CHECK(mentions(text, "needed by mul <- "));
  CHECK(mentions(text, "save_recompute_test.cpp:" + std::to_string(line + 1)));
}

TEST_CASE("recompute: a graph may be walked in parts and again") {
  const LeakGuard guard;
  manual_seed(7);
  const Tensor x = randn({8, 8}).set_requires_grad(), w = randn({8, 8}).set_requires_grad();
  const auto both = [&](SavePolicy p) {
    const SaveScope scope(p);
    const Tensor h = gelu(matmul(x, w)), y = sum(matmul(h, w)), side = sum(h);
    std::vector<Values> all;
    all.push_back(values(grad(y, w, {.retain_graph = true})));
    all.push_back(values(grad(y, x, {.retain_graph = true})));
    all.push_back(values(grad(side, x, {.retain_graph = true})));
    all.push_back(values(grad(y, w)));
    return all;
  };
  CHECK(both(SavePolicy::recompute) == both(SavePolicy::keep));
}

TEST_CASE("recompute: together with checkpoint, whose function is run again whole") {
  const LeakGuard guard;
  manual_seed(9);
  const Tensor x = randn({8, 8}).set_requires_grad(), w = randn({8, 8}).set_requires_grad();
  const auto f = [&](const Tensor& v) { return matmul(gelu(layer_norm(v, {8})), w); };
  const auto gradient = [&](SavePolicy p, bool segment) {
    const SaveScope scope(p);
    const Tensor in = gelu(matmul(x, w));
    const Tensor y = relu(segment ? checkpoint(f, in) : f(in));
    return values(grad(sum(matmul(y, w)), w));
  };
  const Values want = gradient(SavePolicy::keep, false);
  CHECK(gradient(SavePolicy::recompute, false) == want);
  CHECK(gradient(SavePolicy::recompute, true) == want);
  const auto inner = [&](const Tensor& v) {
    const SaveScope scope(SavePolicy::recompute);
    return f(v);
  };
  CHECK(values(grad(sum(matmul(relu(checkpoint(inner, gelu(matmul(x, w)))), w)), w)) == want);
}

TEST_CASE("recompute: memory that is not there leaves the tensor kept") {
  const LeakGuard guard;
  const Tensor x = rand({256}).set_requires_grad(), w = rand({256}).set_requires_grad();
  const Values want = values(grad(sum(mul(gelu(mul(x, 2)), w)), w));
  const SaveScope scope(SavePolicy::recompute);
  for (u64 n = 1; n <= 6; ++n) {
    const Tensor u = mul(x, 2);
    Tensor y;
    memory::fail_nth_request(n);
    try {
      Tensor h = u.clone();
      y = mul(h.gelu_(), w);
    } catch (const OutOfMemory&) {}
    memory::fail_nth_request(0);
    if (y.defined()) CHECK(values(grad(sum(y), w)) == want);
  }
}

TEST_CASE("memory::saved_by_rule says what each rule has spared") {
  manual_seed(2);
  const Tensor x = rand({40, 8}).set_requires_grad(), w = rand({40, 8}).set_requires_grad();
  const i64 one = 40 * 8 * 4;
  const auto spared = [&](SavePolicy p, const std::function<Tensor()>& f) {
    memory::reset_saved_by_rule();
    const SaveScope scope(p);
    (void)f();
    return memory::saved_by_rule();
  };
  memory::SavedByRule s = spared(SavePolicy::recompute, [&] {
    const Tensor h = gelu(mul(x, 2));
    return add(mul(h, w), mul(h, 3) * w);  // two read h, one of which saves it
  });
  CHECK(s[SavingRule::recompute].bytes == one);
  CHECK(s[SavingRule::recompute].tensors == 1);
  s = spared(SavePolicy::bit_mask, [&] { return sum(relu(mul(x, 2))); });
  CHECK(s[SavingRule::bit_mask].bytes == one - 40);
  s = spared(SavePolicy::bit_mask, [&] { return mul(relu(mul(x, 2)), w); });
  CHECK(s[SavingRule::bit_mask].bytes == 0);  // mul holds it all the same
  s = spared(SavePolicy::recompute, [&] { return mul(relu(gelu(mul(x, 2))), w); });
  CHECK(s[SavingRule::bit_mask].bytes == one - 40);
  CHECK(s[SavingRule::recompute].bytes == 0);  // the same tensor
  s = spared(SavePolicy::keep, [&] { return exp(mul(x, 2)); });
  CHECK(s[SavingRule::reuse].bytes == one);
  CHECK(s[SavingRule::reuse].tensors == 1);
  CHECK(std::string(memory::saving_rule_name(SavingRule::offload)) == "offload");
}

TEST_CASE("AutopilotScope: values and gradients are the same bits without reuse of rvalues") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const LeakGuard guard;
    manual_seed(8);
    const Tensor x = randn({16, 16}).to(d).set_requires_grad();
    const Tensor w = randn({16, 16}).to(d).set_requires_grad();
    const auto run = [&](bool on) {
      manual_seed(12);
      const AutopilotScope autopilot(on);
      memory::reset_saved_by_rule();
      Tensor h = matmul(x, w);
      h = relu(std::move(h));
      h = dropout(tanh(matmul(std::move(h), w)), 0.5, true);
      h = add(std::move(h), x);
      h = layer_norm(gelu(std::move(h)), {16});
      const Tensor y = sum(exp(h * 0.5) - std::move(h));
      const std::vector<Tensor> g = grads({y}, {x, w}, {.create_graph = true});
      const std::vector<Tensor> second = grads({square(g[0]).sum()}, {x, w});
      const i64 reused = memory::saved_by_rule()[SavingRule::reuse].tensors;
      return std::pair(reused, std::vector<Values>{values(y), values(g[0]), values(g[1]),
                                                   values(second[0]), values(second[1])});
    };
    const auto [reused, with] = run(true);
    const auto [none, without] = run(false);
    CHECK(reused > 4);
    CHECK(none == 0);
    CHECK(with == without);
    CHECK((mode.slow & kSlowNoReuse) == 0);
  }
}
