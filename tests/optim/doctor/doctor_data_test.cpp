// Faults planted in small programs: data, labels, layers, precision, memory, machine. Rules over
// evidence made by hand: doctor_rules_test.cpp.
#include "warptape/autograd/ops/resize.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/core/machine/cpu_threads.h"
#include "warptape/kernels/matmul.h"
#include "warptape/tests/optim/doctor/patient.h"
#include "warptape/tests/support/errors.h"

using namespace wt;
using namespace wt_test;

namespace {

// Of a patient whose batches `change` has been at.
doctor::Report with_batches(const std::function<void(Labelled&)>& change,
                            const std::function<void(doctor::Options&)>& set = {}) {
  Patient p;
  Ward ward;
  doctor::Options o = ward.options();
  o.find_rate = false;
  if (set) set(o);
  return doctor::examine(
      p.subject(),
      [&] {
        Labelled b = p.next();
        change(b);
        return b;
      },
      [&](const Labelled& b) { return p.raw_step(b); }, o);
}

template <class Net>
doctor::Report examine_net(Net& net, const std::function<Labelled(u64)>& batch, double lr = 0.01) {
  Ward ward;
  doctor::Options o = ward.options();
  o.find_rate = false;
  optim::Sgd opt{net, {.lr = lr}};
  u64 seed = 30;
  return doctor::examine(
      {.net = &net, .optimizers = {&opt}}, [&] { return batch(seed++); },
      [&](const Labelled& b) {
        opt.zero_grad();
        const Loss l = cross_entropy(net(b.x), b.y);
        l.backward();
        opt.step();
        return l;
      },
      o);
}
Labelled plain_batch(u64 seed) { return labelled(32, Device::cpu(), seed); }
Labelled images(u64 seed, i64 n = 8, i64 side = 8) {
  manual_seed(seed);
  Labelled b = labelled(n, Device::cpu(), seed);
  b.x = randn({n, 1, side, side});
  return b;
}

bool finds(const doctor::Report& r, const char* rule) { return r.find(rule) != nullptr; }

}  // namespace

TEST_CASE("row 79: inputs and labels that a training cannot learn from", "[doctor]") {
  const auto pixels = with_batches([](Labelled& b) { b.x = abs(b.x) * 127.0; });
  REQUIRE(finds(pixels, "inputs-not-standardised"));
  CHECK(mentions(pixels.find("inputs-not-standardised")->fix, "x = (x - "));
  CHECK(ids(with_batches([](Labelled& b) { b.x = abs(b.x); })).empty());  // of one sign is no fault

  CHECK(finds(with_batches([](Labelled& b) { b.x = ones({32, 8}); }), "inputs-constant"));
  const auto nans = with_batches([](Labelled& b) { b.x = b.x / zeros({32, 8}); });
  REQUIRE(finds(nans, "inputs-not-finite"));
  CHECK(finds(nans, "loss-not-finite"));

  CHECK(finds(with_batches([](Labelled& b) { b.y = b.y * 0; }), "labels-all-alike"));
  i64 k = 0;
  CHECK(finds(with_batches([&](Labelled& b) { b.y = b.y * 0 + k++ % 4; }), "labels-sorted"));
  CHECK(finds(with_batches([](Labelled& b) { b = plain_batch(1); }), "batch-repeats"));
}

TEST_CASE("labels outside of the classes: the failure first, and why", "[doctor]") {
  const auto r = with_batches([](Labelled& b) { b.y = b.y + 1; });
  REQUIRE(r.findings.size() == 2);
  CHECK(r.findings[0].rule == "step-fails");
  CHECK(r.findings[1].rule == "labels-outside");
  CHECK(mentions(r.findings[1].evidence, "labels from 1 to 4, the loss has 4 classes: 0 to 3"));
  CHECK(mentions(r.findings[1].fix, "y = y - 1"));
}

