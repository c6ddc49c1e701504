// TrainStep{.graph = true} with a reducer: the bits of eager steps on every rank, whatever one of
// them does differently.
#include <cstring>
#include <latch>
#include <limits>

#include "warptape/core/graph/graph_capture.h"
#include "warptape/dist/captured_call.h"
#include "warptape/nn/layers.h"
#include "warptape/tests/dist/data_parallel/data_parallel_ranks.h"
#include "warptape/tests/dist/on_ranks.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/simt/device_memory.h"
#include "warptape/tests/support/ambient.h"
#include "warptape/tests/support/catch.h"

using namespace wt;
using namespace wt_test;

namespace {

// Statistics and random numbers beside parameters.
struct Normed : nn::Module<Normed> {
  nn::Linear fc1 = add("fc1", nn::Linear{6, 16});
  nn::BatchNorm1d bn = add("bn", nn::BatchNorm1d{16});
  nn::Dropout drop = add("drop", nn::Dropout{0.25});
  nn::Linear fc2 = add("fc2", nn::Linear{16, 4});
  Tensor forward(Tensor x) { return fc2(drop(tanh(bn(fc1(std::move(x)))))); }
};

struct Trained {
  std::vector<StepRecord> records;
  Weights values;  // of model and optimizer
  i64 captures = 0;
  std::string why_eager;
};

struct Plan {
  bool graph = true;
  int steps = 7;
  DataParallelOptions parallel = {
      .bucket_bytes = 256, .first_bucket_bytes = 64, .unused = dist::Unused::fixed};
  TrainStepOptions step = {};
  // This rank's part of the step's batch, from the usual one.
  std::function<Batch(const Batch&, int rank, int step)> change = [](const Batch& b, int, int) {
    return b;
  };
  std::function<void(int rank)> in_loss = [](int) {};
};

Trained train(Communicator& c, const Plan& p) {
  const Device d = ready(Device::simt());
  manual_seed(7);
  Normed net;
  net.to(d);
  optim::AdamW opt{net, {.lr = 0.02}};
  DataParallel ddp{net, opt, c, p.parallel};
  TrainStepOptions o = p.step;
  o.graph = p.graph;
  o.reducer = &ddp;
  TrainStep step{net, opt, o};
  std::vector<StepResult> results;
  for (int i = 0; i < p.steps; ++i) {
    const Batch whole = Mlp::data(4 * c.size(), i);
    const Batch b = p.change(part_of(whole, c.rank(), c.size()), c.rank(), i);
    results.push_back(step(Batch{b.x.to(d), b.y.to(d)}, [&](const Batch& part) {
      p.in_loss(c.rank());
      return squares(net, part);
    }));
  }
  Trained t;
  for (const StepResult& r : results) t.records.push_back(r.read());
  for (const auto& v : net.state_dict()) t.values.push_back(v.tensor.to_vector<double>());
  for (const auto& v : opt.state()) t.values.push_back(v.tensor.to_vector<double>());
  t.captures = step.captures();
  t.why_eager = step.why_eager();
  return t;
}

std::vector<Trained> train_all(int ranks, Plan p, bool graph) {
  p.graph = graph;
  std::vector<Trained> all(static_cast<size_t>(ranks));
  all_ranks(ranks, [&](Communicator& c) { all[size_t(c.rank())] = train(c, p); });
  return all;
}

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

void check_same(const Trained& a, const Trained& b) {
  REQUIRE(a.records.size() == b.records.size());
  for (size_t i = 0; i < a.records.size(); ++i) {
    INFO("step " << i << ": " << a.records[i].loss << " and " << b.records[i].loss);
    CHECK(same_bits(a.records[i].loss, b.records[i].loss));
    CHECK(same_bits(a.records[i].grad_norm, b.records[i].grad_norm));
    CHECK(a.records[i].applied == b.records[i].applied);
    CHECK(a.records[i].skipped == b.records[i].skipped);
    CHECK(same_bits(a.records[i].scale, b.records[i].scale));
  }
  CHECK(a.values == b.values);
}

// Captured ranks have the bits of eager ones.
std::vector<Trained> check_captured(int ranks, const Plan& p, i64 captures = 1) {
  const std::vector<Trained> eager = train_all(ranks, p, false), all = train_all(ranks, p, true);
  for (size_t r = 0; r < all.size(); ++r) {
    INFO("rank " << r << " of " << ranks << ", eager: " << all[r].why_eager);
    CHECK(all[r].captures == captures);
    check_same(eager[r], all[r]);
  }
  return all;
}

Batch times_inf(const Batch& b) { return {b.x * std::numeric_limits<float>::infinity(), b.y}; }

}  // namespace

