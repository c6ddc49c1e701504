// Every variant of the shared optimizer rules on every device against plain loops in f64: odd
// sizes, offsets that break 16-byte alignment, absent states, flags.
#include "warptape/kernels/optim_rule.h"

#include <algorithm>
#include <array>
#include <functional>

#include "warptape/tests/kernels/optim/optim_buffers.h"

using namespace wt;
using namespace wt_test;

namespace {

// One element: param, gradient times factor, states.
using Formula = std::function<void(double& p, double g, double* s)>;

const OptimBlock kBlock{.momentum = 0.75,
                        .dampening = 0.5,
                        .weight_decay = 0.25,
                        .beta1 = 0.75,
                        .beta2 = 0.875,
                        .eps = 0.01,
                        .alpha = 0.875,
                        .lr_decay = 0.5,
                        .ema_decay = 0.75,
                        .applied = 2,
                        .mu_product = 0.25,
                        .rate = 0.125,
                        .bias1 = 0.5,
                        .bias2_sqrt = 0.25,
                        .mu = 0.5,
                        .mu_next = 0.625,
                        .rectify = 0.75};

// `squares`: the bits of the states that must not be negative; `states`: those that are there.
template <class Args>
void check_rule(unsigned states, unsigned squares, const Formula& formula,
                const std::function<void(Args&)>& options = {},
                const OptimBlock& scalars = kBlock) {
  for (const DType t : {f32, f64})
    for (const Sizes s : kSizes) {
      CAPTURE(dtype_name(t), s.n, s.skip, states);
      for_each_variant<Args>([&](Device d, auto launch) {
        const Buffer p(numbers(s.n, 1), t, d, s.skip), g(numbers(s.n, 2), t, d, s.skip);
        std::vector<Buffer> state;
        for (unsigned k = 0; k < kRuleStates; ++k) {
          Values v = numbers(s.n, 3 + k);
          if (squares >> k & 1)
            for (double& x : v) x = 2 + x * x;
          state.emplace_back(v, t, d, s.skip);
        }
        const OnDevice<OptimBlock> block(packed(scalars), d);
        const OnDevice<double> factor(0.5, d);
        Args a;
        a.param = p.data();
        a.grad = g.data();
        for (unsigned k = 0; k < kRuleStates; ++k)
          if (states >> k & 1) a.state[k] = state[k].data();
        a.n = s.n;
        a.dtype = t;
        a.block = block.get();
        a.grad_factor = factor.get();
        if (options) options(a);
        Values want = p.values();
        const Values gradient = g.values();
        std::vector<Values> wanted;
        for (const Buffer& b : state) wanted.push_back(b.values());
        if (!launch(a)) return;
        for (size_t i = 0; i < want.size(); ++i) {
          double all[kRuleStates];
          for (size_t k = 0; k < kRuleStates; ++k) all[k] = wanted[k][i];
          formula(want[i], 0.5 * gradient[i], all);
          for (size_t k = 0; k < kRuleStates; ++k) wanted[k][i] = all[k];
        }
        check_near(p.values(), want, t);
        CHECK(g.values() == gradient);
        for (size_t k = 0; k < kRuleStates; ++k) check_near(state[k].values(), wanted[k], t);
      });
    }
}

template <class Args>
void check_flags() {
  const Values x(100, 0.5);
  for (int which = 0; which < 3; ++which)
    for_each_variant<Args>([&](Device d, auto launch) {
      const Buffer p(x, f32, d, 0), g(Values(100, 2.0), f32, d, 0);
      std::vector<Buffer> state(kRuleStates, Buffer(x, f32, d, 0));
      for (Buffer& b : state) b.tensor = b.tensor.clone();
      const OnDevice<OptimBlock> block(packed(kBlock), d);
      const OnDevice<i32> one(1, d), zero(0, d);
      Args a;
      a.param = p.data();
      a.grad = g.data();
      for (size_t k = 0; k < kRuleStates; ++k) a.state[k] = state[k].data();
      a.n = 100;
      a.block = block.get();
      a.flags = {{zero.get(), nullptr, zero.get()}};
      a.flags.flag[which] = one.get();
      launch(a);
      CHECK(p.values() == x);
      for (const Buffer& b : state) CHECK(b.values() == x);
    });
}

// Three cohorts in one launch, which begins and ends within the outer ones, have the bits of a
// launch for each with a block of its own.
template <class Args>
void check_cohorts(unsigned states) {
  constexpr i64 kN = 64 * 9, kBegin = (i64{5} << 32) + 128;  // of an arena of 20 GiB or more
  const std::array<i64, 3> ends{kBegin + 64 * 2, kBegin + 64 * 3, kBegin + 64 * 20};
  for (const DType t : {f32, f64})
    for_each_variant<Args>([&](Device d, auto launch) {
      std::array<OptimBlock, 3> blocks{kBlock, kBlock, kBlock};
      std::array<Cohort, 3> cohorts;
      for (size_t k = 0; k < 3; ++k) {
        blocks[k].bias1 = 0.5 + 0.125 * double(k);
        blocks[k].rectify = double(k) / 2;
        blocks[k].applied = i64(k);
        blocks[k].mu = 0.25 * double(k + 1);
        wt::detail::pack(blocks[k]);
        cohorts[k].end = ends[k];
        cohorts[k].f32 = blocks[k].f32;
        cohorts[k].f64 = blocks[k].f64;
      }
      const OnDevice<std::array<OptimBlock, 3>> there(blocks, d);
      const OnDevice<std::array<Cohort, 3>> table(cohorts, d);
      const auto run_parts = [&](bool at_once) {
        Values squares = numbers(kN, 3);
        for (double& x : squares) x = 2 + x * x;
        const Buffer p(numbers(kN, 1), t, d, 0), g(numbers(kN, 2), t, d, 0);
        std::vector<Buffer> state;
        for (unsigned k = 0; k < kRuleStates; ++k) state.emplace_back(squares, t, d, 0);
        bool launched = true;
        for (size_t k = 0; k < (at_once ? 1 : 3); ++k) {
          const i64 from = at_once || k == 0 ? 0 : ends[k - 1] - kBegin;
          const i64 to = at_once ? kN : std::min(kN, ends[k] - kBegin);
          const auto at = [&](const Buffer& b) {
            return static_cast<char*>(b.data()) + from * item_size(t);
          };
          Args a;
          a.param = at(p), a.grad = at(g);
          for (unsigned s = 0; s < kRuleStates; ++s)
            if (states >> s & 1) a.state[s] = at(state[s]);
          a.n = to - from;
          a.dtype = t;
          a.block = there.get()->data() + k;
          if (at_once) {
            a.cohorts = table.get()->data();
            a.n_cohorts = 3;
            a.set_begin(kBegin);
          }
          launched &= launch(a);
        }
        std::vector<Values> all{p.values()};
        for (const Buffer& b : state) all.push_back(b.values());
        if (!launched) all.clear();
        return all;
      };
      CHECK(run_parts(true) == run_parts(false));
    });
}

double sign(double c) { return c > 0 ? 1 : c < 0 ? -1 : 0; }

}  // namespace

