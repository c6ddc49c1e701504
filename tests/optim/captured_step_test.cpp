// TrainStep{.graph = true}: the bits of eager steps, nothing that leaves the device, and what
// happens where a step cannot be a graph.
#include <cstring>
#include <limits>

#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/random.h"
#include "warptape/core/memory.h"
#include "warptape/core/profiler.h"
#include "warptape/kernels/simt/executor.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/optim/train_step_net.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/devices.h"

using namespace wt;
using namespace wt_test;

namespace {

// What has state of its own: statistics, random numbers, several groups of kernels.
struct Mixed : nn::Module<Mixed> {
  nn::Linear fc1 = add("fc1", nn::Linear{6, 16});
  nn::BatchNorm1d bn = add("bn", nn::BatchNorm1d{16});
  nn::Dropout drop = add("drop", nn::Dropout{0.25});
  nn::Linear fc2 = add("fc2", nn::Linear{16, 3});
  Tensor forward(Tensor x) { return fc2(drop(relu(bn(fc1(std::move(x)))))); }
};

struct Run {
  std::vector<StepRecord> records;
  std::vector<std::vector<double>> values;
  u64 dropout_calls = 0;
  i64 captures = 0;
  std::string why_eager;
};

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

void check_same(const Run& eager, const Run& captured) {
  REQUIRE(eager.records.size() == captured.records.size());
  for (size_t i = 0; i < eager.records.size(); ++i) {
    const StepRecord &a = eager.records[i], &b = captured.records[i];
    INFO("step " << i << ": " << a.loss << " and " << b.loss);
    REQUIRE(same_bits(a.loss, b.loss));
    REQUIRE(same_bits(a.grad_norm, b.grad_norm));
    REQUIRE(same_bits(a.lr, b.lr));
    REQUIRE(a.attempt == b.attempt);
    REQUIRE(a.applied == b.applied);
    REQUIRE(a.skipped == b.skipped);
  }
  CHECK(eager.values == captured.values);
  CHECK(eager.dropout_calls == captured.dropout_calls);
}

std::vector<Pair> batches(Device d, i64 n) {
  Generator g(11);
  Generator* const before = mode.generator;
  mode.generator = &g;
  std::vector<Pair> all;
  for (i64 i = 0; i < n; ++i) {
    const i64 rows = i + 1 < n ? 8 : 5;  // the last one is ragged
    all.push_back({rand({rows, 6}), rand({rows, 3})});
    if (i == 3) all.back().x = mul(all.back().x, std::numeric_limits<float>::quiet_NaN());
    all.back() = {all.back().x.to(d), all.back().y.to(d)};
  }
  mode.generator = before;
  return all;
}

Run train(Device d, bool graph, int epochs, i64 micro_batches = 1) {
  manual_seed(3);
  Mixed net;
  net.to(d);
  optim::AdamW opt{net, {.lr = 0.02}};
  TrainStep step{net,
                 opt,
                 {.micro_batches = micro_batches,
                  .clip_norm = 1,
                  .schedule = optim::cosine(150),
                  .graph = graph,
                  .on_nonfinite = NonFinite::skip,
                  .ema_decay = 0.9}};
  const std::vector<Pair> all = batches(d, 5);
  std::vector<StepResult> results;
  for (int e = 0; e < epochs; ++e)
    for (const Pair& b : all)
      results.push_back(step(b, [&](const Pair& p) {
        return SumAndWeight{sum(square(add(net(p.x), mul(p.y, -1.0)))),
                            full({}, double(p.size()), {.device = p.x.device()})};
      }));
  Run r;
  for (const StepResult& s : results) r.records.push_back(s.read());
  step.sync_random();
  r.dropout_calls = generator().calls(RandomStream::dropout);
  for (const auto& t : net.state_dict()) r.values.push_back(t.tensor.to_vector<double>());
  for (const auto& t : opt.state()) r.values.push_back(t.tensor.to_vector<double>());
  r.captures = step.captures();
  r.why_eager = step.why_eager();
  return r;
}

template <class F>
void on_devices(const F& f) {
  for (const Device d : kernel_devices()) {
    if (d.kind == DeviceKind::cpu || !has_operators(d)) continue;
    INFO(to_string(d));
    f(ready(d));
  }
}

Tensor plain_loss(Mixed& net, const Pair& p) { return mean(square(add(net(p.x), mul(p.y, -1.0)))); }

// Copies between a device and the host.
i64 host_copies = 0;
const CopyBackend* own_copies = nullptr;
struct CountedCopies {
  explicit CountedCopies(Device d) : kind(d.kind) {
    static const CopyBackend counted = {
        [](void* to, Device d, const void* from, i64 bytes) {
          ++host_copies;
          own_copies->to_host(to, d, from, bytes);
        },
        [](void* to, Device d, const void* from, i64 bytes) {
          ++host_copies;
          own_copies->from_host(to, d, from, bytes);
        },
        [](void* to, const void* from, Device d, i64 n) { own_copies->within(to, from, d, n); },
        [](void* to, Device d, i64 n) { own_copies->fill_zero(to, d, n); },
        [](Device d) { own_copies->wait(d); }};
    host_copies = 0;
    own_copies = set_copy_backend(kind, &counted);
  }
  ~CountedCopies() { set_copy_backend(kind, own_copies); }
  DeviceKind kind;
};

struct Launches : profiler::Observer {
  int count = 0, graphs = 0;
  void begin(const profiler::Range& r) noexcept override {
    if (r.kind != profiler::Kind::kernel || r.device.kind == DeviceKind::cpu) return;
    ++(r.graph ? graphs : count);
  }
};

// 1,000 steps (100 under the sanitizers and the race checker) wait for nothing and copy nothing but
// batches that lie on the host.
void check_replays(Device d) {
  Mixed net;
  net.to(d);
  optim::Sgd opt{net, {.lr = 0.1, .momentum = 0.9}};
  TrainStep step{net, opt, {.clip_norm = 1, .graph = true}};
  const Pair there = batches(d, 2)[0],
             here = {there.x.to(Device::cpu()), there.y.to(Device::cpu())};
  const auto once = [&](const Pair& b) {
    return step(b, [&](const Pair& p) { return plain_loss(net, p); });
  };
  for (int i = 0; i < 3; ++i) once(there);
  REQUIRE(step.captures() == 1);
  const i64 reserved = memory::stats(d).live;
  const int steps = std::string(simt_flavour()) == "plain" ? 1000 : 100;
  Launches launches;
  {
    const CountedCopies copies(d);
    const SyncGuard guard;
    const profiler::ObserverScope watch(launches);
    for (int i = 0; i < steps; ++i) once(there);
    CHECK(host_copies == 0);
    CHECK(launches.graphs == steps);
    CHECK(launches.count <= steps * 2);  // the batch, within the device
    for (int i = 0; i < 20; ++i) once(here);
    CHECK(host_copies == 20 * 2);
  }
  CHECK(memory::stats(d).live == reserved);
  CHECK(opt.attempted() == steps + 23);
  CHECK(opt.applied() == steps + 23);
}

}  // namespace

