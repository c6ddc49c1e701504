// Blocks step by step, of kernels whose steps are known by hand, and what `wt step` shows of them.
#include "warptape/tools/wt/look/step_view.h"

#include <bit>
#include <cstring>
#include <numeric>

#include "warptape/core/str.h"
#include "warptape/kernels/simt/counters.h"
#include "warptape/tests/simt/access_patterns.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using namespace wt::tools;
using Kind = SimtStep::Kind;

namespace {

bool instrumented() {
  if (simt_can_count()) return true;
  CHECK_THROWS_AS(simt_start_steps(0, 0), UsageError);
  CHECK(simt_stop_steps().kernel.empty());
  return false;
}

template <class F>
SimtSteps stepped(F launch, u64 number = 0) {
  simt_start_steps(number, 0);
  launch();
  SimtSteps s = simt_stop_steps();
  CHECK_FALSE(s.cut);
  return s;
}

std::vector<float> counted_up(size_t n) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), 1.0f);
  return v;
}

float float_of(const SimtStep& s, unsigned lane, int i = 0) {
  float f;
  std::memcpy(&f, reinterpret_cast<const char*>(&s.value[lane]) + 4 * i, 4);
  return f;
}

std::vector<std::string> no_source(const std::string&) { return {}; }
bool has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("steps: loads and stores with addresses and values, barriers between them") {
  if (!instrumented()) return;
  const DeviceArray<float> x(counted_up(1024)), out(1024);
  const SimtSteps s = stepped([&] { test_transpose_shared(out.data(), x.data(), true); });
  CHECK(has(s.kernel, "transpose_shared<33>"));
  CHECK(s.memories == 2);
  REQUIRE(s.steps.size() == 4 * 32 + 1);
  for (unsigned row = 0; row < 32; ++row) {
    const SimtStep &load = s.steps[2 * row], &store = s.steps[2 * row + 1];
    CHECK((load.kind == Kind::load && !load.shared && load.bytes == 4 && load.lanes == ~0u));
    CHECK((store.kind == Kind::store && store.shared && store.lanes == ~0u));
    for (const unsigned lane : {0u, 7u, 31u}) {
      CHECK(load.memory[lane] == 0);
      CHECK(load.offset[lane] == 4 * (32 * row + lane));
      CHECK(float_of(load, lane) == float(32 * row + lane + 1));
      CHECK(store.offset[lane] == 4 * (33 * row + lane));
      CHECK(float_of(store, lane) == float(32 * row + lane + 1));
    }
  }
  CHECK(s.steps[64].kind == Kind::barrier);
  CHECK(std::string(s.steps[64].what) == "__syncthreads");
  const SimtStep& last = s.steps.back();
  CHECK((last.kind == Kind::store && !last.shared && last.memory[5] == 1));
  CHECK(last.offset[5] == 4 * (31 * 32 + 5));
  CHECK(float_of(last, 5) == 5 * 32 + 31 + 1);
}

TEST_CASE("steps: lanes that part go one branch after the other, those of a loop together") {
  if (!instrumented()) return;
  const DeviceArray<float> x(counted_up(1024)), out(32);
  const SimtSteps odd = stepped([&] { test_odd_lanes(out.data(), x.data()); });
  std::vector<u32> lanes;
  for (const SimtStep& s : odd.steps) lanes.push_back(s.lanes);
  const u32 evens = 0x55555555;
  CHECK(((lanes == std::vector<u32>{evens, ~evens, ~evens}) ||
         (lanes == std::vector<u32>{~evens, ~evens, evens})));
  // Lane i reads i + 1 elements: all lanes are in the first turn, lane 31 alone in the last, and
  // together again behind the loop.
  const SimtSteps triangle = stepped([&] { test_triangle(out.data(), x.data()); });
  REQUIRE(triangle.steps.size() == 33);
  for (int k = 0; k < 32; ++k) CHECK(triangle.steps[size_t(k)].lanes == ~0u << k);
  CHECK(triangle.steps[32].kind == Kind::store);
  CHECK(triangle.steps[32].lanes == ~0u);
}

TEST_CASE("steps: atomics have what was there afterwards, wide accesses all of their bytes") {
  if (!instrumented()) return;
  const DeviceArray<int> counter(1);
  const SimtSteps s = stepped([&] { test_one_counter(counter.data()); });
  const SimtStep* atomic = nullptr;
  for (const SimtStep& step : s.steps)
    if (step.kind == Kind::atomic) atomic = &step;
  REQUIRE(atomic);
  CHECK((atomic->shared && atomic->lanes == ~0u));
  u64 sum = 0;
  for (const SimtValue& v : atomic->value) sum += v[0];
  CHECK(sum == 32 * 33 / 2);  // 1 to 32, in whichever order
  const DeviceArray<float> x(counted_up(128)), out(128);
  const SimtSteps wide = stepped([&] { test_vector_copy(out.data(), x.data()); });
  REQUIRE(wide.steps.size() == 2);
  for (int i = 0; i < 4; ++i) CHECK(float_of(wide.steps[1], 3, i) == float(12 + i + 1));
}