TEST_CASE("sgd_step: every variant, without momentum, plain and nesterov") {
  check_rule<SgdStepArgs>(0, 0, [](double& p, double g, double*) { p -= 0.125 * (g + 0.25 * p); });
  for (const bool nesterov : {false, true})
    check_rule<SgdStepArgs>(
        1, 0,
        [&](double& p, double grad, double* s) {
          const double g = grad + 0.25 * p;
          s[0] = 0.75 * s[0] + 0.5 * g;
          p -= 0.125 * (nesterov ? g + 0.75 * s[0] : s[0]);
        },
        [&](SgdStepArgs& a) { a.nesterov = nesterov; });
}

TEST_CASE("adamw_step: every variant") {
  check_rule<AdamwStepArgs>(3, 2, [](double& p, double g, double* s) {
    s[0] += 0.25 * (g - s[0]);
    s[1] = 0.875 * s[1] + 0.125 * g * g;
    p = p * (1 - 0.125 * 0.25) - 0.125 / 0.5 * s[0] / (std::sqrt(s[1]) / 0.25 + 0.01);
  });
}

TEST_CASE("adam_step: every variant") {
  check_rule<AdamStepArgs>(3, 2, [](double& p, double grad, double* s) {
    const double g = grad + 0.25 * p;
    s[0] += 0.25 * (g - s[0]);
    s[1] = 0.875 * s[1] + 0.125 * g * g;
    p -= 0.125 / 0.5 * s[0] / (std::sqrt(s[1]) / 0.25 + 0.01);
  });
}