TEST_CASE("captured step: 200 steps have the bits of eager ones", "[wall][capture]") {
  NEEDS_OPERATORS(Device::simt());
  on_devices([](Device d) {
    const Run captured = train(d, true, 40);
    CHECK(captured.captures == 2);  // whole batches and the ragged one
    CHECK(captured.why_eager == "");
    check_same(train(d, false, 40), captured);
  });
}

TEST_CASE("captured step: on streams that run late too, and in micro-batches", "[wall][capture]") {
  NEEDS_OPERATORS(Device::simt());
  const Run eager = train(ready(Device::simt()), false, 40);
  for (const u64 seed : {1, 2}) {
    const WithStreams lazy(SimtStreams::lazy, seed);
    const Run captured = train(ready(Device::simt()), true, 40);
    CHECK(captured.captures == 2);
    check_same(eager, captured);
  }
  check_same(train(Device::simt(), false, 6, 2), train(Device::simt(), true, 6, 2));
}

TEST_CASE("captured step: a replay launches nothing else and copies the batch alone",
          "[wall][capture]") {
  NEEDS_OPERATORS(Device::simt());
  on_devices([](Device d) { check_replays(d); });
  const WithStreams late(SimtStreams::lazy);
  check_replays(ready(Device::simt()));
}

TEST_CASE("captured step: what a graph cannot hold is named, and the steps run eagerly",
          "[wall][capture]") {
  NEEDS_OPERATORS(Device::simt());
  const Device d = ready(Device::simt());
  const Warnings heard;
  const auto steps = [&](bool graph, const auto& loss) {
    manual_seed(5);
    Mixed net;
    net.to(d);
    optim::Sgd opt{net, {.lr = 0.1}};
    TrainStep step{net, opt, {.graph = graph}};
    const Pair b = batches(d, 2)[0];
    Run r;
    for (int i = 0; i < 6; ++i)
      r.records.push_back(step(b, [&](const Pair& p) { return loss(net, p); }).read());
    r.dropout_calls = generator().calls(RandomStream::dropout);
    r.captures = step.captures();
    r.why_eager = step.why_eager();
    return r;
  };
  const auto check = [&](const char* what, int line, const auto& loss) {
    const Run captured = steps(true, loss);
    INFO(captured.why_eager);
    CHECK(captured.captures == 0);
    CHECK(mentions(captured.why_eager, what));
    CHECK(mentions(captured.why_eager, "captured_step_test.cpp:" + std::to_string(line)));
    check_same(steps(false, loss), captured);
  };
  SECTION("a value on the host") {
    int calls = 0;
    const int line = __LINE__ + 3;
    check("[item] a graph cannot hold this: the host waits", line, [&](Mixed& net, const Pair& p) {
      ++calls;
      return mul(plain_loss(net, p), 1 + 0 * sum(p.y).item());
    });
    CHECK(calls == 6 + 1 + 6);  // one capture was tried
    REQUIRE(warnings().size() == 1);
    CHECK(mentions(warnings()[0], "TrainStep{.graph = true} runs such steps eagerly: [item]"));
  }
  SECTION("random numbers that the host counts") {
    const int line = __LINE__ + 2;
    check("a replay would repeat this one", line, [](Mixed& net, const Pair& p) {
      return plain_loss(net, {add(p.x, rand(p.x.shape(), {.device = p.x.device()})), p.y});
    });
  }
  SECTION("a buffer that is given another tensor") {
    const auto loss = [](Mixed& net, const Pair& p) {
      const Tensor l = plain_loss(net, p);
      nn::Buffer mean = net.bn.buffer("running_mean");
      mean = mul(mean.tensor(), 0.5);
      return l;
    };
    const Run captured = steps(true, loss);
    CHECK(captured.captures == 0);
    CHECK(mentions(captured.why_eager, "running_mean is given another tensor; copy_() into it"));
    check_same(steps(false, loss), captured);
  }
  SECTION("host memory") {
    const int line = __LINE__ + 3;
    const Tensor here = rand({8, 6});
    check("copies between the device and host memory", line, [&](Mixed& net, const Pair& p) {
      return plain_loss(net, {add(p.x, here.to(p.x.device())), p.y});
    });
  }
}

