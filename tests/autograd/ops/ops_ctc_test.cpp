// ctc_loss beside its row: gradients behind log_softmax, what cannot be, threads, labels.
#include "warptape/autograd/ops/ctc.h"

#include <algorithm>
#include <cmath>

#include "warptape/autograd/grad_check.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/core/device.h"
#include "warptape/core/memory.h"
#include "warptape/kernels/ctc.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/values.h"
#include "warptape/tests/support/variants.h"

using namespace wt_test;

namespace {
Tensor list(std::initializer_list<Scalar> v, Device d = {}) {
  return tensor(v, {.dtype = DType::i64}).to(d);
}
Tensor logits(const Shape& shape, u64 seed, DType t = f64, Device d = {}) {
  return to_tensor(random_values(numel_of(shape), seed, 2), shape, t, d).set_requires_grad();
}
}  // namespace

TEST_CASE("ctc_loss: both derivatives behind log_softmax; a step's gradient adds up to 0") {
  for (const Device d : kernel_devices()) {
    const Tensor targets = tensor({{1, 2}, {2, 2}}, {.dtype = DType::i64}).to(d);
    const auto f = [&](std::span<const Tensor> in) {
      return ctc_loss(log_softmax(in[0], 2), targets, list({4, 3}, d), list({2, 2}, d)).sum;
    };
    if (d == Device::cpu()) {
      const GradCheck first = grad_check(f, {logits({4, 2, 3}, 1)});
      INFO(first.message);
      CHECK(first.ok);
      const GradCheck second = grad_grad_check(f, {logits({4, 2, 3}, 2)});
      INFO(second.message);
      CHECK(second.ok);
    }
    for (const DType t : {f64, f32}) {
      CAPTURE(device_kind_name(d.kind), dtype_name(t));
      const Tensor x = logits({4, 2, 3}, 3, t, d);
      const Tensor g = grad(f({&x, 1}), x);
      for (double v : values(sum(g, 2))) CHECK(std::fabs(v) < (t == f64 ? 1e-14 : 1e-6));
      const Values all = values(g);
      for (size_t i = 0; i < 3; ++i) CHECK(all[3 * 6 + 3 + i] == 0);  // past sample 1's last step
    }
  }
}

TEST_CASE("ctc_loss: labels that do not fit are infinitely unlikely") {
  const auto check = [](DType t, Device d) {
    CAPTURE(device_kind_name(d.kind), dtype_name(t));
    const Tensor x = logits({3, 2, 3}, 1, t, d);
    const Tensor y = log_softmax(x, 2);
    const Tensor targets = tensor({{1, 1}, {1, 2}}, {.dtype = DType::i64}).to(d);
    const Tensor steps = list({2, 3}, d), labels = list({2, 2}, d);  // 1 1 needs three steps
    for (const bool create_graph : {false, true}) {
      const Loss loss = ctc_loss(y, targets, steps, labels);
      CHECK(loss.sum.item() == INFINITY);
      const Values g =
          values(grad(loss.sum, y, {.create_graph = create_graph, .retain_graph = true}));
      for (size_t i = 0; i < g.size(); ++i) {
        CAPTURE(i, create_graph);
        CHECK(std::isnan(g[i]) == (i % 6 < 3 && i / 6 < 2));
      }
      const Loss zero = ctc_loss(y, targets, steps, labels, {.zero_infinity = true});
      CHECK(std::isfinite(zero.sum.item()));
      CHECK(zero.weight.item() == 2);
      const Tensor h = grad(zero.sum, x, {.create_graph = create_graph, .retain_graph = true});
      for (double v : values(h)) CHECK(std::isfinite(v));
      CHECK(values(h)[0] == 0);
    }
  };
  for (const Device d : kernel_devices())
    for (const DType t : {f64, f32}) check(t, d);
}

