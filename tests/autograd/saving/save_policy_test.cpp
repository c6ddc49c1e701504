// Slots that hold a tensor in another form: offload, bit mask, invert. Memory, equal gradients,
// second derivatives.
#include <cmath>
#include <functional>

#include "warptape/autograd/custom.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/saved_by_rule.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/kernels/bit_mask.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/variants.h"

using namespace wt;
using wt_test::kernel_devices;

namespace {

using Values = std::vector<double>;
Values values(const Tensor& t) { return t.to_vector<double>(); }

Tensor model(const Tensor& x, const Tensor& w) {
  return mul(tanh(matmul(relu(matmul(x, w)), w)), exp(mul(x, 0.1)));
}

// First derivatives, and the derivative of their sum of squares.
std::vector<Values> derivatives(const Tensor& x, const Tensor& w, SavePolicy p) {
  Tensor y;
  {
    const SaveScope scope(p);
    y = model(x, w);
  }
  const std::vector<Tensor> first = grads({y.sum()}, {x, w}, {.create_graph = true});
  const std::vector<Tensor> second =
      grads({add(square(first[0]).sum(), square(first[1]).sum())}, {x, w}, {.retain_graph = true});
  const std::vector<Tensor> plain = grads({y.sum()}, {x, w});
  return {values(first[0]),  values(first[1]), values(second[0]),
          values(second[1]), values(plain[0]), values(plain[1])};
}

i64 live(Device d) { return memory::stats(d).live; }

}  // namespace

TEST_CASE("save policies: derivatives are the same bits as with keep") {
  for (const Device d : kernel_devices())
    for (const SavePolicy p :
         {SavePolicy::offload, SavePolicy::bit_mask, SavePolicy::recompute, SavePolicy::invert}) {
      CAPTURE(to_string(d), int(p));
      const LeakGuard guard;
      manual_seed(4);
      const Tensor x = randn({5, 8}).to(d).set_requires_grad();
      const Tensor w = randn({8, 8}).to(d).set_requires_grad();
      CHECK(derivatives(x, w, p) == derivatives(x, w, SavePolicy::keep));
    }
}

TEST_CASE("save policies: scopes nest and end") {
  CHECK(mode.save == SavePolicy::keep);
  {
    const SaveScope outer(SavePolicy::offload);
    {
      const SaveScope inner(SavePolicy::keep);
      CHECK(mode.save == SavePolicy::keep);
    }
    CHECK(mode.save == SavePolicy::offload);
    CHECK((mode.slow & kSlowSaving) != 0);
  }
  CHECK((mode.slow & kSlowSaving) == 0);
}

TEST_CASE("offload: a device holds nothing for backward, the host does") {
  for (const Device d : kernel_devices()) {
    if (d == Device::cpu()) continue;
    CAPTURE(to_string(d));
    const LeakGuard guard;
    const Tensor x = rand({64, 64}).to(d).set_requires_grad();
    const i64 one = 64 * 64 * 4;
    const i64 device_before = live(d), host_before = live(Device::cpu());
    Tensor y;
    {
      const SaveScope scope(SavePolicy::offload);
      y = x;
      for (int i = 0; i < 4; ++i) y = tanh(y);
    }
    CHECK(live(d) - device_before == one);  // y
    CHECK(live(Device::cpu()) - host_before == 4 * one);
    Tensor kept = x;
    for (int i = 0; i < 4; ++i) kept = tanh(kept);
    CHECK(values(grad(y.sum(), x)) == values(grad(kept.sum(), x)));
  }
}

