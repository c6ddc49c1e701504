// Autocast: the dtype of every operator by its class, gradients of f32 leaves, the cache of casts.
#include "warptape/autograd/autocast.h"

#include <map>

#include "warptape/autograd/backward.h"
#include "warptape/autograd/custom.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/op_list.h"
#include "warptape/autograd/ops/index.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/tests/op_cases/op_case.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;

namespace {

using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }

// Inputs of a sample of the case table, values of dtype t.
std::vector<Tensor> inputs(const wt_test::Sample& s, DType t) {
  std::vector<Tensor> in;
  for (const wt_test::Input& i : s.inputs) {
    const bool index = i.role == wt_test::Role::index;
    Tensor x = rand(i.shape, {.dtype = f32});
    x = add(mul(x, (i.high - i.low) * 0.9), i.low + 0.05 * (i.high - i.low));
    if (!i.values.empty()) x = tensor(i.values).reshape(i.shape);
    in.push_back(x.to(index ? DType::i64 : i.role == wt_test::Role::truth ? DType::boolean : t));
  }
  return in;
}

// Looks at what its backward computes in.
struct Probe {
  static constexpr OpInfo info{.name = "probe"};
  Tensor forward(Save&, const Tensor& x) const { return mul(x, 2); }
  Grads backward(const Saved&, const Tensor& gy) const {
    CHECK(matmul(gy, gy).dtype() == f32);
    return {mul(gy, 2)};
  }
};

}  // namespace

TEST_CASE("autocast: every operator of a class gives that class's dtype") {
  std::map<std::string, const OpInfo*> infos;
  for (const OpInfo* i : all_ops()) infos[i->name] = i;
  std::map<Autocast, int> tried;
  for (const wt_test::OpCase& c : wt_test::op_cases()) {
    REQUIRE(infos.count(c.name));
    const OpInfo& info = *infos[c.name];
    if (info.in_place || c.samples.empty()) continue;
    const bool floats = std::find(c.dtypes.begin(), c.dtypes.end(), f32) != c.dtypes.end();
    if (!floats || c.result == wt_test::ResultType::boolean ||
        c.result == wt_test::ResultType::i64 || c.samples[0].result)
      continue;
    for (const DType given : {f32, bf16, f64}) {
      if (std::find(c.dtypes.begin(), c.dtypes.end(), given) == c.dtypes.end()) continue;
      CAPTURE(c.name, dtype_name(given));
      const AutocastScope autocast(DType::bf16);
      const std::vector<Tensor> in = inputs(c.samples[0], given);
      DType want = given;
      if (given != f64 && info.autocast == Autocast::lower) want = bf16;
      if (given != f64 && info.autocast == Autocast::f32) want = f32;
      // A loss sums in f32 whatever it is given.
      if (c.result == wt_test::ResultType::loss && given != f64) want = f32;
      if (c.name == "to_dtype") continue;  // says itself
      CHECK(c.samples[0].call(in).dtype() == want);
      ++tried[info.autocast];
    }
  }
  CHECK(tried[Autocast::lower] >= 4);
  CHECK(tried[Autocast::f32] >= 10);
  CHECK(tried[Autocast::none] >= 10);
}