TEST_CASE("ctc_loss: classes of probability 0, and NaN") {
  const auto check = [](DType t, Device d) {
    CAPTURE(device_kind_name(d.kind), dtype_name(t));
    Tensor y = tensor({0.0, -INFINITY, -INFINITY, 0.0}, {.dtype = t}).reshape({2, 1, 2}).to(d);
    y.set_requires_grad();
    const Tensor target = list({1}, d), steps = list({2}, d);
    for (const bool create_graph : {false, true}) {
      const Loss loss = ctc_loss(y, target, steps, target);  // blank, then 1: certain
      CHECK(loss.sum.item() == 0);
      CHECK(values(grad(loss.sum, y, {.create_graph = create_graph})) == Values{-1, 0, 0, -1});
    }
    const Tensor nan = full({2, 1, 2}, NAN, {.dtype = t, .device = d});
    CHECK(std::isnan(ctc_loss(nan, target, steps, target).sum.item()));
    // In the blank alone, where the label's way is beside it.
    const Tensor blank = tensor({NAN, -1.0, NAN, -1.0, NAN, -1.0}, {.dtype = t});
    CHECK(std::isnan(
        ctc_loss(blank.reshape({3, 1, 2}).to(d), target, list({3}, d), target).sum.item()));
  };
  for (const Device d : kernel_devices())
    for (const DType t : {f64, f32}) check(t, d);
}

TEST_CASE("ctc_loss: equal bits for one and two threads and run after run; parts add up") {
  const i64 steps = 60, samples = 16, classes = 20, most = 12;
  for (const Device d : kernel_devices()) {
    CAPTURE(device_kind_name(d.kind));
    const Tensor x = logits({steps, samples, classes}, 1, f32, d);
    const TensorOptions number{.dtype = DType::i64, .device = d};
    const Tensor targets = randint(1, classes, {samples, most}, number);
    const Tensor in = randint(40, steps + 1, {samples}, number);
    const Tensor out = randint(0, most + 1, {samples}, number);
    std::vector<Values> before;
    const int threads = num_threads();
    for (int n : {1, 2, 2}) {
      set_num_threads(n);
      const Loss loss = ctc_loss(log_softmax(x, 2), targets, in, out);
      const std::vector<Values> now{values(loss.sum), values(grad(loss.sum, x))};
      CHECK((before.empty() || now == before));
      before = now;
    }
    set_num_threads(threads);
    double sum = 0, weight = 0;
    for (i64 from : {0, 5, 6}) {
      const i64 n = from == 0 ? 5 : from == 5 ? 1 : 10;
      const Loss part = ctc_loss(log_softmax(x.narrow(1, from, n), 2), targets.narrow(0, from, n),
                                 in.narrow(0, from, n), out.narrow(0, from, n));
      sum += part.sum.item(), weight += part.weight.item();
    }
    CHECK(std::fabs(sum - before[0][0]) < 1e-4);
    CHECK(weight == double(samples));
  }
}

TEST_CASE("ctc_loss: a bad label throws before anything is attached, meta prices it") {
  const Tensor x = logits({4, 2, 3}, 1);
  Tensor y = log_softmax(x, 2);
  const memory::LiveObjects before = memory::live_objects();
  const std::string text = message_of([&] {
    (void)ctc_loss(std::move(y), tensor({1, 2, 7}, {.dtype = DType::i64}), list({4, 4}),
                   list({1, 2}));
  });
  CHECK(mentions(text, "[ctc_loss] label 7 at place 2 is outside [0, 3)"));
  CHECK(memory::live_objects() == before);
  CHECK(y.defined());
  CHECK(mentions(message_of([&] {
                   (void)ctc_loss(y, tensor({{1, 2}, {-1, 2}}, {.dtype = DType::i64}), list({4, 4}),
                                  list({1, 2}));
                 }),
                 "[ctc_loss] label -1 at [1, 0] is outside [0, 3)"));
  const TensorOptions meta{.device = Device::meta()};
  const TensorOptions number{.dtype = DType::i64, .device = Device::meta()};
  const Loss loss = ctc_loss(empty({50, 4, 9}, meta), empty({4, 7}, number), empty({4}, number),
                             empty({4}, number));
  CHECK(loss.sum.shape().empty());
}

// --- every variant ---

