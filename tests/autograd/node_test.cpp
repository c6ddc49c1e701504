// Nodes: who owns them, what they hold, when they die; saved slots and the engine's marks.
#include "warptape/autograd/node.h"

#include <cmath>
#include <thread>

#include "warptape/autograd/custom.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/memory.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;

TEST_CASE("Node: a graph that is never differentiated dies with its tensors", "[wall][node]") {
  const LeakGuard guard;
  const Tensor w = leaf({2});
  const i64 nodes = memory::live_objects().nodes;
  {
    Tensor y = exp(w) * w;
    CHECK(memory::live_objects().nodes == nodes + 2);
    y = Tensor();
    CHECK(memory::live_objects().nodes == nodes);
  }
  Tensor top;
  {
    const Tensor middle = w * 2;
    top = middle + 1;
  }
  CHECK(memory::live_objects().nodes == nodes + 2);  // held by the consumer's edge
  top = Tensor();
  CHECK(memory::live_objects().nodes == nodes);
}

TEST_CASE("Node: it knows its operator, line and order, and owns no output", "[wall][node]") {
  const LeakGuard guard;
  const Tensor w = leaf({2, 3});
  const int line = __LINE__ + 1;
  const Tensor a = w * 2;
  const Tensor b = a + w;
  const Node *na = a.impl()->node, *nb = b.impl()->node;
  CHECK(std::string(na->info->name) == "mul");
  CHECK(int(frame_of(na->frame).line) == line);
  CHECK(nb->sequence > na->sequence);
  CHECK(nb->n_edges == 2);
  CHECK(nb->edges[0].node == na);
  CHECK(nb->edges[1].node == w.impl()->node);
  CHECK(w.impl()->node->is_leaf());
  CHECK(na->output.ndim == 1);  // shape and dtype of the output sit in the node
  CHECK(na->output.shape[0] == 2);
  CHECK(b.impl()->refs.sole());
  CHECK(b.impl()->storage->refs.sole());
}

TEST_CASE("Node: its number is one more than its thread's and its inputs' largest",
          "[wall][node]") {
  const Tensor w = leaf({2});
  Tensor high = w;
  std::thread([&] {  // this thread counts far ahead
    for (int i = 0; i < 500; ++i) high = high + 1;
  })
      .join();
  const u64 before = high.impl()->node->sequence;
  const Tensor next = high * w;
  CHECK(next.impl()->node->sequence > before);
  CHECK((w * 1).impl()->node->sequence > next.impl()->node->sequence);
}

TEST_CASE("Node: more edges, slots and outputs than fit inline", "[wall][node]") {
  const LeakGuard guard;
  std::vector<Tensor> parts;
  for (int i = 0; i < 12; ++i) parts.push_back(leaf({double(i), 1}));
  const Tensor y = cat(parts);
  CHECK(y.impl()->node->n_edges == 12);
  CHECK((y.impl()->node->flags & kSpilled) != 0);
  (y * y).sum().backward();
  for (int i = 0; i < 12; ++i) CHECK(values(parts[size_t(i)].grad()) == Values{2.0 * i, 2});
}

TEST_CASE("Saved: a slot keeps an alias, never the user's tensor, but for leaves",
          "[wall][saved]") {
  const LeakGuard guard;
  const Tensor w = leaf({2, 3});
  const Tensor x = w * 2;
  const Tensor y = x * w;
  const Node* n = y.impl()->node;
  REQUIRE(n->n_slots == 2);
  CHECK(n->slots[0].tensor != x.impl());
  CHECK(n->slots[0].tensor->storage == x.impl()->storage);
  CHECK(n->slots[0].tensor->node == nullptr);  // so no cycle holds a graph alive
  CHECK(n->slots[1].tensor == w.impl());
}

TEST_CASE("Saved: a slot unpacks with its original edge, so the second derivative is whole",
          "[wall][saved]") {
  const LeakGuard guard;
  const Tensor w = leaf({3});
  // mul saves an intermediate, exp its own output, each also given away as an rvalue.
  for (const bool moved : {false, true}) {
    Tensor a = w * w;
    Tensor b = exp(a * 0.1);
    const Tensor y = moved ? std::move(a) * std::move(b) : a * b;
    const Tensor g = grad(y, w, {.create_graph = true});
    const Tensor h = grad(g, w);
    const double x = 3, e = std::exp(0.9);
    // y = x^2 e^(x^2/10): y' = (2x + x^3/5) e, y'' = (2 + 3x^2/5 + (2x + x^3/5) x/5) e
    CHECK(std::abs(g.item() - (2 * x + x * x * x / 5) * e) < 1e-12);
    CHECK(std::abs(h.item() - (2 + 3 * x * x / 5 + (2 * x + x * x * x / 5) * x / 5) * e) < 1e-11);
  }
}