TEST_CASE("captured ranks: the bits of eager steps, buffers included", "[dist][capture]") {
  NEEDS_OPERATORS(Device::simt());
  for (const int ranks : {1, 2, 4}) {
    Plan p;
    p.step.clip_norm = 1;
    check_captured(ranks, p);
  }
}

TEST_CASE("captured ranks: f16 with an inf on one rank, in micro-batches", "[dist][capture]") {
  NEEDS_OPERATORS(Device::simt());
  Plan p;
  p.step = {.precision = DType::f16, .micro_batches = 2, .loss_scale = {.init_scale = 1024}};
  p.change = [](const Batch& b, int rank, int step) {
    return rank == 1 && step == 4 ? times_inf(b) : b;
  };
  const auto all = check_captured(2, p);
  for (const Trained& t : all) {
    CHECK(t.records[4].skipped == 1);
    CHECK(t.records[6].scale == 512);
    CHECK(t.records[6].applied == 6);
  }
}

TEST_CASE("captured ranks: compressed, means of buffers, and a state in parts", "[dist][capture]") {
  NEEDS_OPERATORS(Device::simt());
  Plan p;
  p.parallel.compress = DType::f16;
  p.parallel.buffers = dist::Buffers::mean;
  check_captured(2, p);
  Plan zero;
  zero.parallel.zero = 1;
  zero.parallel.unused = dist::Unused::refuse;
  zero.parallel.check_every = 2;
  check_captured(2, zero);
}

TEST_CASE("captured ranks: on streams that run late", "[dist][capture]") {
  NEEDS_OPERATORS(Device::simt());
  const WithStreams lazy(SimtStreams::lazy, 3);
  check_captured(2, {});
}

TEST_CASE("captured ranks: a shape that one rank has alone is a graph of all", "[dist][capture]") {
  NEEDS_OPERATORS(Device::simt());
  Plan p;
  p.steps = 12;
  p.change = [](const Batch& b, int rank, int step) {
    return rank == 1 && step % 3 == 2 ? b.narrow(0, 3) : b;
  };
  check_captured(2, p, 2);
}

TEST_CASE("captured ranks: what one rank cannot capture, none does", "[dist][capture]") {
  NEEDS_OPERATORS(Device::simt());
  const Warnings heard;
  Plan p;
  p.in_loss = [](int rank) {
    if (rank == 1) (void)full({}, 1.0, {.device = Device::simt()}).item();
  };
  const auto all = check_captured(2, p, 0);
  CHECK(mentions(all[0].why_eager, "another rank's step cannot be a graph"));
  CHECK(mentions(all[1].why_eager, "[item] a graph cannot hold this"));
}

TEST_CASE("captured ranks: a replay makes the calls of an eager step", "[dist][capture]") {
  NEEDS_OPERATORS(Device::simt());
  std::vector<std::vector<std::string>> eager(2), replay(2);
  all_ranks(2, [&](Communicator& c) {
    Recorder seen(c);
    const auto r = size_t(c.rank());
    Plan p;
    p.in_loss = [&](int) { seen.events.clear(); };  // not called by a replay
    p.steps = 2;
    p.graph = false;
    train(seen, p);
    eager[r] = seen.events;
    p.graph = true;
    p.steps = 3;  // the last one was captured and replayed
    train(seen, p);
    replay[r] = seen.events;
  });
  for (size_t r = 0; r < 2; ++r) {
    // Behind the outcome of the capture, and before the reads.
    const std::vector<std::string> expected = eager[r];
    REQUIRE(replay[r].size() > expected.size());
    CHECK(std::search(replay[r].begin(), replay[r].end(), expected.begin(), expected.end()) !=
          replay[r].end());
  }
}

namespace {

// Fails at one of the calls of a replay.
class Breaking : public Recorder {
 public:
  using Recorder::Recorder;
  dist::Work start(const dist::Call& call) override {
    if (!wt::detail::recording_graph() && countdown > 0 && --countdown == 0)
      throw UsageError("[test] it breaks");
    return Recorder::start(call);
  }
  int countdown = 0;
};

// Where ranks meet without a call, which one could leave while another is in it. One that throws
// before keeps nobody.
class Meeting {
 public:
  explicit Meeting(std::latch& all) : all_(all) {}
  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  ~Meeting() {
    if (!met_) all_.count_down();
  }
  void wait() {
    met_ = true;
    all_.arrive_and_wait();
  }

