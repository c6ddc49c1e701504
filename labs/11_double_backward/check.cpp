// Hidden cases of the lab on double backward: closed forms, central differences in f64, and counts
// of nodes and bytes.
#include <array>
#include <cmath>

#include "double_backward.h"
#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/profiler.h"
#include "warptape/labs/support/cases.h"

using namespace wt;
using wt::lab::Draws;
using wt::lab::expect;

namespace {

Tensor numbers(Draws& draws, const Shape& shape, double low, double high) {
  i64 n = 1;
  for (int i = 0; i < shape.ndim(); ++i) n *= shape[i];
  std::vector<double> all;
  for (i64 i = 0; i < n; ++i) all.push_back(draws.real(low, high));
  return tensor(all).reshape(shape);
}
std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }

void compare(const std::string& what, const Tensor& got, const std::vector<double>& want,
             const char* hint) {
  expect(got.defined(), what + " is undefined", hint);
  const std::vector<double> v = values(got);
  expect(v.size() == want.size(), str(what, " has ", v.size(), " elements, not ", want.size()),
         hint);
  for (size_t i = 0; i < v.size(); ++i)
    wt::lab::expect_close(str(what, ", element ", i), v[i], want[i],
                          1e-9 * (1 + std::fabs(want[i])), hint);
}

CheckedFunction ripples() {
  return [](std::span<const Tensor> x) { return twice::ripple(x[0]); };
}

}  // namespace

// --- 1 ---

WT_LAB_CASE("ripple: one node, its value and its first derivative", 14) {
  const Tensor x = numbers(draws, {3, 4}, -2, 2).requires_grad_();
  const i64 before = memory::live_objects().nodes;
  const Tensor y = twice::ripple(x);
  const i64 nodes = memory::live_objects().nodes - before;
  std::vector<double> want;
  for (const double v : values(x)) want.push_back(v * std::exp(-v * v / 2));
  compare("ripple(x)", y, want, "value");
  expect(nodes == 1, str("ripple(x) recorded ", nodes, " nodes, not 1"), "value");
  const GradCheck first = grad_check(ripples(), {x});
  expect(first.ok, "the first derivative is wrong: " + first.message, "first");
}

WT_LAB_CASE("ripple: its second and third derivative", 21) {
  const Tensor x = numbers(draws, {7}, -2, 2).requires_grad_();
  const Tensor d1 = grad(sum(twice::ripple(x)), x, {.create_graph = true});
  expect(d1.requires_grad(), "the derivative does not depend on x any more", "constant");
  const GradCheck second = grad_grad_check(ripples(), {x});
  expect(second.ok, "the second derivative is wrong: " + second.message, "constant");
  const Tensor d2 = grad(sum(d1), x, {.create_graph = true});
  const Tensor d3 = grad(sum(d2), x);
  std::vector<double> want;
  for (const double v : values(x))
    want.push_back((-v * v * v * v + 6 * v * v - 3) * std::exp(-v * v / 2));
  compare("the third derivative", d3, want, "constant");
}

// --- 2 ---

WT_LAB_CASE("derivative: row by row, and on the tape", 14) {
  const i64 n = draws.whole(3, 9);
  const Tensor x = numbers(draws, {n, 3}, -1, 1).requires_grad_();
  const Tensor w = numbers(draws, {3, 1}, -1, 1).requires_grad_();
  const Tensor y = sin(matmul(x, w));
  const Tensor d = twice::derivative(y, x);
  const std::vector<double> xs = values(x), ws = values(w);
  std::vector<double> want, curl(size_t(3 * n), 0.0);
  for (i64 i = 0; i < n; ++i) {
    double inner = 0;
    for (i64 k = 0; k < 3; ++k) inner += xs[size_t(3 * i + k)] * ws[size_t(k)];
    for (i64 k = 0; k < 3; ++k) {
      want.push_back(std::cos(inner) * ws[size_t(k)]);
      curl[size_t(3 * i + k)] = -std::sin(inner) * ws[0] * ws[size_t(k)];
    }
  }
  compare("derivative(sin(x w), x)", d, want, "rows");
  expect(d.requires_grad(),
         "the derivative is a constant: nothing can be differentiated through it", "create");
  compare("the derivative of its first column",
          grad(sum(d.narrow(1, 0, 1)), x, {.retain_graph = true}), curl, "create");
  expect(grad(sum(d), w, {.allow_unused = true}).defined(),
         "the derivative does not depend on the weights any more", "create");
  // Straight lines have a derivative that knows nothing of x.
  const Tensor line = x.narrow(1, 1, 1) * 3.0;
  const Tensor slope = twice::derivative(line, x);
  std::vector<double> three(size_t(3 * n), 0.0);
  for (i64 i = 0; i < n; ++i) three[size_t(3 * i + 1)] = 3;
  compare("the derivative of 3 x_1", slope, three, "rows");
  const std::vector<double> none(size_t(3 * n), 0.0);
  std::string threw;
  Tensor bend;
  try {
    bend = twice::derivative(slope.narrow(1, 1, 1), x);
  } catch (const Error& e) {
    threw = e.what();
  }
  expect(threw.empty(), "the second derivative of 3 x_1 threw: " + threw, "line");
  compare("the second derivative of 3 x_1", bend, none, "line");
}