TEST_CASE("offload: on meta, what would go to the host is not the device's") {
  const LeakGuard guard;
  const Device d = Device::meta(DeviceKind::simt);
  const auto kept = [&](SavePolicy p) {
    const SaveScope scope(p);
    const Tensor w = ones({64, 64}, {.device = d, .requires_grad = true});
    const i64 before = memory::stats(d).live;
    const Tensor y = sum(square(w * 2));
    const i64 bytes = memory::stats(d).live - before;
    y.backward();
    CHECK(w.grad().shape() == Shape{64, 64});
    CHECK(w.grad().device() == d);
    return bytes;
  };
  CHECK(kept(SavePolicy::keep) - kept(SavePolicy::offload) == 64 * 64 * 4);
  // The meta device of the cpu is its own host.
  const Tensor w = ones({64}, {.device = Device::meta(), .requires_grad = true});
  const SaveScope scope(SavePolicy::offload);
  memory::reset_saved_by_rule();
  sum(square(w * 2)).backward();
  CHECK(memory::saved_by_rule()[memory::SavingRule::offload].bytes == 0);
}

TEST_CASE("offload: what two nodes save goes to the host once") {
  for (const Device d : kernel_devices()) {
    if (d == Device::cpu()) continue;
    CAPTURE(to_string(d));
    const LeakGuard guard;
    const Tensor w = rand({32, 32}).to(d).set_requires_grad(), batch = rand({32, 32}).to(d);
    const i64 one = 32 * 32 * 4, host_before = live(Device::cpu());
    const auto call = [&] {
      const Tensor y = tanh(matmul(batch, w));  // its own node saves it
      return add(mul(y, y), mul(matmul(y, w), matmul(batch, w)));
    };
    const Values want = values(grad(call().sum(), w));
    memory::reset_saved_by_rule();
    const Tensor z = [&] {
      const SaveScope scope(SavePolicy::offload);
      return call();
    }();
    // y, matmul(y, w), matmul(batch, w) and batch, which has no node and is saved by two.
    CHECK(live(Device::cpu()) - host_before == 4 * one);
    CHECK(memory::saved_by_rule()[memory::SavingRule::offload].bytes == 4 * one);
    CHECK(values(grad(z.sum(), w)) == want);
    CHECK(live(Device::cpu()) == host_before);
  }
}

TEST_CASE("offload: what was written in between, or lies elsewhere, goes to the host anew") {
  const Device d = Device::simt();
  const LeakGuard guard;
  const Tensor w = rand({16}).to(d).set_requires_grad();
  Tensor x = rand({2, 16}).to(d);
  const auto call = [&](const Tensor& a, const Tensor& b) { return sum(mul(mul(w, a), b)); };
  const Values first = values(x);
  const auto row = [](const Tensor& t, i64 i) { return t.select(0, i).clone(); };
  const Tensor a1 = row(x, 1);
  Tensor y;
  {
    const SaveScope scope(SavePolicy::offload);
    y = add(call(x.select(0, 0), a1), call(x.select(0, 1), a1));
    x.mul_(2);
    y = add(y, call(x.select(0, 0), a1));
  }
  const Values got = values(grad(y, w));
  for (size_t i = 0; i < 16; ++i)
    CHECK(std::fabs(got[i] - first[16 + i] * (first[i] * 3 + first[16 + i])) < 1e-5);
}

TEST_CASE("offload: a write after the operator does not reach the copy") {
  const Device d = Device::simt();
  const Tensor x = rand({16}).to(d).set_requires_grad();
  const Values want = values(grad(mul(tanh(x), 4).sum(), x));
  const SaveScope scope(SavePolicy::offload);
  Tensor y = tanh(x);  // saves its output: with keep, what follows is an error
  y.mul_(4);
  CHECK(values(grad(y.sum(), x)) == want);
}

TEST_CASE("bit mask: relu holds a bit an element") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const LeakGuard guard;
    const Tensor x = sub(rand({1000, 33}), 0.5).to(d).detach().set_requires_grad();
    const i64 n = x.numel(), before = live(d);
    const auto held = [&](SavePolicy p, bool in_place) {
      const SaveScope scope(p);
      Tensor h = mul(x, 2);
      if (in_place)
        h.relu_();
      else
        h = relu(h);
      const Tensor y = sum(h, 0);
      h = Tensor();
      CHECK(values(grad(y.sum(), x, {.retain_graph = true})) ==
            values(grad(sum(relu(mul(x, 2)), 0).sum(), x)));
      return live(d) - before - 33 * 4;
    };
    for (const bool in_place : {false, true}) {
      CHECK(held(SavePolicy::keep, in_place) == 4 * n);
      CHECK(held(SavePolicy::bit_mask, in_place) == (n + 7) / 8);
    }
  }
}