namespace {

struct Problem {
  i64 steps, samples, classes, labels;
  bool rows = true;  // of targets, else one label after another
  i64 blank = 0;
  bool divide_by_length = true;
  i64 kinds = 1 << 20;  // of labels: few repeat often, and the blank may be among them
};

// The lengths differ, the last sample is the longest; half of the others have labels to the full.
struct Operands {
  Tensor x, targets, in, out;
};
Operands operands(const Problem& p, DType t) {
  auto draw = [seed = u64(7)](i64 limit) mutable {
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return i64((seed >> 33) % u64(limit));
  };
  std::vector<i64> in, out, targets;
  for (i64 n = 0; n < p.samples; ++n) {
    const bool is_last = n + 1 == p.samples;
    out.push_back(is_last || n % 2 ? p.labels : draw(p.labels + 1));
    in.push_back(is_last ? p.steps : p.steps - draw(p.steps / 3 + 1));
    const i64 count = p.rows ? p.labels : out.back();
    for (i64 k = 0; k < count; ++k) targets.push_back(draw(std::min(p.kinds, p.classes)));
  }
  const Shape shape{p.steps, p.samples, p.classes};
  const Tensor x = log_softmax(to_tensor(random_values(numel_of(shape), 5, 2), shape, f64, {}), 2);
  const Tensor labels = tensor(targets);
  return {x.to(t), p.rows ? labels.reshape({p.samples, p.labels}) : labels, tensor(in),
          tensor(out)};
}

struct Numbers {
  Values sum, losses, alpha, gx;
};
// Every variant on d, held against `want` where there is one. Returns what the last one computed.
Numbers run_variants(const Problem& p, const Operands& on_host, Device d, const Numbers* want,
                     std::set<std::string>* ran) {
  const Operands v{on_host.x.to(d), on_host.targets.to(d), on_host.in.to(d), on_host.out.to(d)};
  const DType t = v.x.dtype(), wide = t == f64 ? f64 : f32;
  CAPTURE(device_kind_name(d.kind), dtype_name(t), p.steps, p.samples, p.classes, p.labels, p.rows);
  const TensorOptions made{.dtype = wide, .device = d};
  const i64 width = 2 * p.labels + 1;
  const Tensor sum = empty({}, made), losses = empty({p.samples}, made);
  Tensor alpha = empty({p.samples, p.steps, width}, made), gx = empty_like(v.x);
  const Tensor grad = full({}, 0.5, made);
  Numbers got;
  // Roundings of a step are relative to its sums of logarithms, and add up like a walk.
  const double last_bit = wide == f64 ? 0x1p-53 : 0x1p-24;
  const auto error_of = [&](double size) {
    return 8 * last_bit * std::sqrt(double(p.steps)) * (size + 4);
  };
  const CtcForwardArgs forward{view(sum),   view(losses),    view(alpha),
                               view(v.x),   view(v.targets), view(v.in),
                               view(v.out), p.blank,         p.divide_by_length};
  alpha.fill_(7);
  for_each_variant(
      d, forward,
      [&] {
        got.sum = values(sum), got.losses = values(losses), got.alpha = values(alpha);
        if (!want) return;
        double bound = 0;
        for (size_t n = 0; n < got.losses.size(); ++n) {
          CAPTURE(n, got.losses[n], want->losses[n]);
          const double own = error_of(std::fabs(want->losses[n]));
          CHECK(close(got.losses[n], want->losses[n], own));
          bound += own;
        }
        CHECK(close(got.sum[0], want->sum[0], bound));
        for (size_t i = 0; i < got.alpha.size(); ++i) {
          if (close(got.alpha[i], want->alpha[i], error_of(std::fabs(want->alpha[i])))) continue;
          CAPTURE(i, got.alpha[i], want->alpha[i]);
          FAIL("alpha out of bounds");
        }
        alpha.fill_(7);
      },
      ran);
  run(forward, {nullptr, nullptr, nullptr, d});
  const CtcBackwardArgs backward{view(gx),  view(grad),        view(losses), view(alpha),
                                 view(v.x), view(v.targets),   view(v.in),   view(v.out),
                                 p.blank,   p.divide_by_length};
  gx.fill_(7);
  for_each_variant(
      d, backward,
      [&] {
        got.gx = values(gx);
        if (!want) return;
        for (size_t i = 0; i < got.gx.size(); ++i) {
          const double n = want->losses[i / size_t(p.classes) % size_t(p.samples)];
          const double bound = std::fabs(want->gx[i]) * (roundoff(t) + 4 * error_of(n)) +
                               (t == f16 ? 0x1p-25 : 1e-38);
          if (close(got.gx[i], want->gx[i], bound)) continue;
          CAPTURE(i, got.gx[i], want->gx[i]);
          FAIL("gradient out of bounds");
        }
        gx.fill_(7);
      },
      ran);
  return got;
}
void check_problem(const Problem& p, DType t, std::set<std::string>* ran) {
  const Operands v = operands(p, t);
  Operands exact = v;
  exact.x = v.x.to(f64);
  const Numbers want = run_variants(p, exact, {}, nullptr, nullptr);
  for (const Device d : kernel_devices()) run_variants(p, v, d, &want, ran);
}

}  // namespace

