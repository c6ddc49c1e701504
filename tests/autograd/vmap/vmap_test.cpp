// vmap(): what it gives, how often it launches, and what it refuses. That every operator gives
// under it what it gives one by one is tests/op_cases/vmap_rows_test.cpp.
#include "warptape/autograd/vmap.h"

#include <thread>

#include "warptape/autograd/checkpoint.h"
#include "warptape/autograd/compare.h"
#include "warptape/autograd/functional.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops.h"
#include "warptape/autograd/save_policy.h"
#include "warptape/core/factories.h"
#include "warptape/core/operators.h"
#include "warptape/core/profiler.h"
#include "warptape/core/warning.h"
#include "warptape/kernels/run.h"
#include "warptape/nn/functional_call.h"
#include "warptape/nn/linear.h"
#include "warptape/tests/simt/unit_rows.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using wt_test::kernel_devices;

namespace {

bool near(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && allclose(a, b, {.rtol = 1e-10, .atol = 1e-10});
}
Tensor rows(i64 n, i64 m, Device d = Device::cpu()) {
  return (linspace(-2, 3, n * m, {.dtype = f64}).view({n, m}) * 0.7).to(d);
}
Tensor inner(const Tensor& a, const Tensor& b) { return sum(a * b); }

std::vector<std::string> told;
void note(std::string_view line) noexcept { told.emplace_back(line); }
struct Told {
  WarningHandler before = set_warning_handler(note);
  Told() {
    told.clear();
    detail::forget_warnings();
  }
  ~Told() { set_warning_handler(before); }
};

i64 launches(const std::function<void()>& f) {
  struct Counter : profiler::Observer {
    i64 kernels = 0;
    void begin(const profiler::Range& r) noexcept override {
      kernels += r.kind == profiler::Kind::kernel;
    }
  } counter;
  const profiler::ObserverScope scope(counter);
  f();
  return counter.kernels;
}

}  // namespace

TEST_CASE("vmap: inputs that are mapped, inputs that are not, and where slices are joined") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor x = rows(4, 3, d), y = rows(4, 3, d) + 1, w = rows(1, 3, d)[0];
    const LeakGuard guard;
    CHECK(near(vmap(inner)(x, y), sum(x * y, {1})));
    CHECK(near(vmap(inner, {.in_dims = {1, 1}})(x, y), sum(x * y, {0})));
    CHECK(near(vmap(inner, {.in_dims = {-2, std::nullopt}})(x, w), matmul(x, w)));
    const auto outer = [](const Tensor& a, const Tensor& b) { return a.unsqueeze(1) * b; };
    const Tensor all = x.unsqueeze(2) * y.unsqueeze(1);
    CHECK(near(vmap(outer)(x, y), all));
    CHECK(near(vmap(outer, {.out_dim = 1})(x, y), all.transpose(0, 1)));
    CHECK(near(vmap(outer, {.out_dim = -1})(x, y), all.permute({1, 2, 0})));
    // What depends on no mapped input is the same in every slice.
    const auto constant = [&](const Tensor&) { return w * 2; };
    CHECK(near(vmap(constant)(x), (w * 2).expand({4, 3})));
    const auto both = [](const Tensor& a) { return std::pair{sum(a), a * 2}; };
    const auto [sums, doubled] = vmap(both)(x);
    CHECK(near(sums, sum(x, {1})));
    CHECK(near(doubled, x * 2));
    CHECK(near(vmap(inner, {.chunk_size = 3})(x, y), sum(x * y, {1})));
    CHECK(vmap(inner)(x[{Slice{0, 0}}], y[{Slice{0, 0}}]).shape() == Shape{0});
  }
}

