// Faults planted in small programs: loops, optimizers, schedules, evaluation. Rules over evidence
// made by hand: doctor_rules_test.cpp.
#include "warptape/tests/optim/doctor/patient.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt_test;

namespace {

doctor::Report examine(Patient& p, Ward& ward, const std::function<double(const Labelled&)>& step,
                       const std::function<void(doctor::Subject&)>& say = {}) {
  doctor::Subject s = p.subject();
  if (say) say(s);
  return doctor::examine(
      s, [&] { return p.next(); }, [&](const Labelled& b) { return step(b); }, ward.options());
}

// Dropout and batch norm around the layers.
struct NoisyNet : nn::Module<NoisyNet> {
  nn::Linear first = add("first", nn::Linear{8, 16});
  nn::BatchNorm1d norm = add("norm", nn::BatchNorm1d{16});
  nn::Dropout drop = add("drop", nn::Dropout{0.1});
  nn::Linear last = add("last", nn::Linear{16, 4});
  Tensor forward(Tensor x) { return last(drop(relu(norm(first(std::move(x)))))); }
};
struct NoisyPatient {
  NoisyNet net = (manual_seed(5), NoisyNet());
  optim::Sgd opt{net, {.lr = 0.1}};
  TrainStep step{net, opt};
  u64 seed = 7;
  doctor::Report examine(const std::function<void()>& evaluate, bool train = true) {
    Ward ward;
    net.train(train);
    return doctor::examine(
        {.net = &net, .optimizers = {&opt}, .evaluate = evaluate},
        [&] { return labelled(32, Device::cpu(), seed++); },
        [&](const Labelled& b) {
          return step(b, [&](const Labelled& p) { return cross_entropy(net(p.x), p.y); });
        },
        ward.options());
  }
};

}  // namespace

TEST_CASE("trap T19: doctor::examine takes a step as it is, and finds nothing in a clean one",
          "[trap]") {
  Ward ward;
  {
    Patient p;
    const doctor::Report r = p.examine_raw(ward.options());
    CHECK(ids(r).empty());
    CHECK(r.steps == 12);
    CHECK(mentions(r.text(), "0 findings in 12 steps"));
  }
  {
    Patient p;
    TrainStep step{p.net, p.opt, {.micro_batches = 4, .clip_norm = 1.0}};
    const auto r = doctor::examine(
        {.net = &p.net, .optimizers = {&p.opt}, .micro_batches = 4}, [&] { return p.next(); },
        [&](const Labelled& b) { return step(b, [&](const Labelled& q) { return p.loss(q); }); },
        ward.options());
    CHECK(ids(r).empty());
  }
  {  // a step that takes its own data and returns nothing
    Patient p;
    const auto r = doctor::examine(
        p.subject(), [&] { (void)p.raw_step(p.next()); }, ward.options());
    CHECK(ids(r).empty());
  }
}

TEST_CASE("the doctor: missing zero_grad, and loops that drop gradients in other places",
          "[doctor]") {
  Ward ward;
  const auto loop = [&](const std::function<void(Patient&, const Loss&)>& body) {
    Patient p;
    p.opt.set_lr(0.01);
    return ids(examine(p, ward, [&](const Labelled& b) {
      const Loss l = p.loss(b);
      body(p, l);
      return l.item();
    }));
  };
  CHECK(loop([](Patient& p, const Loss& l) {
          l.backward();
          p.opt.step();
        }) == only("zero-grad-missing"));
  CHECK(loop([](Patient& p, const Loss& l) {  // at the end
          l.backward();
          p.opt.step();
          p.opt.zero_grad();
        })
            .empty());
  CHECK(loop([](Patient& p, const Loss& l) {  // zeros, not nothing
          p.opt.zero_grad({.set_to_none = false});
          l.backward();
          p.opt.step();
        })
            .empty());
}

