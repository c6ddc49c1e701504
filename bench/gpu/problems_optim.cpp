// Optimizer steps and the small kernels around them.
#include <algorithm>

#include "warptape/bench/gpu/maker.h"
#include "warptape/core/error.h"
#include "warptape/kernels/exponent_counts.h"
#include "warptape/kernels/grad_norm.h"
#include "warptape/kernels/loss_scale.h"
#include "warptape/kernels/muon.h"
#include "warptape/kernels/optim_rule.h"
#include "warptape/kernels/optim_step.h"

namespace wt::bench {
namespace {

const std::vector<DType> kF32{DType::f32};

i64 elements(Scale scale) {
  return scale == Scale::small ? 10'007 : i64{1} << (scale == Scale::host ? 24 : 26);
}

OptimBlock* block(Maker& m) {
  OptimBlock b;
  b.lr = b.rate = 0.01;
  b.momentum = 0.9;
  b.weight_decay = 0.01;
  b.beta1 = 0.9, b.beta2 = 0.999, b.eps = 1e-8;
  b.bias1 = 0.1, b.bias2_sqrt = 0.03;
  b.mu = 0.45, b.mu_next = 0.46, b.rectify = 0.3;
  b.alpha = 0.99, b.ema_decay = 0.999;
  detail::pack(b);
  return reinterpret_cast<OptimBlock*>(m.bytes(&b, sizeof b).impl()->data);
}
StepBlock* step(Maker& m) {
  StepBlock s{};
  s.loss_sum = 3, s.weight = 2;
  return reinterpret_cast<StepBlock*>(m.bytes(&s, sizeof s).impl()->data);
}
template <class T = void>
T* data(const Tensor& t) {
  return static_cast<T*>(t.impl()->data);
}

// A rule with all of its first `States` states, in shape 1 none of them. They are not negative:
// some are averages of squares.
template <class Args, int States>
Problem rule_problem(Device d, DType t, Scale scale, int shape, int sets) {
  const i64 n = elements(scale);
  const int states = shape == 0 ? States : 0;
  return in_place(problem_of(d, t, str(n, shape ? " stateless" : ""), sets,
                             [&](Maker& m, std::vector<Tensor>& out) {
                               out = {m.normal({n}, t)};
                               Args a;
                               a.param = data(out[0]);
                               a.grad = data(m.normal({n}, t));
                               for (int k = 0; k < states; ++k) {
                                 out.push_back(m.normal({n}, t, Draw::positive));
                                 a.state[k] = data(out.back());
                               }
                               a.n = n, a.dtype = t;
                               a.block = block(m);
                               return a;
                             }));
}
Problem muon_step_problem(Device d, DType t, Scale scale, int, int sets) {
  const i64 n = elements(scale);
  return in_place(problem_of(d, t, str(n), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.normal({n}, t), m.normal({n}, t)};
    MuonStepArgs a;
    a.param = data(out[0]), a.state[0] = data(out[1]);
    a.grad = data(m.normal({n}, t)), a.state[1] = data(m.normal({n}, t));
    a.n = n, a.dtype = t;
    a.block = block(m);
    return a;
  }));
}
Problem muon_direction_problem(Device d, DType t, Scale scale, int, int sets) {
  const i64 n = elements(scale);
  return problem_of(d, t, str(n), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out({n}, t)};
    MuonDirectionArgs a;
    a.out = data(out[0]), a.grad = data(m.normal({n}, t)), a.momentum = data(m.normal({n}, t));
    a.n = n, a.dtype = t;
    a.block = block(m);
    return a;
  });
}
Problem muon_normalize_problem(Device d, DType t, Scale scale, int, int sets) {
  const i64 n = elements(scale);
  return problem_of(d, t, str(n), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out({n}, t)};
    MuonNormalizeArgs a;
    a.out = data(out[0]), a.in = data(m.normal({n}, t));
    a.n = n, a.dtype = t;
    a.count = norm_chunks(n), a.eps = 1e-7;
    a.partials = data<double>(m.normal({a.count}, DType::f64, Draw::positive));
    return a;
  });
}
Problem muon_polynomial_problem(Device d, DType t, Scale scale, int, int sets) {
  const i64 rows = scale == Scale::small ? 101 : scale == Scale::host ? 2048 : 4096;
  return in_place(
      problem_of(d, t, str(rows, "x", rows), sets, [&](Maker& m, std::vector<Tensor>& out) {
        out = {m.normal({rows, rows}, t)};
        MuonPolynomialArgs a;
        a.square = data(out[0]), a.gram = data(m.normal({rows, rows}, t));
        a.rows = rows, a.dtype = t;
        a.a = 3.4, a.b = -4.8, a.c = 2;
        return a;
      }));
}
Problem grad_norm_problem(Device d, DType t, Scale scale, int, int sets) {
  const i64 n = elements(scale);
  return problem_of(d, t, str(n), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out({norm_chunks(n)}, DType::f64)};
    return GradNormArgs{data(m.normal({n}, t)), n, t, data<double>(out[0])};
  });
}
// One row, as of a model that is one large matrix: all blocks add to the same counters.
Problem exponent_counts_problem(Device d, DType t, Scale scale, int, int sets) {
  const i64 n = elements(scale);
  return in_place(problem_of(d, t, str(n), sets, [&](Maker& m, std::vector<Tensor>& out) {
    std::vector<ExponentPart> parts;
    for (i64 at = 0; at < n; at += kExponentPart)
      parts.push_back({at, i32(std::min(kExponentPart, n - at)), 0});
    out = {m.indices({kExponentBins}, 1)};
    ExponentCountsArgs a{};
    a.x = data(m.normal({n}, t)), a.n = n, a.dtype = t;
    const i64 bytes = i64(parts.size() * sizeof(ExponentPart));
    a.parts = data<ExponentPart>(m.bytes(parts.data(), bytes));
    a.part_count = i64(parts.size());
    a.counts = data<i64>(out[0]), a.rows = 1;
    a.factor = 1.0 / 64;
    return a;
  }));
}
Problem grad_scale_problem(Device d, DType t, Scale scale, int, int sets) {
  const i64 n = elements(scale);
  return in_place(problem_of(d, t, str(n), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.normal({n}, t)};
    return GradScaleArgs{data(out[0]), n, t, data<double>(m.scalar(0.5, DType::f64))};
  }));
}
LossScale* loss_scale(Maker& m) {
  const LossScale s;
  return reinterpret_cast<LossScale*>(m.bytes(&s, sizeof s).impl()->data);
}
Problem grad_unscale_problem(Device d, DType t, Scale scale, int, int sets) {
  const i64 n = elements(scale);
  return in_place(problem_of(d, t, str(n), sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.normal({n}, t), m.out({norm_chunks(n)}, DType::f64)};
    return GradUnscaleArgs{data(out[0]), n, t, loss_scale(m), data<double>(out[1])};
  }));
}
Problem restore_problem(Device d, DType t, Scale scale, int, int sets) {
  const i64 n = elements(scale);
  return in_place(problem_of(d, t, str(n), sets, [&](Maker& m, std::vector<Tensor>& out) {
    const i32 raised = 1;
    out = {m.out({n}, t)};
    StepRestoreArgs a{};
    a.to = data(out[0]), a.from = data(m.normal({n}, t));
    a.size = n * item_size(t);
    a.flags.flag[0] = data<i32>(m.bytes(&raised, sizeof raised));
    return a;
  }));
}

