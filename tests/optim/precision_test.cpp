// TrainStep in f16 and bf16: it trains as f32 does, keeps f32 where f32 is kept, skips what
// overflows, and adds micro-batches up.
#include <cmath>

#include "warptape/core/profiler.h"
#include "warptape/optim/arena.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/optim/scaled_net.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using namespace wt_test;

namespace {

auto loss_of(ScaledNet& net) {
  return [&net](const Labelled& b) { return cross_entropy(net(b.x), b.y); };
}

// Every 16-bit copy is its parameter, rounded, and autocast may use it.
void check_halves(const optim::Optimizer& opt, DType t) {
  for (const auto& [arena, slot] : opt.arenas().in_order()) {
    const Tensor& p = slot->entry.tensor;
    CHECK(p.dtype() == f32);
    const Leaf* l = leaf_of(p.impl());
    REQUIRE(l->half);
    CHECK(l->half_version == p.impl()->cell->version);
    CHECK(slot->half.dtype() == t);
    CHECK(slot->half.to_vector<double>() == p.detach().to(t).to_vector<double>());
  }
}

}  // namespace

TEST_CASE("TrainStep f16, bf16: trains as f32 does, with f32 parameters and state", "[precision]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const DType t = GENERATE(f16, bf16);
  const LeakGuard guard;
  const auto train = [&](DType precision) {
    ScaledNet net = scaled_net(d);
    optim::AdamW opt(net, {.lr = 0.02});
    TrainStep step{net, opt, {.precision = precision, .clip_norm = 1}};
    const Labelled batch = labelled(32, d);
    std::vector<double> losses;
    for (int i = 0; i < 30; ++i) {
      const StepResult r = step(batch, loss_of(net));
      CHECK(!r.skipped());
      CHECK(r.scale() == (precision == f16 ? 65536 : 1));
      losses.push_back(r.loss());
      if (precision != f32 && i % 10 == 0) check_halves(opt, t);
    }
    for (const auto& s : opt.state()) CHECK(!is_half(s.tensor.dtype()));
    return losses;
  };
  const std::vector<double> half = train(t), wide = train(f32);
  CHECK(wide.back() < 0.3 * wide.front());
  const double unit = t == f16 ? 1e-3 : 8e-3;  // of one rounding
  for (size_t i = 0; i < wide.size(); ++i) CHECK(std::abs(half[i] - wide[i]) < 8 * unit);
}

TEST_CASE("TrainStep f16: one overflow skips one step and changes nothing else",
          "[precision][transaction]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  ScaledNet net = scaled_net(d);
  optim::AdamW opt(net, {.lr = 0.02});
  TrainStep step{net, opt, {.precision = f16, .schedule = optim::warmup(10)}};
  const Labelled batch = labelled(32, d);
  Overflow bad(net.first.weight.tensor());
  step(batch, loss_of(net));
  const std::vector<double> before = values_of(net);
  bad.on = true;
  const StepResult skipped = step(batch, loss_of(net));
  bad.on = false;
  CHECK(skipped.skipped());
  CHECK(skipped.scale() == 65536);
  CHECK(skipped.applied() == 1);
  CHECK(values_of(net) == before);
  check_halves(opt, f16);
  const StepResult next = step(batch, loss_of(net));
  CHECK(!next.skipped());
  CHECK(next.scale() == 32768);
  CHECK(next.applied() == 2);
  CHECK(next.lr() == 0.02 * optim::warmup(10).at(1));
  CHECK(step.attempted() == 3);
  CHECK(step.scaler().get_scale() == 32768);
  check_halves(opt, f16);
}