TEST_CASE("Saved: a rebind under a live slot keeps the mismatch", "[wall][saved][arenas]") {
  const LeakGuard guard;
  Tensor p = leaf({2});
  const Tensor y = p * p;
  {
    const NoGrad no_grad;
    p.fill_(5);
  }
  const Tensor home = zeros({8}, {.dtype = f64});
  VersionCell cell;
  p.rebind(home.impl()->storage, 0, &cell);
  CHECK(mentions(message_of([&] { y.backward(); }), "modified in place"));
}

TEST_CASE("Saved: a freed slot says which backward freed it", "[wall][saved][engine]") {
  const Tensor w = leaf({2});
  const Tensor trunk = w * w;
  const Tensor a = trunk * 2, b = trunk * 3;
  a.backward();
  const std::string text = message_of([&] { b.backward(); });
  CHECK(mentions(text, "freed by an earlier backward"));
  CHECK(mentions(text, "Try retain_graph"));
  // A root is freed also when nothing was saved.
  const Tensor c = w + 1;
  c.backward();
  CHECK_THROWS_AS(c.backward(), UsageError);
}

TEST_CASE("Engine: a second backward that is refused leaves the gradients of the first",
          "[wall][engine]") {
  const Tensor w = leaf({2});
  const Tensor y = w * w;
  y.backward();
  CHECK_THROWS_AS(y.backward(), UsageError);
  CHECK(w.grad().item() == 4);     // no gradient was touched
  const Tensor mixed = y * 2 + w;  // w is reached before the part that was freed
  CHECK_THROWS_AS(mixed.backward(), UsageError);
  CHECK(w.grad().item() == 4);
}

TEST_CASE("Engine: two live walks that reach the same leaf throw", "[wall][engine]") {
  const LeakGuard guard;
  const Tensor w = leaf({2});
  const Tensor one = w * 2, two = w * 3;  // two graphs, one leaf
  std::string other;
  const u64 id = register_hook(one, [&](const Tensor& g) {
    std::thread([&] { other = message_of([&] { two.backward({.retain_graph = true}); }); }).join();
    return g;
  });
  one.backward();
  CHECK(mentions(other, "another backward is walking this node"));
  CHECK(w.grad().item() == 2);
  remove_hook(one, id);
  two.backward();  // the claim has ended
  CHECK(w.grad().item() == 5);
}

TEST_CASE("Engine: walks over graphs that share nothing run side by side", "[wall][engine]") {
  const LeakGuard guard;
  std::vector<std::thread> threads;
  double results[4] = {};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t, &results] {
      for (int i = 0; i < 50; ++i) {
        const Tensor w = leaf({double(t)});
        Tensor y = w;
        for (int k = 0; k < 20; ++k) y = y * 1 + w;
        y.backward();
        results[t] = w.grad().item();
      }
    });
  for (std::thread& t : threads) t.join();
  for (const double r : results) CHECK(r == 21);
}

TEST_CASE("Engine: a nested walk may reach the outer walk's leaf, and marks come back",
          "[wall][engine]") {
  const LeakGuard guard;
  const Tensor w = leaf({2});
  const Tensor inner = w * 10;
  bool once = true;
  const Tensor a = w * 3;
  const u64 id = register_hook(a, [&](const Tensor& g) {
    if (once) inner.backward();
    once = false;
    return g;
  });
  (a + w).backward();
  CHECK(w.grad().item() == 10 + 4);
  remove_hook(a, id);
  CHECK(w.impl()->node->walk.load() == 0);
}

