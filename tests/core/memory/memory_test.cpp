// Memory: every byte has an owner. Accounting, the message when there is none, pools, and requests
// that tests make fail.
#include "warptape/core/memory.h"

#include <cmath>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "warptape/autograd/node.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/core/memory_limit.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

static u64 slab_of(const Node* n) { return reinterpret_cast<u64>(n) >> 14; }

TEST_CASE("memory: live bytes, peak and requests by category and device", "[wall][memory]") {
  for (const Device d : {Device::cpu(), Device::simt(), Device::meta()}) {
    CAPTURE(to_string(d));
    const LeakGuard guard;
    (void)empty({1}, {.device = d});  // the device has started
    const memory::Stats before = memory::stats(d);
    memory::reset_peak(d);
    {
      const CategoryScope scope(Category::dataset);
      const Tensor a = empty({100}, {.device = d});
      const memory::Stats now = memory::stats(d);
      CHECK(now.live - before.live == 400);
      CHECK(now.by_category[int(Category::dataset)] - before.by_category[int(Category::dataset)] ==
            400);
      CHECK(now.requests - before.requests == 1);
      const Tensor view = a[{Slice{0, 10}}];  // no bytes of its own
      CHECK(memory::stats(d).live == now.live);
    }
    { const Tensor b = empty({10}, {.device = d}); }
    const memory::Stats after = memory::stats(d);
    CHECK(after.live == before.live);
    CHECK(after.peak - before.live == 400);
    CHECK(after.peak_by_category[int(Category::dataset)] >= 400);
  }
}

TEST_CASE("memory: parameters, gradients and activations are told apart", "[wall][memory]") {
  const auto held = [](Category c) { return memory::stats(Device::cpu()).by_category[int(c)]; };
  const i64 parameters = held(Category::parameter), gradients = held(Category::gradient),
            activations = held(Category::activation);
  nn::Linear fc{8, 4};
  CHECK(held(Category::parameter) - parameters == (8 * 4 + 4) * 4);
  const Tensor x = ones({2, 8});
  const Tensor y = fc(x);
  CHECK(held(Category::activation) - activations == (2 * 8 + 2 * 4) * 4);
  sum(y).backward();
  CHECK(held(Category::gradient) - gradients == (8 * 4 + 4) * 4);
}

TEST_CASE("memory: out of memory names the operator, the module, the line and who holds what",
          "[wall][memory]") {
  const LeakGuard guard;
  nn::Linear fc{3, 2};
  struct Net : nn::Module<Net> {
    nn::Linear fc = add("fc", nn::Linear{3, 2});
    Tensor forward(Tensor x) { return fc(std::move(x)); }
  } net;
  const Tensor x = ones({5, 3});
  memory::fail_nth_request(1);
  const int line = __LINE__ + 1;
  const std::string text = message_of([&] { (void)net(x); });
  memory::fail_nth_request(0);
  CHECK(mentions(text, "[fc.linear] asked for 40 bytes on cpu"));
  CHECK(mentions(text, "parameter 64 bytes"));
  CHECK(mentions(text, "memory_test.cpp:" + std::to_string(line)));
  CHECK(mentions(text, "Nothing was changed"));
}

TEST_CASE("memory: the Nth request fails, once, on this thread only", "[wall][memory]") {
  const LeakGuard guard;
  memory::fail_nth_request(2);
  CHECK_NOTHROW((void)empty({1}));
  std::thread([] { CHECK_NOTHROW((void)empty({1})); }).join();
  CHECK_THROWS_AS((void)empty({1}), OutOfMemory);
  CHECK_NOTHROW((void)empty({1}));
  const u64 before = memory::request_count();
  (void)empty({1});
  (void)empty({1}, {.device = Device::meta()});
  CHECK(memory::request_count() - before == 2);
}

