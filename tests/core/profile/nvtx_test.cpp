// Row 109: ranges for NVIDIA's tools, through a sink that counts what is pushed and popped.
#include "warptape/core/nvtx.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>

#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/profile.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;

namespace {

struct Heard {
  std::mutex mutex{};
  std::vector<std::string> names{}, domains{}, categories{};
  std::vector<u32> kinds{}, colors{};
  int pushed = 0, popped = 0, depth = 0, deepest = 0;
  bool below = false;  // more were popped than pushed

  bool has(const std::string& name) const {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
  void check_even() const {
    CHECK(pushed == popped);
    CHECK_FALSE(below);
  }
};
Heard* heard = nullptr;  // of the test that runs

// What a tool would hear.
constexpr nvtx::detail::Api kSink = {
    .domain = [](const char* name) -> void* {
      heard->domains.push_back(name);
      return heard;
    },
    .name_category = [](void*, u32, const char* name) { heard->categories.push_back(name); },
    .push =
        [](void* domain, const char* text, u32 category, u32 argb) {
          Heard& h = *static_cast<Heard*>(domain);
          const std::lock_guard lock(h.mutex);
          h.names.push_back(text), h.kinds.push_back(category), h.colors.push_back(argb);
          ++h.pushed;
          h.deepest = std::max(h.deepest, ++h.depth);
        },
    .pop =
        [](void* domain) {
          Heard& h = *static_cast<Heard*>(domain);
          const std::lock_guard lock(h.mutex);
          ++h.popped;
          h.below |= --h.depth < 0;
        }};

struct Listening {
  Heard sink{};
  explicit Listening(const nvtx::detail::Api& api = kSink) {
    heard = &sink;
    nvtx::detail::use_api(&api);
  }
  ~Listening() {
    nvtx::detail::use_api(nullptr);
    heard = nullptr;
  }
};

struct Net : nn::Module<Net> {
  nn::Linear conv2 = add("conv2", nn::Linear{3, 2});
  Tensor forward(const Tensor& x) { return conv2(x); }
};

}  // namespace

TEST_CASE("row 109, nvtx: operators, backward nodes, kernels and ranges, each pushed and popped") {
  Listening tool;
  Net net;
  const Tensor x = ones({5, 3});
  const int line = __LINE__ + 4;
  {
    const nvtx::Scope ranges;
    const auto r = profiler::range("step");
    net(x).sum().backward();
  }
  const Heard& h = tool.sink;
  h.check_even();
  CHECK(h.pushed > 6);
  CHECK(h.deepest >= 3);
  CHECK(h.domains == std::vector<std::string>{"warptape"});
  CHECK(h.categories == std::vector<std::string>{"operator", "backward", "kernel", "range"});
  const std::string at = " <- nvtx_test.cpp:" + std::to_string(line);
  CHECK(h.has("conv2.linear" + at));
  CHECK(h.has("conv2.linear.backward" + at));
  CHECK(h.names[0].starts_with("step"));
  CHECK(h.kinds[0] == 4);
  bool kernel = false;
  for (size_t i = 0; i < h.names.size(); ++i) {
    kernel |= h.kinds[i] == 3 && mentions(h.names[i], ":");
    for (size_t k = 0; k < i; ++k)
      CHECK((h.kinds[i] == h.kinds[k]) == (h.colors[i] == h.colors[k]));
  }
  CHECK(kernel);
  const int before = h.pushed;
  (void)exp(x);
  CHECK(h.pushed == before);  // the scope has ended
}

TEST_CASE("row 109, nvtx: ranges are popped when an error unwinds them") {
  Listening tool;
  const Tensor a = ones({2, 3});
  {
    const nvtx::Scope ranges;
    CHECK_THROWS_AS((void)matmul(a, ones({4, 5})), ShapeError);
    memory::fail_nth_request(1);
    CHECK_THROWS_AS((void)tanh(a), OutOfMemory);
    memory::fail_nth_request(0);
    const auto failing = [&] {
      const nvtx::Range by_hand("by hand");
      const auto of_profiler = profiler::range("of the profiler");
      (void)matmul(a, a);
    };
    CHECK_THROWS_AS(failing(), ShapeError);
    profiler::range_push("never popped");
  }
  CHECK(tool.sink.has("by hand"));
  CHECK(tool.sink.pushed >= 5);
  tool.sink.check_even();
  profiler::range_pop();
  tool.sink.check_even();
}

TEST_CASE("row 109, nvtx: by hand, without a scope; one pop too many does nothing") {
  Listening tool;
  nvtx::range_push("outer");
  { const nvtx::Range inner("inner"); }
  nvtx::range_pop();
  nvtx::range_pop();
  CHECK(tool.sink.names == std::vector<std::string>{"outer", "inner"});
  tool.sink.check_even();
  CHECK(nvtx::listening());
}

TEST_CASE("row 109, nvtx: two scopes push once, and either may end first") {
  Listening tool;
  const Tensor x = ones({4});
  auto first = std::make_unique<nvtx::Scope>();
  auto second = std::make_unique<nvtx::Scope>();
  (void)exp(x);
  const int once = tool.sink.pushed;
  CHECK(once == 2);  // the operator and its kernel
  first.reset();
  (void)exp(x);
  CHECK(tool.sink.pushed == 2 * once);
  second.reset();
  (void)exp(x);
  CHECK(tool.sink.pushed == 2 * once);
  tool.sink.check_even();
}

TEST_CASE("row 109, nvtx: each thread has its own ranges") {
  Listening tool;
  {
    const nvtx::Scope ranges;
    std::thread other([] { (void)exp(ones({4})).sum(); });
    (void)exp(ones({4})).sum();
    other.join();
  }
  CHECK(tool.sink.pushed >= 6);
  tool.sink.check_even();
}

TEST_CASE("row 109, nvtx: where nobody listens nobody watches") {
  static constexpr nvtx::detail::Api kDeaf = {
      .domain = [](const char*) -> void* { return nullptr; },
      .name_category = [](void*, u32, const char*) { FAIL("nobody listens"); },
      .push = [](void*, const char*, u32, u32) { FAIL("nobody listens"); },
      .pop = [](void*) { FAIL("nobody listens"); }};
  const Listening tool(kDeaf);
  CHECK_FALSE(nvtx::listening());
  const nvtx::Scope ranges;
  const nvtx::Range r("x");
  nvtx::range_push("y");
  nvtx::range_pop();
  CHECK((process_slow.load() & kSlowObserved) == 0);
}

TEST_CASE("row 109, nvtx: a build without the library says why and does nothing") {
  if (nvtx::detail::header_api()) SKIP_TEST("this build has NVTX");
  CHECK_FALSE(nvtx::listening());
  CHECK(mentions(nvtx::why_not(), "this build has no NVTX"));
  const nvtx::Scope ranges;
  const nvtx::Range r("x");
  (void)exp(ones({2}));
}
