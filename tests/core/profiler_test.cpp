// Observers: what is heard, in which order, under which names; and that nothing stays behind.
#include "warptape/core/profiler.h"

#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"

using namespace wt;

namespace {

struct Trace : profiler::Observer {
  std::vector<std::string> rows{};
  std::vector<profiler::Range> ranges{};
  std::vector<profiler::Memory> got{}, gone{};
  std::vector<std::string> open{};
  bool nested = true;  // every end is that of the innermost begin

  static std::string text(const profiler::Range& r) {
    static constexpr const char* kNames[] = {"op ", "backward ", "kernel "};
    return kNames[int(r.kind)] + std::string(r.name) + (r.variant ? ":" : "") +
           (r.variant ? r.variant : "");
  }
  void begin(const profiler::Range& r) noexcept override {
    rows.push_back(text(r));
    open.push_back(text(r));
    ranges.push_back(r);
  }
  void end(const profiler::Range& r) noexcept override {
    nested &= !open.empty() && open.back() == text(r);
    if (!open.empty()) open.pop_back();
    rows.push_back("end " + text(r));
  }
  void allocated(const profiler::Memory& m) noexcept override { got.push_back(m); }
  void released(const profiler::Memory& m) noexcept override { gone.push_back(m); }

  const profiler::Range* find(const std::string& row) const {
    for (const profiler::Range& r : ranges)
      if (text(r) == row) return &r;
    return nullptr;
  }
};
using Rows = std::vector<std::string>;

struct Net : nn::Module<Net> {
  nn::Linear conv2 = add("conv2", nn::Linear{3, 2});
  Tensor forward(const Tensor& x) { return conv2(x); }
};

}  // namespace

TEST_CASE("profiler: operators, kernels and backward nodes nest in order") {
  const Tensor a = ones({4, 4}, {.requires_grad = true}), b = ones({4, 4});
  const VariantScope variant("matmul", "reference");
  Trace t;
  {
    const profiler::ObserverScope watch(t);
    const Tensor y = matmul(a, b);
    y.backward(b);
  }
  CHECK(t.nested);
  CHECK(t.open.empty());
  REQUIRE(t.rows.size() >= 6);
  CHECK(Rows(t.rows.begin(), t.rows.begin() + 5) == Rows{"op matmul", "kernel matmul:reference",
                                                         "end kernel matmul:reference",
                                                         "end op matmul", "backward matmul"});
  CHECK(t.rows.back() == "end backward matmul");
  const profiler::Range* k = t.find("kernel matmul:reference");
  REQUIRE(k != nullptr);
  CHECK(k->flops == 2 * 4 * 4 * 4);
  CHECK(k->bytes > 0);
  CHECK(k->op != nullptr);
}

TEST_CASE("profiler: names say module, operator, backward and the user's line") {
  Net net;
  const Tensor x = ones({5, 3});
  Trace t;
  const int line = __LINE__ + 3;
  {
    const profiler::ObserverScope watch(t);
    net(x).sum().backward();
  }
  const std::string at = " <- profiler_test.cpp:" + std::to_string(line);
  const profiler::Range *forward = t.find("op linear"), *backward = t.find("backward linear");
  REQUIRE(forward != nullptr);
  REQUIRE(backward != nullptr);
  CHECK(forward->title() == "conv2.linear" + at);
  CHECK(backward->title() == "conv2.linear.backward" + at);
  CHECK(backward->device == Device::cpu());
  for (const profiler::Range& r : t.ranges)
    if (r.kind == profiler::Kind::kernel) CHECK(mentions(r.title(), at));
}

TEST_CASE("profiler: device and variant of launches on each device") {
  for (const Device d : wt_test::kernel_devices()) {
    const Tensor x = ones({33}, {.device = d});
    Trace t;
    const profiler::ObserverScope watch(t);
    (void)tanh(x);
    REQUIRE(t.ranges.size() == 2);
    CHECK(t.ranges[0].device == d);
    CHECK(t.ranges[1].kind == profiler::Kind::kernel);
    CHECK(t.ranges[1].device == d);
    CHECK(t.ranges[1].variant != nullptr);
  }
}

TEST_CASE("profiler: ranges end when an operator throws, in its checks or later") {
  const Tensor a = ones({2, 3}), b = ones({4, 5});
  Trace t;
  {
    const profiler::ObserverScope watch(t);
    CHECK_THROWS_AS((void)matmul(a, b), ShapeError);
    CHECK_THROWS_AS((void)matmul(a, ones({3, 2}, {.dtype = f64})), DtypeError);
    CHECK_THROWS_AS((void)add(a, ones({2, 3}, {.device = Device::simt()})), PlacementError);
    memory::fail_nth_request(1);
    CHECK_THROWS_AS((void)tanh(a), OutOfMemory);
    memory::fail_nth_request(0);
  }
  CHECK(t.nested);
  CHECK(t.open.empty());
  CHECK(t.rows.size() >= 6);
}

TEST_CASE("profiler: every allocation and release, with its owner") {
  Trace t;
  {
    const profiler::ObserverScope watch(t);
    const Tensor x = ones({100});
    t.got.clear();
    { const Tensor y = tanh(x); }
    REQUIRE(t.got.size() == 1);
    CHECK(t.got[0].bytes == 400);
    REQUIRE(t.got[0].owner != nullptr);
    CHECK(std::string(t.got[0].owner->name) == "tanh");
    REQUIRE(t.gone.size() == 1);
    CHECK(t.gone[0].storage == t.got[0].storage);
    CHECK(t.gone[0].bytes == 400);
  }
  const size_t heard = t.gone.size();
  (void)tanh(ones({100}));
  CHECK(t.gone.size() == heard);
}

TEST_CASE("profiler: several observers, one that comes in the middle, and the end of all") {
  Trace outer, inner;
  const Tensor x = ones({3});
  {
    const profiler::ObserverScope one(outer);
    {
      const profiler::ObserverScope two(inner);
      (void)tanh(x);
    }
    (void)tanh(x);
    std::vector<std::unique_ptr<profiler::ObserverScope>> more;
    for (int i = 0; i < 3; ++i) more.push_back(std::make_unique<profiler::ObserverScope>(inner));
    CHECK(mentions(message_of([&] { const profiler::ObserverScope fifth(inner); }), "already"));
  }
  CHECK(inner.rows.size() * 2 == outer.rows.size());
  (void)tanh(x);
  CHECK((mode.slow & kSlowProfile) == 0);
  CHECK((process_slow.load() & kSlowObserved) == 0);
  CHECK(outer.nested);
}
