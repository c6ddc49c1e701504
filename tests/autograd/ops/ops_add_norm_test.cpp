// add_layer_norm and add_rms_norm beside what their rows in op_cases show: the bits of the sum and
// the norm one by one, rows that begin anywhere, what is held, and who may write.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/add_norm.h"
#include "warptape/autograd/ops/norm.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/saved_by_rule.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/kernels/add_norm.h"
#include "warptape/nn/norms.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/variants.h"
#include "warptape/tests/tolerance.h"

using namespace wt_test;

namespace {

using Values = std::vector<double>;

Tensor leaf(const Shape& shape, u64 seed, DType t, Device d) {
  return to_tensor(random_values(numel_of(shape), seed), shape, t, d).set_requires_grad();
}

// Both norms, in one kernel or not.
AddNormResult normed(bool centred, bool fused, const Tensor& x, const Tensor& r, const Tensor& w,
                     const Tensor& b) {
  const Shape last = w.shape();
  if (fused)
    return centred ? add_layer_norm(x, r, last, {.weight = w, .bias = b})
                   : add_rms_norm(x, r, last, {.weight = w});
  const Tensor sum = x + r;
  return {centred ? layer_norm(sum, last, w, b) : rms_norm(sum, last, w), sum};
}

// Values of both results and of all gradients.
std::vector<Values> outcome(bool centred, bool fused, const Shape& shape, DType t, Device d) {
  const Shape last{shape[shape.ndim() - 1]};
  const Tensor x = leaf(shape, 1, t, d), r = leaf(shape, 2, t, d);
  const Tensor w = leaf(last, 3, t, d), b = leaf(last, 4, t, d);
  const AddNormResult out = normed(centred, fused, x, r, w, b);
  const Tensor gy = to_tensor(random_values(numel_of(shape), 5), shape, t, d);
  const Tensor gsum = to_tensor(random_values(numel_of(shape), 6), shape, t, d);
  std::vector<Tensor> inputs{x, r, w};
  if (centred) inputs.push_back(b);
  std::vector<Values> all{to_doubles(out.y), to_doubles(out.sum)};
  for (const Tensor& g : grads({out.y, out.sum}, inputs, {.grad_outputs = {gy, gsum}}))
    all.push_back(to_doubles(g));
  return all;
}

}  // namespace

TEST_CASE("add_norm: the values and the sum's bits of add and norm, one by one") {
  for (const Device d : kernel_devices())
    for (const bool centred : {true, false})
      for (const DType t : {f64, f32, f16, bf16})
        for (const Shape& shape :
             {Shape{5, 33}, Shape{6, 264}, Shape{2, 3, 1030}, Shape{2, 6000}}) {
          CAPTURE(to_string(d), centred, dtype_name(t), shape[shape.ndim() - 1]);
          const std::vector<Values> one = outcome(centred, true, shape, t, d);
          const std::vector<Values> two = outcome(centred, false, shape, t, d);
          REQUIRE(one.size() == two.size());
          CHECK(one[1] == two[1]);
          CHECK(one[2] == one[3]);  // x's gradient and the residual's
          // f32 on simt: the rows are the same code, and the gradient's last addition is exact.
          const bool exact = d == Device::simt() && t == f32;
          const double terms = double(shape[shape.ndim() - 1]);
          for (size_t k = 0; k < one.size(); ++k) {
            if (exact && one[k] == two[k]) continue;
            CHECK(!(exact && k < 2));
            for (size_t i = 0; i < one[k].size(); ++i) {
              CAPTURE(k, i);
              REQUIRE(close(one[k][i], two[k][i],
                            4 * error_bound(t, terms, two[k][i], 4) + 4 * roundoff(t)));
            }
          }
        }
}