TEST_CASE("adam_step and adamw_step with amsgrad: every variant") {
  // The largest are between 2 and 3 as the averages are: about half of them stay.
  check_rule<AdamwStepArgs>(7, 6, [](double& p, double g, double* s) {
    s[0] += 0.25 * (g - s[0]);
    s[1] = 0.875 * s[1] + 0.125 * g * g;
    s[2] = std::max(s[2], s[1]);
    p = p * (1 - 0.125 * 0.25) - 0.125 / 0.5 * s[0] / (std::sqrt(s[2]) / 0.25 + 0.01);
  });
  check_rule<AdamStepArgs>(7, 6, [](double& p, double grad, double* s) {
    const double g = grad + 0.25 * p;
    s[0] += 0.25 * (g - s[0]);
    s[1] = 0.875 * s[1] + 0.125 * g * g;
    s[2] = std::max(s[2], s[1]);
    p -= 0.125 / 0.5 * s[0] / (std::sqrt(s[2]) / 0.25 + 0.01);
  });
}

TEST_CASE("amsgrad: an average of squares that is NaN is not hidden by the largest so far") {
  for_each_variant<AdamwStepArgs>([&](Device d, auto launch) {
    const Buffer p(Values(17, 1.0), f32, d, 0), g(Values(17, NAN), f32, d, 0),
        m(Values(17, 0.0), f32, d, 0), v(Values(17, 1.0), f32, d, 0),
        most(Values(17, 9.0), f32, d, 0);
    const OnDevice<OptimBlock> block(packed(kBlock), d);
    AdamwStepArgs a;
    a.param = p.data();
    a.grad = g.data();
    a.state[0] = m.data(), a.state[1] = v.data(), a.state[2] = most.data();
    a.n = 17;
    a.block = block.get();
    if (!launch(a)) return;
    for (const Buffer* b : {&p, &v, &most})
      for (const double x : b->values()) CHECK(std::isnan(x));
  });
}

TEST_CASE("nadam_step: every variant, both kinds of decay") {
  for (const bool decoupled : {false, true})
    check_rule<NadamStepArgs>(
        3, 2,
        [&](double& p, double grad, double* s) {
          const double g = decoupled ? grad : grad + 0.25 * p;
          if (decoupled) p *= 1 - 0.125 * 0.25;
          s[0] += 0.25 * (g - s[0]);
          s[1] = 0.875 * s[1] + 0.125 * g * g;
          const double product = 0.25 * 0.5, under = std::sqrt(s[1]) / 0.25 + 0.01;
          p -= 0.125 * (1 - 0.5) / (1 - product) * g / under;
          p -= 0.125 * 0.625 / (1 - product * 0.625) * s[0] / under;
        },
        [&](NadamStepArgs& a) { a.decoupled = decoupled; });
}

TEST_CASE("radam_step: every variant, both kinds of decay, before and after rectification") {
  for (const bool decoupled : {false, true})
    for (const double rectify : {0.0, 0.75}) {
      CAPTURE(decoupled, rectify);
      OptimBlock b = kBlock;
      b.rectify = rectify;
      check_rule<RadamStepArgs>(
          3, 2,
          [&](double& p, double grad, double* s) {
            const double g = decoupled ? grad : grad + 0.25 * p;
            if (decoupled) p *= 1 - 0.125 * 0.25;
            s[0] += 0.25 * (g - s[0]);
            s[1] = 0.875 * s[1] + 0.125 * g * g;
            const double step = 0.125 / 0.5 * s[0];
            p -= rectify > 0 ? step * rectify / (std::sqrt(s[1]) + 0.01) : step;
          },
          [&](RadamStepArgs& a) { a.decoupled = decoupled; }, b);
    }
}