TEST_CASE("trap T6: an output of 1000 classes for labels of 4, and images enlarged", "[trap]") {
  {
    nn::Linear net = (manual_seed(1), nn::Linear{8, 1000});
    const auto r = examine_net(net, plain_batch, 0.1);
    CHECK(ids(r) == only("head-wide"));
    CHECK(mentions(r.text(), "labels use 4 of 1000 classes"));
    CHECK(mentions(r.text(), "nn::Linear{..., 4}"));
  }
  struct Enlarged : nn::Module<Enlarged> {
    nn::Conv2d conv = add("conv", nn::Conv2d{1, 8, {.kernel = 3, .stride = 2}});
    nn::Linear last = add("last", nn::Linear{8, 4});
    i64 side;
    explicit Enlarged(i64 n) : side(n) {}
    Tensor forward(Tensor x) {
      x = upsample(x, {.size = {side, side}, .mode = UpsampleMode::bilinear});
      return last(relu(conv(x)).mean({2, 3}));
    }
  };
  manual_seed(2);
  Enlarged wide(32), narrow(10);
  const auto r = examine_net(
      wide, [](u64 s) { return images(s); }, 0.1);
  REQUIRE(finds(r, "inputs-upscaled"));
  CHECK(mentions(r.find("inputs-upscaled")->evidence, "16 pixels of the resized image"));
  CHECK(!finds(examine_net(
                   narrow, [](u64 s) { return images(s); }, 0.1),
               "inputs-upscaled"));
}

TEST_CASE("row 79: dead relus", "[doctor]") {
  for (const bool dead : {true, false}) {
    ScaledNet net = scaled_net(Device::cpu());
    if (dead) {
      const NoGrad no_grad;
      net.first.bias->fill_(-100.0);
    }
    const auto r = examine_net(net, plain_batch, 0.05);
    CHECK(finds(r, "relu-dead") == dead);
    if (dead) CHECK(mentions(r.text(), "(16 of 16)"));
  }
}

TEST_CASE("the doctor: layers of several widths behind one relu are each looked at", "[doctor]") {
  struct Narrowing : nn::Module<Narrowing> {
    std::vector<nn::Linear> layers;
    nn::Linear last = add("last", nn::Linear{6, 4});
    Narrowing() {
      for (const i64 n : {24, 12, 6})
        layers.push_back(add(str("layer", n), nn::Linear{n == 24 ? 8 : 2 * n, n}));
    }
    Tensor forward(Tensor x) {
      for (nn::Linear& layer : layers) x = relu(layer(x));
      return last(x);
    }
  };
  manual_seed(3);
  Narrowing net;
  CHECK_FALSE(finds(examine_net(net, plain_batch, 0.05), "relu-dead"));
  const NoGrad no_grad;
  net.layers[1].bias->fill_(-100.0);  // and the one behind it is not
  const EnableGrad grad;
  const auto r = examine_net(net, plain_batch, 0.05);
  CHECK(mentions(r.text(), "(12 of 12)"));
}

