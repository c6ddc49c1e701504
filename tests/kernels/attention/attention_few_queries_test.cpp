// Attention of a few queries on the cpu: every length, dtype and mask against the reference, in
// every instruction set and on threads, and what must not be read.
#include <limits>
#include <string>
#include <vector>

#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/core/device.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/kernels/attention.h"
#include "warptape/kernels/cpu/isa.h"
#include "warptape/kernels/run.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {

struct Attended {
  Tensor q, k, v, mask;
  bool causal = false;
};

Values attended_by(const char* variant, const Attended& x) {
  const VariantScope use("attention_forward", variant);
  const AttentionOptions o{.causal = x.causal, .scale = 0.7, .enable_gqa = true};
  return values(x.mask.defined() ? scaled_dot_product_attention(x.q, x.k, x.v, x.mask, o)
                                 : scaled_dot_product_attention(x.q, x.k, x.v, o));
}

// Two batches, four heads of queries and two of keys that are a part of a longer cache; queries lie
// as a model splits them.
Attended drawn(DType t, i64 queries, i64 keys, i64 depth, i64 width) {
  Attended x;
  x.q = randn({2, queries, 4, depth}).to(t).transpose(1, 2);
  x.k = randn({2, 2, keys + 3, depth}).to(t).slice(2, {0, keys});
  x.v = randn({2, 2, keys + 3, width}).to(t).slice(2, {0, keys});
  return x;
}

void check_same(const Attended& x) {
  const Values got = attended_by("few_queries", x), want = attended_by("reference", x);
  REQUIRE(got.size() == want.size());
  const DType t = x.q.dtype();
  const double one = t == DType::f32   ? std::ldexp(1, -24)
                     : t == DType::f16 ? std::ldexp(1, -11)
                                       : std::ldexp(1, -8);
  size_t wrong = 0;
  // Of averages of numbers below 5: one rounding of the result, and f32's of the sums.
  for (size_t i = 0; i < want.size(); ++i)
    wrong += !(std::abs(got[i] - want[i]) <= 2 * one * std::abs(want[i]) + 5e-6);
  CHECK(wrong == 0);
}

struct MachineScope {
  const int isa = cpu_isa(), threads = num_threads();
  ~MachineScope() {
    cpu_isa_in_use = isa;
    set_num_threads(threads);
  }
};

}  // namespace

TEST_CASE("attention of few queries: the reference's numbers in every copy") {
  const MachineScope machine;
  manual_seed(3);
  for (const DType t : {DType::f32, DType::f16, DType::bf16})
    for (i64 queries = 1; queries <= 4; ++queries)
      for (const i64 keys : {1, 5, 37, 300}) {
        Attended x = drawn(t, queries, keys, queries % 2 ? 24 : 33, queries % 2 ? 33 : 64);
        const Tensor seen = gt(rand({2, 1, queries, keys}), 0.3);
        for (int kind = 0; kind < 4; ++kind) {
          x.causal = kind == 1;
          x.mask = kind == 2 ? seen : Tensor();
          if (kind == 3) x.mask = where(seen, randn({2, 4, queries, keys}), -INFINITY).to(t);
          for (int isa = 0; isa <= machine.isa; ++isa) {
            CAPTURE(dtype_name(t), queries, keys, kind, isa);
            cpu_isa_in_use = isa;
            set_num_threads(isa == machine.isa ? 3 : 1);
            check_same(x);
          }
        }
      }
}

TEST_CASE(
    "attention of few queries: what is masked is not read, and a query without keys is zeros") {
  const double odd =
      GENERATE(std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity());
  for (const DType t : {DType::f32, DType::bf16}) {
    Attended x = drawn(t, 2, 40, 16, 16);
    x.mask = lt(arange(40), 30).expand({2, 4, 2, 40}).contiguous();
    x.mask.select(2, 1).select(0, 1).fill_(false);
    const Values want = attended_by("reference", x);
    x.k.slice(2, {30, 40}).fill_(odd);
    x.v.slice(2, {30, 40}).fill_(odd);
    CAPTURE(dtype_name(t), odd);
    check_same(x);
    const Values got = attended_by("few_queries", x);
    for (const double y : got) CHECK(std::isfinite(y));
    // The second batch's second query, of each of its heads.
    for (size_t h = 4; h < 8; ++h)
      for (size_t e = 0; e < 16; ++e) CHECK(got[(h * 2 + 1) * 16 + e] == 0);
  }
}

TEST_CASE("attention of few queries: gradients go through what it saves") {
  manual_seed(4);
  const auto gradients = [](const char* variant, Attended x) {
    for (Tensor* t : {&x.q, &x.k, &x.v}) *t = t->detach().requires_grad_();
    const VariantScope use("attention_forward", variant);
    const Tensor y = scaled_dot_product_attention(x.q, x.k, x.v, {.causal = true});
    Values all;
    for (const Tensor& g : grads((y * y).sum(), {x.q, x.k, x.v}))
      for (const double v : values(g)) all.push_back(v);
    return all;
  };
  Attended x = drawn(DType::f32, 3, 50, 24, 24);
  x.k = x.k.repeat_interleave(2, 1), x.v = x.v.repeat_interleave(2, 1);
  const Values got = gradients("few_queries", x), want = gradients("reference", x);
  size_t wrong = 0;
  for (size_t i = 0; i < want.size(); ++i) wrong += !(std::abs(got[i] - want[i]) <= 1e-4);
  CHECK(wrong == 0);
}

TEST_CASE("attention of few queries: takes what a model that writes a token asks for") {
  const auto chosen = [](i64 queries, DType t, double dropout) {
    const Tensor x = ones({1, 2, queries, 64}, {.dtype = t}), y = ones({1, 2, 8, 64}, {.dtype = t});
    AttentionForwardArgs a;
    const Tensor out = empty_like(x);
    a.out = view_of(out.impl()), a.v = view_of(y.impl());
    a.scores.q = view_of(x.impl()), a.scores.k = view_of(y.impl());
    a.scores.threshold = dropout > 0 ? 1 : 0;
    return std::string(choose(a, Device::cpu()).name);
  };
  for (const DType t : {DType::f32, DType::f16, DType::bf16}) {
    CHECK(chosen(1, t, 0) == "few_queries");
    CHECK(chosen(4, t, 0) == "few_queries");
    CHECK(chosen(5, t, 0) != "few_queries");
    CHECK(chosen(1, t, 0.5) != "few_queries");
  }
  CHECK(chosen(1, DType::f64, 0) != "few_queries");
}
