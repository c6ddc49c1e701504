// SavePolicy::invert of the library's operators: the output and a bit an element instead of the
// input.
#include <cmath>
#include <functional>

#include "warptape/autograd/grads.h"
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
using wt_test::kernel_devices;

namespace {

using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }

struct Row {
  const char* name;
  Tensor (*call)(Tensor);
};
const Row kRows[] = {
    {"silu", [](Tensor v) { return silu(std::move(v)); }},
    {"gelu", [](Tensor v) { return gelu(std::move(v)); }},
    {"gelu_tanh", [](Tensor v) { return gelu_tanh(std::move(v)); }},
    {"mish", [](Tensor v) { return mish(std::move(v)); }},
    {"silu_", [](Tensor v) { return std::move(v).silu_(); }},
    {"gelu_", [](Tensor v) { return std::move(v).gelu_(); }},
    {"mish_", [](Tensor v) { return std::move(v).mish_(); }},
};

}  // namespace

TEST_CASE("invert: activations hold their output and a bit an element; gradients within budget") {
  for (const Device d : kernel_devices())
    for (const DType t : {f64, f32, bf16})
      for (const Row& row : kRows) {
        CAPTURE(to_string(d), dtype_name(t), row.name);
        const LeakGuard guard;
        manual_seed(4);
        const Tensor x = randn({40, 33}).to(t).to(d).set_requires_grad();
        const Tensor w = rand({40, 33}).to(t).to(d);
        const i64 n = x.numel(), one = n * item_size(t);
        const auto gradient = [&](SavePolicy p, i64 held) {
          const i64 before = memory::stats(d).live;
          Tensor y;
          {
            const SaveScope scope(p);
            y = sum(to_dtype(mul(row.call(neg(x)), w), f64));
          }
          CHECK(memory::stats(d).live - before == held + 8);
          return values(grad(y, x));
        };
        // mul(h, w) saves w alone, which is there: h is held by nobody but the activation.
        const Values want = gradient(SavePolicy::keep, one);
        const Values got = gradient(SavePolicy::invert, one + (n + 7) / 8);
        const double u = t == f64 ? 0x1p-53 : t == f32 ? 0x1p-24 : 0x1p-8;
        double worst = 0, sum_of = 0;
        for (size_t i = 0; i < want.size(); ++i) {
          worst = std::max(worst, std::fabs(got[i] - want[i]));
          sum_of += std::fabs(got[i] - want[i]);
        }
        CHECK(worst <= 2.2 * std::sqrt(u));  // and the roundings of gradients themselves
        CHECK(sum_of / double(n) <= 64 * u);
      }
}

TEST_CASE("invert: beside what saves the output too, the input is spared") {
  for (const Device d : kernel_devices())
    for (const Row& row : kRows) {
      CAPTURE(to_string(d), row.name);
      const LeakGuard guard;
      const Tensor x = randn({64, 8}).to(d).set_requires_grad();
      const Tensor w = randn({64, 8}).to(d).set_requires_grad();
      const auto held = [&](SavePolicy p) {
        const i64 before = memory::stats(d).live;
        memory::reset_saved_by_rule();
        const SaveScope scope(p);
        const Tensor y = sum(mul(row.call(neg(x)), w));
        return memory::stats(d).live - before - 4;
      };
      CHECK(held(SavePolicy::keep) == 2 * 64 * 8 * 4);
      CHECK(held(SavePolicy::invert) == 64 * 8 * 4 + 64);
      CHECK(memory::saved_by_rule()[memory::SavingRule::invert].bytes == 64 * 8 * 4);
    }
}

TEST_CASE("invert: second derivatives of activations go through the recovered input") {
  for (const Device d : kernel_devices())
    for (const Row& row : kRows) {
      CAPTURE(to_string(d), row.name);
      const LeakGuard guard;
      const Tensor x = tensor({-3.0, -1.5, -1.0, -0.25, 0.0, 0.5, 4.0}, {.dtype = f64})
                           .to(d)
                           .set_requires_grad();
      const auto second = [&](SavePolicy p) {
        const SaveScope scope(p);
        const Tensor g = grad(sum(row.call(mul(x, 1))), x, {.create_graph = true});
        return values(grad(sum(square(g)), x));
      };
      const Values want = second(SavePolicy::keep), got = second(SavePolicy::invert);
      for (size_t i = 0; i < want.size(); ++i)
        CHECK(std::fabs(got[i] - want[i]) <= 1e-13 * 32 * (1 + std::fabs(want[i])));
    }
}

TEST_CASE("invert: writing the output throws and names both lines") {
  const LeakGuard guard;
  const Tensor x = tensor({0.5, -1.0}, {.dtype = f64, .requires_grad = true});
  const SaveScope scope(SavePolicy::invert);
  Tensor h = mul(x, 1.0);
  const int line = __LINE__ + 1;
  h.gelu_();
  h.mul_(2.0);
  const std::string text = message_of([&] { (void)grad(sum(h), x); });
  CHECK(mentions(text, "[gelu_.backward] its output was modified in place"));
  CHECK(mentions(text, "written at "));
  CHECK(mentions(text, "save_invert_test.cpp:" + std::to_string(line + 1)));
  CHECK(mentions(text, "needed by gelu_ <- "));
  CHECK(mentions(text, "save_invert_test.cpp:" + std::to_string(line)));
}

TEST_CASE("invert: any order in memory; what has gaps, or no inverse, is kept") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const LeakGuard guard;
    manual_seed(6);
    const Tensor x = randn({2, 3, 4, 5}, {.dtype = f64}).to(d).set_requires_grad();
    const Tensor w = rand({2, 3, 4, 5}, {.dtype = f64}).to(d);
    const std::vector<std::function<Tensor()>> calls{
        [&] {
          return gelu(permute(contiguous(permute(x, {0, 2, 3, 1})), {0, 3, 1, 2}));
        },
        [&] {
          return gelu(expand(x.select(1, 0).unsqueeze(1), {2, 3, 4, 5}));
        },
        [&] { return hardswish(softplus(log1p(square(x)))); },
        [&] { return add(relu(silu(x * 1)), mish(x)); }};
    for (const auto& call : calls) {
      const auto gradient = [&](SavePolicy p) {
        const SaveScope scope(p);
        return values(grad(sum(mul(call(), w)), x));
      };
      const Values want = gradient(SavePolicy::keep), got = gradient(SavePolicy::invert);
      for (size_t i = 0; i < want.size(); ++i)
        CHECK(std::fabs(got[i] - want[i]) <= 4 * std::sqrt(0x1p-53));
    }
  }
}