// One thread's work each: what counts is that they cost no more than a launch.
Problem advance_problem(Device d, DType t, Scale, int, int sets) {
  return in_place(problem_of(d, t, "1", sets, [&](Maker& m, std::vector<Tensor>&) {
    return StepAdvanceArgs{block(m), step(m), true, {}};
  }));
}
Problem decide_problem(Device d, DType t, Scale, int, int sets) {
  return in_place(problem_of(d, t, "100", sets, [&](Maker& m, std::vector<Tensor>& out) {
    out = {m.out({1}, DType::f64), m.out({1}, DType::f64)};
    StepDecideArgs a{};
    a.partials = data<double>(m.normal({100}, DType::f64, Draw::positive));
    a.count = 100, a.max_norm = 1;
    a.norm = data<double>(out[0]), a.factor = data<double>(out[1]);
    return a;
  }));
}
Problem loss_add_problem(Device d, DType t, Scale, int, int sets) {
  return in_place(problem_of(d, t, "1", sets, [&](Maker& m, std::vector<Tensor>&) {
    LossAddArgs a{};
    a.sum = data(m.scalar(1.5, DType::f32)), a.sum_dtype = DType::f32;
    a.weight_value = 2;
    a.step = step(m);
    return a;
  }));
}
Problem loss_seed_problem(Device d, DType t, Scale, int, int sets) {
  return in_place(problem_of(d, t, "1", sets, [&](Maker& m, std::vector<Tensor>&) {
    return LossSeedArgs{step(m), loss_scale(m), 1, 2};
  }));
}
Problem scale_update_problem(Device d, DType t, Scale, int, int sets) {
  return in_place(problem_of(d, t, "1", sets, [&](Maker& m, std::vector<Tensor>&) {
    return LossScaleUpdateArgs{loss_scale(m)};
  }));
}

}  // namespace