TEST_CASE("memory: an operator that finds none has changed nothing", "[wall][memory][node]") {
  const LeakGuard guard;
  const Tensor w = leaf({1, 2, 3, 4});
  Tensor x = leaf({1, 2, 3, 4}) * 2;
  const u32 version = x.version();
  const auto live = memory::live_objects();
  const auto failing = [&](const std::function<void()>& f) {
    int failures = 0;
    for (u64 n = 1; n < 50; ++n) {
      memory::fail_nth_request(n);
      bool failed = false;
      try {
        f();
      } catch (const OutOfMemory&) {
        failed = true;
      }
      memory::fail_nth_request(0);
      if (!failed) return failures;
      ++failures;
      CHECK(memory::live_objects() == live);
      CHECK(x.defined());
      CHECK(x.version() == version);
      CHECK(mode.op == nullptr);
    }
    return failures;
  };
  CHECK(failing([&] { (void)softmax(x, 0); }) > 0);
  CHECK(failing([&] { (void)(x.reshape({2, 2}).matmul(w.reshape({2, 2})) + 1.0); }) > 0);
  CHECK(failing([&] { (void)cat({x, w}); }) > 0);
  CHECK(failing([&] { (void)mse_loss(x, w).mean(); }) > 0);
  CHECK(failing([&] { (void)dropout(x, 0.5); }) > 0);
  CHECK(failing([&] { (void)where(gt(x, w), x, w); }) > 0);
  CHECK(failing([&] { (void)x.to(f32); }) > 0);
  CHECK(failing([&] { (void)x.reshape({2, 2}).t().reshape({4}); }) > 0);
}

TEST_CASE("memory: nodes and tensors are reused, whatever thread drops them", "[wall][node]") {
  const LeakGuard guard;
  const Tensor x = leaf({2});
  const Node* first = (x * x).impl()->node;
  CHECK((x * x).impl()->node == first);  // last in, first out
  Tensor made;
  std::thread([&] { made = x * x; }).join();  // the slab outlives its thread
  const Node* foreign = made.impl()->node;
  made.backward();
  CHECK(x.grad().item() == 4);
  made = Tensor();
  const Node* again = nullptr;
  std::thread([&] { again = (x * x).impl()->node; }).join();
  CHECK(slab_of(again) == slab_of(foreign));  // what was dropped waits for whoever needs it
  x.zero_grad();
}

TEST_CASE("memory: threads that end while another finishes their graphs leave no slabs behind",
          "[wall][node]") {
  const LeakGuard guard;
  const Tensor x = leaf({2});
  std::set<u64> slabs;
  for (int i = 0; i < 100; ++i) {
    Tensor made;
    std::thread([&] { made = x * x; }).join();
    slabs.insert(slab_of(made.impl()->node));
  }
  CHECK(slabs.size() <= 3);
}

// `frees` takes what `makes` gives it, on a thread of its own, a tensor at a time.
static memory::Stats after_handing_over(int tensors, const std::function<Tensor(int)>& makes) {
  std::mutex mutex;
  std::condition_variable changed;
  Tensor handed;
  bool done = false;
  std::thread frees([&] {
    for (std::unique_lock lock(mutex);;) {
      changed.wait(lock, [&] { return handed.defined() || done; });
      if (done) return;
      { const Tensor mine = std::move(handed); }
      changed.notify_all();
    }
  });
  for (int i = 0; i < tensors; ++i) {
    Tensor t = makes(i);
    std::unique_lock lock(mutex);
    handed = std::move(t);
    changed.notify_all();
    changed.wait(lock, [&] { return !handed.defined(); });
  }
  const memory::Stats stats = memory::stats(Device::cpu());
  {
    const std::lock_guard lock(mutex);
    done = true;
  }
  changed.notify_all();
  frees.join();
  return stats;
}

TEST_CASE("memory: what one thread makes and another frees is used again", "[wall][memory]") {
  const LeakGuard guard;
  memory::empty_cache();
  const i64 before = memory::stats(Device::cpu()).reserved;
  const i64 after = after_handing_over(4000, [](int i) { return ones({i % 7, 600}); }).reserved;
  CHECK(after - before < 1 << 20);  // all of them: 30 MB
}

