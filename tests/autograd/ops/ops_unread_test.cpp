// What is masked, ignored or weighted 0 is not read: a NaN or an infinity that stands there changes
// no value and no gradient.
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/operators.h"
#include "warptape/kernels/attention.h"
#include "warptape/nn/attention.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"
#include "warptape/tests/tolerance.h"

using namespace wt_test;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kEndless = std::numeric_limits<double>::infinity();

bool all_finite(const Values& v) {
  for (const double x : v)
    if (!std::isfinite(x)) return false;
  return true;
}
// The value of f and the gradients of its inputs.
using Function = std::function<Tensor(std::span<const Tensor>)>;
std::vector<Values> run_of(const Function& f, std::vector<Tensor> in, bool again) {
  for (Tensor& t : in) t = t.detach().set_requires_grad();
  const Tensor y = f(in);
  std::vector<Values> all{values(y)};
  for (const Tensor& g : grads(y.sum(), in, {.create_graph = again})) all.push_back(values(g));
  return all;
}
// `odd` stands where nothing is read, `plain` has ordinary numbers there. Equal bits but where a
// sum may have another order.
void check_unread(const Function& f, const std::vector<Tensor>& odd,
                  const std::vector<Tensor>& plain) {
  for (const bool again : {false, true}) {
    CAPTURE(again);
    const auto got = run_of(f, odd, again), want = run_of(f, plain, again);
    for (size_t i = 0; i < want.size(); ++i) {
      REQUIRE(got[i].size() == want[i].size());
      REQUIRE(all_finite(want[i]));
      size_t wrong = 0;
      for (size_t e = 0; e < want[i].size(); ++e)
        wrong += !close(got[i][e], want[i][e], gradient_bound(odd[0].dtype(), 32, want[i][e], 1));
      CAPTURE(i);
      CHECK(wrong == 0);
    }
  }
}

// --- losses ---

Tensor logits_with(double odd, i64 row, DType t, Device d) {
  Values v = random_values(4 * 5, 3, 2);
  for (i64 c = 0; c < 5; ++c) v[size_t(row * 5 + c)] = c % 2 ? odd : v[size_t(row * 5 + c)];
  return to_tensor(v, {4, 5}, t, d);
}

}  // namespace

TEST_CASE("losses: ignored rows and those without weight are not read", "[unread]") {
  for (const Device d : kernel_devices())
    for (const DType t : {f32, f64, f16}) {
      CAPTURE(to_string(d), dtype_name(t));
      const Tensor labels = tensor({1, 3, -100, 4}).to(d);
      const Tensor some = to_tensor({1, 0.5, 2, 1, 3}, {5}, f32, d);
      const Tensor none = to_tensor({1, 0, 2, 0, 3}, {5}, f32, d);  // label 3, of row 1
      const auto wide = [](const Tensor& x) { return x.unsqueeze(2).expand({4, 5, 2}); };
      const auto two = [](const Tensor& y) { return y.unsqueeze(1).expand({4, 2}); };
      for (const double odd : {kNaN, kEndless, -kEndless})
        for (const double e : {0.0, 0.1}) {
          CAPTURE(odd, e);
          const CrossEntropyOptions plain{.label_smoothing = e};
          const CrossEntropyOptions weighted{.label_smoothing = e, .weight = some};
          const CrossEntropyOptions without{.label_smoothing = 0, .weight = none};
          const auto check = [&](i64 row, const Function& f) {
            check_unread(f, {logits_with(odd, row, t, d)}, {logits_with(1, row, t, d)});
          };
          for (const CrossEntropyOptions& o : {plain, weighted}) {
            check(2, [&](auto x) { return cross_entropy(x[0], labels, o).sum; });
            check(2, [&](auto x) { return cross_entropy(x[0], labels, unreduced, o); });
            check(2, [&](auto x) { return cross_entropy(wide(x[0]), two(labels), o).sum; });
          }
          if (e > 0) continue;
          check(1, [&](auto x) { return cross_entropy(x[0], labels, without).sum; });
          check(1, [&](auto x) { return cross_entropy(x[0], labels, unreduced, without); });
          for (const i64 row : {1, 2}) {
            check(row, [&](auto x) { return nll_loss(x[0], labels, {.weight = none}).sum; });
            check(row, [&](auto x) { return nll_loss(x[0], labels, unreduced, {.weight = none}); });
          }
        }
    }
}

