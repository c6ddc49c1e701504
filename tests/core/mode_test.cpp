// Mode: the ambient state is one struct of the thread; guards restore, workers get a copy, backward
// restores the node's.
#include "warptape/core/mode.h"

#include <thread>

#include "warptape/autograd/custom.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/node.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/memory.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/run.h"
#include "warptape/nn/module.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

namespace {
// What a backward sees of the mode.
struct Seen {
  Determinism determinism;
  const VariantOverride* overrides;
  std::string module;
  bool grad;
};
Seen* target = nullptr;
struct Look {
  static constexpr OpInfo info{.name = "look"};
  Tensor forward(Save&, const Tensor& a) const { return a * 1; }
  Grads backward(const Saved&, const Tensor& gy) const {
    *target = {mode.determinism, mode.overrides, module_path_of(mode.id), mode.grad};
    return {gy};
  }
};
}  // namespace

TEST_CASE("Mode: every guard restores what was before, by exceptions too", "[wall][mode]") {
  const Mode before = mode;
  try {
    const NoGrad a;
    const EnableGrad b;
    const InferenceMode c;
    const AnomalyMode d;
    const CategoryScope e(Category::dataset);
    const DefaultDtype f(f64);
    const DefaultDevice g(Device::simt());
    const DeterminismScope h(Determinism::strict);
    const VariantScope i("softmax_forward", "reference");
    const Stream stream(Device::cpu());
    const StreamScope j(stream);
    CHECK_FALSE(mode.grad);
    CHECK(mode.anomaly);
    CHECK(mode.category == Category::dataset);
    CHECK(zeros({1}).dtype() == f64);
    CHECK(zeros({1}).device() == Device::simt());
    CHECK(mode.determinism == Determinism::strict);
    CHECK(mode.id != before.id);
    throw 1;
  } catch (int) {}
  CHECK(mode.grad == before.grad);
  CHECK(mode.anomaly == before.anomaly);
  CHECK(mode.category == before.category);
  CHECK(mode.default_dtype == before.default_dtype);
  CHECK(mode.default_device == before.default_device);
  CHECK(mode.determinism == before.determinism);
  CHECK(mode.overrides == before.overrides);
  CHECK(mode.stream == before.stream);
  CHECK(mode.id == before.id);
  CHECK(mode.op == before.op);
}

TEST_CASE("Mode: an operator that throws leaves no owner tag behind", "[wall][mode][prologue]") {
  const OpInfo* const before = mode.op;
  CHECK_THROWS_AS((void)add(zeros({2}), zeros({3})), ShapeError);
  CHECK(mode.op == before);
  CHECK_THROWS_AS((void)add(Tensor(), zeros({3})), UsageError);
  CHECK(mode.op == before);
  CHECK_THROWS_AS((void)add(zeros({3}), zeros({3}, {.device = Device::simt()})), PlacementError);
  CHECK(mode.op == before);
}

TEST_CASE("Mode: integer division gives the default dtype", "[wall][mode]") {
  CHECK((tensor({1, 2}) / tensor({2, 2})).dtype() == f32);
  const DefaultDtype wide(f64);
  CHECK((tensor({1, 2}) / tensor({2, 2})).dtype() == f64);
  CHECK(tensor({1.5}).dtype() == f64);
  CHECK((tensor({1}) + 0.5).dtype() == f64);
}

TEST_CASE("Mode: under a sync guard a wait of the host throws and names the line", "[wall][mode]") {
  const Tensor x = ones({2}, {.device = Device::simt()}), here = ones({2});
  const SyncGuard guard;
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)sum(x).item(); });
  CHECK(mentions(text, "[item] the host would wait for simt inside a SyncGuard"));
  CHECK(mentions(text, "mode_test.cpp:" + std::to_string(line)));
  CHECK_THROWS_AS((void)x.to_vector<float>(), UsageError);
  CHECK_THROWS_AS((void)x.to(Device::cpu()), UsageError);
  CHECK_THROWS_AS(Stream::current(Device::simt()).synchronize(), UsageError);
  CHECK_NOTHROW((void)here.to(Device::simt()));
  CHECK_NOTHROW((void)(x * 2 + x));
  CHECK(sum(here).item() == 2);  // the cpu waits for nobody
  const SyncGuard off(false);
  CHECK(sum(x).item() == 2);
}