TEST_CASE("captured step: what changes between steps is seen or captured anew", "[wall][capture]") {
  NEEDS_OPERATORS(Device::simt());
  const Device d = ready(Device::simt());
  const auto steps = [&](bool graph) {
    manual_seed(5);
    Mixed net;
    net.to(d);
    optim::AdamW opt{net, {.lr = 0.1}};
    TrainStep step{net, opt, {.graph = graph}};
    const Pair b = batches(d, 2)[0];
    Run r;
    const auto some = [&] {
      for (int i = 0; i < 5; ++i)
        r.records.push_back(step(b, [&](const Pair& p) { return plain_loss(net, p); }).read());
    };
    some();
    opt.set_lr(0.01);  // on the device
    some();
    net.eval();  // other kernels
    some();
    net.train();
    manual_seed(77);  // other keys
    some();
    opt.track_ema(0.9);  // other memory
    some();
    net.to(Device::cpu());
    net.to(d);
    some();
    for (const auto& t : net.state_dict()) r.values.push_back(t.tensor.to_vector<double>());
    for (const auto& t : opt.state()) r.values.push_back(t.tensor.to_vector<double>());
    step.sync_random();
    r.dropout_calls = generator().calls(RandomStream::dropout);
    r.captures = step.captures();
    CHECK(step.why_eager() == "");
    return r;
  };
  const Run captured = steps(true);
  CHECK(captured.captures >= 1);
  check_same(steps(false), captured);
}