TEST_CASE("memory: what others free is live no more for the thread that made it",
          "[wall][memory]") {
  const LeakGuard guard;
  const i64 live = memory::stats(Device::cpu()).live;
  memory::reset_peak(Device::cpu());
  const i64 peak = memory::stats(Device::cpu()).peak;
  const memory::Stats after = after_handing_over(400, [](int) { return ones({1 << 18}); });
  CHECK(after.live == live);
  CHECK(after.peak - peak <= 8 << 20);  // of all of them: 400 MiB
  CHECK(memory::stats(Device::cpu()).live == live);
}

TEST_CASE("memory: sizes that nothing asks for again go back to the system", "[wall][memory]") {
  memory::empty_cache();
  const i64 before = memory::stats(Device::cpu()).reserved;
  i64 largest = 0;
  for (double mib = 1; mib < 512; mib *= 1.19) {
    largest = i64(mib * (1 << 20));
    (void)empty({largest}, {.dtype = DType::u8});
  }
  CHECK(memory::stats(Device::cpu()).reserved - before < 4 * largest);  // all of them: 6
  // And what passes between threads.
  memory::empty_cache();
  const auto larger = [](int i) {
    return empty({i64(std::pow(1.19, i) * (1 << 20))}, {.dtype = DType::u8});
  };
  const i64 passed = after_handing_over(36, larger).reserved;
  CHECK(passed - before < 4 * largest);
}

TEST_CASE("memory: a loop whose steps are alike takes nothing from the system", "[wall][memory]") {
  // More than is looked through, of sizes that take turns.
  const auto step = [] {
    std::vector<Tensor> kept;
    for (const i64 mib : {9, 5, 17, 30, 3, 40, 12})
      kept.push_back(empty({mib << 20}, {.dtype = DType::u8}));
    for (const i64 mib : {50, 7, 21}) (void)empty({mib << 20}, {.dtype = DType::u8});
  };
  for (int i = 0; i < 4; ++i) step();
  const i64 reserved = memory::stats(Device::cpu()).reserved;
  for (int i = 0; i < 20; ++i) step();
  CHECK(memory::stats(Device::cpu()).reserved == reserved);
}

TEST_CASE("memory: no room for a tensor's header gives its block back", "[wall][memory]") {
  const Tensor x = ones({3});
  const LeakGuard guard;
  for (const auto& make :
       {std::function([] { return empty({5}); }), std::function([&] { return x + x; })}) {
    memory::empty_cache();
    memory::fail_next_tensor();
    CHECK_THROWS_AS((void)make(), OutOfMemory);
    CHECK_NOTHROW((void)make());
  }
}

TEST_CASE("trap T5: empty_cache gives back what nobody uses, and cures no lack of memory",
          "[memory][trap]") {
  constexpr i64 kMiB = 1 << 20;
  for (const Device d : {Device::cpu(), Device::simt()}) {
    CAPTURE(to_string(d));
    (void)empty({1}, {.device = d});
    const LeakGuard guard;
    memory::empty_cache();
    const Tensor held = full({kMiB}, 7, {.dtype = DType::u8, .device = d});
    { const Tensor temporary = empty({8 * kMiB}, {.dtype = DType::u8, .device = d}); }
    const memory::Stats before = memory::stats(d);
    memory::empty_cache();
    const memory::Stats after = memory::stats(d);
    CHECK(after.live == before.live);
    CHECK(after.by_category[int(Category::activation)] ==
          before.by_category[int(Category::activation)]);
    // There are no pools of blocks under ASan, and simt's arena keeps what it has.
    if (d == Device::cpu() && before.reserved >= before.live + 8 * kMiB)
      CHECK(after.reserved <= before.reserved - 8 * kMiB);
    CHECK(after.reserved >= kMiB);
    CHECK(held.select(0, kMiB - 1).item<i64>() == 7);
    // What did not fit before does not fit afterwards: unused blocks were never in the way.
    const memory::LimitScope limit(d, before.live + 4 * kMiB);
    const auto too_large = [&] { (void)empty({5 * kMiB}, {.dtype = DType::u8, .device = d}); };
    CHECK_THROWS_AS(too_large(), OutOfMemory);
    memory::empty_cache();
    CHECK_THROWS_AS(too_large(), OutOfMemory);
    CHECK_NOTHROW((void)empty({4 * kMiB}, {.dtype = DType::u8, .device = d}));
  }
}

