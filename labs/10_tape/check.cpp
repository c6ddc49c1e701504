// Lab 10, hidden cases: orders, numbers of calls, hooks, versions and bytes; no clock.
#include <cmath>

#include "tape.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/labs/support/cases.h"

namespace {

using lab::Var;
using wt::lab::Draws;
using wt::lab::expect;
using wt::lab::expect_close;

Var number(double v) { return lab::leaf(wt::tensor({v}, {.dtype = wt::DType::f64})); }
Var vector(Draws& draws, wt::i64 n, wt::Device d = wt::Device::cpu()) {
  return lab::leaf(wt::tensor(draws.reals(n, -1, 1), {.device = d}));
}

double grad_of(const Var& v, const char* name, const char* hint = "begin") {
  expect(v->grad.defined(), wt::str("the leaf ", name, " has no gradient after backward()"), hint);
  return wt::sum(v->grad).item();
}

// Counts the calls of a node's pull.
void count_pulls(const Var& v, int* calls) {
  v->pull = [calls, pull = v->pull](const wt::Tensor& g) {
    ++*calls;
    return pull(g);
  };
}

}  // namespace

WT_LAB_CASE("a chain: d tanh(3 x) / dx", 5) {
  const double x = draws.real(-1, 1);
  const Var a = number(x);
  lab::backward(lab::tanh(lab::scale(a, 3)));
  const double t = std::tanh(3 * x);
  expect_close("the derivative", grad_of(a, "x"), 3 * (1 - t * t), 1e-12, "begin");
}

WT_LAB_CASE("a value that is used twice gets both gradients", 10) {
  const double x = draws.real(1, 4);
  const Var a = number(x);
  lab::backward(lab::mul(a, a));
  expect_close("d(x * x) / dx", grad_of(a, "x"), 2 * x, 1e-12, "twice");
  const Var b = number(x), c = lab::scale(b, 2);
  lab::backward(lab::add(c, lab::mul(c, b)));
  expect_close("d(2 x + 2 x x) / dx", grad_of(b, "x"), 2 + 4 * x, 1e-12, "twice");
}

WT_LAB_CASE("each node works once, after all that use its value", 20) {
  const double x = draws.real(0.1, 0.5);
  const Var a = number(x);
  int calls = 0;
  Var v = lab::scale(a, 2);
  count_pulls(v, &calls);
  double want = 2;
  const Var first = v;
  for (int i = 0; i < 12; ++i) {
    // The short way and a long one: who takes the first that comes is early.
    v = i % 2 ? lab::add(v, lab::scale(lab::scale(v, 0.5), 0.5))
              : lab::add(lab::scale(lab::scale(v, 0.5), 0.5), v);
    want *= 1.25;
  }
  lab::backward(v);
  expect(calls == 1,
         wt::str("a node below twelve diamonds was asked for its inputs' gradients ", calls,
                 " times, not once"),
         "order");
  expect_close("the derivative below twelve diamonds", grad_of(a, "x"), want, 1e-9, "order");
}

WT_LAB_CASE("graphs of thirty nodes, as the framework's own tape has them", 10) {
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<Var> mine;
    std::vector<wt::Tensor> theirs;
    for (int i = 0; i < 3; ++i) {
      mine.push_back(vector(draws, 5));
      theirs.push_back(mine.back()->value.clone().set_requires_grad());
    }
    for (int i = 0; i < 27; ++i) {
      const auto a = size_t(draws.whole(0, wt::i64(mine.size()) - 1));
      const auto b = size_t(draws.whole(0, wt::i64(mine.size()) - 1));
      const wt::i64 op = draws.whole(0, 2);
      mine.push_back(op == 0   ? lab::tanh(mine[a])
                     : op == 1 ? lab::mul(mine[a], mine[b])
                               : lab::scale(lab::add(mine[a], mine[b]), 0.5));
      theirs.push_back(op == 0   ? wt::tanh(theirs[a])
                       : op == 1 ? theirs[a] * theirs[b]
                                 : (theirs[a] + theirs[b]) * 0.5);
    }
    Var all = mine.back();
    wt::Tensor sum = theirs.back();
    for (size_t i = 0; i < 3; ++i) all = lab::add(all, mine[i]), sum = sum + theirs[i];
    lab::backward(lab::sum(all));
    wt::sum(sum).backward();
    for (size_t i = 0; i < 3; ++i) {
      grad_of(mine[i], "of the graph");
      expect_close("a gradient", mine[i]->grad.to_vector<float>(),
                   theirs[i].grad().to_vector<float>(), 1e-4, "order");
    }
  }
}

