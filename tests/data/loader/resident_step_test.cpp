// Batches of resident sets inside a TrainStep, eager and captured: equal bits, no byte from the
// host, one launch a batch.
#include <map>
#include <string>
#include <vector>

#include "warptape/autograd/ops/loss.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/profiler.h"
#include "warptape/core/random.h"
#include "warptape/data/resident_loader.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/tiny_data.h"

using namespace wt;
using namespace wt::data;

namespace {

ResidentImages some_images(i64 n, Device d, u64 seed = 1) {
  std::vector<u8> pixels(size_t(n * 36)), labels;
  wt_test::TinyNoise noise{seed};
  for (u8& p : pixels) p = u8(noise.next());
  for (i64 i = 0; i < n; ++i) labels.push_back(u8(noise.next() % 4));
  const TensorOptions host{.device = Device::cpu()};
  return ResidentImages(tensor(pixels, host).view({n, 1, 6, 6}), tensor(labels, host), d,
                        {.augment = {.padding = 1, .random_crop = true, .mirror = 0.5f}});
}

struct Trainee {
  nn::Sequential net;
  optim::AdamW opt;
  TrainStep step;
  Trainee(Device d, const TrainStepOptions& o)
      : net(make(d)), opt(net, {.lr = 0.01}), step(net, opt, o) {}
  static nn::Sequential make(Device d) {
    manual_seed(3);
    nn::Sequential net{nn::Flatten{}, nn::Linear{36, 8}, nn::ReLU{}, nn::Dropout{0.2},
                       nn::Linear{8, 4}};
    net.to(d);
    return net;
  }
  std::vector<float> weights() {
    std::vector<float> all;
    for (const auto& t : net.state_dict())
      for (const float v : t.tensor.to_vector<float>()) all.push_back(v);
    return all;
  }
  Loss loss(const Batch& b) { return cross_entropy(net(b.x), b.y); }
};

const LoaderOptions kOrder{.batch = 8, .shuffle = true, .seed = 5};

// Counts what goes between host and device, and the launches by name.
struct Ledger : profiler::Observer {
  explicit Ledger(Device d) : device(d), before(set_copy_backend(d.kind, nullptr)) {
    now = this;
    static CopyBackend counted;
    counted = *before;
    counted.from_host = [](void* to, Device on, const void* from, i64 n) {
      now->from_host += n;
      now->before->from_host(to, on, from, n);
    };
    counted.to_host = [](void* to, Device on, const void* from, i64 n) {
      now->to_host += n;
      now->before->to_host(to, on, from, n);
    };
    set_copy_backend(d.kind, &counted);
    scope.emplace(*this);
  }
  ~Ledger() override { end(); }
  void end() {
    scope.reset();
    set_copy_backend(device.kind, before);
  }
  void begin(const profiler::Range& r) noexcept override {
    if (r.kind == profiler::Kind::kernel) ++launches[std::string(r.name)];
  }
  std::string text() const {
    std::string s;
    for (const auto& [name, n] : launches) s += name + " " + std::to_string(n) + "\n";
    return s;
  }
  Device device;
  const CopyBackend* before;
  std::optional<profiler::ObserverScope> scope;
  std::map<std::string, int> launches;
  i64 from_host = 0, to_host = 0;
  static inline Ledger* now = nullptr;
};

std::vector<Device> queue_devices() {
  std::vector<Device> out;
  for (const Device d : wt_test::kernel_devices())
    if (d.kind != DeviceKind::cpu && has_operators(d)) out.push_back(ready(d));
  return out;
}

}  // namespace

TEST_CASE("resident loader: a batch is one launch, and no byte comes from the host") {
  const WithStreams lazy(SimtStreams::lazy);
  for (const Device d : queue_devices()) {
    ResidentLoader loader{some_images(21, d), kOrder};
    Batch b;
    REQUIRE(loader.next(b));
    Ledger l(d);
    for (int i = 0; i < 4; ++i) (void)loader.next(b);  // the ragged one and the next epoch too
    l.end();
    INFO(l.text());
    CHECK(l.launches == std::map<std::string, int>{{"image_batch", 3}});
    CHECK(l.from_host == 0);
    CHECK(l.to_host == 0);
  }
}