namespace {
// Gives the second input no gradient.
struct First {
  static constexpr OpInfo info{.name = "first"};
  Tensor forward(Save&, const Tensor& a, const Tensor&) const { return a * 1; }
  Grads backward(const Saved&, const Tensor& gy) const { return {gy, Tensor()}; }
};
struct Wrong {
  int what;
  static constexpr OpInfo info{.name = "wrong"};
  Tensor forward(Save&, const Tensor& a) const { return a * 1; }
  Grads backward(const Saved&, const Tensor& gy) const {
    if (what == 0) return {gy.to(f32)};
    if (what == 1) return {gy.to(Device::simt())};
    if (what == 2) return {gy.unsqueeze(0)};
    return {gy, gy};
  }
};
}  // namespace

TEST_CASE("Engine: a wanted input that gets no gradient counts as zero and still counts down",
          "[wall][engine][custom]") {
  const LeakGuard guard;
  const Tensor a = leaf({2}), b = leaf({5});
  const Tensor middle = b * 7;
  const Tensor y = apply(First{}, a, middle) + b;  // b: once through First, once directly
  int ready = 0;
  auto* l = static_cast<Leaf*>(b.impl()->node);
  l->ready = [](Leaf*, void* n) { ++*static_cast<int*>(n); };
  l->ready_context = &ready;
  y.backward();
  CHECK(ready == 1);  // its ready hook has fired, once
  CHECK(a.grad().item() == 1);
  CHECK(b.grad().item() == 1);
  l->ready = nullptr;
}

TEST_CASE("Engine: a returned gradient is checked for shape, dtype, device and number",
          "[wall][engine][custom]") {
  const LeakGuard guard;
  const char* const kWants[] = {"f32", "simt", "[1, 2]", "returned 2 gradients instead of 1"};
  (void)zeros({1}, {.device = Device::simt()});
  for (int what = 0; what < 4; ++what) {
    const Tensor x = leaf({1, 2});
    const int line = __LINE__ + 1;
    const Tensor y = apply(Wrong{what}, x);
    const std::string text = message_of([&] { y.backward(ones_like(y)); });
    CHECK(mentions(text, "[wrong.backward]"));
    CHECK(mentions(text, kWants[what]));
    CHECK(mentions(text, "node_test.cpp:" + std::to_string(line)));
    CHECK_FALSE(x.grad().defined());
  }
}

TEST_CASE("Engine: two leaves never share a gradient's storage, nor does the user's seed",
          "[wall][engine]") {
  const LeakGuard guard;
  const Tensor a = leaf({1, 2}), b = leaf({1, 2});
  Tensor seed = ones({2}, {.dtype = f64});
  (a + b).backward(seed);
  CHECK(a.grad().impl()->storage != b.grad().impl()->storage);
  CHECK(a.grad().impl()->storage != seed.impl()->storage);
  seed.fill_(9);
  CHECK(values(a.grad()) == Values{1, 1});
  // A gradient that repeats one element (expand) is stored dense.
  const Tensor c = leaf({1, 2});
  sum(c).backward();
  CHECK(c.grad().is_contiguous());
  Tensor g = c.grad();
  g.mutable_data<double>()[0] = 5;
  CHECK(values(c.grad()) == Values{5, 1});
}

TEST_CASE("Engine: backward touches .grad and slots, grad and grads never do", "[wall][engine]") {
  const LeakGuard guard;
  const Tensor w = leaf({2});
  (void)grad(w * w, w, {.create_graph = true});
  CHECK_FALSE(w.grad().defined());
  w.set_grad(tensor({7.0}, {.dtype = f64}));
  const u32 version = w.grad().version();
  (void)grads({w * w, w * 3}, {w});
  CHECK(w.grad().item() == 7);
  CHECK(w.grad().version() == version);
  const EnableGrad on;
  (w * w).backward();  // never records, whatever the mode
  CHECK(w.grad().item() == 11);
  CHECK_FALSE(w.grad().requires_grad());
}

TEST_CASE("Engine: an operator that throws leaks neither its output nor its node", "[wall][node]") {
  const LeakGuard guard;
  const Tensor w = leaf({1, 2});
  const Tensor x = w * 1;
  const memory::LiveObjects live = memory::live_objects();
  const VariantScope refuses("matmul", "reference");
  memory::fail_nth_request(1);
  CHECK_THROWS_AS((void)(x * w), OutOfMemory);
  CHECK_THROWS_AS((void)(x * leaf({1, 2, 3})), ShapeError);
  CHECK(memory::live_objects() == live);
}
