// Memory: every byte has an owner. Accounting, the message when there is none, pools, and requests
// that tests make fail.
#include "warptape/core/memory.h"

#include <thread>

#include "warptape/autograd/node.h"
#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/autograd/ops/softmax.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

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
  CHECK((x * x).impl()->node == foreign);  // memory went to the freeing thread's list
  x.zero_grad();
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
