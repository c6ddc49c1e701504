// Graphs: recorded, not run; replayed; what they cannot hold; whose memory it is.
#include "warptape/core/graph.h"

#include <thread>

#include "warptape/autograd/ops/gather.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/random.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/async_copy.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/errors.h"

using namespace wt;

namespace {

const Device kSimt = Device::simt();

std::vector<float> values(const Tensor& t) { return t.to_vector<float>(); }

// Both ways in which simt runs its work.
template <class F>
void in_both(const F& f) {
  for (const SimtStreams mode : {SimtStreams::eager, SimtStreams::lazy}) {
    const WithStreams streams(mode, 3);
    INFO((mode == SimtStreams::lazy ? "lazy" : "eager"));
    f();
  }
}

}  // namespace

TEST_CASE("Graph: what is captured does not run, and each replay does it again", "[graph]") {
  in_both([] {
    Graph graph{kSimt};
    CHECK_FALSE(graph.captured());
    CHECK_THROWS_AS(graph.replay(), UsageError);
    Tensor x = ones({4, 3}, {.device = kSimt}), w = full({3, 2}, 2.0, {.device = kSimt});
    Tensor total = zeros({4, 2}, {.device = kSimt}), y;
    const auto work = [&] {
      y = matmul(x, w);
      total.add_(y);
    };
    graph.warm_up(work);
    CHECK(values(total) == std::vector<float>(8, 6));
    graph.warm_up(work);  // while there was an earlier y
    graph.capture(work);
    CHECK(graph.captured());
    CHECK(graph.size() >= 2);
    CHECK(values(total) == std::vector<float>(8, 12));
    const u32 version = total.version(), read = x.version();
    for (int i = 0; i < 200; ++i) graph.replay();
    CHECK(values(total) == std::vector<float>(8, 6 * 202));
    CHECK(values(y) == std::vector<float>(8, 6));
    CHECK(total.version() == version + 200);
    CHECK(x.version() == read);
    x.copy_(full({4, 3}, 10.0));
    graph.replay();
    CHECK(values(y) == std::vector<float>(8, 60));
  });
}

TEST_CASE("Graph: what it cannot hold is named with its line, and nothing is captured", "[graph]") {
  in_both([] {
    Graph graph{kSimt};
    const Tensor x = ones({4}, {.device = kSimt}), here = ones({4});
    Stream other{kSimt};
    int line = 0;
    const auto refuses = [&](const char* why, const std::function<void()>& f) {
      graph.warm_up(f);
      const std::string text = message_of([&] { graph.capture(f); });
      CHECK(mentions(text, why));
      CHECK(mentions(text, "a graph cannot hold this"));
      CHECK(graph.broken() == text.substr(text.find('[')));
      CHECK_FALSE(graph.captured());
      // Swallowed, too.
      CHECK_THROWS_AS(graph.capture([&] { (void)message_of(f); }), UsageError);
      CHECK_FALSE(graph.captured());
      CHECK(values(x) == std::vector<float>(4, 1));
    };
    refuses("[item]", [&] {
      line = __LINE__ + 1;
      (void)sum(x).item();
    });
    CHECK(mentions(graph.broken(), "graph_test.cpp:" + std::to_string(line)));
    refuses("the host waits", [&] { (void)x.to_vector<float>(); });
    refuses("the host waits", [&] { (void)x.to(Device::cpu()); });
    refuses("between the device and host memory", [&] { (void)here.to(kSimt); });
    refuses("[nonzero]", [&] { (void)nonzero(x); });
    refuses("the host counts its draws", [&] { (void)rand({4}, {.device = kSimt}); });
    refuses("synchronize", [&] { Stream::current(kSimt).synchronize(); });
    refuses("it orders or asks streams", [&] { (void)Stream::current(kSimt).done(); });
    refuses("it orders or asks streams", [&] { const StreamScope on(other); });
    refuses("it orders or asks streams", [&] { Event(kSimt).record(); });
    refuses("empty_cache", [&] { memory::empty_cache(); });
    CHECK(mentions(message_of([&] {
                     graph.capture([&] {
                       Graph inner{kSimt};
                       inner.capture([] {});
                     });
                   }),
                   ""));
    graph.capture([&] { (void)mul(x, 2.0); });  // it works after all that
    CHECK(graph.broken() == "");
    graph.replay();
  });
}