void add_optim_rows(std::vector<ProblemRow>& rows) {
  rows.push_back({"sgd_step", kF32, 2, rule_problem<SgdStepArgs, 1>});
  rows.push_back({"adamw_step", kF32, 1, rule_problem<AdamwStepArgs, 2>});
  rows.push_back({"adam_step", kF32, 1, rule_problem<AdamStepArgs, 2>});
  rows.push_back({"adagrad_step", kF32, 1, rule_problem<AdagradStepArgs, 1>});
  rows.push_back({"rmsprop_step", kF32, 1, rule_problem<RmspropStepArgs, 2>});
  rows.push_back({"lion_step", kF32, 1, rule_problem<LionStepArgs, 1>});
  rows.push_back({"nadam_step", kF32, 1, rule_problem<NadamStepArgs, 2>});
  rows.push_back({"radam_step", kF32, 1, rule_problem<RadamStepArgs, 2>});
  rows.push_back({"adamax_step", kF32, 1, rule_problem<AdamaxStepArgs, 2>});
  rows.push_back({"adadelta_step", kF32, 1, rule_problem<AdadeltaStepArgs, 2>});
  rows.push_back({"rprop_step", kF32, 1, rule_problem<RpropStepArgs, 2>});
  rows.push_back({"muon_step", kF32, 1, muon_step_problem});
  rows.push_back({"muon_direction", kF32, 1, muon_direction_problem});
  rows.push_back({"muon_normalize", kF32, 1, muon_normalize_problem});
  rows.push_back({"muon_polynomial", kF32, 1, muon_polynomial_problem});
  rows.push_back({"ema_step", kF32, 1, rule_problem<EmaStepArgs, 0>});
  rows.push_back({"step_advance", kF32, 1, advance_problem});
  rows.push_back({"step_restore", kF32, 1, restore_problem});
  rows.push_back({"grad_norm", kF32, 1, grad_norm_problem});
  rows.push_back({"exponent_counts", kF32, 1, exponent_counts_problem});
  rows.push_back({"grad_scale", kF32, 1, grad_scale_problem});
  rows.push_back({"step_decide", kF32, 1, decide_problem});
  rows.push_back({"loss_add", kF32, 1, loss_add_problem});
  rows.push_back({"loss_seed", kF32, 1, loss_seed_problem});
  rows.push_back({"loss_scale_update", kF32, 1, scale_update_problem});
  rows.push_back({"grad_unscale", kF32, 1, grad_unscale_problem});
}

}  // namespace wt::bench
