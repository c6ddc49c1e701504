// Attention beside what its row in op_cases shows: devices beside each other, memory,
// threads, equal bits, masks that want gradients, shapes beyond 2^31 scores.
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/attention.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/device.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/tests/support/variants.h"
#include "warptape/tests/tolerance.h"

using namespace wt_test;

namespace {

Tensor leaf(const Shape& s, u64 seed, Device d = {}, DType t = f32) {
  return to_tensor(random_values(numel_of(s), seed), s, t, d).set_requires_grad();
}
struct Run {
  std::vector<std::vector<double>> values;  // the output and the gradients
};
Run run_attention(const Shape& q, const Shape& k, const Shape& v, const AttentionOptions& o,
                  Device d) {
  manual_seed(5);
  const std::vector<Tensor> in{leaf(q, 1, d), leaf(k, 2, d), leaf(v, 3, d)};
  const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], o);
  const Tensor weights = to_tensor(random_values(y.numel(), 4), y.shape(), f32, d);
  Run r{{to_doubles(y)}};
  for (const Tensor& g : grads({&y, 1}, in, {.grad_outputs = {weights}}))
    r.values.push_back(to_doubles(g));
  return r;
}

}  // namespace

TEST_CASE("attention: every device follows the cpu, dropout's choices included") {
  for (Device d : operator_devices())
    for (const AttentionOptions& o :
         {AttentionOptions{}, AttentionOptions{.causal = true, .dropout_p = 0.25},
          AttentionOptions{.scale = 0.5, .enable_gqa = true}}) {
      CAPTURE(device_kind_name(d.kind), o.causal, o.enable_gqa);
      const Shape k = o.enable_gqa ? Shape{2, 1, 9, 4} : Shape{2, 2, 9, 4};
      const Run got = run_attention({2, 2, 7, 4}, k, k, o, d);
      const Run want = run_attention({2, 2, 7, 4}, k, k, o, Device::cpu());
      for (size_t i = 0; i < want.values.size(); ++i) {
        REQUIRE(got.values[i].size() == want.values[i].size());
        for (size_t e = 0; e < want.values[i].size(); ++e)
          CHECK(close(got.values[i][e], want.values[i][e], gradient_bound(f32, 32, 1, 1)));
      }
    }
}

TEST_CASE("attention: one and two threads give the same bits") {
  const int before = num_threads();
  const auto both = [&](int threads) {
    set_num_threads(threads);
    return run_attention({2, 4, 130, 16}, {2, 2, 150, 16}, {2, 2, 150, 16},
                         {.causal = true, .enable_gqa = true}, Device::cpu());
  };
  const Run one = both(1), two = both(2);
  set_num_threads(before);
  CHECK(one.values == two.values);
}

TEST_CASE("attention: a second run has the bits of the first") {
  for (Device d : operator_devices())
    for (const char* rung : {"flash", "naive"}) {
      if (d.kind == DeviceKind::cpu) continue;  // its threads are above
      CAPTURE(device_kind_name(d.kind), rung);
      const VariantScope forward("attention_forward", rung), backward("attention_backward", rung);
      const auto run = [&] {
        return run_attention({1, 4, 35, 40}, {1, 2, 37, 40}, {1, 2, 37, 40},
                             {.causal = true, .dropout_p = 0.25, .enable_gqa = true}, d);
      };
      CHECK(run().values == run().values);
    }
}

TEST_CASE("attention: memory grows with the rows, not with the pairs") {
  const i64 n = 512;
  const Shape s{1, 1, n, 8};
  const Tensor q = leaf(s, 1), k = leaf(s, 2), v = leaf(s, 3);
  memory::reset_peak(Device::cpu());
  const i64 start = memory::stats(Device::cpu()).live;
  scaled_dot_product_attention(q, k, v).sum().backward();
  const i64 most = memory::stats(Device::cpu()).peak - start;
  CHECK(most < n * n * 4 / 2);  // one matrix of scores alone would be n * n floats
}

TEST_CASE("attention: a query without any key gives zeros and no gradient") {
  for (Device d : operator_devices()) {
    CAPTURE(device_kind_name(d.kind));
    const Tensor q = leaf({3, 4}, 1, d), k = leaf({5, 4}, 2, d), v = leaf({5, 2}, 3, d);
    std::vector<u8> bits(15, 1);
    for (int j = 0; j < 5; ++j) bits[5 + j] = 0;
    const Tensor seen = ne(to_tensor({bits.begin(), bits.end()}, {3, 5}, f32, d), 0);
    const Tensor y = scaled_dot_product_attention(q, k, v, seen);
    const std::vector<double> out = to_doubles(y);
    CHECK(out[2] == 0);
    CHECK(out[3] == 0);
    CHECK(std::fabs(out[0]) > 0);
    const auto g = grads({&y, 1}, std::vector<Tensor>{q, k, v},
                         {.grad_outputs = {ones({3, 2}, {.device = d})}});
    const std::vector<double> gq = to_doubles(g[0]);
    for (int e = 4; e < 8; ++e) CHECK(gq[size_t(e)] == 0);
    for (const Tensor& t : g)
      for (double x : to_doubles(t)) CHECK(std::isfinite(x));
  }
}