TEST_CASE("captured step: too many shapes, and options that do not fit", "[wall][capture]") {
  NEEDS_OPERATORS(Device::simt());
  const Device d = ready(Device::simt());
  Mixed net;
  net.to(d);
  optim::Sgd opt{net, {.lr = 0.1}};
  TrainStep step{net, opt, {.graph = true, .graph_shapes = 2}};
  const auto with = [&](i64 n) {
    const Pair b{ones({n, 6}, {.device = d}), ones({n, 3}, {.device = d})};
    return step(b, [&](const Pair& p) { return plain_loss(net, p); });
  };
  for (const i64 n : {4, 4, 5}) with(n);
  const std::string text = message_of([&] { with(6); });
  CHECK(mentions(text, "a batch of [6, 6] f32, [6, 3] f32 after 2 other kinds"));
  CHECK(mentions(text, "[5, 6] f32"));
  CHECK(mentions(text, "graph_shapes is 2"));
  with(5);  // the others go on
  CHECK(with(4).applied() == 5);
  CHECK_THROWS_AS((TrainStep{net, opt, {.graph = true, .graph_shapes = 0}}), UsageError);

  Mixed on_cpu;
  optim::Sgd there{on_cpu, {.lr = 0.1}};
  TrainStep eager{on_cpu, there, {.graph = true}};
  const Pair b{ones({4, 6}), ones({4, 3})};
  CHECK(eager(b, [&](const Pair& p) { return plain_loss(on_cpu, p); }).applied() == 1);
  CHECK(mentions(eager.why_eager(), "this is cpu"));
}

TEST_CASE("captured step: versions go up, gradients are there, an older tape cannot be walked",
          "[wall][capture]") {
  NEEDS_OPERATORS(Device::simt());
  const Device d = ready(Device::simt());
  Mixed net;
  net.to(d);
  optim::Sgd opt{net, {.lr = 0.1}};
  TrainStep step{net, opt, {.graph = true}};
  const Pair b = batches(d, 2)[0];
  const auto once = [&] { return step(b, [&](const Pair& p) { return plain_loss(net, p); }); };
  for (int i = 0; i < 4; ++i) once();
  const Tensor w = net.fc1.parameter("weight").tensor(), mean = net.bn.buffer("running_mean");
  const u32 weight = w.version(), gradient = w.grad().version(), buffer = mean.version();
  const Tensor loss = plain_loss(net, b);  // its tape reads the weights
  opt.zero_grad();
  CHECK_FALSE(w.grad().defined());
  once();
  CHECK(w.version() > weight);
  CHECK(w.grad().version() > gradient);
  CHECK(mean.version() > buffer);
  CHECK_THROWS_AS(loss.backward(), Error);
}

TEST_CASE("captured step: a failure in the capture changes nothing, and the next step works",
          "[wall][capture]") {
  NEEDS_OPERATORS(Device::simt());
  const Device d = ready(Device::simt());
  const auto losses = [&](int fail_at) {
    manual_seed(5);
    Mixed net;
    net.to(d);
    optim::AdamW opt{net, {.lr = 0.1}};
    TrainStep step{net, opt, {.graph = true}};
    const Pair b = batches(d, 2)[0];
    std::vector<double> all;
    bool fails = false;
    const auto once = [&] {
      return step(b, [&](const Pair& p) {
        Tensor l = plain_loss(net, p);
        if (fails) memory::fail_nth_request(3);  // in backward
        return l;
      });
    };
    for (int i = 0; i < 8; ++i) {
      if (i == fail_at) {
        fails = true;
        CHECK_THROWS_AS(once(), OutOfMemory);
        fails = false;
        memory::fail_nth_request(0);
      }
      all.push_back(once().loss());
    }
    CHECK(step.captures() == 1);
    CHECK(opt.attempted() == 8);
    return all;
  };
  const std::vector<double> whole = losses(-1);
  for (const int at : {0, 1, 2}) CHECK(losses(at) == whole);
}