TEST_CASE("vmap: levels within levels") {
  const Tensor x = rows(4, 3), y = rows(2, 3) - 1;
  const LeakGuard guard;
  const auto against_all = [&](const Tensor& a) {
    return vmap([&](const Tensor& b) { return inner(a, b) + sum(a); })(y);
  };
  CHECK(near(vmap(against_all)(x), matmul(x, y.t()) + sum(x, {1}, {.keep_dim = true})));
  // The inner level maps what the outer one does too.
  const Tensor cube = rows(6, 4).view({2, 3, 4});
  const auto rows_of = [](const Tensor& m) {
    return vmap([](const Tensor& r) { return tanh(r); })(m);
  };
  CHECK(near(vmap(rows_of)(cube), tanh(cube)));
  CHECK(near(vmap(rows_of, {.in_dims = {2}, .out_dim = 2})(cube), tanh(cube)));
  const auto third = [&](const Tensor& a, const Tensor& b) { return a * b + cube[0][0][0]; };
  const auto all = vmap([&](const Tensor& m) {
    return vmap([&](const Tensor& r) {
      return vmap(third, {.in_dims = {0, std::nullopt}})(r, r[0]);
    })(m);
  });
  CHECK(near(all(cube), cube * cube[{Slice{}, Slice{}, Slice{0, 1}}] + cube[0][0][0]));
  const auto along = [](auto f) { return [f](const Tensor& t) { return vmap(f)(t); }; };
  const auto four = along(along(along([](const Tensor& r) { return r * 2; })));
  const Tensor deep = rows(6, 4).view({2, 3, 2, 2});
  CHECK(near(vmap(four)(deep), deep * 2));
  CHECK_THROWS_AS(vmap(along(four))(deep.unsqueeze(0)), UsageError);
}

TEST_CASE("vmap: a gradient of each sample, by parameters that all share") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor x = rows(5, 3, d), w = rows(1, 3, d)[0].set_requires_grad();
    const LeakGuard guard;
    const auto of_sample = [&](const Tensor& s) { return grad(pow(inner(s, w), 2.0), w); };
    const Tensor each = vmap(of_sample)(x);
    CHECK(near(each, (2 * matmul(x, w)).unsqueeze(1).detach() * x));
    CHECK_FALSE(w.grad().defined());
  }
}

TEST_CASE("vmap: gradients flow through it, to what it maps and to what the function refers to") {
  for (const Device d : kernel_devices()) {
    CAPTURE(to_string(d));
    const Tensor x = rows(4, 3, d).set_requires_grad(), w = rows(1, 3, d)[0].set_requires_grad();
    const Tensor h = w * w;  // made outside: its gradient is summed before it goes on
    const auto f = [&](const Tensor& s) { return tanh(inner(s, h)) + sum(w); };
    const Tensor mapped = sum(vmap(f)(x) * arange(4, {.dtype = f64, .device = d}));
    const Tensor plain =
        sum((tanh(matmul(x, h)) + sum(w)) * arange(4, {.dtype = f64, .device = d}));
    const std::vector<Tensor> got = grads(mapped, {x, w, h}, {.retain_graph = true});
    const std::vector<Tensor> want = grads(plain, {x, w, h}, {.retain_graph = true});
    for (size_t i = 0; i < 3; ++i) CHECK(near(got[i], want[i]));
    mapped.backward();
    CHECK(near(x.grad(), want[0]));
    CHECK(near(w.grad(), want[1]));
    // Twice: the gradient's own derivative.
    const auto penalty = [&](const Tensor& y) {
      const std::vector<Tensor> g = grads(sum(y), {x, w}, {.create_graph = true});
      return grads(sum(g[0] * g[0]) + sum(g[1] * g[1]), {x, w});
    };
    const std::vector<Tensor> a =
        penalty(vmap([&](const Tensor& s) { return tanh(inner(s, w)); })(x));
    const std::vector<Tensor> b = penalty(tanh(matmul(x, w)));
    for (size_t i = 0; i < 2; ++i) CHECK(near(a[i], b[i]));
  }
}

