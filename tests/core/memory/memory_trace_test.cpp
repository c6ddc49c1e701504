// Memory over time: levels and holders add up to the allocator's bytes, and each holder has a name.
#include "warptape/core/memory_trace.h"

#include <algorithm>
#include <numeric>

#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"

using namespace wt;
using memory::Holder;
using memory::Trace;

namespace {

struct Net : nn::Module<Net> {
  nn::Linear up = add("up", nn::Linear{16, 64}), down = add("down", nn::Linear{64, 4});
  Tensor forward(const Tensor& x) { return down(relu(up(x))); }
};

i64 sum_of(const memory::ByCategory& c) { return std::accumulate(c.begin(), c.end(), i64{0}); }
i64 sum_of(const std::vector<Holder>& all) {
  return std::accumulate(all.begin(), all.end(), i64{0},
                         [](i64 n, const Holder& h) { return n + h.bytes; });
}
const Holder* find(const std::vector<Holder>& all, const std::string& begin) {
  for (const Holder& h : all)
    if (h.title().starts_with(begin)) return &h;
  return nullptr;
}

}  // namespace

TEST_CASE("trace: every level is the sum of its categories and of its holders", "[memory]") {
  for (const Device d :
       {Device::cpu(), Device::simt(), Device::meta(), Device::meta(DeviceKind::simt)}) {
    CAPTURE(to_string(d));
    const LeakGuard guard;
    const DefaultDevice there(d);
    const Tensor old = empty({100});
    Trace trace(d);
    memory::reset_peak(d);
    const i64 before = trace.now().bytes;
    CHECK(before == memory::stats(d).live);
    {
      Net net;
      for (int i = 0; i < 3; ++i) sum(net(ones({32, 16}))).backward();
      const memory::Stats s = memory::stats(d);
      CHECK(trace.now().bytes == s.live);
      CHECK(trace.peak().bytes == s.peak);
      for (int c = 0; c < kNumCategories; ++c) {
        CHECK(trace.now().by_category[size_t(c)] == s.by_category[c]);
        CHECK(trace.peak().by_category[size_t(c)] == s.peak_by_category[c]);
      }
      CHECK(sum_of(trace.peak().by_category) == trace.peak().bytes);
      CHECK(sum_of(trace.at_peak()) == trace.peak().bytes);
      CHECK(sum_of(trace.live()) == s.live - before);
      const auto levels = trace.timeline(40);
      CHECK(levels.size() == 40);
      i64 highest = 0;
      for (const memory::Level& l : levels) {
        CHECK(sum_of(l.by_category) == l.bytes);
        highest = std::max(highest, l.bytes);
      }
      CHECK(highest == trace.peak().bytes);
    }
    CHECK(trace.now().bytes == before);
    CHECK(trace.live().empty());
  }
}

TEST_CASE("trace: holders have operator, module, backward and the user's line", "[memory]") {
  const LeakGuard guard;
  Net net;
  const Tensor x = ones({32, 16});
  Trace trace(Device::cpu());
  const Tensor y = net(x);
  const std::string at = " <- memory_trace_test.cpp:";
  const std::vector<Holder> live = trace.live();
  const Holder* saved = find(live, "up.linear" + at);
  REQUIRE(saved != nullptr);
  CHECK(saved->bytes == 32 * 64 * 4);
  CHECK(saved->category == Category::activation);
  CHECK(saved->blocks == 1);
  sum(y).backward();
  bool backward = false;
  for (const Holder& h : trace.at_peak())
    backward |= h.title().find(".backward" + at) != std::string::npos;
  CHECK(backward);
  bool gradient = false;
  for (const Holder& h : trace.live()) gradient |= h.category == Category::gradient;
  CHECK(gradient);
}

TEST_CASE("trace: what is released that was there before is counted off", "[memory]") {
  Tensor old = empty({1000});
  Trace trace(Device::cpu());
  const i64 before = trace.now().bytes;
  old = Tensor();
  CHECK(trace.now().bytes == before - 4000);
  CHECK(trace.peak().bytes == before);
  CHECK(trace.live().empty());
  CHECK(trace.events() == 1);
  CHECK(sum_of(trace.at_peak()) == before);
}

TEST_CASE("trace: without a history only what is live is known", "[memory]") {
  Trace trace(Device::cpu(), {.history = false});
  const Tensor x = empty({10});
  CHECK(trace.live().size() == 1);
  CHECK(trace.events() == 0);
  CHECK(mentions(message_of([&] { (void)trace.peak(); }),
                 "[memory::Trace] peak() needs the history"));
  CHECK(mentions(message_of([&] { (void)trace.timeline(3); }), "told not to keep"));
}