TEST_CASE("the doctor: two optimizers that take turns are no missing zero_grad", "[doctor]") {
  Ward ward;
  ScaledNet a = scaled_net(Device::cpu(), 3), b = scaled_net(Device::cpu(), 4);
  optim::Sgd first{a, {.lr = 0.1}}, second{b, {.lr = 0.1}};
  u64 seed = 50;
  const auto turn = [&](optim::Optimizer& opt, const Labelled& batch) {
    opt.zero_grad({.discard = true});
    cross_entropy(b(batch.x + 0.1 * a(batch.x).sum()), batch.y).backward();
    opt.step();
  };
  const auto r = doctor::examine(
      {.optimizers = {&first, &second}}, [&] { return labelled(32, Device::cpu(), seed++); },
      [&](const Labelled& batch) {
        turn(second, batch);
        turn(first, batch);
      },
      ward.options());
  CHECK(ids(r).empty());
}

TEST_CASE("the doctor: backwards without a step", "[doctor]") {
  Patient p;
  Ward ward;
  const auto r = examine(p, ward, [&](const Labelled& b) {
    p.net.zero_grad();
    const Loss l = p.loss(b);
    l.backward();
    return l.item();
  });
  REQUIRE(r.find("no-step"));
  CHECK(mentions(r.find("no-step")->evidence, "12 backwards, no update"));
}

TEST_CASE("trap T4: a train-mode forward that nothing back-propagates", "[trap]") {
  Patient p;
  Ward ward;
  const auto r = examine(p, ward, [&](const Labelled& b) {
    (void)p.net(b.x);  // for the profile
    return p.raw_step(b).item();
  });
  CHECK(ids(r) == only("forward-unused"));
  Patient q;
  const auto well = examine(q, ward, [&](const Labelled& b) {
    const NoGrad no_grad;
    (void)q.net(b.x);
    const EnableGrad grad;
    return q.raw_step(b).item();
  });
  CHECK(ids(well).empty());
}

TEST_CASE("the doctor accuses no derivative within a loss, and no two losses of a step",
          "[doctor]") {
  Ward ward;
  Patient p;  // the gradient by the input is a part of the loss
  CHECK(ids(examine(p, ward, [&](const Labelled& b) {
          p.opt.zero_grad();
          Tensor x = b.x.detach().clone();
          x.set_requires_grad();
          const Tensor slope = grad(square(p.net(x)).sum(), x, {.create_graph = true});
          const Tensor loss = cross_entropy(p.net(x), b.y).mean() + 0.01 * mean(square(slope));
          loss.backward();
          p.opt.step();
          return loss.item();
        })).empty());
  Patient q;  // what a discriminator makes of real and of made-up inputs
  CHECK(ids(examine(q, ward, [&](const Labelled& b) {
          q.opt.zero_grad();
          const Loss real = cross_entropy(q.net(b.x), b.y);
          real.backward();
          cross_entropy(q.net(b.x * 0.5), b.y).backward();
          q.opt.step();
          return real.item();
        })).empty());
}

TEST_CASE("the doctor finds look-ups by name in the step", "[doctor]") {
  Ward ward;
  const auto look_up = [&](int times) {
    Patient p;
    const std::string last = p.net.named_parameters().back().name;
    return ids(examine(p, ward, [&](const Labelled& b) {
      ward.us += 1000;
      for (int i = 0; i < times; ++i) (void)p.net.parameter(last);
      return p.raw_step(b).item();
    }));
  };
  CHECK(look_up(1000) == only("names-looked-up"));
  CHECK(look_up(0).empty());
}

TEST_CASE("trap T9: the doctor finds gradients that are added up and not divided", "[trap]") {
  Ward ward;
  const auto accumulate = [&](double factor, bool clip) {
    Patient p;
    return ids(examine(p, ward, [&](const Labelled& b) {
      p.opt.zero_grad();
      double sum = 0;
      for (const i64 begin : {0, 16}) {
        const Loss l = p.loss(b.narrow(begin, 16));
        sum += l.item() / 2;
        if (factor == 1)
          l.backward();
        else
          (l * factor).backward();
      }
      if (clip)
        p.opt.step({.grad_factor = tensor(0.5, {.dtype = f64})});
      else
        p.opt.step();
      return sum;
    }));
  };
  CHECK(accumulate(1, false) == only("accumulation-sum"));
  CHECK(accumulate(0.5, false).empty());
  CHECK(accumulate(1, true).empty());
}