TEST_CASE("vmap: the products and Jacobians of functional.h inside, and Jacobians by it") {
  const Tensor x = rows(4, 3), v = rows(4, 3) * x;
  const LeakGuard guard;
  const auto f = [](const Tensor& t) { return tanh(t) * sum(t * t); };
  const Tensor along =
      vmap([&](const Tensor& a, const Tensor& b) { return jvp(f, a, b).product; })(x, v);
  const Tensor hessians = vmap(
      [&](const Tensor& a) { return hessian([&](const Tensor& t) { return sum(f(t)); }, a); })(x);
  for (i64 i = 0; i < 4; ++i) {
    CHECK(near(along[i], jvp(f, x[i], v[i]).product));
    CHECK(near(hessians[i], hessian([&](const Tensor& t) { return sum(f(t)); }, x[i])));
  }
  CHECK(near(jacobian(f, x[1], {.vectorize = true}), jacobian(f, x[1])));
  const auto energy = [&](const Tensor& t) { return sum(f(t)); };
  CHECK(near(hessian(energy, x[2], {.vectorize = true}), hessian(energy, x[2])));
  const auto rows_of_it = [](const Tensor& t) { return tanh(matmul(t, t.t())); };
  CHECK(near(jacobian(rows_of_it, x, {.vectorize = true}), jacobian(rows_of_it, x)));
  CHECK(jacobian(
            [](const Tensor& t) {
              return t[{Slice{0, 0}}];
            },
            x, {.vectorize = true})
            .shape() == Shape{0, 3, 4, 3});
}

TEST_CASE("vmap: an ensemble and the gradients of a module, by functional_call") {
  nn::Linear net{3, 2};
  const Tensor x = rows(5, 3).to(f32);
  const std::vector<Tensor> p = net.parameters();
  const auto loss = [&](std::span<const Tensor> q, const Tensor& s) {
    return sum(pow(functional_call(net, q, s.unsqueeze(0)), 2.0));
  };
  const std::vector<Tensor> each = vmap([&](const Tensor& s) { return grads(loss(p, s), p); })(x);
  for (i64 i = 0; i < 5; ++i) {
    const std::vector<Tensor> g = grads(loss(p, x[i]), p);
    CHECK(allclose(each[0][i], g[0], {.rtol = 1e-5, .atol = 1e-6}));
    CHECK(allclose(each[1][i], g[1], {.rtol = 1e-5, .atol = 1e-6}));
  }
  const NoGrad no_grad;
  const Tensor weights = stack({p[0], p[0] * 2, p[0] * 3}), biases = stack({p[1], p[1], p[1]});
  const auto member = [&](const Tensor& w, const Tensor& b) {
    const std::vector<Tensor> q{w, b};
    return functional_call(net, q, x);
  };
  const Tensor outputs = vmap(member)(weights, biases);
  CHECK(allclose(outputs[2], matmul(x, (p[0] * 3).t()) + p[1], {.rtol = 1e-5, .atol = 1e-6}));
}

TEST_CASE("vmap: operators with a batching rule launch once, the others are named once") {
  const Tensor x = rows(50, 12), m = rows(12, 4);
  const Told warnings;
  const auto f = [&](const Tensor& r) {
    return softmax(matmul(tanh(r + 1).unsqueeze(0), m), 1) + sum(r * r);
  };
  const Tensor y = softmax(matmul(tanh(x + 1).unsqueeze(1), m), 2);
  CHECK(near(vmap(f)(x), y + sum(x * x, {1}).view({50, 1, 1})));
  CHECK(told.empty());
  // Split, five operators and a fill or two, join: whatever the number of slices.
  const i64 of_many = launches([&] { (void)vmap(f)(x); });
  const i64 of_few = launches([&] { (void)vmap(f)(x[{Slice{0, 2}}]); });
  CHECK(of_many == of_few);
  CHECK(of_many < 12);
  const auto looped = [](const Tensor& r) { return layer_norm(r, {12}); };
  CHECK(launches([&] { (void)vmap(looped)(x); }) == 52);
  const Tensor none = x[{Slice{0, 0}}];
  CHECK(vmap(looped)(none).shape() == Shape{0, 12});
  CHECK(launches([&] { (void)vmap(looped)(none); }) == 0);
  // Images that are mapped are more images, for one slice of several and for slices of one alike.
  const Tensor images = rows(24, 50).view({6, 2, 2, 5, 10}),
               kernel = rows(3, 18).view({3, 2, 3, 3});
  const auto convolved = [&](const Tensor& i) { return conv2d(i, kernel); };
  const Tensor whole = conv2d(images.view({12, 2, 5, 10}), kernel).view({6, 2, 3, 3, 8});
  CHECK(near(vmap(convolved)(images), whole));
  CHECK(launches([&] { (void)vmap(convolved)(images); }) == 3);
  const auto of_one = [&](const Tensor& i) { return conv2d(i.unsqueeze(0), kernel).squeeze(0); };
  CHECK(near(vmap(of_one)(images.view({12, 2, 5, 10})), whole.view({12, 3, 3, 8})));
  told.clear();
  detail::forget_warnings();
  (void)vmap([](const Tensor& r) { return layer_norm(r, {12}); })(x);
  (void)vmap([](const Tensor& r) { return layer_norm(r, {12}); })(x);
  REQUIRE(told.size() == 1);
  CHECK(mentions(
      told[0],
      "[vmap] layer_norm has no batching rule: its kernel 'layer_norm_forward' runs once a slice"));
}