TEST_CASE("add_norm: rows that begin anywhere, in every variant") {
  for (const Device d : kernel_devices())
    for (const DType t : {f32, bf16})
      for (const i64 n : {40, 1029}) {
        const auto part = [&](u64 seed, i64 from) {
          return to_tensor(random_values(5 * (n + 8), seed), {5, n + 8}, t, d)
              .slice(1, {from, from + n});
        };
        const Tensor x = part(1, 1), r = part(2, 3), w = part(3, 2).select(0, 0);
        Tensor sum = empty({5, n}, {.dtype = t, .device = d}), y = empty_like(sum);
        const Tensor stats = empty({3, 5}, {.device = d});
        const Values xs = to_doubles(x), rs = to_doubles(r), ws = to_doubles(w);
        std::set<std::string> ran;
        for_each_variant(
            d, AddRmsNormForwardArgs{view(y), view(sum), view(stats), view(x), view(r), view(w), 0},
            [&] {
              const Values got = to_doubles(y), added = to_doubles(sum);
              for (i64 row = 0; row < 5; ++row) {
                double squares = 0;
                for (i64 i = row * n; i < (row + 1) * n; ++i) {
                  REQUIRE(close(added[size_t(i)], xs[size_t(i)] + rs[size_t(i)],
                                roundoff(t) * std::fabs(xs[size_t(i)] + rs[size_t(i)]) + 1e-7));
                  squares += added[size_t(i)] * added[size_t(i)] / double(n);
                }
                for (i64 i = 0; i < n; ++i) {
                  const double want =
                      added[size_t(row * n + i)] / std::sqrt(squares) * ws[size_t(i)];
                  CAPTURE(row, i);
                  REQUIRE(
                      close(got[size_t(row * n + i)], want, error_bound(t, double(n), want, 4)));
                }
              }
              y.fill_(7), sum.fill_(7);
            },
            &ran);
        CHECK(ran.size() >= (d == Device::cpu() ? 1 : 2));
        if (d == Device::cpu()) continue;
        const Tensor gy = part(4, 1), gsum = part(5, 5);
        Tensor gx = empty_like(sum);
        std::optional<Values> want;
        sum.copy_(x + r);
        for_each_variant(d,
                         AddRmsNormBackwardInputArgs{view(gx), view(gy), view(gsum), view(sum),
                                                     view(stats), view(w)},
                         [&] {
                           const Values got = to_doubles(gx);
                           if (!want) want = got;
                           for (size_t i = 0; i < got.size(); ++i)
                             REQUIRE(close(got[i], (*want)[i],
                                           error_bound(t, double(n), got[i], 8) +
                                               roundoff(t) * std::fabs(got[i])));
                           gx.fill_(7);
                         });
      }
}

TEST_CASE("add_norm: the sum and its statistics are held, neither x nor the residual") {
  for (const Device d : kernel_devices())
    for (const SavePolicy policy : {SavePolicy::keep, SavePolicy::recompute}) {
      CAPTURE(to_string(d), int(policy));
      const LeakGuard guard;
      const Shape shape{64, 32};
      const Tensor x = leaf(shape, 1, f32, d), w = leaf({32}, 2, f32, d);
      const Tensor v = leaf(shape, 3, f32, d);
      const i64 before = memory::stats(d).live, one = numel_of(shape) * 4;
      Tensor loss;
      {
        const SaveScope scope(policy);
        AddNormResult r = add_layer_norm(neg(x), exp(neg(x)).detach(), {32}, {.weight = w});
        r.sum = {};
        loss = sum(mul(r.y, v));  // holds y, unless that can be made from the sum
      }
      const i64 held = memory::stats(d).live - before;
      const i64 tensors = policy == SavePolicy::keep ? 2 : 1;
      CHECK(held >= tensors * one);
      CHECK(held <= tensors * one + 2 * 64 * 4 + 512);
      const Values got = to_doubles(grads({loss}, {x, v})[1]);
      const Tensor plain = neg(x.detach());
      CHECK(got == to_doubles(add_layer_norm(plain, exp(plain), {32}, {.weight = w.detach()}).y));
    }
}