TEST_CASE("attention: an added mask may want a gradient") {
  const Tensor q = leaf({2, 3, 4}, 1), k = leaf({2, 5, 4}, 2), v = leaf({2, 5, 2}, 3);
  const Tensor mask = leaf({3, 5}, 4);
  const Tensor y = scaled_dot_product_attention(q, k, v, mask);
  const Tensor fixed = scaled_dot_product_attention(q, k, v, mask.detach());
  const std::vector<double> a = to_doubles(y), b = to_doubles(fixed);
  for (size_t i = 0; i < a.size(); ++i) CHECK(close(a[i], b[i], gradient_bound(f32, 24, 1, 1)));
  const auto g = grads({&y, 1}, std::vector<Tensor>{mask, q}, {.grad_outputs = {ones(y.shape())}});
  double rows = 0, size = 0;  // shifting a row of scores changes nothing: its gradients add up to 0
  const std::vector<double> gm = to_doubles(g[0]);
  for (int i = 0; i < 3; ++i) {
    double sum = 0;
    for (int j = 0; j < 5; ++j)
      sum += gm[size_t(i * 5 + j)], size += std::fabs(gm[size_t(i * 5 + j)]);
    rows += std::fabs(sum);
  }
  CHECK(size > 0.01);
  CHECK(rows < 1e-5 * size);
}

TEST_CASE("attention: more than 2^31 pairs are a shape like any other") {
  const Device meta = Device::meta(DeviceKind::cpu);
  const Tensor q = empty({2, 3, 40000, 8}, {.device = meta}).set_requires_grad();
  const Tensor k = empty({2, 3, 50000, 8}, {.device = meta});
  const Tensor y = scaled_dot_product_attention(q, k, k, {.causal = true});
  CHECK(y.shape() == Shape{2, 3, 40000, 8});
  y.sum().backward();
  CHECK(q.grad().shape() == q.shape());
}

TEST_CASE("attention: NaN in a key reaches the queries that see it") {
  const Tensor q = leaf({3, 4}, 1), v = leaf({3, 2}, 3);
  std::vector<double> key = random_values(12, 2);
  key[4] = NAN;  // of key 1
  const Tensor k = to_tensor(key, {3, 4}, f32, {});
  const std::vector<double> y = to_doubles(scaled_dot_product_attention(q, k, v, {.causal = true}));
  CHECK(std::isfinite(y[0]));
  CHECK(std::isnan(y[2]));
  CHECK(std::isnan(y[4]));
}

TEST_CASE("attention: heads that are neighbours in a row come back so, without a copy") {
  // [B, L, 3 * H * E], cut and turned as a transformer does.
  const i64 b = 2, l = 70, h = 3, e = 5;
  const Tensor qkv = leaf({b, l, 3 * h * e}, 7);
  const auto heads = [&](const Tensor& t, i64 i) {
    const Tensor part = slice(t, 2, {i * h * e, (i + 1) * h * e});
    return transpose(reshape(part, {b, l, h, e}), 1, 2);
  };
  const AttentionOptions causal{.causal = true};
  const Tensor y =
      scaled_dot_product_attention(heads(qkv, 0), heads(qkv, 1), heads(qkv, 2), causal);
  CHECK(y.shape() == Shape{b, h, l, e});
  const Tensor rows = reshape(transpose(y, 1, 2), {b, l, h * e});
  CHECK(rows.impl()->storage == y.impl()->storage);
  const Tensor weights = to_tensor(random_values(y.numel(), 8), rows.shape(), f32, {});
  sum(rows * weights).backward();

  // The same from operands of their own.
  std::vector<Tensor> own;
  for (i64 i = 0; i < 3; ++i) own.push_back(detach(heads(qkv, i)).contiguous().set_requires_grad());
  const Tensor z = scaled_dot_product_attention(own[0], own[1], own[2], causal);
  sum(reshape(transpose(z, 1, 2), {b, l, h * e}) * weights).backward();
  CHECK(to_doubles(y) == to_doubles(z));
  for (i64 i = 0; i < 3; ++i)
    CHECK(to_doubles(heads(qkv.grad(), i)) == to_doubles(own[size_t(i)].grad()));
}