TEST_CASE("vmap: other ways of saving, hooks, anomaly checks, printing, threads") {
  const Tensor x = rows(5, 3), m = rows(3, 3).set_requires_grad();
  const auto f = [&](const Tensor& s) { return relu(matmul(gelu(matmul(s, m)), m)); };
  const auto plain = [&](const Tensor& a) { return relu(matmul(gelu(matmul(a, m)), m)); };
  const auto of = [&](const Tensor& y) { return grad(sum(y * y), m).detach(); };
  const Tensor want = of(plain(x));
  CHECK(near(of(vmap([&](const Tensor& s) { return checkpoint(f, s); })(x)), want));
  for (const SavePolicy p : {SavePolicy::recompute, SavePolicy::offload, SavePolicy::bit_mask}) {
    const SaveScope scope{p};
    CHECK(near(of(vmap(f)(x)), want));
  }
  // A gradient without slices meets bits that have them.
  const auto of_sample = [&](const Tensor& s) { return grad(sum(relu(matmul(s, m))), m).detach(); };
  const Tensor each = vmap(of_sample)(x);
  for (int i = 0; i < 5; ++i) CHECK(near(each[i], of_sample(x[i])));
  for (const SavePolicy p : {SavePolicy::recompute, SavePolicy::bit_mask, SavePolicy::invert}) {
    const SaveScope scope{p};
    CHECK(near(vmap(of_sample)(x), each));
  }
  {
    const AnomalyMode anomaly;
    CHECK(near(of(vmap(f)(x)), want));
    CHECK(mentions(message_of([&] {
                     (void)of(vmap([&](const Tensor& s) { return log(matmul(s * 0, m)); })(x));
                   }),
                   "holds"));
  }
  const Tensor hooked = vmap([&](const Tensor& s) {
    const Tensor h = matmul(s, m);
    register_hook(h, [](const Tensor& g) { return g * 2; });
    return tanh(h);
  })(x);
  CHECK(near(grad(sum(hooked), m).detach(), 2 * grad(sum(tanh(matmul(x, m))), m).detach()));
  std::string text;
  (void)vmap([&](const Tensor& s) {
    text = to_string(s[{Slice{0, 1}}]);
    return s;
  })(x[{Slice{0, 2}}]);
  CHECK(text == "slices of vmap(): " + to_string(x[{Slice{0, 2}, Slice{0, 1}}]));
  // Gradients of two backwards add up, and levels of two threads are their own.
  sum(vmap(f)(x) * 1.0).backward();
  sum(vmap(f)(x) * 1.0).backward();
  CHECK(near(m.grad(), 2 * grad(sum(plain(x)), m).detach()));
  bool same[2] = {};
  std::thread others[2];
  for (int k = 0; k < 2; ++k)
    others[k] = std::thread([&, k] {
      const NoGrad no_grad;
      same[k] = near(vmap(f)(x), plain(x));
    });
  for (std::thread& t : others) t.join();
  CHECK((same[0] && same[1]));
}