 private:
  std::latch& all_;
  bool met_ = false;
};

struct Broken {
  std::string text;
  Weights before, after;
  i64 applied_before = 0, attempted = 0;
};

// The rank 1 of two breaks at its n-th call of the sixth step, which is a replay.
std::vector<Broken> break_at(int n) {
  std::vector<Broken> all(2);
  std::latch five_steps(2);
  on_ranks(2, [&](Communicator& inner) {
    Meeting meeting(five_steps);
    Breaking c(inner);
    Broken& b = all[size_t(c.rank())];
    const Device d = ready(Device::simt());
    manual_seed(7);
    Normed net;
    net.to(d);
    optim::AdamW opt{net, {.lr = 0.02}};
    DataParallel ddp{net, opt, c, {.unused = dist::Unused::fixed}};
    TrainStep step{net, opt, {.graph = true, .reducer = &ddp}};
    const auto once = [&](int i) {
      const Batch m = part_of(Mlp::data(8, i), c.rank(), 2);
      step(Batch{m.x.to(d), m.y.to(d)}, [&](const Batch& p) { return squares(net, p); });
    };
    const auto values = [&] {
      Weights w;
      for (const auto& v : net.state_dict()) w.push_back(v.tensor.to_vector<double>());
      for (const auto& v : opt.state()) w.push_back(v.tensor.to_vector<double>());
      return w;
    };
    for (int i = 0; i < 5; ++i) once(i);
    if (step.captures() != 1) throw InternalError("not captured: " + step.why_eager());
    b.before = values();
    meeting.wait();  // else a rank that breaks at once ends the other's fifth step
    if (c.rank() == 1) c.countdown = n;
    b.text = message_of([&] { once(5); });
    b.after = values();
    b.attempted = step.attempted();
  });
  return all;
}

}  // namespace

TEST_CASE("captured ranks: one that fails in a replay ends it everywhere, and nothing has changed",
          "[dist][capture]") {
  NEEDS_OPERATORS(Device::simt());
  // Call 1 is what ranks agree on before; then gradients, buffers (the last ones of the step but
  // the sum of losses and the skip).
  for (const int n : {1, 2, 3, 4, 5, 6}) {
    INFO("call " << n);
    const std::vector<Broken> all = break_at(n);
    CHECK(mentions(all[1].text, "UsageError: [test] it breaks"));
    CHECK(mentions(all[0].text, "PeerFailure"));
    CHECK(mentions(all[0].text, "it breaks"));
    for (const Broken& b : all) {
      CHECK(b.before == b.after);
      CHECK(b.attempted == 5);
    }
  }
}

TEST_CASE("captured ranks: one that ends before a replay is heard of", "[dist][capture]") {
  NEEDS_OPERATORS(Device::simt());
  const auto ends = ends_of(3, {}, [&](Communicator& c) {
    Plan p;
    p.steps = c.rank() == 1 ? 5 : 8;
    train(c, p);
  });
  for (const int r : {0, 2}) {
    CHECK(ends[size_t(r)].rank == 1);
    CHECK(ends[size_t(r)].exit_code == 7);
  }
  CHECK(ends[1].text == "");
}

TEST_CASE("captured ranks: replicas that drift are found between replays", "[dist][capture]") {
  NEEDS_OPERATORS(Device::simt());
  const auto thrown = on_ranks(2, [&](Communicator& c) {
    const Device d = ready(Device::simt());
    manual_seed(7);
    Mlp net;
    net.to(d);
    optim::Sgd opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c, {.unused = dist::Unused::fixed, .check_every = 2}};
    TrainStep step{net, opt, {.graph = true, .reducer = &ddp}};
    for (int i = 0; i < 8; ++i) {
      if (i == 5 && c.rank() == 1) {
        const NoGrad no_grad;
        Tensor bias = net.fc2.parameter("bias").tensor();
        bias.mul_(2.0);
      }
      const Batch m = part_of(Mlp::data(8, i), c.rank(), 2);
      step(Batch{m.x.to(d), m.y.to(d)}, [&](const Batch& p) { return squares(net, p); });
    }
  });
  for (const auto& e : thrown) {
    CHECK(mentions(text_of(e), "PeerFailure"));
    CHECK(mentions(text_of(e), "fc2.bias"));
  }
}

