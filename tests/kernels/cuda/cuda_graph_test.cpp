// Graphs of the cuda device over the fake runtime: what a capture asks of it, and what it must not.
#include <cstring>

#include "warptape/core/async_copy.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/graph.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/memory.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/stream.h"
#include "warptape/kernels/cuda/device.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/fake_cuda.h"

using namespace wt;
using wt_test::Environment;
using wt_test::FakeCuda;

namespace {

const Device kCuda = Device::cuda(0);

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}
bool mentions(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

Tensor floats(i64 n) { return empty({n}, {.device = kCuda}); }
// Copies within the device are the work of the fake: it runs no kernels.
void copy(const Tensor& to, const Tensor& from) {
  copy_bytes(to.impl()->data, kCuda, from.impl()->data, kCuda, to.numel() * 4);
}
void write(const Tensor& to, float v) {
  const std::vector<float> values(size_t(to.numel()), v);
  copy_bytes(to.impl()->data, kCuda, values.data(), Device::cpu(), to.numel() * 4);
}
std::vector<float> read(const Tensor& t) {
  std::vector<float> values(size_t(t.numel()));
  copy_bytes(values.data(), Device::cpu(), t.impl()->data, kCuda, t.numel() * 4);
  return values;
}

// What the allocator and the events of the runtime were asked for.
std::vector<int> asked(const FakeCuda& fake) {
  std::vector<int> n;
  for (const char* call : {"take_memory", "free_memory", "query_event", "wait_event", "make_event",
                           "query_stream", "wait_stream", "device_synchronize", "take_host"})
    n.push_back(fake.calls(call));
  return n;
}

}  // namespace

TEST_CASE("cuda graph: a capture asks nothing of the allocator, and 200 replays do its work",
          "[cuda][graph]") {
  FakeCuda fake;
  {
    const Tensor in = floats(1000), out = floats(1000), more = floats(3'000'000);
    Tensor kept;
    Graph graph{kCuda};
    CHECK(graph.stream().native() != nullptr);  // not the legacy stream
    const auto work = [&] {
      Tensor a = floats(1000);
      copy(a, in);
      Tensor b = floats(1000);
      copy(b, a);
      a = Tensor();
      Tensor large = floats(3'000'000);
      copy(large, more);
      kept = floats(1000);  // where a was
      copy(kept, b);
      copy(out, kept);
    };
    write(in, 1);
    write(more, 1);
    graph.warm_up(work);
    CHECK(read(out) == std::vector<float>(1000, 1));
    kept = Tensor();
    write(in, 2);
    fake.run_all();
    const std::vector<int> before = asked(fake);
    graph.capture(work);
    CHECK(asked(fake) == before);
    CHECK_FALSE(fake.capturing());
    CHECK(graph.size() == 5);
    CHECK(read(out) == std::vector<float>(1000, 1));  // nothing has run
    for (int i = 0; i < 200; ++i) {
      write(in, float(i));
      graph.replay();
      if (i % 50 == 0) CHECK(read(out) == std::vector<float>(1000, float(i)));
    }
    CHECK(read(kept) == std::vector<float>(1000, 199));
    CHECK(fake.calls("launch_graph") == 200);
    CHECK(fake.calls("begin_capture") == 1);
  }
  memory::empty_cache();
  CHECK(fake.calls("free_graph") == 1);
  CHECK(fake.calls("free_exec") == 1);
  CHECK(fake.violations() == std::vector<std::string>{});
}

TEST_CASE("cuda graph: what dies inside goes back when the capture is over", "[cuda][graph]") {
  FakeCuda fake;
  {
    Graph graph{kCuda};
    Stream side{kCuda};
    const Tensor out = floats(100);
    // A block that another stream uses: giving it back records an event.
    Tensor dies;
    {
      const StreamScope on(side);
      dies = floats(100);
    }
    const auto work = [&] {
      copy(out, dies);
      dies = Tensor();
    };
    graph.warm_up([&] { copy(out, dies); });
    const int events = fake.calls("record");
    const i64 allocated = cuda_pool_stats(kCuda).allocated;
    graph.capture(work);
    CHECK(fake.calls("record") == events + 2);  // the stream before it, then the block's users
    CHECK(cuda_pool_stats(kCuda).allocated == allocated - 512);
  }
  fake.run_all();
  memory::empty_cache();
  CHECK(fake.violations() == std::vector<std::string>{});
}