TEST_CASE("vmap: what it refuses is named, and nothing is left behind") {
  const Tensor x = rows(4, 3), shared = zeros({3}, {.dtype = f64});
  Tensor leaked;
  const auto says = [](const std::function<void()>& f) { return message_of(f); };
  CHECK(mentions(says([&] { (void)vmap([](const Tensor& r) { return r * r[0].item(); })(x); }),
                 "[item] inside of vmap() values can be neither read nor moved: [] f64"));
  CHECK(
      mentions(says([&] { (void)vmap([](const Tensor& r) { return r + *r.data<double>(); })(x); }),
               "[data] inside of vmap()"));
  CHECK(mentions(
      says([&] { (void)vmap([&](const Tensor& r) { return shared.clone().add_(r); })(x); }),
      "would write every slice of vmap() into one tensor"));
  CHECK(near(vmap([](const Tensor& r) { return zeros_like(r).add_(r); })(x), x));
  CHECK(mentions(
      says([&] { (void)vmap([](const Tensor& r) { return r + rand({3}, {.dtype = f64}); })(x); }),
      "draws random numbers inside of vmap()"));
  const Tensor drawn = vmap([](const Tensor& r) { return r * 0 + rand({3}, {.dtype = f64}); },
                            {.randomness = Randomness::same})(x);
  CHECK(near(drawn[0], drawn[3]));
  // The same mask in every slice, and in its gradient.
  const Tensor many = ones({2, 64}, {.dtype = f64});
  const auto dropped = [](const Tensor& r) { return dropout(r, 0.5); };
  const auto [kept, gradient] = vmap(
      [&](const Tensor& r) {
        const Tensor leaf = r.detach().set_requires_grad(), y = dropped(leaf);
        return std::pair{y.detach(), grad(sum(y), leaf)};
      },
      {.randomness = Randomness::same})(many);
  CHECK(near(kept[0], kept[1]));
  CHECK(near(kept, gradient));
  CHECK(sum(ne(kept[0], 0.0)).item() < 64);
  (void)vmap([&](const Tensor& r) { return leaked = r * 2; })(x);
  CHECK(mentions(says([&] { (void)(leaked + 1); }), "made inside of a vmap() that has ended"));
  leaked = Tensor();
  CHECK(
      mentions(says([&] { (void)vmap(inner, {.in_dims = {0}})(x, x); }), "2 inputs but 1 in_dims"));
  CHECK(mentions(says([&] {
                   (void)vmap(inner, {.in_dims = {std::nullopt, std::nullopt}})(x, x);
                 }),
                 "no input is mapped over"));
  CHECK(mentions(says([&] { (void)vmap(inner)(x, x[0][0]); }), "has no axis 0 to map over"));
  CHECK(mentions(says([&] { (void)vmap(inner)(x, rows(5, 3)); }),
                 "the mapped axes differ in size: input 0 has 4, input 1 has 5"));
  CHECK(mentions(says([&] { (void)vmap(inner, {.out_dim = 1})(x, x); }), "out_dim 1 is no axis"));
  CHECK(mentions(says([&] { (void)vmap([](const Tensor&) { return Tensor(); })(x); }),
                 "is undefined"));
  const Tensor w = ones({3}, {.dtype = f64, .requires_grad = true});
  CHECK(mentions(says([&] {
                   (void)vmap([&](const Tensor& r) {
                     const Tensor y = inner(r, w);
                     y.backward();
                     return y.detach();
                   })(x);
                 }),
                 "[backward] inside of vmap() each slice has a gradient of its own"));
  CHECK(mentions(
      says([&] { (void)vmap([](const Tensor& r) { return matmul(r, r.unsqueeze(0)); })(x); }),
      "[matmul]"));
  CHECK(mentions(
      says([&] { (void)checkpoint([](const Tensor& a) { return vmap(inner)(a, a); }, x); }),
      "[vmap] inside of a checkpoint"));
  // A kernel whose operands nobody has listed.
  CHECK(mentions(says([&] {
                   (void)vmap([](const Tensor& r) {
                     const Tensor y = zeros_like(r);
                     run(UnitRowsArgs{view_of(y.impl()), view_of(r.impl())}, Launch{});
                     return y;
                   })(zeros({2, 3, 4}));
                 }),
                 "vmap() does not know what the kernel 'unit_rows' touches"));
  // After every error the mode is as before.
  CHECK(near(x + x, x * 2));
  CHECK(x[0][0].item() == -1.4);
}