TEST_CASE("Mode: a sync guard counts waits by line, or warns of each line once", "[wall][mode]") {
  const Tensor x = ones({2}, {.device = Device::simt()});
  int line = 0;
  {
    const SyncGuard guard(OnSync::count);
    for (int i = 0; i < 3; ++i) {
      line = __LINE__ + 1;
      (void)sum(x).item();
    }
    CHECK(guard.count() == 3);
    REQUIRE(guard.waits().size() == 1);
    {
      const SyncGuard suspended(OnSync::allow);
      (void)x.to_vector<float>();
      CHECK(suspended.count() == 0);
      const SyncGuard inner(OnSync::count);
      Stream::current(Device::simt()).synchronize();
      CHECK(inner.count() == 1);
    }
    (void)x.to(Device::cpu());
    REQUIRE(guard.waits().size() == 2);
    CHECK(guard.count() == 4);
    const SyncGuard::Wait& first = guard.waits()[0];
    CHECK(first.what == "item");
    CHECK(first.device == Device::simt());
    CHECK(first.at.line == u32(line));
    CHECK(first.count == 3);
    const std::string at = "mode_test.cpp:" + std::to_string(line);
    CHECK(
        mentions(guard.describe(), "item waits for simt at " + at + ", 3 times\nto_device waits"));
    CHECK(mentions(guard.describe(), ", 1 time"));
    std::thread([copy = ModeCopy(), &x] {
      copy.adopt();
      (void)sum(x).item();  // allowed, and counted by nobody
    }).join();
    CHECK(guard.count() == 4);
  }
  const wt_test::Warnings heard;
  const SyncGuard guard(OnSync::warn);
  for (int i = 0; i < 3; ++i) {
    line = __LINE__ + 1;
    (void)sum(x).item();
  }
  CHECK(guard.count() == 3);
  REQUIRE(wt_test::warnings().size() == 1);
  CHECK(mentions(wt_test::warnings()[0],
                 "SyncGuard: item waits for simt at mode_test.cpp:" + std::to_string(line)));
}

TEST_CASE("Mode: a sync guard names the line inside a scope of another one", "[wall][mode]") {
  const Tensor x = ones({2}, {.device = Device::simt()});
  const FrameScope step(Frame{"step.cpp", 7});
  const SyncGuard guard(OnSync::count);
  const int line = __LINE__ + 1;
  (void)x.sum().item();
  REQUIRE(guard.waits().size() == 1);
  CHECK(guard.waits()[0].at.line == u32(line));
}

TEST_CASE("Mode: a thread begins with the defaults; a worker gets an explicit copy",
          "[wall][mode]") {
  const NoGrad no_grad;
  const DefaultDtype wide(f64);
  const CategoryScope scope(Category::dataset);
  const DeterminismScope strict(Determinism::strict);
  const ModeCopy copy;
  std::thread([&] {
    CHECK(mode.grad);
    CHECK(zeros({1}).dtype() == f32);
    copy.adopt();
    CHECK_FALSE(mode.grad);
    CHECK(zeros({1}).dtype() == f64);
    CHECK(mode.category == Category::dataset);
    CHECK(mode.determinism == Determinism::strict);
    mode.grad = true;  // its own from here on
  }).join();
  CHECK_FALSE(mode.grad);
}

TEST_CASE("Mode: a worker's node counts on from its parent's", "[wall][mode][node]") {
  const Tensor x = leaf({2});
  Tensor y = x;
  for (int i = 0; i < 20; ++i) y = y * 1;
  const ModeCopy copy;
  u64 sequence = 0;
  std::thread([&] {
    copy.adopt();
    sequence = (leaf({1}) * 2).impl()->node->sequence;
  }).join();
  CHECK(sequence > y.impl()->node->sequence);
}

TEST_CASE("Mode: backward restores the mode that a node was recorded under", "[wall][mode][node]") {
  const LeakGuard guard;
  const Tensor x = leaf({2});
  Seen inside{}, outside{};
  Tensor y;
  const VariantOverride* overrides = nullptr;
  {
    const DeterminismScope strict(Determinism::strict);
    const VariantScope variant("softmax_forward", "reference");
    ModuleScope::Cache cache;
    const ModuleScope module(intern_module_path(intern_module_path(nullptr, "head"), "2"), cache);
    overrides = mode.overrides;
    y = apply(Look{}, x);
  }
  target = &inside;
  const Tensor g = grad(y, x, {.create_graph = true});
  CHECK(inside.determinism == Determinism::strict);
  CHECK(inside.overrides == overrides);
  CHECK(inside.module == "head.2");
  CHECK(inside.grad);  // equal to create_graph
  target = &outside;
  apply(Look{}, x).backward();
  CHECK(outside.determinism == Determinism::standard);
  CHECK(outside.overrides == nullptr);
  CHECK(outside.module.empty());
  CHECK_FALSE(outside.grad);
  CHECK(mode.grad);
  CHECK(mode.id == 0);
}

TEST_CASE("Mode: a variant chosen for the forward is the backward's too", "[wall][mode][run]") {
  // A name that no rung has is refused at once.
  CHECK(mentions(message_of([] { const VariantScope v("softmax_forward", "naiv"); }), "naive"));
  CHECK(mentions(message_of([] { const VariantScope v("softmax_forwrd", "naive"); }),
                 "softmax_forward"));
  const VariantScope outer("*", "reference");
  const VariantOverride* const before = mode.overrides;
  { const VariantScope inner("softmax_forward", "naive"); }
  CHECK(mode.overrides == before);
}

TEST_CASE("Mode: the module's path and the user's line are in every name", "[wall][mode]") {
  const auto path = intern_module_path(intern_module_path(nullptr, "layer0"), "conv");
  CHECK(path == intern_module_path(intern_module_path(nullptr, "layer0"), "conv"));
  CHECK(to_string(path) == "layer0.conv");
  const Tensor x = leaf({2});
  ModuleScope::Cache cache;
  const ModuleScope scope(path, cache);
  const int line = __LINE__ + 1;
  const Tensor y = x * x;
  CHECK(describe(y.impl()->node) == "layer0.conv.mul <- mode_test.cpp:" + std::to_string(line));
}