TEST_CASE("TrainStep f16: a NaN that no scale helps stops at the smallest one", "[precision]") {
  ScaledNet net = scaled_net(Device::cpu());
  optim::AdamW opt(net);
  TrainStep step{net, opt, {.precision = f16, .loss_scale = {.init_scale = 4}}};
  Overflow bad(net.first.weight.tensor());
  bad.on = true;
  const Labelled batch = labelled(8, Device::cpu());
  const std::vector<double> before = values_of(net);
  int steps = 0;
  const std::string text = message_of([&] {
    for (; steps < 10; ++steps) {
      const bool skipped = step(batch, loss_of(net)).skipped();
      CHECK(skipped);
    }
  });
  CHECK(steps == 2);
  CHECK(mentions(text, "the loss scale is at its smallest already"));
  CHECK(mentions(text, "first in the gradient of first.weight"));
  CHECK(mentions(text, "Try bf16"));
  CHECK(values_of(net) == before);
  bad.on = false;
  CHECK_NOTHROW(step(batch, loss_of(net)));
  // skip: never.
  TrainStep patient{
      net,
      opt,
      {.precision = f16, .on_nonfinite = NonFinite::skip, .loss_scale = {.init_scale = 2}}};
  bad.on = true;
  for (int i = 0; i < 4; ++i) CHECK(patient(batch, loss_of(net)).skipped());
  CHECK(patient.scaler().get_scale() == 1);
  CHECK(patient.scaler().state_dict().size() == 6);  // a checkpoint can be written
  CHECK(mentions(message_of([&] {
                   const TrainStep s(net, opt,
                                     {.precision = f16, .on_nonfinite = NonFinite::ignore});
                 }),
                 "use skip or stop"));
  CHECK(mentions(message_of([&] { const TrainStep s(net, opt, {.precision = f64}); }),
                 "precision must be f32, f16 or bf16, got f64"));
}

TEST_CASE("trap T12, f16: micro-batches of unequal weight add up to the full batch",
          "[precision][trap]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const DType t = GENERATE(f16, bf16);
  const auto train = [&](i64 parts) {
    ScaledNet net = scaled_net(d);
    optim::Sgd opt(net, {.lr = 0.1});
    TrainStep step{net, opt, {.precision = t, .micro_batches = parts}};
    Labelled batch = labelled(17, d);
    std::vector<i64> y = batch.y.to_vector<i64>();
    for (size_t i = 0; i < 6; ++i) y[i] = -100;  // without weight: the first part has none at all
    batch.y = tensor(y).to(d);
    std::vector<double> all;
    for (int i = 0; i < 3; ++i) {
      const StepResult r = step(batch, loss_of(net));
      CHECK(!r.skipped());
      all.push_back(r.loss());
      all.push_back(r.grad_norm());
    }
    return all;
  };
  const std::vector<double> whole = train(1), parts = train(5);
  const double unit = t == f16 ? 1e-3 : 8e-3;
  for (size_t i = 0; i < whole.size(); ++i)
    CHECK(std::abs(whole[i] - parts[i]) < 2 * unit * std::abs(whole[i]));
}

TEST_CASE("trap T30: parameters, statistics and optimizer state stay f32 in an f16 step",
          "[precision][trap]") {
  nn::Sequential net{nn::Linear{8, 16}, nn::BatchNorm1d{16}, nn::ReLU{}, nn::Linear{16, 4}};
  optim::AdamW opt(net);
  TrainStep step{net, opt, {.precision = f16}};
  const Labelled batch = labelled(16, Device::cpu());
  step(batch, [&](const Labelled& b) {
    const Tensor y = net(b.x);
    CHECK(y.dtype() == f16);
    const Loss loss = cross_entropy(y, b.y);
    CHECK(loss.sum.dtype() == f32);
    return loss;
  });
  for (const auto& t : net.state_dict()) CHECK(!is_half(t.tensor.dtype()));
  for (const auto& t : opt.state()) CHECK(!is_half(t.tensor.dtype()));
  for (const auto& p : net.parameters()) CHECK(p.grad().dtype() == f32);
}