TEST_CASE("captured ranks: options that a graph cannot keep are refused", "[dist][capture]") {
  Mlp net;
  optim::Sgd opt{net, {.lr = 0.1}};
  struct Own : optim::Reducer {
    void sum(const Tensor&) override {}
    void max(const Tensor&) override {}
    void any(std::span<char>) override {}
  } own;
  CHECK_THROWS_AS((TrainStep{net, opt, {.graph = true, .reducer = &own}}), NotAvailable);
  const auto thrown = on_ranks(2, [](Communicator& c) {
    Mlp mine;
    optim::Sgd its{mine, {.lr = 0.1}};
    DataParallel ddp{mine, its, c};
    TrainStep step{mine, its, {.graph = true, .reducer = &ddp}};
  });
  for (const auto& e : thrown) {
    CHECK(mentions(text_of(e), "UsageError"));
    CHECK(mentions(text_of(e), "dist::Unused::fixed"));
  }
}

// --- calls as nodes of any graph ---

TEST_CASE("captured ranks: collectives of host ranks are nodes of a graph", "[dist][capture]") {
  NEEDS_OPERATORS(Device::simt());
  const Device d = ready(Device::simt());
  for (const int ranks : {1, 2, 3}) {
    std::vector<std::vector<double>> got(static_cast<size_t>(ranks));
    all_ranks(ranks, [&](Communicator& c) {
      Tensor t = full({5}, double(c.rank() + 1), {.device = d});
      const Tensor all = zeros({5 * c.size()}, {.device = d}), none = zeros({0}, {.device = d});
      Tensor sum_of;
      const auto work = [&] {
        const Tensor u = t * 2;  // the graph's own memory
        const dist::Work reduced = c.start_all_reduce(u);
        const dist::Work empty = c.start_all_reduce(none);
        const Tensor beside = t + 1;
        reduced.wait();
        empty.wait();
        c.all_gather(all, beside);
        sum_of = u + sum(all);
      };
      Graph graph(d);
      for (int i = 0; i < 2; ++i) graph.warm_up(work);
      graph.capture(work);
      for (int i = 0; i < 3; ++i) {
        const NoGrad no_grad;
        t.mul_(2.0);
        graph.replay();
      }
      got[size_t(c.rank())] = sum_of.to_vector<double>();
    });
    const double n = ranks, total = 8 * n * (n + 1) / 2;  // of t over the ranks
    for (const auto& v : got) CHECK(v == std::vector<double>(5, 2 * total + 5 * (total + n)));
  }
}

TEST_CASE("captured ranks: what a graph cannot hold of a call is refused", "[dist][capture]") {
  NEEDS_OPERATORS(Device::simt());
  const Device d = ready(Device::simt());
  std::vector<std::vector<std::string>> texts(2);
  all_ranks(2, [&](Communicator& c) {
    const Tensor t = ones({3}, {.device = d}), here = ones({3});
    auto& said = texts[size_t(c.rank())];
    const auto refused = [&](const std::function<void()>& f) {
      Graph g(d);
      said.push_back(message_of([&] { g.capture(f); }));
    };
    const dist::Work outside = c.start_all_reduce(here);
    dist::Work inside;
    refused([&] { outside.wait(); });
    refused([&] { c.barrier(); });
    refused([&] { c.all_reduce(here); });
    refused([&] { c.start_all_reduce(t).done(); });
    outside.wait();
    Graph graph(d);
    graph.capture([&] {
      inside = c.start_all_reduce(t);
      inside.wait();
    });
    said.push_back(message_of([&] { inside.wait(); }));
    graph.replay();
    if (t.to_vector<double>() != std::vector<double>(3, 2)) throw InternalError("not summed");
  });
  for (const auto& said : texts) {
    REQUIRE(said.size() == 5);
    CHECK(mentions(said[0], "the call was begun outside of it"));
    CHECK(mentions(said[1], "[barrier] a graph cannot hold this"));
    CHECK(mentions(said[2], "its tensor is not on the graph's device"));
    CHECK(mentions(said[3], "does not ask whether a call has finished"));
    CHECK(mentions(said[4], "was begun inside a graph, which has ended"));
  }
}