TEST_CASE("the doctor: training in evaluation mode, evaluation in training mode and with a graph",
          "[doctor]") {
  const Labelled held_out = labelled(16, Device::cpu(), 999);
  {
    NoisyPatient p;
    CHECK(ids(p.examine([&] {
            const nn::EvalScope eval(p.net);
            const NoGrad no_grad;
            (void)p.net(held_out.x);
          })).empty());
  }
  {
    NoisyPatient p;
    CHECK(ids(p.examine({}, false)) == only("trains-in-eval-mode"));
  }
  {
    NoisyPatient p;
    CHECK(ids(p.examine([&] {
            const NoGrad no_grad;
            (void)p.net(held_out.x);
          })) == only("eval-in-train-mode"));
  }
  {
    NoisyPatient p;
    CHECK(ids(p.examine([&] {
            const nn::EvalScope eval(p.net);
            (void)p.net(held_out.x);
          })) == only("eval-records"));
  }
}

TEST_CASE("the doctor: AnomalyMode and forced kernels around all steps", "[doctor]") {
  Ward ward;
  {
    Patient p;
    const AnomalyMode anomaly;
    CHECK(ids(p.examine_raw(ward.options())) == only("anomaly-mode"));
  }
  {
    Patient p;
    const VariantScope plain("matmul", "reference");
    CHECK(ids(p.examine_raw(ward.options())) == only("kernels-forced"));
  }
}

TEST_CASE("the doctor: parameters that nothing reaches, that nobody has, that two have",
          "[doctor]") {
  struct Wider : nn::Module<Wider> {
    nn::Linear used = add("used", nn::Linear{8, 4});
    nn::Linear spare = add("spare", nn::Linear{8, 4});
    Tensor forward(Tensor x) { return used(std::move(x)); }
  };
  Ward ward;
  u64 seed = 20;
  const auto program = [&](Wider& net, std::vector<optim::Optimizer*> opts, bool both = false) {
    return doctor::examine(
        {.net = &net, .optimizers = opts}, [&] { return labelled(32, Device::cpu(), seed++); },
        [&](const Labelled& b) {
          opts.back()->zero_grad();
          const Loss l = cross_entropy(both ? net(b.x) + net.spare(b.x) : net(b.x), b.y);
          l.backward();
          opts.back()->step();
          return l;
        },
        ward.options());
  };
  {
    Wider net;
    optim::Sgd opt{net, {.lr = 0.1}};
    const auto r = program(net, {&opt});
    CHECK(ids(r) == only("parameters-unreached"));
    CHECK(mentions(r.text(), "no backward reached 2 of 4: spare.weight, spare.bias"));
  }
  {
    Wider net;
    net.spare.requires_grad_(false);
    optim::Sgd opt{net, {.lr = 0.1}};
    CHECK(ids(program(net, {&opt})).empty());
  }
  {
    Wider net;
    optim::Sgd opt{net.used, {.lr = 0.1}};
    CHECK(ids(program(net, {&opt}, true)) == only("parameters-forgotten"));
  }
  {
    Wider net;
    optim::Sgd first{net.used, {.lr = 0.1}};
    optim::Sgd second{net, {.lr = 0.1}};
    const auto r = program(net, {&first, &second}, true);
    CHECK(ids(r) == only("parameters-shared"));
  }
}