TEST_CASE("a step casts no weight: updates write the 16-bit copies", "[precision]") {
  struct Casts : profiler::Observer {
    int n = 0;
    void begin(const profiler::Range& r) noexcept override {
      n += r.kind == profiler::Kind::kernel && std::string_view(r.name) == "copy" && r.op &&
           std::string_view(r.op->name) == "to_dtype";
    }
  };
  ScaledNet net = scaled_net(Device::cpu());
  optim::AdamW opt(net);
  const Labelled batch = labelled(16, Device::cpu());
  const auto casts = [&](i64 parts) {
    TrainStep step{net, opt, {.precision = bf16, .micro_batches = parts}};
    step(batch, loss_of(net));
    Casts heard;
    {
      const profiler::ObserverScope scope(heard);
      step(batch, loss_of(net));
    }
    return heard.n;
  };
  // The batch down, and the gradients of two weights and two biases up: five a part.
  CHECK(casts(1) == 5);
  CHECK(casts(3) == 15);
}

TEST_CASE("weights that are written by hand are what the next f16 step uses", "[precision]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  ScaledNet a = scaled_net(d, 3), b = scaled_net(d, 4);
  optim::Sgd opt_a(a), opt_b(b);
  TrainStep step_a{a, opt_a, {.precision = f16}}, step_b{b, opt_b, {.precision = f16}};
  const Labelled batch = labelled(16, d);
  step_a(batch, loss_of(a));
  step_b(batch, loss_of(b));
  b.load_state_dict(a.state_dict());
  CHECK(step_a(batch, loss_of(a)).loss() == step_b(batch, loss_of(b)).loss());
  CHECK(values_of(a) == values_of(b));
  check_halves(opt_b, f16);
}

TEST_CASE("ranks agree on the seed of an f16 backward and on the scale", "[precision]") {
  // Another rank, whose first micro-batch weighs 256 times as much, whose gradients are the same,
  // and which may have met an overflow.
  struct Other : optim::Reducer {
    bool overflow = false;
    void any(std::span<char>) override {}
    void sum(const Tensor& t) override {
      const NoGrad no_grad;
      Tensor to = t;
      to.mul_(2);
    }
    void max(const Tensor& t) override {
      Tensor to = t;
      if (seeds == 0 || seeds % 2 == 0)
        to.copy_(wt::add(to, 8));  // seed_power
      else if (overflow)
        to.copy_(full({}, i64(kSkipFound), {.dtype = DType::i32}));
      ++seeds;
    }
    int seeds = 0;
  };
  ScaledNet net = scaled_net(Device::cpu()), alone = scaled_net(Device::cpu());
  optim::Sgd opt(net, {.lr = 0.1}), opt_alone(alone, {.lr = 0.1});
  Other other;
  TrainStep step{net, opt, {.precision = f16, .reducer = &other}};
  TrainStep step_alone{alone, opt_alone, {.precision = f16}};
  const Labelled batch = labelled(16, Device::cpu());
  const StepResult r = step(batch, loss_of(net)), r_alone = step_alone(batch, loss_of(alone));
  CHECK(r.loss() == r_alone.loss());
  CHECK(std::abs(r.grad_norm() - r_alone.grad_norm()) < 1e-3 * r_alone.grad_norm());
  CHECK(r.scale() == 65536);
  other.overflow = true;
  const std::vector<double> before = values_of(net);
  CHECK(step(batch, loss_of(net)).skipped());
  CHECK(values_of(net) == before);
  CHECK(step.scaler().get_scale() == 32768);
}