TEST_CASE("resident loader: a step makes its batch, whole or by micro-batches, in one launch") {
  for (const Device d : wt_test::kernel_devices()) {
    if (!has_operators(d)) continue;
    for (const i64 parts : {1, 3}) {
      CAPTURE(to_string(d), parts);
      Trainee a(ready(d), {.micro_batches = parts}), b(d, {.micro_batches = parts});
      ResidentLoader from{some_images(21, d), kOrder}, into{some_images(21, d), kOrder};
      manual_seed(4);
      for (int i = 0; i < 8; ++i) {
        Batch batch;
        if (!from.next(batch)) REQUIRE(from.next(batch));
        a.step(batch, [&](const Batch& part) { return a.loss(part); });
      }
      manual_seed(4);
      for (int i = 0; i < 8; ++i)
        into.step(b.step, [&](const Batch& part) { return b.loss(part); });
      CHECK(a.weights() == b.weights());
      CHECK(into.state() == from.state());
    }
  }
}

TEST_CASE("resident loader: captured steps have the bits of eager ones, ragged batches included",
          "[capture]") {
  for (const Device d : queue_devices())
    for (const bool drop_last : {false, true}) {
      CAPTURE(to_string(d), drop_last);
      LoaderOptions o = kOrder;
      o.drop_last = drop_last;
      Trainee eager(d, {}), captured(d, {.graph = true});
      ResidentLoader a{some_images(21, d), o}, b{some_images(21, d), o};
      std::vector<double> want, got;
      manual_seed(4);
      for (int i = 0; i < 24; ++i)
        want.push_back(a.step(eager.step, [&](const Batch& p) { return eager.loss(p); }).loss());
      manual_seed(4);
      for (int i = 0; i < 24; ++i)
        got.push_back(
            b.step(captured.step, [&](const Batch& p) { return captured.loss(p); }).loss());
      INFO(captured.step.why_eager());
      CHECK(captured.step.captures() == (drop_last ? 1 : 2));
      CHECK(got == want);
      CHECK(captured.weights() == eager.weights());
      CHECK(b.state() == a.state());
    }
}

TEST_CASE("resident loader: a captured step's batch is in the graph: nothing comes from the host",
          "[capture]") {
  const WithStreams lazy(SimtStreams::lazy);
  for (const Device d : queue_devices()) {
    CAPTURE(to_string(d));
    Trainee t(d, {.graph = true});
    ResidentLoader loader{some_images(24, d), kOrder};
    const auto step = [&] {
      return loader.step(t.step, [&](const Batch& p) { return t.loss(p); });
    };
    for (int i = 0; i < 5; ++i) (void)step();
    REQUIRE(t.step.captures() == 1);
    Ledger l(d);
    for (int i = 0; i < 7; ++i) (void)step();  // over the ends of two epochs
    l.end();
    INFO(l.text());
    CHECK(l.launches == std::map<std::string, int>{{"graph", 7}});
    CHECK(l.from_host == 0);
    CHECK(l.to_host == 0);
    CHECK(loader.state() == LoaderState{3, 3, 24});
  }
}

TEST_CASE("resident loader: two loaders, and a position that is set, share one captured step",
          "[capture]") {
  for (const Device d : queue_devices()) {
    CAPTURE(to_string(d));
    std::vector<double> losses[2];
    for (const bool graph : {false, true}) {
      Trainee t(d, {.graph = graph});
      ResidentLoader a{some_images(24, d, 1), kOrder}, b{some_images(24, d, 2), kOrder};
      manual_seed(6);
      for (int i = 0; i < 20; ++i) {
        if (i == 14) a.set_state({7, 1, 24});
        auto& loader = i % 2 ? a : b;  // the same place in the program
        losses[graph].push_back(
            loader.step(t.step, [&](const Batch& p) { return t.loss(p); }).loss());
      }
      if (graph) CHECK(t.step.captures() == 2);
    }
    CHECK(losses[0] == losses[1]);
  }
}

TEST_CASE("resident loader: a step that throws has not moved the position") {
  for (const Device d : wt_test::kernel_devices()) {
    if (!has_operators(d)) continue;
    for (const bool graph : {false, true}) {
      CAPTURE(to_string(d), graph);
      Trainee t(ready(d), {.graph = graph}), u(d, {.graph = graph});
      ResidentLoader a{some_images(24, d), kOrder}, b{some_images(24, d), kOrder};
      manual_seed(1);
      std::vector<double> want, got;
      for (int i = 0; i < 6; ++i)
        want.push_back(a.step(t.step, [&](const Batch& p) { return t.loss(p); }).loss());
      manual_seed(1);
      for (int i = 0; i < 6; ++i) {
        const LoaderState before = b.state();
        CHECK_THROWS_AS(b.step(u.step,
                               [&](const Batch& p) -> Loss {
                                 (void)u.loss(p);
                                 throw UsageError("no");
                               }),
                        UsageError);
        CHECK(b.state() == before);
        got.push_back(b.step(u.step, [&](const Batch& p) { return u.loss(p); }).loss());
      }
      CHECK(got == want);
    }
  }
}