// 16-bit operands of hundreds, whose exponentials, squares, products and sums pass 65504.
TEST_CASE("autocast: no operator of class f32 overflows where f32 does not") {
  std::map<std::string, const OpInfo*> infos;
  for (const OpInfo* i : all_ops()) infos[i->name] = i;
  std::map<std::string, int> tried;
  int would_overflow = 0;
  for (const wt_test::OpCase& c : wt_test::op_cases()) {
    const OpInfo& info = *infos[c.name];
    const bool half = std::find(c.dtypes.begin(), c.dtypes.end(), f16) != c.dtypes.end();
    if (info.autocast != Autocast::f32 || info.in_place || !half) continue;
    for (const wt_test::Sample& s : c.samples) {
      // Of what an operator returns; this sample returns what it writes.
      if (s.result || s.label.starts_with("running statistics")) continue;
      std::vector<Tensor> in = inputs(s, f16);
      bool large = false;
      for (size_t k = 0; k < in.size(); ++k) {
        const wt_test::Input& i = s.inputs[k];
        // Where the operator takes any number.
        if (i.role == wt_test::Role::value && i.values.empty() && i.low < 0 && i.high > 0) {
          in[k] = mul(in[k], 300 / std::max(-i.low, i.high));
          large = true;
        }
      }
      if (!large) continue;
      CAPTURE(c.name, s.label);
      std::vector<Tensor> wide;
      for (const Tensor& x : in) wide.push_back(is_half(x.dtype()) ? x.to(f32) : x);
      const Values want = values(s.call(wide));
      Tensor y;
      {
        const AutocastScope autocast(DType::f16);
        y = s.call(in);
      }
      CHECK(y.dtype() == f32);
      const Values got = values(y);
      REQUIRE(got.size() == want.size());
      for (size_t i = 0; i < want.size(); ++i) {
        CHECK((got[i] == want[i] || (got[i] != got[i] && want[i] != want[i])));
        would_overflow += std::isfinite(want[i]) && std::fabs(want[i]) > 65504;
      }
      ++tried[c.name];
    }
  }
  CHECK(tried.size() >= 20);
  CHECK(would_overflow > 0);
}

TEST_CASE("autocast: a cast keeps the order in memory, and so does its gradient") {
  for (const Device d : wt_test::kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor pictures = contiguous(arange(0, 120).to(DType::f32).reshape({2, 3, 4, 5}).to(d),
                                       MemoryFormat::channels_last);
    const Tensor turned = arange(0, 24).to(DType::f32).reshape({2, 3, 4}).to(d).transpose(0, 2);
    for (const Tensor& x : {pictures, turned}) {
      const Tensor leaf = x.detach().set_requires_grad();
      const Tensor y = to_dtype(leaf, DType::f16);
      CHECK(y.strides() == x.strides());
      CHECK(values(y) == values(x));
      const Tensor g = grad(sum(square(y)), leaf);
      CHECK(g.strides() == x.strides());
      CHECK(values(g) == values(2 * x));
    }
    const Tensor part = slice(pictures, 3, {1, 4});  // with gaps: without them
    CHECK(values(to_dtype(part, DType::f16)) == values(part));
  }
}

TEST_CASE("autocast: promote takes the widest, f16 with bf16 meets in f32") {
  const AutocastScope autocast(DType::f16);
  const Tensor half = ones({3}, {.dtype = f16}), brain = ones({3}, {.dtype = bf16}),
               single = ones({3}, {.dtype = f32});
  CHECK(add(half, single).dtype() == f32);
  CHECK(add(half, half).dtype() == f16);
  CHECK(add(half, brain).dtype() == f32);
  const Tensor loss = mse_loss(half, single).mean();
  CHECK(loss.dtype() == f32);
  CHECK(matmul(half, single).dtype() == f16);  // without autocast: operands differ in dtype
  const AutocastScope off(DType::f16, false);
  CHECK_THROWS_AS((void)matmul(half, single), DtypeError);
}