WT_LAB_CASE("leaves add up over backwards, and nothing else does", 5) {
  const double x = draws.real(1, 2);
  const Var a = number(x), middle = lab::mul(a, a), y = lab::mul(middle, a);
  lab::backward(y);
  expect_close("d(x x x) / dx", grad_of(a, "x"), 3 * x * x, 1e-12, "begin");
  lab::backward(y);
  expect_close("after a second backward over the same graph, the leaf's gradient", grad_of(a, "x"),
               6 * x * x, 1e-12, "again");
}

WT_LAB_CASE("a hook sees the complete gradient, once", 20) {
  const Var a = number(draws.real(1, 2)), h = lab::scale(a, 1);
  int calls = 0;
  double seen = 0;
  lab::on_gradient(h, [&](const wt::Tensor& g) {
    ++calls, seen = g.item();
    return g;
  });
  lab::backward(lab::add(lab::scale(h, 2), lab::add(h, lab::scale(h, 4))));
  expect(calls == 1, wt::str("the hook of a value with three users was called ", calls, " times"),
         "hooks");
  expect_close("the gradient that the hook saw", seen, 7, 1e-12, "hooks");
}

WT_LAB_CASE("what a hook gives goes on, at leaves too", 12) {
  const Var a = number(draws.real(1, 2)), h = lab::scale(a, 1);
  const lab::Hook clipped = [](const wt::Tensor& g) { return wt::clamp(g, -3, 3); };
  lab::on_gradient(h, clipped);
  lab::backward(lab::add(lab::scale(h, 2), lab::scale(h, 4)));
  expect_close("the leaf's gradient behind a hook that clips 2 + 4 to 3", grad_of(a, "x"), 3, 1e-12,
               "hooks");
  const Var b = number(draws.real(1, 2));
  lab::on_gradient(b, clipped);
  lab::backward(lab::add(lab::scale(b, 2), lab::scale(b, 4)));
  expect_close("the gradient of a leaf with a hook that clips 2 + 4 to 3", grad_of(b, "x"), 3,
               1e-12, "hooks");
}

WT_LAB_CASE("a value that was written into after it was saved is refused", 10) {
  const Var a = vector(draws, 4), b = vector(draws, 4);
  const Var y = lab::sum(lab::mul(a, b));
  b->value.mul_(2);
  std::string said;
  try {
    lab::backward(y);
  } catch (const lab::StaleValue& e) {
    said = e.what();
  }
  expect(!said.empty(),
         "an operand of mul was changed in place, and backward() used it as it is now", "version");
  expect(said.find("mul") != said.npos, "the error does not name the operator: " + said, "version");
  const Var c = vector(draws, 4), z = lab::sum(lab::add(c, c));
  c->value.mul_(2);
  lab::backward(z);  // add saves nothing, so that nothing is stale
  expect_close("the gradient of a sum whose operand was changed", grad_of(c, "c"), 8, 1e-6,
               "version");
}

WT_LAB_CASE("a chain of a hundred thousand nodes", 8) {
  const Var a = number(draws.real(1, 2));
  Var v = a;
  for (int i = 0; i < 100000; ++i) v = lab::scale(v, 1);
  lab::backward(v);
  expect_close("the derivative", grad_of(a, "x"), 1, 1e-12, "deep");
}

WT_LAB_CHALLENGE("gradients go when they have been used: of 64 large ones at most 4 are there") {
  const wt::Device d = wt::Device::simt();
  constexpr wt::i64 kElements = 4096;
  const Var a = vector(draws, kElements, d);
  Var v = a;
  for (int i = 0; i < 64; ++i) v = lab::scale(v, 1);
  const Var y = lab::sum(v);
  const wt::i64 before = wt::memory::stats(d).live;
  wt::memory::reset_peak(d);
  lab::backward(y);
  const double held = double(wt::memory::stats(d).peak - before) / double(4 * kElements);
  expect_close("the sum of the leaf's gradient", grad_of(a, "x"), double(kElements), 1e-3, "begin");
  expect(held < 4.5, wt::str("at its peak backward() holds as much as ", held, " gradients"),
         "holds");
}