TEST_CASE("the doctor: vanishing and exploding layers, batches of one, softmax twice", "[doctor]") {
  struct Deep : nn::Module<Deep> {
    std::vector<nn::Linear> layers;
    nn::Linear last = add("last", nn::Linear{8, 4});
    Deep() {
      for (int i = 0; i < 10; ++i) layers.push_back(add(str("layer", i), nn::Linear{8, 8}));
    }
    Tensor forward(Tensor x) {
      for (nn::Linear& layer : layers) x = sigmoid(layer(x));
      return last(x);
    }
  };
  {
    manual_seed(3);
    Deep net;
    CHECK(finds(examine_net(net, plain_batch), "gradients-vanish"));
  }
  {
    ScaledNet net = scaled_net(Device::cpu());
    {
      const NoGrad no_grad;
      net.first.weight->mul_(1e5);
      net.last.weight->mul_(1e5);
    }
    CHECK(finds(examine_net(net, plain_batch, 1e-12), "gradients-explode"));
  }
  struct Normed : nn::Module<Normed> {
    nn::Conv2d conv = add("conv", nn::Conv2d{1, 8, {.kernel = 3}});
    nn::BatchNorm2d norm = add("norm", nn::BatchNorm2d{8});
    nn::Linear last = add("last", nn::Linear{8, 4});
    Tensor forward(Tensor x) { return last(relu(norm(conv(x))).mean({2, 3})); }
  };
  for (const i64 n : {1, 8}) {
    manual_seed(4);
    Normed net;
    const auto r = examine_net(
        net, [n](u64 s) { return images(s, n); }, 0.1);
    CHECK(finds(r, "batch-norm-of-one") == (n == 1));
  }
  struct Softened : nn::Module<Softened> {
    nn::Linear last = add("last", nn::Linear{8, 4});
    Tensor forward(Tensor x) { return softmax(last(x), 1) * 1.0; }
  };
  manual_seed(5);
  Softened net;
  const auto soft = examine_net(net, plain_batch, 0.1);
  INFO(soft.text());
  CHECK(ids(soft) == only("softmax-twice"));
}

TEST_CASE("the doctor: products in f64, convolutions of ever new shapes", "[doctor]") {
  nn::Linear wide = (manual_seed(6), nn::Linear{256, 64});
  wide.to(f64);
  const auto doubles = [](u64 seed) {
    manual_seed(seed);
    Labelled b = labelled(64, Device::cpu(), seed);
    b.x = randn({64, 256}, {.dtype = f64});
    return b;
  };
  CHECK(finds(examine_net(wide, doubles, 0.1), "double-precision"));

  struct Convolved : nn::Module<Convolved> {
    nn::Conv2d conv = add("conv", nn::Conv2d{1, 4, {.kernel = 3}});
    nn::Linear last = add("last", nn::Linear{4, 4});
    Tensor forward(Tensor x) { return last(relu(conv(x)).mean({2, 3})); }
  };
  for (const bool grows : {true, false}) {
    manual_seed(7);
    Convolved net;
    const auto r = examine_net(
        net, [&](u64 s) { return images(s, 8, grows ? i64(s - 20) : i64(8 + s % 3)); }, 0.1);
    CHECK(finds(r, "new-shapes") == grows);
  }
}

TEST_CASE("the doctor: an f16 loss scale that falls, and gradients that f16 loses", "[doctor]") {
  const auto f16_program = [](double scale, double factor) {
    Patient p;
    Ward ward;
    doctor::Options o = ward.options();
    o.find_rate = false;
    TrainStep step{p.net, p.opt, {.precision = f16, .loss_scale = {.init_scale = scale}}};
    doctor::Subject s = p.subject();
    s.precision = f16;
    return doctor::examine(
        s, [&] { return p.next(); },
        [&](const Labelled& b) {
          return step(b, [&](const Labelled& q) { return p.loss(q) * factor; });
        },
        o);
  };
  const auto high = f16_program(0x1p40, 1);
  CHECK(finds(high, "steps-skipped"));
  CHECK(finds(high, "scale-falls"));
  const auto low = f16_program(1, 1e-5);
  INFO(low.text());
  CHECK(finds(low, "gradient-underflow"));
  CHECK(ids(f16_program(1024, 1)).empty());
}

TEST_CASE("the doctor: memory that grows", "[doctor]") {
  for (const bool keeps : {true, false}) {
    Patient p;
    Ward ward;
    std::vector<Loss> losses;
    std::vector<double> values;
    const auto r = doctor::examine(
        p.subject(), [&] { return p.next(); },
        [&](const Labelled& b) {
          const Loss l = p.raw_step(b);
          if (keeps) losses.push_back(l);
          values.push_back(l.item());
          return values.back();
        },
        ward.options());
    CHECK(ids(r) == (keeps ? only("memory-grows") : std::vector<std::string>{}));
  }
}