TEST_CASE("losses: 0 times an infinite logarithm is 0", "[unread]") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    // A class that is masked out of the logits has probability 0, and so has the target.
    const Tensor target = to_tensor({0, 0.25, 0.75, 0, 1, 0}, {2, 3}, f64, d);
    const Tensor x = to_tensor({-kEndless, 1, 2, -kEndless, 0, 3}, {2, 3}, f64, d);
    const auto soft = [&](auto in) { return cross_entropy(in[0], target).sum; };
    for (const bool again : {false, true}) {
      const auto got = run_of(soft, {x}, again);
      const double p = 1 / (1 + std::exp(1.0)), q = 1 / (1 + std::exp(3.0));
      const Values want = {0, p - 0.25, 0.25 - p, 0, q - 1, 1 - q};
      CHECK(std::abs(got[0][0] + 0.25 * std::log(p) + 0.75 * std::log(1 - p) + std::log(q)) <
            1e-14);
      for (size_t i = 0; i < 6; ++i) CHECK(std::abs(got[1][i] - want[i]) < 1e-14);
    }
    // A target's own gradient is minus the logarithm, also where it is 0.
    const auto both =
        run_of([](auto in) { return cross_entropy(in[0], in[1], unreduced); },
               {to_tensor({1, 2, 3}, {1, 3}, f64, d), target.slice(0, {1, 2})}, false);
    const double most = std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0));
    for (int i = 0; i < 3; ++i) CHECK(std::abs(both[2][size_t(i)] - (most - 1 - i)) < 1e-14);
    // And so where nothing of it has a weight.
    const auto none =
        run_of([](auto in) { return cross_entropy(in[0], in[1], unreduced); },
               {to_tensor({1, 2, 3}, {1, 3}, f64, d), zeros_like(x.slice(0, {0, 1}))}, false);
    for (int i = 0; i < 3; ++i) CHECK(std::abs(none[2][size_t(i)] - (most - 1 - i)) < 1e-14);
    // A sample without any weight.
    const Tensor part = to_tensor({0, 0, 0, 0.5, 0.5, 0}, {2, 3}, f64, d);
    const auto of_part = [&](auto in) { return cross_entropy(in[0], part, unreduced); };
    check_unread(of_part, {to_tensor({kNaN, 1, 2, 3, 1, 2}, {2, 3}, f64, d)},
                 {to_tensor({0, 1, 2, 3, 1, 2}, {2, 3}, f64, d)});

    const Tensor p = to_tensor({0, 0.5, 0, 0.5}, {1, 4}, f64, d);
    const Tensor odd = to_tensor({-kEndless, -1, kNaN, -2}, {1, 4}, f64, d);
    const Tensor plain = to_tensor({-3, -1, -3, -2}, {1, 4}, f64, d);
    check_unread([&](auto in) { return kl_div(in[0], p).sum; }, {odd}, {plain});
    const Tensor log_p = log(p);
    check_unread([&](auto in) { return kl_div(in[0], log_p, {.log_target = true}).sum; }, {odd},
                 {plain});
    check_unread([&](auto in) { return kl_div(plain, in[0], {.log_target = true}).sum; }, {log_p},
                 {to_tensor({-1e4, std::log(0.5), -1e4, std::log(0.5)}, {1, 4}, f64, d)});
  }
}

TEST_CASE("binary losses: an element without weight is not read", "[unread]") {
  for (const Device d : kernel_devices())
    for (const DType t : {f32, f64}) {
      CAPTURE(to_string(d), dtype_name(t));
      const Tensor weight = to_tensor({1, 0, 2, 0}, {4}, t, d);
      const Tensor odd = to_tensor({0.25, kNaN, 0.5, kNaN}, {4}, t, d);
      const Tensor plain = to_tensor({0.25, 0.5, 0.5, 0.5}, {4}, t, d);
      const Tensor label = to_tensor({1, 0, 0, 1}, {4}, t, d);
      check_unread(
          [&](auto x) { return binary_cross_entropy(x[0], label, {.weight = weight}).sum; }, {odd},
          {plain});
      check_unread(
          [&](auto x) {
            return binary_cross_entropy_with_logits(x[0], label, unreduced, {.weight = weight});
          },
          {odd}, {plain});
      const Tensor table = to_tensor({1, 2, kNaN, 4}, {2, 2}, t, d);
      check_unread(
          [&](auto x) {
            return embedding_bag(tensor({0, 1, 0}).to(d), x[0],
                                 {.offsets = tensor({0}).to(d),
                                  .mode = EmbeddingBagMode::sum,
                                  .per_sample_weights = to_tensor({1, 0, 2}, {3}, t, d)});
          },
          {table}, {to_tensor({1, 2, 3, 4}, {2, 2}, t, d)});
    }
}