namespace {

Tensor t_of(const Tensor& p) { return p.narrow(1, 0, 1); }
Tensor x_of(const Tensor& p) { return p.narrow(1, 1, 1); }

struct Solved {
  const char* name;
  twice::Field u;
  // u, u_t, u_x, u_xx at a point.
  std::function<std::array<double, 4>(double t, double x)> by_hand;
};

std::vector<Solved> fields(Draws& draws) {
  const double a = draws.real(0.5, 2), b = draws.real(0.2, 1.5), k = draws.real(1, 3);
  return {
      {"a e^(-b t) sin(k x)",
       [=](const Tensor& p) { return a * exp(t_of(p) * -b) * sin(x_of(p) * k); },
       [=](double t, double x) -> std::array<double, 4> {
         const double u = a * std::exp(-b * t) * std::sin(k * x);
         return {u, -b * u, a * k * std::exp(-b * t) * std::cos(k * x), -k * k * u};
       }},
      {"a t^2 x^3",
       [=](const Tensor& p) { return a * square(t_of(p)) * x_of(p) * square(x_of(p)); },
       [=](double t, double x) -> std::array<double, 4> {
         return {a * t * t * x * x * x, 2 * a * t * x * x * x, 3 * a * t * t * x * x,
                 6 * a * t * t * x};
       }},
      {"a x + b t", [=](const Tensor& p) { return a * x_of(p) + b * t_of(p); },
       [=](double t, double x) -> std::array<double, 4> {
         return {a * x + b * t, b, a, 0};
       }},
  };
}

}  // namespace

WT_LAB_CASE("residual: of fields whose derivatives are known", 16) {
  const double nu = draws.real(0.1, 0.5);
  const i64 n = draws.whole(4, 12);
  for (const Solved& f : fields(draws)) {
    const Tensor points = numbers(draws, {n, 2}, -1, 1);
    const std::vector<double> p = values(points);
    std::vector<double> want;
    for (i64 i = 0; i < n; ++i) {
      const auto [u, u_t, u_x, u_xx] = f.by_hand(p[size_t(2 * i)], p[size_t(2 * i + 1)]);
      want.push_back(u_t + u * u_x - nu * u_xx);
    }
    const Tensor r = twice::residual(f.u, points, nu);
    compare(str("the residual of ", f.name, " with nu = ", nu), r, want, "terms");
    expect(r.shape() == Shape({n, 1}), str("the residual is ", r.shape(), ", not [", n, ", 1]"),
           "terms");
    expect(!points.requires_grad(), "residual() changed the points that it was given", "terms");
  }
}