TEST_CASE("ctc kernels: every variant, dtype, and width of the states") {
  std::set<std::string> ran;
  for (const DType t : {f32, f64, f16, bf16}) {
    check_problem({9, 3, 5, 3}, t, &ran);
    // Rows of gx off a 16-byte boundary, blanks among the labels, targets one after another.
    check_problem({21, 4, 11, 6, false, 2, false, 3}, t, &ran);
  }
  for (const i64 labels : {0, 15, 16, 31, 32}) check_problem({73, 2, 7, labels}, f32, &ran);
  // A list without a label, a single class, four steps read ahead and one more or less.
  for (const i64 steps : {1, 2, 3, 4, 5, 8}) {
    check_problem({steps, 2, 3, 0, false}, f32, &ran);
    check_problem({steps, 2, 1, 1}, f32, &ran);
  }
  // One label again and again: a gradient that is one long sum.
  check_problem({90, 2, 2, 33, true, 1, true, 1}, f32, &ran);
  CHECK(ran.size() >= 2 * kernel_devices().size());
}

TEST_CASE("ctc kernels: two states a thread, and more than that") {
  std::set<std::string> ran;
  check_problem({530, 1, 40, 515}, f32, &ran);  // 1031 states for 1024 threads
  const Problem most{3, 1, 9, 1023}, over{3, 1, 9, 1024};
  for (const Device d : kernel_devices()) {
    ran.clear();
    for (const Problem& p : {most, over}) {
      const Numbers n = run_variants(p, operands(p, f32), d, nullptr, &ran);
      CHECK(n.losses[0] == INFINITY);
    }
    if (d.kind == DeviceKind::cpu) continue;
    const Operands v = operands(over, f32);
    const Tensor alpha = empty({1, 3, 2049}, {.device = d}), x = v.x.to(d);
    CtcForwardArgs a;
    a.alpha = view(alpha), a.log_probs = view(x);
    const Variants<CtcForwardArgs>& list = *ContractTable<CtcForwardArgs>::rows[int(d.kind)];
    CHECK(std::string(refusal(list.rows[0], a, d)) == "targets of more than 1023 labels");
  }
}

TEST_CASE("ctc_loss: a bad label on a device throws at the next wait and counts as class 0") {
  for (const Device d : kernel_devices()) {
    if (d.kind == DeviceKind::cpu) continue;
    const Tensor x = to_tensor(random_values(24, 1), {4, 2, 3}, f32, d);
    const Tensor in = list({4, 4}, d), out = list({1, 2}, d);
    const Loss bad = ctc_loss(x, list({1, 2, 7}, d), in, out);
    const std::string text = message_of([&] { (void)bad.sum.item(); });
    CHECK(mentions(text, "[ctc_loss] label 7 at "));
    CHECK(mentions(text, " 2 is outside [0, 3)"));
    CHECK(mentions(text, "ops_ctc_test.cpp"));
    CHECK(bad.sum.item() == ctc_loss(x, list({1, 2, 0}, d), in, out).sum.item());
  }
}