// --- attention ---
namespace {

const Shape kHeads{2, 2, 6, 8};

// The operands; row `row` of each whose bit is set in `which` has `odd` in it.
std::vector<Tensor> operands(double odd, int which, i64 row, DType t, Device d) {
  std::vector<Tensor> all;
  for (int k = 0; k < 3; ++k) {
    Values v = random_values(numel_of(kHeads), u64(k + 1));
    for (i64 h = 0; which >> k & 1 && h < 4; ++h) v[size_t((h * 6 + row) * 8 + h)] = odd;
    all.push_back(to_tensor(v, kHeads, t, d));
  }
  return all;
}
// Key 4 and query 5 are seen by nobody and see nothing; bool, or added.
Tensor mask_of(bool added, DType t, Device d) {
  Values seen;
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 6; ++j) seen.push_back(i != 5 && j != 4);
  const Tensor m = ne(to_tensor(seen, {6, 6}, f32, d), 0);
  return added ? where(m, full({}, 0.5, {.dtype = t, .device = d}), -kEndless) : m;
}
Function attention_with(const Tensor& mask, const AttentionOptions& o) {
  return [=](std::span<const Tensor> x) {
    return mask.defined() ? scaled_dot_product_attention(x[0], x[1], x[2], mask, o)
                          : scaled_dot_product_attention(x[0], x[1], x[2], o);
  };
}
// f in every variant of attention that takes t and multiplies without tensor cores.
void in_variants(Device d, DType t, const std::function<void()>& f) {
  std::vector<const char*> names{"naive"};
  if (d == Device::cpu())
    names = {"reference", t == f16 ? "widened" : "blocked"};
  else if (t != f64)
    names.push_back("flash");
  for (const char* name : names) {
    CAPTURE(name);
    const VariantScope forward("attention_forward", name), backward("attention_backward", name);
    f();
  }
}

}  // namespace

TEST_CASE("attention: masked keys, values and queries are not read", "[unread]") {
  for (const Device d : kernel_devices())
    for (const DType t : {f32, f64, f16})
      in_variants(d, t, [&] {
        for (const double odd : {kNaN, kEndless})
          for (const bool added : {false, true}) {
            CAPTURE(to_string(d), dtype_name(t), odd, added);
            const Tensor mask = mask_of(added, t, d);
            for (const auto& [which, row] : {std::pair{2, 4}, {4, 4}, {6, 4}, {1, 5}})
              check_unread(attention_with(mask, {}), operands(odd, which, row, t, d),
                           operands(1, which, row, t, d));
          }
      });
}

TEST_CASE("attention: what comes later is not read by an earlier query", "[unread]") {
  for (const Device d : kernel_devices())
    for (const DType t : {f32, f64})
      in_variants(d, t, [&] {
        CAPTURE(to_string(d), dtype_name(t));
        // Key and value 5 are seen by query 5 alone.
        const Function f = attention_with({}, {.causal = true});
        const auto got = run_of(f, operands(kNaN, 6, 5, t, d), false);
        const auto want = run_of(f, operands(1, 6, 5, t, d), false);
        for (const size_t i : {0, 1})  // the output, and the queries' gradient
          for (size_t e = 0; e < want[i].size(); ++e) {
            if (e / 8 % 6 == 5) continue;
            CAPTURE(i, e);
            CHECK(close(got[i][e], want[i][e], gradient_bound(t, 32, want[i][e], 1)));
          }
      });
}

TEST_CASE("attention: a mask that wants a gradient hides a NaN, too", "[unread]") {
  for (const Device d : kernel_devices()) {
    const auto with_mask = [&](double odd) {
      std::vector<Tensor> all = operands(odd, 6, 4, f64, d);
      all.push_back(mask_of(true, f64, d));
      return all;
    };
    check_unread(
        [](std::span<const Tensor> x) {
          return scaled_dot_product_attention(x[0], x[1], x[2], x[3]);
        },
        with_mask(kNaN), with_mask(1));
  }
}

TEST_CASE("MultiheadAttention: a query that sees nothing has no weights and harms no gradient",
          "[unread]") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    nn::MultiheadAttention layer{8, 2, {.batch_first = true, .dtype = f64}};
    layer.to(d);
    const Tensor mask = logical_not(mask_of(false, f64, d));  // true: hidden
    const Tensor x = to_tensor(random_values(2 * 6 * 8, 7), {2, 6, 8}, f64, d).set_requires_grad();
    std::vector<Tensor> in{x};
    for (const auto& p : layer.named_parameters()) in.push_back(p.tensor);
    const auto run = [&](bool weights) {
      const nn::AttentionCall call{.need_weights = weights, .attn_mask = mask};
      const nn::AttentionResult r = layer(x, x, x, call);
      std::vector<Values> all{values(r.output)};
      for (const Tensor& g : grads(r.output.sum(), in)) all.push_back(values(g));
      if (weights) {
        const Values w = values(r.weights.select(1, 5));
        CHECK(w == Values(w.size(), 0.0));
      }
      return all;
    };
    const auto got = run(true), want = run(false);
    for (size_t i = 0; i < want.size(); ++i) {
      CHECK(all_finite(want[i]));
      for (size_t e = 0; e < want[i].size(); ++e)
        CHECK(close(got[i][e], want[i][e], gradient_bound(f64, 64, want[i][e], 4)));
    }
  }
}