TEST_CASE("bit mask: gradients of NaN, infinity and zero are those of keep, leaky or not") {
  const double nan = std::nan(""), inf = INFINITY;
  for (const Device d : kernel_devices())
    for (const DType t : {f64, f32, f16, bf16}) {
      CAPTURE(to_string(d), dtype_name(t));
      const Tensor x = tensor({-1.0, 0.0, -0.0, 2.0, nan, -inf, inf, -3.0, -4.0})
                           .to(t)
                           .to(d)
                           .set_requires_grad();
      const Tensor gy = tensor({3.0, 1.0, inf, nan, 5.0, 6.0, -7.0, nan, -inf}).to(t).to(d);
      const std::vector<std::function<Tensor()>> calls{
          [&] { return relu(x); }, [&] { return leaky_relu(x, 0.01); },
          [&] { return leaky_relu(x, 0.0); }, [&] { return mul(x, 1).leaky_relu_(0.3); }};
      for (const auto& call : calls) {
        const auto gradient = [&](SavePolicy p) {
          const SaveScope scope(p);
          return values(grad(call(), x, {.grad_outputs = {gy}}));
        };
        const Values want = gradient(SavePolicy::keep), got = gradient(SavePolicy::bit_mask);
        for (size_t i = 0; i < want.size(); ++i) {
          CAPTURE(i, want[i], got[i]);
          CHECK((got[i] == want[i] || (got[i] != got[i] && want[i] != want[i])));
          CHECK(std::signbit(got[i]) == std::signbit(want[i]));
        }
      }
    }
}

TEST_CASE("bit mask: any order of memory, of the output and of the gradient") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const LeakGuard guard;
    const Tensor x = sub(rand({3, 5, 4, 7}), 0.5).to(d).detach().set_requires_grad();
    const Tensor factor = rand({3, 5, 4, 7}).to(d);
    const auto gradient = [&](SavePolicy p, bool last, bool last_gradient) {
      const SaveScope scope(p);
      const Tensor in = last ? permute(contiguous(permute(x, {0, 2, 3, 1})), {0, 3, 1, 2}) : x * 1;
      const Tensor y = relu(in);
      CHECK(y.is_contiguous() == !last);
      const Tensor gy =
          last_gradient ? permute(contiguous(permute(factor, {0, 2, 3, 1})), {0, 3, 1, 2}) : factor;
      return values(grad(y, x, {.grad_outputs = {gy}}));
    };
    for (const bool last : {false, true})
      for (const bool last_gradient : {false, true})
        CHECK(gradient(SavePolicy::bit_mask, last, last_gradient) ==
              gradient(SavePolicy::keep, last, last_gradient));
    const SaveScope scope(SavePolicy::bit_mask);  // a gradient that is one number
    CHECK(values(grad(relu(x).sum(), x)) == values(to_dtype(gt(x, 0), f32)));
    CHECK(values(grad(relu(x * 1).select(0, 1).sum(), x)) ==
          values(mul(gt(x, 0), reshape(tensor({0, 1, 0}).to(d), {3, 1, 1, 1}))));
  }
}

TEST_CASE("bit mask: backward is one kernel, in the gradient's own storage") {
  for (const Device d : kernel_devices()) {
    const LeakGuard guard;
    const Tensor x = sub(rand({64, 64}), 0.5).to(d).detach().set_requires_grad();
    const Tensor factor = rand({64, 64}).to(d);
    const auto requests = [&](SavePolicy p) {
      const SaveScope scope(p);
      const Tensor y = sum(mul(relu(mul(x, 2)), factor));
      const u64 before = memory::request_count();
      const Tensor g = grad(y, x);
      return memory::request_count() - before;
    };
    CHECK(requests(SavePolicy::bit_mask) == requests(SavePolicy::keep));
  }
}