TEST_CASE("memory: out of memory lists the largest tensors that graphs keep, by operator and line",
          "[memory]") {
  for (const Device d : {Device::cpu(), Device::simt(), Device::meta()}) {
    CAPTURE(to_string(d));
    (void)empty({1}, {.device = d});
    const LeakGuard guard;
    struct Net : nn::Module<Net> {
      nn::Linear up = add("up", nn::Linear{64, 1024});
      Tensor forward(Tensor x) { return tanh(up(std::move(x))); }
    } net;
    net.to(d);
    const Tensor x = ones({64, 64}, {.device = d});
    const int first = __LINE__ + 1;
    const Tensor a = net(x), b = net(x);
    const int second = __LINE__ + 1;
    const Tensor c = square(a.slice(0, {0, 32}).reshape({32, 1024}));
    const memory::LimitScope limit(d, memory::stats(d).live + 1000);
    const std::string text = message_of([&] { (void)mul(a, b); });
    CHECK(mentions(text, "] asked for 256 KiB on " + to_string(d) + ", and the limit is "));
    CHECK(mentions(text, "\n  the largest that graphs keep for a backward:\n"));
    // tanh keeps its output; so does square what it read, a view of the first of them.
    const std::string place = " <- memory_test.cpp:";
    CHECK(mentions(text, str("512 KiB in 2 tensors: [64, 1024] f32 of tanh", place)));
    CHECK(text.find("slice") == text.npos);
    CHECK(mentions(text, "\n  Nothing was changed"));
    (void)first, (void)second, (void)c;
  }
  // Another thread may drop the graphs meanwhile: what is said is old then, and nothing worse.
  std::vector<Tensor> results;
  const Tensor v = leaf({1, 2, 3});
  for (int i = 0; i < 500; ++i) results.push_back(tanh(square(v * 2)));
  std::thread drops([&] {
    for (Tensor& t : results) t = Tensor();
  });
  for (int i = 0; i < 50; ++i) {
    memory::fail_nth_request(1);
    CHECK(mentions(message_of([&] { (void)empty({3}); }), "and the test made it fail"));
  }
  drops.join();
  // Without graphs there is nothing to list; what is under a hundredth of all is not.
  const Tensor x = ones({1 << 20});
  const Tensor w = leaf({1, 2});
  const Tensor y = square(w * 2);
  const memory::LimitScope limit(Device::cpu(), memory::stats(Device::cpu()).live + 1000);
  CHECK(message_of([&] { (void)(x + 1); }).find("graphs keep") == std::string::npos);
}

TEST_CASE("memory: empty_cache gives unused blocks, tensors and nodes back", "[wall][memory]") {
  const LeakGuard guard;
  const Tensor x = leaf({1});
  {
    Tensor y = x;
    for (int i = 0; i < 20000; ++i) y = y * 1;
  }
  { const Tensor big = empty({1 << 20}); }
  const i64 reserved = memory::stats(Device::cpu()).reserved;
  const i64 pooled = memory::pooled_objects();
  memory::empty_cache();
  CHECK(memory::pooled_objects() < pooled - 15000);
  if (reserved >= 4 << 20)  // there are no pools of blocks under ASan
    CHECK(memory::stats(Device::cpu()).reserved <= reserved - (4 << 20));
  const Tensor y = x * x;  // and all goes on
  y.backward();
  CHECK(x.grad().item() == 2);
  x.zero_grad();
}