TEST_CASE("trap T9, T12: verify() tells whether micro-batches add up", "[precision][trap]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const DType t = GENERATE(f32, f16, bf16);
  ScaledNet net = scaled_net(d);
  optim::AdamW opt(net);
  TrainStep step{net, opt, {.precision = t, .micro_batches = 3}};
  Labelled batch = labelled(16, d);
  std::vector<i64> y = batch.y.to_vector<i64>();
  for (const size_t i : {0u, 1u, 2u, 9u}) y[i] = -100;
  batch.y = tensor(y).to(d);
  const std::vector<double> before = values_of(net);
  const Generator random = generator();
  const GradientAgreement right = step.verify(batch, loss_of(net));
  CHECK(right.agrees);
  CHECK(right.difference < (t == bf16 ? 0.05 : t == f16 ? 0.01 : 1e-5));
  // The mean of means: every part counts its samples, not its labels.
  const GradientAgreement wrong = step.verify(batch, [&](const Labelled& b) {
    const Tensor mean = cross_entropy(net(b.x), b.y).mean();
    return Loss{mul(mean, double(b.size())), b.size()};
  });
  CHECK(!wrong.agrees);
  CHECK(wrong.difference > 0.01);
  CHECK(!wrong.parameter.empty());
  CHECK(values_of(net) == before);
  CHECK(generator() == random);
  CHECK(step.attempted() == 0);
  CHECK(!step(batch, loss_of(net)).skipped());
  TrainStep whole{net, opt};
  CHECK(mentions(message_of([&] { whole.verify(batch, loss_of(net)); }), "micro_batches is 1"));
}

TEST_CASE("trap T22: a schedule counts applied steps, in a raw loop too", "[precision][trap]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  ScaledNet net = scaled_net(d);
  optim::Sgd opt(net, {.lr = 0.5});
  const optim::Schedule schedule = optim::warmup(10);
  opt.set_schedule(schedule);
  optim::GradScaler scaler;
  const Labelled batch = labelled(16, d);
  Overflow bad(net.first.weight.tensor());
  i64 applied = 0;
  for (int i = 0; i < 6; ++i) {
    bad.on = i == 1 || i == 2 || i == 4;
    CHECK(opt.rate() == 0.5 * schedule.at(applied));
    opt.zero_grad();
    scaler.scale(cross_entropy(net(batch.x), batch.y)).backward();
    scaler.step(opt);
    scaler.update();
    applied += bad.on ? 0 : 1;
    CHECK(opt.applied() == applied);
    CHECK(opt.attempted() == i + 1);
  }
  // And in TrainStep, whose result has the rate that its step used.
  TrainStep step{net, opt, {.precision = f16, .schedule = schedule}};
  bad.on = true;
  CHECK(step(batch, loss_of(net)).skipped());
  bad.on = false;
  CHECK(step(batch, loss_of(net)).lr() == 0.5 * schedule.at(applied));
}

TEST_CASE("a batch of zero tokens is named, changes nothing and lowers no scale", "[precision]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  const DType t = GENERATE(f32, f16, bf16);
  const i64 parts = GENERATE(1, 3);
  CAPTURE(to_string(d), dtype_name(t), parts);
  const LeakGuard guard;
  ScaledNet net = scaled_net(d);
  optim::AdamW opt(net);
  const Labelled batch = labelled(6, d);
  const Labelled padding{batch.x, full({6}, -100, {.dtype = DType::i64, .device = d})};
  for (const NonFinite policy : {NonFinite::stop, NonFinite::skip}) {
    TrainStep step{
        net, opt, {.precision = t, .micro_batches = parts, .clip_norm = 1, .on_nonfinite = policy}};
    step(batch, loss_of(net));
    const std::vector<double> before = values_of(net);
    const i64 applied = opt.applied();
    for (int i = 0; i < 3; ++i) {
      std::string text;
      bool skipped = false;
      text = message_of([&] { skipped = step(padding, loss_of(net)).skipped(); });
      CHECK(skipped == (policy == NonFinite::skip));
      if (policy == NonFinite::stop) {
        CHECK(mentions(text,
                       "NumericError: [TrainStep] the weights of the batch's losses add up to 0"));
        CHECK(mentions(text, "Try leaving out batches whose labels are all ignored"));
      }
      CHECK(values_of(net) == before);
      CHECK(opt.applied() == applied);
    }
    const StepResult next = step(batch, loss_of(net));
    CHECK(!next.skipped());
    CHECK(next.scale() == (t == f16 ? 65536 : 1));
    // No samples at all are refused before anything runs.
    CHECK(mentions(message_of([&] { step(batch.narrow(0, 0), loss_of(net)); }),
                   "UsageError: [TrainStep] the batch is empty"));
  }
  // In a loop of one's own it is as in PyTorch: the mean is NaN, and labels that are ignored send
  // no gradient.
  opt.zero_grad();
  const Loss none = cross_entropy(net(padding.x), padding.y);
  CHECK(std::isnan(none.item()));
  none.backward();
  for (const auto& p : net.parameters())
    for (const double g : p.grad().to_vector<double>()) CHECK(g == 0);
}