namespace {
// A relu of a user's own: its backward reads a tensor.
struct MyRelu {
  static constexpr OpInfo info{.name = "my_relu", .sign_of_output = true};
  Tensor forward(Save& save, const Tensor& x) const {
    Tensor y = maximum(x, 0);
    save(y);
    return y;
  }
  Grads backward(const Saved& s, const Tensor& gy) const { return {mul(gy, gt(s[0], 0))}; }
};
}  // namespace

TEST_CASE("bit mask: a custom operator reads ones and zeros") {
  for (const Device d : kernel_devices()) {
    const LeakGuard guard;
    const Tensor x = sub(rand({11, 3}), 0.5).to(d).detach().set_requires_grad();
    const SaveScope scope(SavePolicy::bit_mask);
    const Tensor y = apply(MyRelu{}, x), g = grad(square(y).sum(), x, {.create_graph = true});
    CHECK(values(g) == values(mul(relu(x), 2)));
  }
}

TEST_CASE("bit mask: every variant of pack and gate, all dtypes and ragged sizes") {
  for (const Device d : kernel_devices())
    for (const DType t : {f64, f32, f16, bf16})
      for (const i64 n : {0, 1, 7, 8, 31, 33, 300, 70001}) {
        if (n > 1000 && d != Device::cpu()) continue;  // threads of the cpu
        CAPTURE(to_string(d), dtype_name(t), n);
        Values v = wt_test::random_values(n, 7);
        for (size_t i = 0; i < v.size(); i += 5) v[i] = 0;
        const Tensor x = tensor(v).reshape({n}).to(t).to(d);
        Tensor bits = full({(n + 7) / 8}, 255, {.dtype = DType::u8}).to(d);
        std::vector<u8> want(size_t((n + 7) / 8));
        for (i64 i = 0; i < n; ++i) want[size_t(i / 8)] |= u8(u8(v[size_t(i)] > 0) << i % 8);
        wt_test::for_each_variant(d, BitPackArgs{wt_test::view(bits), wt_test::view(x)}, [&] {
          CHECK(bits.to_vector<u8>() == want);
          bits.fill_(255);
        });
        wt_test::for_each_variant(
            d, BitPackArgs{wt_test::view(bits), wt_test::view(x), 0.25, false}, [&] {
              const std::vector<u8> got = bits.to_vector<u8>();
              const Values rounded = values(x);
              bool right = true;
              for (i64 i = 0; i < (n + 7) / 8 * 8; ++i)
                right &= (got[size_t(i / 8)] >> i % 8 & 1) ==
                         (i < n && rounded[size_t(i)] > 0.25 ? 1 : 0);
              CHECK(right);
            });
        run(BitPackArgs{wt_test::view(bits), wt_test::view(x)}, Launch{.device = d});
        const Tensor gy = tensor(wt_test::random_values(n, 8)).reshape({n}).to(t).to(d);
        for (const bool leaky : {false, true}) {
          const Values passing = values(gy), scaled = values(mul(gy, leaky ? 0.3 : 0));
          Tensor out = full({n}, 9, {.dtype = t}).to(d);
          const BitGateArgs args{wt_test::view(out), wt_test::view(gy), wt_test::view(bits), leaky,
                                 0.3};
          wt_test::for_each_variant(d, args, [&] {
            const Values got = values(out);
            bool right = true;
            for (size_t i = 0; i < size_t(n); ++i)
              right &= got[i] == (v[i] > 0 ? passing[i] : scaled[i]);
            CHECK(right);
            out.fill_(9);
          });
        }
      }
}