TEST_CASE("the doctor: a rate of 0, a schedule that is not used, one that counts epochs",
          "[doctor]") {
  Ward ward;
  const auto with = [&](double lr, const optim::Schedule& used, const optim::Schedule& meant,
                        i64 planned) {
    Patient p;
    p.opt.set_lr(lr);
    if (used) p.opt.set_schedule(used);
    doctor::Options o = ward.options();
    o.find_rate = false;
    doctor::Subject s = p.subject();
    s.schedule = meant, s.planned_steps = planned;
    return ids(doctor::examine(
        s, [&] { return p.next(); }, [&](const Labelled& b) { return p.raw_step(b); }, o));
  };
  CHECK(with(0, {}, {}, 0) == std::vector<std::string>{"rate-zero", "loss-flat"});
  const optim::Schedule falling = optim::linear(100, 1, 0.1), long_one = optim::cosine(10'000);
  CHECK(with(0.1, {}, falling, 100) == only("schedule-ignored"));
  CHECK(with(0.1, falling, falling, 100).empty());
  CHECK(with(0.1, long_one, long_one, 10'000).empty());
  const optim::Schedule ten_epochs = optim::cosine(10, 0.01);
  CHECK(with(0.1, ten_epochs, ten_epochs, 10'000) == only("schedule-in-epochs"));
  const optim::Schedule warm = optim::warmup(20);
  CHECK(with(0.1, warm, warm, 10'000).empty());
}

TEST_CASE("row 79: a loss that does not fall, or rises, and the search for a rate", "[doctor]") {
  Ward ward;
  {
    Patient p;
    p.opt.set_lr(1e-9);
    const std::vector<double> before = values_of(p.net);
    const auto r = p.examine_raw(ward.options());
    CHECK(ids(r) == only("loss-flat"));
    REQUIRE(r.rate_curve.size() > 8);
    // A thousand times the rate is still far too small, and what the losses differ by is noise.
    CHECK(mentions(r.text(), "loss by learning rate:"));
    CHECK(mentions(r.findings[0].fix, "no rate up to "));
    CHECK(p.opt.lr() == 1e-9);  // all is as it was
    const std::vector<double> after = values_of(p.net);
    for (size_t i = 0; i < before.size(); ++i) CHECK(std::abs(after[i] - before[i]) < 1e-6);
  }
  {
    Patient p;
    p.opt.set_lr(16);
    const auto r = p.examine_raw(ward.options());
    INFO(r.text());
    REQUIRE(r.find("loss-rises"));
    CHECK(!r.rate_curve.empty());
    CHECK(mentions(r.find("loss-rises")->fix, "set_lr("));
  }
  {
    Patient p;
    const auto r = examine(p, ward, [&](const Labelled& b) {
      (void)p.raw_step(b);
      return std::numeric_limits<double>::infinity();
    });
    CHECK(ids(r) == only("loss-not-finite"));
  }
}

TEST_CASE("bad input: a program that refuses a rate ends the search, and all is put back",
          "[doctor]") {
  Ward ward;
  Patient p;
  p.opt.set_lr(1e-9);
  const std::vector<double> before = values_of(p.net);
  const auto r = examine(p, ward, [&](const Labelled& b) {
    if (p.opt.lr() > 1e-7) throw std::runtime_error("no such rate");
    return p.raw_step(b).item();
  });
  CHECK(ids(r) == only("loss-flat"));
  CHECK(p.opt.lr() == 1e-9);
  const std::vector<double> after = values_of(p.net);
  for (size_t i = 0; i < before.size(); ++i) CHECK(std::abs(after[i] - before[i]) < 1e-6);
}

TEST_CASE("bad input: a program that fails at once is the doctor's first finding", "[doctor]") {
  Ward ward;
  Patient p;
  const auto r = examine(p, ward, [&](const Labelled&) -> double {
    throw UsageError("[mine] the file is not there\n  Try another");
  });
  REQUIRE(!r.healthy());
  CHECK(r.findings[0].rule == "step-fails");
  CHECK(mentions(r.text(), "step 1: UsageError: [mine] the file is not there"));
  CHECK(r.steps == 0);
  CHECK(!r.json().empty());

  Patient q;  // steps are well, the evaluation is not
  const auto s = examine(
      q, ward, [&](const Labelled& b) { return q.raw_step(b).item(); },
      [](doctor::Subject& subject) {
        subject.evaluate = [] { throw DataError("no held-out data"); };
      });
  CHECK(ids(s) == only("step-fails"));
  CHECK(mentions(s.text(), "evaluation: DataError: no held-out data"));

  doctor::Options few = ward.options();
  few.steps = 1;
  CHECK(mentions(message_of([&] { (void)p.examine_raw(few); }),
                 "[doctor] at least 2 steps and no less than 0 before them, got 1 and 3"));
  doctor::Subject none = p.subject();
  none.optimizers.push_back(nullptr);
  CHECK(mentions(message_of([&] {
                   (void)doctor::examine(
                       none, [] {}, ward.options());
                 }),
                 "an optimizer of the subject is null"));
}