TEST_CASE("adamax_step: every variant") {
  check_rule<AdamaxStepArgs>(3, 2, [](double& p, double grad, double* s) {
    const double g = grad + 0.25 * p;
    s[0] += 0.25 * (g - s[0]);
    s[1] = std::max(0.875 * s[1], std::fabs(g) + 0.01);
    p -= 0.125 / 0.5 * s[0] / s[1];
  });
}

TEST_CASE("adadelta_step: every variant") {
  check_rule<AdadeltaStepArgs>(3, 3, [](double& p, double grad, double* s) {
    const double g = grad + 0.25 * p;
    s[0] = 0.875 * s[0] + 0.125 * g * g;
    const double delta = std::sqrt(s[1] + 0.01) / std::sqrt(s[0] + 0.01) * g;
    s[1] = 0.875 * s[1] + 0.125 * delta * delta;
    p -= 0.125 * delta;
  });
}

TEST_CASE("rprop_step: every variant") {
  check_rule<RpropStepArgs>(
      3, 2,
      [](double& p, double g, double* s) {
        const double agree = g * s[0];
        s[1] *= agree > 0 ? 1.5 : agree < 0 ? 0.25 : 1;
        s[1] = std::fmin(std::fmax(s[1], 0.5), 2.25);
        if (agree < 0) g = 0;
        p -= sign(g) * s[1];
        s[0] = g;
      },
      [](RpropStepArgs& a) { a.eta_minus = 0.25, a.eta_plus = 1.5, a.least = 0.5, a.most = 2.25; });
}

TEST_CASE("adagrad_step: every variant") {
  check_rule<AdagradStepArgs>(1, 1, [](double& p, double grad, double* s) {
    const double g = grad + 0.25 * p;
    s[0] += g * g;
    p -= 0.125 / (1 + 2 * 0.5) * g / (std::sqrt(s[0]) + 0.01);
  });
}

TEST_CASE("rmsprop_step: every variant, with and without momentum and centring") {
  for (const unsigned states : {1u, 3u, 5u, 7u})
    check_rule<RmspropStepArgs>(states, 1, [&](double& p, double grad, double* s) {
      const double g = grad + 0.25 * p;
      s[0] = 0.875 * s[0] + 0.125 * g * g;
      double variance = s[0];
      if (states & 4) {
        s[2] += 0.125 * (g - s[2]);
        variance -= s[2] * s[2];
      }
      double step = g / (std::sqrt(variance) + 0.01);
      if (states & 2) step = s[1] = 0.75 * s[1] + step;
      p -= 0.125 * step;
    });
}

TEST_CASE("rmsprop_step: a variance that rounds below zero counts as zero") {
  for (const DType t : {f32, f64})
    for_each_variant<RmspropStepArgs>([&](Device d, auto launch) {
      const Values zero(9, 0.0), one(9, 1.0), half(9, 0.5);
      const Buffer p(zero, t, d, 0), g(one, t, d, 0), square(half, t, d, 0), average(one, t, d, 0);
      const OnDevice<OptimBlock> block(packed(kBlock), d);
      RmspropStepArgs a;
      a.param = p.data();
      a.grad = g.data();
      a.state[0] = square.data();
      a.state[2] = average.data();
      a.n = 9;
      a.dtype = t;
      a.block = block.get();
      if (!launch(a)) return;
      check_near(p.values(), Values(9, -0.125 / 0.01), t);
    });
}

TEST_CASE("lion_step: every variant") {
  check_rule<LionStepArgs>(1, 0, [](double& p, double g, double* s) {
    const double c = 0.75 * s[0] + 0.25 * g;
    p -= 0.125 * (sign(c) + 0.25 * p);
    s[0] = 0.875 * s[0] + 0.125 * g;
  });
}