namespace {

// Leaky relu of slope 1/2: exactly undone in floating point.
struct Leaky {
  static constexpr OpInfo info{.name = "leaky", .derivative = Derivative::piecewise};
  static inline int inversions = 0;
  Tensor forward(Save& save, const Tensor& x) const {
    save(x);
    return where(gt(x, 0), x, mul(x, 0.5));
  }
  Tensor invert(const Tensor& y) const {
    ++inversions;
    return where(gt(y, 0), y, mul(y, 2));
  }
  Grads backward(const Saved& s, const Tensor& gy) const {
    return {where(gt(s[0], 0), gy, mul(gy, 0.5))};
  }
};

// y = x^3, with a second derivative that needs the saved input's place in the graph.
struct Cube {
  static constexpr OpInfo info{.name = "cube"};
  Tensor forward(Save& save, const Tensor& x) const {
    save(x);
    return mul(mul(x, x), x);
  }
  Tensor invert(const Tensor& y) const { return pow(y, 1.0 / 3); }
  Grads backward(const Saved& s, const Tensor& gy) const { return {mul(gy, mul(square(s[0]), 3))}; }
};

}  // namespace

TEST_CASE("invert: the input is given up and comes back from the output") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const LeakGuard guard;
    const Tensor x = sub(rand({32, 32}), 0.5).to(d).detach().set_requires_grad();
    const auto held = [&](SavePolicy p) {
      const SaveScope scope(p);
      const i64 before = live(d);
      const Tensor y = apply(Leaky{}, apply(Leaky{}, add(x, 0)));
      const i64 bytes = live(d) - before;
      Leaky::inversions = 0;
      const Values g = values(grad(y.sum(), x));
      return std::pair(bytes, g);
    };
    const auto [kept, g] = held(SavePolicy::keep);
    CHECK(Leaky::inversions == 0);
    const auto [inverted, same] = held(SavePolicy::invert);
    CHECK(Leaky::inversions == 2);
    CHECK(kept == 3 * 4096);      // both inputs and the output
    CHECK(inverted == 2 * 4096);  // both outputs
    CHECK(g == same);
  }
}

namespace {
// Saves as much as a node holds: there is no slot left for the output.
struct Crowded {
  static constexpr OpInfo info{.name = "crowded"};
  Tensor forward(Save& save, const Tensor& x) const {
    save(x);
    for (int k = 1; k < 8; ++k) save(mul(x, k));
    return mul(x, 2);
  }
  Tensor invert(const Tensor& y) const { return mul(y, 0.5); }
  Grads backward(const Saved& s, const Tensor& gy) const { return {mul(gy, add(s[0], s[7]))}; }
};
}  // namespace

TEST_CASE("invert: an operator without room for its output keeps its input") {
  const LeakGuard guard;
  const Tensor x = tensor({2.0, 3.0}, {.dtype = f64, .requires_grad = true});
  for (const SavePolicy p : {SavePolicy::keep, SavePolicy::invert}) {
    const SaveScope scope(p);
    const Tensor y = apply(Crowded{}, add(x, 0));
    CHECK(values(grad(y.sum(), x)) == Values{16, 24});
  }
}

TEST_CASE("invert: second derivatives go through the recovered input") {
  const LeakGuard guard;
  const Tensor x = tensor({2.0, 3.0}, {.dtype = f64, .requires_grad = true});
  const SaveScope scope(SavePolicy::invert);
  const Tensor y = apply(Cube{}, mul(x, 1));
  const Tensor g = grad(y.sum(), x, {.create_graph = true});
  const Values h = values(grad(g.sum(), x));
  for (int i = 0; i < 2; ++i) CHECK(std::fabs(h[size_t(i)] - 6 * (i + 2)) < 1e-12 * 20);
}

TEST_CASE("save policies: memory that is not there for a policy leaves the tensor kept") {
  const LeakGuard guard;
  const Tensor x = sub(rand({256}), 0.5).detach().set_requires_grad();
  const Values want = values(grad(relu(x).sum(), x));
  const SaveScope scope(SavePolicy::bit_mask);
  for (u64 n = 1; n <= 4; ++n) {
    memory::fail_nth_request(n);
    Tensor y;
    try {
      y = relu(x);
    } catch (const OutOfMemory&) {}
    memory::fail_nth_request(0);
    if (n > 1) REQUIRE(y.defined());  // only the output itself may fail
    if (y.defined()) CHECK(values(grad(y.sum(), x)) == want);
  }
}