TEST_CASE("add_norm: an x that nobody else sees becomes the sum") {
  for (const Device d : kernel_devices()) {
    const LeakGuard guard;
    const Tensor a = leaf({4, 8}, 1, f32, d), r = leaf({4, 8}, 2, f32, d);
    for (const bool recording : {true, false}) {
      Tensor x = recording ? a * 2.0 : a.detach() * 2.0;
      const void* memory = x.impl()->data;
      memory::reset_saved_by_rule();
      const AddNormResult out = add_layer_norm(std::move(x), r, {8});
      CHECK(out.sum.impl()->data == memory);
      CHECK(!x.defined());
      CHECK(memory::saved_by_rule()[memory::SavingRule::reuse].tensors == 1);
      CHECK(to_doubles(out.sum) == to_doubles(a.detach() * 2.0 + r.detach()));
      if (!recording) continue;
      const Values g = to_doubles(grad(sum(out.y * out.sum), a));
      const AddNormResult again = add_layer_norm(a * 2.0, r, {8});
      CHECK(g == to_doubles(grad(sum(again.y * again.sum), a)));
    }
    Tensor x = a * 2.0;
    const void* memory = x.impl()->data;
    const AddNormResult twice = add_layer_norm(std::move(x), x, {8});  // also the residual
    CHECK(twice.sum.impl()->data != memory);
    CHECK(to_doubles(twice.sum) == to_doubles(a.detach() * 4.0));
  }
}

TEST_CASE("add_norm: either result alone, and one that was written") {
  const LeakGuard guard;
  const Device d = Device::cpu();
  const Tensor x = leaf({3, 4}, 1, f64, d), r = leaf({3, 4}, 2, f64, d), w = leaf({4}, 3, f64, d);
  const auto of = [&] { return add_layer_norm(x, r, {4}, {.weight = w}); };
  CHECK(to_doubles(grad(sum(of().sum), r)) == Values(12, 1.0));
  CHECK(to_doubles(grads({sum(of().sum * 2.0)}, {x, w}, {.allow_unused = true})[0]) ==
        Values(12, 2.0));
  const Values alone = to_doubles(grad(sum(square(of().y)), x));
  const Values plain = to_doubles(grad(sum(square(layer_norm(x + r, {4}, w))), x));
  for (size_t i = 0; i < plain.size(); ++i) CHECK(close(alone[i], plain[i], 1e-14));
  AddNormResult out = of();
  out.sum.mul_(2.0);
  const std::string text = message_of([&] { (void)grad(sum(out.y), x); });
  CHECK(mentions(text, "[add_layer_norm.backward] its output was overwritten in place"));
  AddNormResult kept = of();
  kept.y.mul_(2.0);  // of the norm backward reads nothing
  CHECK(to_doubles(grad(sum(kept.y), w)).size() == 4);
}

TEST_CASE("add_norm: a norm with hooks is called with the sum") {
  const LeakGuard guard;
  manual_seed(1);
  const Tensor x = randn({3, 4}), r = randn({3, 4});
  nn::LayerNorm layer{4};
  nn::RMSNorm rms{4};
  const Values plain = to_doubles(layer.of_sum(x, r).y), plain_rms = to_doubles(rms.of_sum(x, r).y);
  int calls = 0;
  Values seen;
  const auto hook = [&](const nn::ModuleBase&, const Tensor& in, const Tensor& out) {
    ++calls, seen = to_doubles(in);
    return out * 2.0;
  };
  layer.register_forward_hook(hook);
  rms.register_forward_hook(hook);
  CHECK(to_doubles(layer.of_sum(x, r).y * 0.5) == plain);
  CHECK(to_doubles(rms.of_sum(x, r).y * 0.5) == plain_rms);
  CHECK(calls == 2);
  CHECK(seen == to_doubles(x + r));
}