TEST_CASE("lion_step: nothing to follow moves nothing") {
  for_each_variant<LionStepArgs>([&](Device d, auto launch) {
    const Buffer p(Values(17, 4.0), f32, d, 0), g(Values(17, 0.0), f32, d, 0),
        m(Values(17, 0.0), f32, d, 0);
    OptimBlock b = kBlock;
    b.weight_decay = 0;
    const OnDevice<OptimBlock> block(packed(b), d);
    LionStepArgs a;
    a.param = p.data();
    a.grad = g.data();
    a.state[0] = m.data();
    a.n = 17;
    a.block = block.get();
    if (!launch(a)) return;
    CHECK(p.values() == Values(17, 4.0));
  });
}

TEST_CASE("muon_step: every variant; the direction stays") {
  check_rule<MuonStepArgs>(3, 0, [](double& p, double g, double* s) {
    s[0] += 0.25 * (g - s[0]);
    p = p * (1 - 0.125 * 0.25) - 0.125 * s[1];
  });
}

TEST_CASE("ema_step: every variant") {
  // The weights are not multiplied by the gradients' factor.
  check_rule<EmaStepArgs>(0, 0,
                          [](double& p, double half, double*) { p += 0.25 * (2 * half - p); });
}

TEST_CASE("any raised flag stops every variant of a rule", "[wall][transaction]") {
  check_flags<SgdStepArgs>();
  check_flags<AdamwStepArgs>();
  check_flags<AdamStepArgs>();
  check_flags<AdagradStepArgs>();
  check_flags<RmspropStepArgs>();
  check_flags<LionStepArgs>();
  check_flags<NadamStepArgs>();
  check_flags<RadamStepArgs>();
  check_flags<AdamaxStepArgs>();
  check_flags<AdadeltaStepArgs>();
  check_flags<RpropStepArgs>();
  check_flags<MuonStepArgs>();
  check_flags<EmaStepArgs>();
}

TEST_CASE("cohorts: every variant of every rule finds the scalars of an element") {
  check_cohorts<SgdStepArgs>(1);
  check_cohorts<AdamwStepArgs>(3);
  check_cohorts<AdamStepArgs>(7);
  check_cohorts<AdagradStepArgs>(1);
  check_cohorts<RmspropStepArgs>(7);
  check_cohorts<LionStepArgs>(1);
  check_cohorts<NadamStepArgs>(3);
  check_cohorts<RadamStepArgs>(3);
  check_cohorts<AdamaxStepArgs>(3);
  check_cohorts<AdadeltaStepArgs>(3);
  check_cohorts<RpropStepArgs>(3);
  check_cohorts<MuonStepArgs>(3);
  check_cohorts<EmaStepArgs>(0);
}

TEST_CASE("cpu steps: as many threads as one likes, the same bits") {
  const i64 n = (i64{1} << 17) + 13;
  const Values x = numbers(n, 1), gradient = numbers(n, 2);
  Values squares = numbers(n, 3);
  for (double& v : squares) v *= v;
  const Device d = Device::cpu();
  const OnDevice<OptimBlock> block(packed(kBlock), d);
  const int before = num_threads();
  const auto with_threads = [&](int threads) {
    set_num_threads(threads);
    const Buffer p(x, f32, d, 0), q(x, f32, d, 0), r(x, f32, d, 0), g(gradient, f32, d, 0),
        m(squares, f32, d, 0), v(squares, f32, d, 0), buffer(x, f32, d, 0);
    const auto step = [&](auto a, const Buffer& param, const Buffer& first, const Buffer* second) {
      a.param = param.data();
      a.grad = g.data();
      a.state[0] = first.data();
      if (second) a.state[1] = second->data();
      a.n = n;
      a.block = block.get();
      run(a, Launch{.device = d});
    };
    step(AdamStepArgs{}, p, m, &v);
    step(AdamwStepArgs{}, q, m, &v);
    step(SgdStepArgs{}, r, buffer, nullptr);
    std::vector<Values> all;
    for (const Buffer* b : {&p, &q, &r, &m, &v, &buffer}) all.push_back(b->values());
    return all;
  };
  const std::vector<Values> one = with_threads(1), three = with_threads(3);
  set_num_threads(before);
  CHECK(one == three);
  CHECK(one[0].back() != x.back());
}