TEST_CASE("cuda graph: a call that a capture forbids is named, and eager work goes on",
          "[cuda][graph]") {
  FakeCuda fake;
  {
    const Tensor in = floats(100), out = floats(100);
    write(in, 3);
    Graph graph{kCuda};
    const auto work = [&] { copy(out, in); };
    graph.warm_up(work);
    // By the library itself, before CUDA sees it.
    CHECK(
        mentions(message_of([&] { graph.capture([&] { (void)read(in); }); }),
                 "[copy] a graph cannot hold this: it copies between the device and host memory"));
    CHECK(mentions(message_of([&] { graph.capture([&] { synchronize(kCuda); }); }),
                   "[synchronize] a graph cannot hold this: the host waits"));
    CHECK(mentions(message_of([&] { graph.capture([&] { (void)floats(5'000'000); }); }),
                   "it needs more memory than its warm-up did"));
    CHECK(fake.violations() == std::vector<std::string>{});
    // By somebody else: CUDA spoils the capture, and the error says which call it was.
    CHECK(mentions(message_of([&] {
                     graph.capture([&] {
                       work();
                       (void)fake.api().query_stream(graph.stream().native());
                     });
                   }),
                   "cudaStreamEndCapture"));
    CHECK(mentions(graph.broken(), "cudaStreamEndCapture"));
    REQUIRE(fake.violations().size() == 1);
    CHECK(fake.violations()[0] == "query_stream while a stream is captured");
    CHECK_FALSE(graph.captured());
    CHECK_FALSE(fake.capturing());
    // A call that fails in the middle.
    CHECK(mentions(message_of([&] {
                     graph.capture([&] {
                       fake.fail("copy", kCudaCaptureUnsupported);
                       work();
                     });
                   }),
                   "cudaMemcpyAsync"));
    fake.fail("copy", 0);
    CHECK(mentions(graph.broken(), "cudaMemcpyAsync"));
    CHECK_FALSE(cuda_is_dead(0));
    for (const char* call : {"begin_capture", "end_capture", "instantiate", "launch_graph"}) {
      INFO(call);
      fake.fail(call, 1);
      CHECK_THROWS_AS((graph.capture(work), graph.replay()), DeviceError);
      fake.fail(call, 0);
      CHECK_FALSE(fake.capturing());
    }
    graph.capture(work);
    graph.replay();
    CHECK(read(out) == std::vector<float>(100, 3));
  }
  CHECK(fake.violations().size() == 1);
}

TEST_CASE("cuda graph: replays keep their order with the streams around them", "[cuda][graph]") {
  FakeCuda fake;
  {
    const Tensor in = floats(100), out = floats(100), last = floats(100);
    Graph graph{kCuda};
    const auto work = [&] { copy(out, in); };
    graph.warm_up(work);
    graph.capture(work);
    Stream side{kCuda};
    const StreamScope on(side);
    write(in, 8);
    graph.replay();
    copy(last, out);
    fake.run(side.native());  // which waits for the graph, which waits for the write
    CHECK(read(last) == std::vector<float>(100, 8));
  }
  fake.run_all();
  CHECK(fake.violations() == std::vector<std::string>{});
}

TEST_CASE("cuda graph: launches that wait cannot be captured", "[cuda][graph]") {
  const Environment sync("WT_CUDA_SYNC", "1");
  FakeCuda fake;
  CHECK(mentions(message_of([&] { const Graph graph{kCuda}; }), "cuda has no graphs"));
}