TEST_CASE("steps: of several launches the one that was asked for; none of what there is not") {
  if (!instrumented()) return;
  const DeviceArray<float> x(counted_up(1024)), out(1024);
  const auto launches = [&] {
    test_vector_copy(out.data(), x.data());
    test_triangle(out.data(), x.data());
  };
  CHECK(has(stepped(launches, 1).kernel, "triangle"));
  CHECK(stepped(launches, 2).kernel.empty());
  simt_start_steps(0, 0);
  CHECK_THROWS_AS(simt_start_steps(0, 0), UsageError);
  launches();
  CHECK(has(simt_stop_steps().kernel, "vector_copy"));  // the refused start has changed nothing
}

TEST_CASE("steps: the view goes forwards, back, to a step and to a line, of a warp or a lane") {
  if (!instrumented()) return;
  const DeviceArray<float> x(counted_up(1024)), out(1024);
  StepView view(stepped([&] { test_triangle(out.data(), x.data()); }), DType::f32, no_source);
  CHECK(has(view.head(), "33 steps"));
  CHECK(has(view.text(), "step 1 of 33, warp 0, 32 of 32 lanes: load 4 bytes of device memory"));
  CHECK(has(view.text(), " 5  A+20  6"));
  CHECK(has(view.text(), "4 sectors of 32 bytes, of which 128 are wanted"));
  std::string said;
  const auto at_after = [&](const char* line) {
    CHECK(view.command(line, said));
    return view.at();
  };
  CHECK(at_after("") == 1);
  CHECK(at_after("n 3") == 4);
  CHECK(at_after("b") == 3);
  CHECK(at_after("b 9") == 0);
  CHECK(has(said, "the first step"));
  CHECK(at_after("g 33") == 32);
  CHECK(at_after("n") == 32);
  CHECK(has(said, "the last step"));
  // Lane 2 takes part in three turns and in the store.
  CHECK(at_after("g 1") == 0);
  CHECK(at_after("l 2") == 0);
  CHECK(at_after("n 3") == 32);
  CHECK(has(said, " 2  B+8  105"));  // 3 + 35 + 67
  CHECK(has(said, "lane 2 of warp 0, the newest first:"));
  CHECK(has(said, "3  read 67"));
  CHECK(at_after("l") == 32);
  CHECK(at_after("/ 999999") == 32);
  CHECK(has(said, "no step at line 999999"));
  for (const char* wrong : {"g", "g 0", "g 34", "g x", "w 1", "l 32", "n -1", "n 2x"}) {
    INFO(wrong);
    CHECK(at_after(wrong) == 32);
    CHECK(has(said, " takes "));
  }
  CHECK(at_after("nonsense") == 32);
  CHECK(has(said, "there is no 'nonsense'"));
  CHECK_FALSE(view.command("q", said));
}

TEST_CASE("steps: values are shown as the launch's dtype has them") {
  SimtSteps steps;
  steps.kernel = "k", steps.block = {32, 1, 1}, steps.memories = 1;
  steps.places = {{"/p/k.cu:2"}};
  SimtStep s{.kind = Kind::load, .lanes = 1, .bytes = 4};
  const auto shown = [&](unsigned bytes, SimtValue v, DType t) {
    s.bytes = bytes, s.value[0] = v;
    steps.steps = {s};
    const std::string text = StepView(steps, t, [](const std::string&) {
                               return std::vector<std::string>{"one", "  two", "three"};
                             }).text();
    CHECK(has(text, "  >    2    two\n"));
    const size_t from = text.find("A+0  ") + 5;
    return text.substr(from, text.find('\n', from) - from);
  };
  CHECK(shown(4, {std::bit_cast<u32>(0.5f), 0}, DType::f32) == "0.5");
  CHECK(shown(4, {7, 0}, DType::f32) == "7");  // an index
  CHECK(shown(8, {u64{0x3f800000} << 32 | 0x40000000, 0}, DType::f32) == "2 1");
  CHECK(shown(8, {std::bit_cast<u64>(0.25), 0}, DType::f64) == "0.25");
  CHECK(shown(2, {0x3c00, 0}, DType::f16) == "1");
  CHECK(shown(16, {0x3c003c003c003c00, 0x3c003c003c004000}, DType::f16) == "1 1 1 1 2 1 1 1");
  CHECK(shown(2, {0x3f80, 0}, DType::bf16) == "1");
  CHECK(shown(1, {200, 0}, DType::f32) == "200");
  CHECK(shown(2, {40000, 0}, DType::f32) == "40000");
}