TEST_CASE("row 111: waiting for data, for other ranks, for launches, by a clock of the test's",
          "[doctor]") {
  Patient p;
  Ward ward;
  doctor::Subject s = p.subject();
  double data = 5000;
  s.workers = 0;
  s.captured = [&] { ward.us += 300; };
  const auto next = [&] {
    ward.us += data;
    return p.next();
  };
  const auto step = [&](const Labelled& b) {
    ward.us += 1000;
    return p.raw_step(b);
  };
  const auto r = doctor::examine(s, next, step, ward.options());
  CHECK(ids(r) == std::vector<std::string>{"workers-few", "launch-bound"});
  CHECK(r.step_us == 6000);
  CHECK(r.find("workers-few")->cost_us == 5000);
  CHECK(mentions(r.find("workers-few")->evidence, "5 ms of a step's 6 ms, 83 %"));
  CHECK(r.find("launch-bound")->cost_us == 700);
  CHECK(mentions(r.find("launch-bound")->gain, "3.33 times"));
  s.workers = -1;
  CHECK(finds(doctor::examine(s, next, step, ward.options()), "data-wait"));
  data = 10;
  s.captured = {};
  CHECK(ids(doctor::examine(s, next, step, ward.options())).empty());
}

TEST_CASE("row 116: the rank that makes the others wait is named", "[doctor]") {
  Patient p;
  Ward ward;
  doctor::Subject s = p.subject();
  double seconds = 0;
  s.waited = [&] { return std::vector<double>{seconds, seconds / 100, seconds}; };
  const auto r = doctor::examine(
      s, [&] { return p.next(); },
      [&](const Labelled& b) {
        ward.us += 1000;
        seconds += 400e-6;
        return p.raw_step(b);
      },
      ward.options());
  CHECK(ids(r) == only("ranks-wait"));
  CHECK(mentions(r.text(), "rank 2 waits 400 us of a step's 1 ms, rank 1 4 us"));
}

TEST_CASE("row 115: a machine that swaps or whose clock is held down, more threads than processors",
          "[doctor]") {
  Patient p;
  Ward ward;
  ward.machine.host.swapped_bytes_s = 3e6;
  ward.machine.gpus.push_back({.name = "GPU",
                               .sm_mhz = 900,
                               .most_sm_mhz = 1980,
                               .throttle = {"heat: slowed by the driver"},
                               .slowed = true});
  const int threads = num_threads();
  set_num_threads(wt::detail::processors() + 3);
  const auto r = p.examine_raw(ward.options());
  set_num_threads(threads);
  CHECK(ids(r) == std::vector<std::string>{"machine-swaps", "clock-held-down", "threads-many"});
  CHECK(mentions(r.text(), "GPU at 900 of 1980 MHz: heat: slowed by the driver"));
}

TEST_CASE("row 114: item() in the loop of a device", "[doctor][simt]") {
  if (!ContractTable<MatmulArgs>::rows[int(DeviceKind::simt)]) SKIP_TEST("no simt here");
  for (const bool reads : {true, false}) {
    ScaledNet net = scaled_net(Device::simt());
    optim::Sgd opt{net, {.lr = 0.1}};
    Ward ward;
    u64 seed = 60;
    const auto r = doctor::examine(
        {.net = &net, .optimizers = {&opt}}, [&] { return labelled(32, Device::simt(), seed++); },
        [&](const Labelled& b) {
          opt.zero_grad();
          Loss l = cross_entropy(net(b.x), b.y);
          l.backward();
          opt.step();
          if (reads) (void)l.item();
          return l;
        },
        ward.options());
    CHECK(ids(r) == (reads ? only("host-waits") : std::vector<std::string>{}));
    if (reads) CHECK(mentions(r.text(), "doctor_data_test.cpp:"));
  }
}