TEST_CASE("Graph: there is none for the cpu, and none inside another one", "[graph]") {
  CHECK_THROWS_AS(Graph{Device::cpu()}, NotAvailable);
  CHECK_THROWS_AS(Graph{Device::meta(DeviceKind::simt)}, PlacementError);
  Graph outer{kSimt}, inner{kSimt};
  const Tensor x = ones({4}, {.device = kSimt});
  CHECK(mentions(message_of([&] { outer.warm_up([&] { inner.warm_up([] {}); }); }),
                 "a thread can have one at a time"));
  inner.capture([] {});
  CHECK(mentions(message_of([&] { outer.capture([&] { inner.replay(); }); }),
                 "another graph is replayed"));
  // Another thread's work is not this thread's graph.
  outer.warm_up([&] { (void)mul(x, 3.0); });
  std::vector<float> theirs;
  outer.capture([&] {
    (void)mul(x, 3.0);
    std::thread([&] { theirs = values(add(x, x)); }).join();
  });
  CHECK(theirs == std::vector<float>(4, 2));
  CHECK(outer.size() == 1);
}

TEST_CASE("Graph: its memory is its own, enough, and goes when it and its results go", "[graph]") {
  in_both([] {
    const Device d = kSimt;
    (void)values(ones({1}, {.device = d}));
    const i64 before = memory::stats(d).live;
    Tensor y;
    {
      Graph graph{d};
      Tensor x = full({1000}, 3.0, {.device = d});
      const auto work = [&] {
        Tensor t = mul(x, 2.0);
        for (int i = 0; i < 10; ++i) t = add(t, x);
        y = reshape(sum(t), {1});
      };
      graph.warm_up(work);
      const i64 bytes = graph.memory_bytes();
      CHECK(bytes >= 2 * 4096);
      CHECK(bytes < 6 * 4096);  // what dies goes back
      graph.warm_up(work);
      CHECK(graph.memory_bytes() <= bytes + 512);  // y was still there
      graph.capture(work);
      const Tensor stranger = full({1000}, 7.0, {.device = d});  // while the graph has free blocks
      for (int i = 0; i < 3; ++i) graph.replay();
      CHECK(values(stranger) == std::vector<float>(1000, 7));
      CHECK(values(y) == std::vector<float>{36000});
      // More than was warmed up.
      std::vector<Tensor> kept;
      const std::string text = message_of([&] {
        graph.capture([&] {
          for (int i = 0; i < 100; ++i) kept.push_back(mul(x, 2.0));
        });
      });
      CHECK(mentions(text, "it needs more memory than its warm-up did"));
      CHECK(graph.short_of_memory());
      kept.clear();
      graph.capture(work);
      graph.replay();
    }
    CHECK(values(y) == std::vector<float>{36000});  // outlives the graph
    y = Tensor();
    CHECK(memory::stats(d).live == before);
  });
}

TEST_CASE("Graph: tensors that were there are held, and one that moved is noticed", "[graph]") {
  in_both([] {
    Graph graph{kSimt};
    Tensor x = full({64}, 2.0, {.device = kSimt}), y;
    {
      const Tensor w = full({64}, 5.0, {.device = kSimt});
      const Tensor rows = w.view({8, 8});
      const auto work = [&] { y = add(mul(x, w), reshape(rows, {64})); };
      graph.warm_up(work);
      graph.warm_up(work);
      graph.capture(work);
    }
    const Tensor other = full({64}, 9.0, {.device = kSimt});  // where w was, had it gone
    graph.replay();
    CHECK(values(y) == std::vector<float>(64, 15));
    CHECK(graph.is_current());
    // A tensor that dies inside goes when the capture is over.
    Tensor dies = full({64}, 4.0, {.device = kSimt});
    const auto work = [&] {
      y = mul(x, 3.0);
      dies = Tensor();
    };
    graph.warm_up([&] { y = mul(x, 3.0); });
    graph.capture(work);
    graph.replay();
    CHECK(values(y) == std::vector<float>(64, 6));
  });
}

TEST_CASE("Graph: two on one stream share memory and keep their order", "[graph]") {
  in_both([] {
    Graph first{kSimt};
    Tensor x = full({256}, 1.0, {.device = kSimt});
    const auto work = [&] { x.copy_(add(mul(x, 2.0), 1.0)); };
    first.warm_up(work);  // 3
    const i64 bytes = first.memory_bytes();
    Graph second(first, std::in_place);
    second.warm_up(work);  // 7
    CHECK(second.memory_bytes() == bytes);
    first.capture(work);
    second.capture(work);
    first.replay();
    second.replay();
    first.replay();
    CHECK(values(x) == std::vector<float>(256, 63));
  });
}