TEST_CASE("explain() names the module or operator where a skipped step overflowed first",
          "[precision]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  ScaledNet net = scaled_net(d);
  optim::AdamW opt(net);
  TrainStep step{net, opt, {.precision = f16}};
  const Labelled batch = labelled(16, d);
  step(batch, loss_of(net));
  const std::vector<double> before = values_of(net);
  const Generator random = generator();
  using Where = OverflowReport::Where;
  CHECK(step.explain(batch, loss_of(net)).where == Where::nowhere);
  // The forward: activations beyond 65504.
  const auto large = [&](const Labelled& b) { return cross_entropy(net(mul(b.x, 3e5)), b.y); };
  const StepResult skipped = step(batch, large);
  REQUIRE(skipped.skipped());
  OverflowReport r = step.explain(batch, large, skipped.scale());
  CHECK(r.where == Where::forward);
  CHECK(r.text() == "inf or NaN first in what first (Linear) returns");
  CHECK(r.scale == 65536);
  // The backward: a gradient that the scale makes too large.
  const auto steep = [&](const Labelled& b) {
    const Loss loss = cross_entropy(net(b.x), b.y);
    return Loss{mul(loss.sum, 1e5), loss.weight};
  };
  REQUIRE(step(batch, steep).skipped());
  r = step.explain(batch, steep, 65536);
  CHECK(r.where == Where::backward);
  CHECK(mentions(r.text(), "backward] gradient of input"));
  CHECK(mentions(r.text(), "precision_test.cpp"));
  // What a hook does to a parameter's gradient.
  Overflow bad(net.last.weight.tensor());
  bad.on = true;
  r = step.explain(batch, loss_of(net));
  CHECK(r.where == Where::gradient);
  CHECK(r.name == "last.weight");
  CHECK(values_of(net) == before);
  CHECK(generator() == random);
  CHECK(step.scaler().get_scale() == 16384);  // two skips
}

TEST_CASE("captured f16 and bf16 steps have the bits of eager ones", "[precision][capture]") {
  const DType t = GENERATE(f16, bf16);
  const Device d = ready(Device::simt());
  const auto train = [&](bool graph) {
    ScaledNet net = scaled_net(d);
    optim::AdamW opt(net, {.lr = 0.02});
    TrainStep step{net,
                   opt,
                   {.precision = t,
                    .micro_batches = 2,
                    .clip_norm = 1,
                    .graph = graph,
                    .on_nonfinite = NonFinite::skip,
                    .loss_scale = {.growth_interval = 5}}};
    std::vector<double> all;
    for (int i = 0; i < 20; ++i) {
      Labelled batch = labelled(16, d, u64(i));
      if (i == 12) batch.x = mul(batch.x, 1e30);  // inf in f16, and in bf16's products
      const StepRecord r = step(batch, loss_of(net)).read();
      all.insert(all.end(), {r.loss, r.grad_norm, r.scale, double(r.applied), double(r.skipped)});
      if (i != 8) continue;
      const NoGrad no_grad;  // by hand: copies are made anew
      Tensor weight = net.last.weight.tensor();
      weight.mul_(0.5);
    }
    CHECK(step.captures() == (graph ? 1 : 0));
    CHECK(step.why_eager().empty());
    check_halves(opt, t);
    for (double& v : all)
      if (std::isnan(v)) v = -1;  // is equal to itself
    for (const double v : values_of(net)) all.push_back(v);
    // The gradients that are there are the scaler's.
    if (t == f16) CHECK(mentions(message_of([&] { opt.step(); }), "that a GradScaler has scaled"));
    return all;
  };
  CHECK(train(true) == train(false));
}