WT_LAB_CASE("physics_loss: its gradient in the weights", 21) {
  const double nu = draws.real(0.1, 0.5);
  const Tensor inside = numbers(draws, {6, 2}, -1, 1), known = numbers(draws, {4, 2}, -1, 1);
  const Tensor data = numbers(draws, {4, 1}, -1, 1);
  const auto loss = [&](std::span<const Tensor> w) {
    const twice::Field net = [&](const Tensor& p) {
      return matmul(tanh(matmul(p, w[0]) + w[1]), w[2]);
    };
    return twice::physics_loss(net, inside, nu, known, data);
  };
  const std::vector<Tensor> weights{numbers(draws, {2, 5}, -1, 1).requires_grad_(),
                                    numbers(draws, {5}, -1, 1).requires_grad_(),
                                    numbers(draws, {5, 1}, -1, 1).requires_grad_()};
  {
    // u = a x + b t: the residual is b + u a.
    const double a = draws.real(1, 2), b = draws.real(1, 2);
    const twice::Field line = [&](const Tensor& p) { return a * x_of(p) + b * t_of(p); };
    const double want =
        mean(square(line(inside) * a + b)).item() + mean(square(line(known) - data)).item();
    wt::lab::expect_close("the loss of a x + b t",
                          twice::physics_loss(line, inside, nu, known, data).item(), want, 1e-9,
                          "terms");
  }
  const std::vector<Tensor> gradient = grads(loss(weights), weights, {.allow_unused = true});
  const double eps = 1e-5;
  for (size_t i = 0; i < weights.size(); ++i) {
    expect(gradient[i].defined(), str("the loss has no gradient in weight ", i), "detached");
    const std::vector<double> g = values(gradient[i]), at = values(weights[i]);
    for (size_t k = 0; k < g.size(); ++k) {
      const auto moved = [&](double by) {
        std::vector<double> there = at;
        there[k] += by;
        std::vector<Tensor> w = weights;
        w[i] = tensor(there).reshape(weights[i].shape()).requires_grad_();
        return loss(w).item();
      };
      const double slope = (moved(eps) - moved(-eps)) / (2 * eps);
      wt::lab::expect_close(str("the gradient of the loss in weight ", i, ", element ", k), g[k],
                            slope, 1e-5 * (1 + std::fabs(slope)), "detached");
    }
  }
}

// --- 3 ---

namespace {
struct Walked : profiler::Observer {
  i64 nodes = 0;
  void begin(const profiler::Range& r) noexcept override {
    nodes += r.kind == profiler::Kind::backward;
  }
};
i64 peak_of(const std::function<void()>& f) {
  memory::reset_peak(Device::cpu());
  const i64 before = memory::stats(Device::cpu()).live;
  f();
  return memory::stats(Device::cpu()).peak - before;
}
}  // namespace

WT_LAB_CASE("hessian_product: right, and without the matrix", 14) {
  // sum_i x_i^4 / 12 + (sum_i x_i)^2 c / 2: H v = x^2 v + c (sum v).
  const double c = draws.real(-2, 2);
  const twice::Function f = [c](const Tensor& x) {
    return sum(square(square(x))) / 12.0 + square(sum(x)) * (c / 2);
  };
  for (const i64 n : {i64(1), draws.whole(5, 40), i64(3000)}) {
    const Tensor x = numbers(draws, {n}, -1, 1), v = numbers(draws, {n}, -1, 1);
    const std::vector<double> xs = values(x), vs = values(v);
    double total = 0;
    for (const double y : vs) total += y;
    std::vector<double> want;
    for (size_t i = 0; i < xs.size(); ++i) want.push_back(xs[i] * xs[i] * vs[i] + c * total);
    Walked walked;
    Tensor got;
    const i64 bytes = peak_of([&] {
      const profiler::ObserverScope watch(walked);
      got = twice::hessian_product(f, x, v);
    });
    compare(str("H v of ", n, " elements"), got, want, "product");
    expect(bytes <= 100 * n * 8 + 65536,
           str("of ", n, " elements it took ", bytes, " bytes: more than a hundred vectors"),
           "matrix");
    expect(walked.nodes <= 100, str("of ", n, " elements it walked over ", walked.nodes, " nodes"),
           "matrix");
  }
}

WT_LAB_CHALLENGE("push_forward: J v of 3000 results by two backwards") {
  const Tensor w = numbers(draws, {3000}, -1, 1);
  const twice::Function f = [&](const Tensor& x) { return sin(x * w) + sum(x) * w; };
  const Tensor x = numbers(draws, {3000}, -1, 1), v = numbers(draws, {3000}, -1, 1);
  const std::vector<double> xs = values(x), vs = values(v), ws = values(w);
  double total = 0;
  for (const double y : vs) total += y;
  std::vector<double> want;
  for (size_t i = 0; i < xs.size(); ++i)
    want.push_back(std::cos(xs[i] * ws[i]) * ws[i] * vs[i] + total * ws[i]);
  Walked walked;
  Tensor got;
  {
    const profiler::ObserverScope watch(walked);
    got = twice::push_forward(f, x, v);
  }
  compare("J v", got, want, "forward");
  expect(walked.nodes <= 60, str("it walked over ", walked.nodes, " nodes"), "forward");
}