TEST_CASE("autocast: f32 leaves get f32 gradients, on every device, and second derivatives") {
  for (const Device d : wt_test::kernel_devices()) {
    CAPTURE(to_string(d));
    const LeakGuard guard;
    manual_seed(1);
    // Multiples of 1/8: products and sums are exact in bf16's 8 bits for so few terms.
    const auto eighths = [&](const Shape& s) {
      return mul(randint(-3, 4, s).to(f32), 0.125).to(d).detach().set_requires_grad();
    };
    const Tensor x = eighths({2, 3}), w = eighths({3, 2});
    const auto f = [&] { return square(matmul(x, w)).sum(); };
    Tensor y;
    {
      const AutocastScope autocast(DType::bf16);
      CHECK(matmul(x, w).dtype() == bf16);
      y = f();
      CHECK(y.dtype() == f32);  // a sum
    }
    const std::vector<Tensor> g = grads({y}, {x, w}, {.create_graph = true});
    CHECK(g[0].dtype() == f32);
    CHECK(g[1].dtype() == f32);
    const Tensor h = grad(square(g[0]).sum(), w);
    CHECK(h.dtype() == f32);
    const std::vector<Tensor> exact = grads({f()}, {x, w}, {.create_graph = true});
    const Values want = values(grad(square(exact[0]).sum(), w)), got = values(h);
    double largest = 0;
    for (const double v : want) largest = std::max(largest, std::fabs(v));
    REQUIRE(largest > 0);
    for (size_t i = 0; i < want.size(); ++i)
      CHECK(std::fabs(got[i] - want[i]) <= 8 * 0x1p-8 * largest);
    CHECK(values(g[1]) == values(exact[1]));
  }
}

TEST_CASE("autocast: scopes nest, switch off and end") {
  const Tensor a = ones({2, 2});
  CHECK(matmul(a, a).dtype() == f32);
  {
    const AutocastScope outer(DType::f16);
    CHECK(matmul(a, a).dtype() == f16);
    {
      const AutocastScope off(DType::f16, false);
      CHECK(matmul(a, a).dtype() == f32);
      const AutocastScope brain(DType::bf16);
      CHECK(matmul(a, a).dtype() == bf16);
    }
    CHECK(matmul(a, a).dtype() == f16);
  }
  CHECK(matmul(a, a).dtype() == f32);
  CHECK((mode.slow & kSlowAutocast) == 0);
  CHECK_THROWS_AS(AutocastScope(DType::f32), DtypeError);
}

TEST_CASE("autocast: backward inside the scope does not cast") {
  const Tensor x = ones({2, 2}, {.requires_grad = true});
  const AutocastScope autocast(DType::bf16);
  apply(Probe{}, x).sum().backward();
  CHECK(values(x.grad()) == Values(4, 2));
}

TEST_CASE("autocast: a leaf is cast once a scope, and again when it was written") {
  const LeakGuard guard;
  Tensor w = ones({16, 16}, {.requires_grad = true});
  const Tensor x = ones({4, 16}, {.dtype = bf16});
  const AutocastScope autocast(DType::bf16);
  const auto requests = [&](bool again) {
    const u64 before = memory::request_count();
    const Tensor y = matmul(x, w);
    CHECK(values(y)[0] == (again ? 32 : 16));
    return memory::request_count() - before;
  };
  const u64 first = requests(false), second = requests(false);
  CHECK(first == second + 1);
  {
    const NoGrad no_grad;
    w.add_(w);
  }
  CHECK(requests(true) == first);
  CHECK(requests(true) == second);
  // Backward twice within the scope: the cached cast still leads to the leaf.
  for (int i = 0; i < 2; ++i) {
    w.zero_grad();
    matmul(x, w).to(f32).sum().backward();
    CHECK(values(w.grad())[0] == 4);
    CHECK(w.grad().dtype() == f32);
  }
  // A cast made without recording has no way back.
  Tensor v = ones({16, 16}, {.requires_grad = true});
  {
    const NoGrad no_grad;
    (void)matmul(x, v);
  }
  matmul(x, v).to(f32).sum().backward();
  CHECK(values(v.grad())[0] == 4);
}

TEST_CASE("autocast: f64 stays, integers stay, an operator that throws changes nothing") {
  const AutocastScope autocast(DType::f16);
  const Tensor d = ones({2, 2}, {.dtype = f64});
  CHECK(matmul(d, d).dtype() == f64);
  const Tensor i = ones({2, 2}, {.dtype = DType::i64});
  CHECK(matmul(i, i).dtype() == DType::i64);
  Tensor a = ones({2, 3});
  CHECK_THROWS_AS((void)matmul(std::move(a), ones({2, 3})), ShapeError);
  REQUIRE(a.defined());
  CHECK(a.dtype() == f32);
}
