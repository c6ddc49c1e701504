// Pipelines give the weights of one process, to the bit.
#include "warptape/dist/pipeline.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>

#include "warptape/autograd/custom.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/autograd/ops/shape.h"
#include "warptape/core/memory.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/dist/pipeline/pipeline_net.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/optim/train_step_net.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;
using namespace wt_test;
using dist::PipelineSchedule;

namespace {

constexpr int kSteps = 3;

nn::Sequential stage_of(nn::Sequential net, int stages, int rank) {
  return dist::partition(net, stages)[size_t(rank)];
}

// TrainStep with the same micro-batches and the whole net.
Trained train_by_step(i64 micro_batches) {
  const Samples s = samples();
  nn::Sequential net = mlp();
  optim::AdamW opt{net, {.lr = 0.05}};
  TrainStep step{net, opt, {.micro_batches = micro_batches}};
  Trained t;
  for (int i = 0; i < kSteps; ++i)
    t.losses.push_back(
        step(Pair{s.x, s.y}, [&](const Pair& p) { return class_loss(net(p.x), p.y); }).loss());
  t.add(net);
  return t;
}

}  // namespace

TEST_CASE("Pipeline: stages give the bits of TrainStep on one process, for every schedule") {
  const LeakGuard guard;
  const i64 micro_batches = GENERATE(1, 2, 5, 8);
  const Trained whole = train_by_step(micro_batches);
  REQUIRE(whole.weights.size() == 10);
  for (const int stages : {1, 2, 3, 4})
    for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
      CAPTURE(micro_batches, stages, to_string(schedule));
      const Trained parts = train_in_stages(
          stages, {.schedule = schedule, .micro_batches = micro_batches}, kSteps,
          [&](int rank) { return stage_of(mlp(), stages, rank); }, samples());
      CHECK(parts.losses == whole.losses);
      CHECK(parts.weights == whole.weights);
    }
}

namespace {

nn::Sequential net_with_dropout() {
  manual_seed(1);
  return nn::Sequential{nn::Linear{6, 16}, nn::Dropout{0.3},  nn::Linear{16, 16},
                        nn::Dropout{0.5},  nn::Linear{16, 4}, nn::Dropout{0.1}};
}

// One process in which each stage draws from the generator of the rank that would have it.
Trained train_with_generators(int stages, i64 micro_batches) {
  const Samples s = samples();
  nn::Sequential net = net_with_dropout();
  const std::vector<nn::Sequential> parts = dist::partition(net, stages);
  std::vector<Generator> generators;
  for (int r = 0; r < stages; ++r) {
    generators.emplace_back(7);
    generators.back().set_rank(u64(r));
  }
  const auto forward = [&](Tensor x) {
    Generator* const before = mode.generator;
    for (size_t r = 0; r < parts.size(); ++r) {
      mode.generator = &generators[r];
      x = parts[r](std::move(x));
    }
    mode.generator = before;
    return x;
  };
  optim::AdamW opt{net, {.lr = 0.05}};
  Trained t;
  for (int i = 0; i < kSteps; ++i) t.losses.push_back(plain_step(forward, opt, s, micro_batches));
  t.add(net);
  return t;
}

}  // namespace

TEST_CASE("Pipeline: each rank draws dropout of its own, the same under every schedule") {
  const LeakGuard guard;
  const Trained whole = train_with_generators(3, 5);
  for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b}) {
    CAPTURE(to_string(schedule));
    const Trained parts = train_in_stages(
        3, {.schedule = schedule, .micro_batches = 5}, kSteps,
        [](int rank) { return stage_of(net_with_dropout(), 3, rank); }, samples());
    CHECK(parts.losses == whole.losses);
    CHECK(parts.weights == whole.weights);
  }
}

TEST_CASE("Pipeline: a transformer over tokens, cut at named layers") {
  const LeakGuard guard;
  manual_seed(3);
  const Tensor tokens = randint(0, 11, {6, 5}), targets = randint(0, 11, {6, 5});
  const auto make = [] {
    manual_seed(2);
    nn::Sequential net;
    net.push_back("tokens", nn::Embedding{11, 8});
    const nn::TransformerLayerOptions o{
        .dim_feedforward = 16, .dropout = 0, .batch_first = true, .norm_first = true};
    for (const char* name : {"block0", "block1"})
      net.push_back(name, nn::TransformerEncoderLayer{8, 2, o});
    net.push_back("head", nn::Linear{8, 11});
    return net;
  };
  const auto loss_of = [](const Tensor& out, const Tensor& t) {
    return cross_entropy(out.reshape({-1, 11}), t.reshape({-1}));
  };
  nn::Sequential net = make();
  optim::Sgd opt{net, {.lr = 0.1, .momentum = 0.9}};
  TrainStep step{net, opt, {.micro_batches = 3}};
  for (int i = 0; i < kSteps; ++i)
    step(Pair{tokens, targets}, [&](const Pair& p) { return loss_of(net(p.x), p.y); });
  Trained whole, parts;
  whole.add(net);

  std::mutex mutex;
  dist::spawn(3, [&](dist::Communicator& comm) {
    const std::vector<std::string> begins{"block1", "head"};
    nn::Sequential stage = dist::partition(make(), begins)[size_t(comm.rank())];
    optim::Sgd own{stage, {.lr = 0.1, .momentum = 0.9}};
    dist::Pipeline pipe{stage, comm, {.micro_batches = 3}};
    for (int i = 0; i < kSteps; ++i) {
      own.zero_grad();
      const Loss loss = pipe.backward(tokens, targets, loss_of);
      own.step(dist::agree_on_step(&own, comm, loss).options);
    }
    const std::lock_guard lock(mutex);
    parts.add(stage);
  });
  CHECK(parts.weights == whole.weights);
}

namespace {

// Two halves around something without parameters: 6 -> 8, ..., 8 -> 4.
struct Halves {
  nn::Linear first{6, 8}, second{8, 4};
  static Halves make() {
    manual_seed(4);
    return {};
  }
};

using Middle = std::function<Tensor(Tensor)>;

// Gradients of first.weight, first.bias, second.weight, second.bias; empty where there is none.
using Gradients = std::array<Values, 4>;
void read(Gradients& g, size_t at, const nn::Linear& l) {
  if (l.weight->grad().defined()) g[at] = values(l.weight->grad());
  if (l.bias->grad().defined()) g[at + 1] = values(l.bias->grad());
}

Gradients of_one_process(const Middle& middle, i64 parts) {
  const Samples s = samples();
  Halves net = Halves::make();
  Gradients g;
  for (i64 k = 0; k < parts; ++k) {
    const i64 begin = 13 * k / parts, n = 13 * (k + 1) / parts - begin;
    const Tensor out = net.second(middle(net.first(s.x.narrow(0, begin, n))));
    class_loss(out, s.y.narrow(0, begin, n)).sum.backward();
  }
  read(g, 0, net.first);
  read(g, 2, net.second);
  return g;
}

Gradients of_three_ranks(const Middle& middle, i64 parts) {
  const Samples s = samples();
  Gradients g;
  dist::spawn(3, [&](dist::Communicator& comm) {
    Halves net = Halves::make();
    const int r = comm.rank();
    const dist::PipelineOptions options{.micro_batches = parts};
    dist::Pipeline pipe = r == 0   ? dist::Pipeline{net.first, comm, options}
                          : r == 1 ? dist::Pipeline{middle, comm, options}
                                   : dist::Pipeline{net.second, comm, options};
    (void)pipe.backward(s.x, s.y, class_loss);
    if (r == 0) read(g, 0, net.first);
    if (r == 2) read(g, 2, net.second);
  });
  return g;
}

}  // namespace

TEST_CASE("Pipeline: stages without parameters, of any kind, between two that have some") {
  const LeakGuard guard;
  const auto [name, middle] = GENERATE(table<std::string, Middle>({
      {"a function", [](Tensor x) { return tanh(x) * 2.0; }},
      {"nothing", [](Tensor x) { return x; }},
      {"in place", [](Tensor x) { return std::move(x).relu_(); }},
      {"a result that is not contiguous",
       [](Tensor x) {
         return cat({x * 2.0, x}, 1).narrow(1, 4, 8);
       }},
      {"another dtype on the way", [](Tensor x) { return sin(x.to(f64)).to(f32); }},
      {"no gradient", [](Tensor x) { return x.detach() * 2.0; }},
      {"a part of what came",
       [](Tensor x) {
         return x.narrow(1, 0, 4).unsqueeze(1).expand({-1, 2, 4}).flatten(1);
       }},
  }));
  CAPTURE(name);
  const Gradients one = of_one_process(middle, 5), three = of_three_ranks(middle, 5);
  CHECK(one == three);
  CHECK(one[0].empty() == (name == "no gradient"));
  CHECK(!one[2].empty());
}

TEST_CASE("Pipeline: what travels may be strided, of 16 bits, of no dimensions, and change") {
  const LeakGuard guard;
  Expect expect;
  const Tensor x = arange(24, {.dtype = f32}).reshape({8, 3});
  dist::spawn(2, [&](dist::Communicator& comm) {
    std::vector<std::string> seen;
    i64 call = 0;
    const Tensor w = ones({3}, {.requires_grad = true});
    const auto first = [&](Tensor t) -> Tensor {
      t = t * w;
      switch (call++) {
        case 0:
          return t.transpose(0, 1);
        case 1:
          return t.to(DType::bf16);
        case 2:
          return sum(t);
        default:
          return t.narrow(1, 0, 0);
      }
    };
    const auto second = [&](Tensor t) {
      seen.push_back(str(dtype_name(t.dtype()), " ", t.shape(), " ", t.is_contiguous()));
      return t;
    };
    const dist::PipelineOptions options{.micro_batches = 4};
    dist::Pipeline pipe = comm.rank() == 0 ? dist::Pipeline{first, comm, options}
                                           : dist::Pipeline{second, comm, options};
    const Loss loss = pipe.backward(
        x, x, [](const Tensor& out, const Tensor&) { return Loss(sum(out.to(f32)), 1.0); });
    expect(loss.sum.item() == 15 + 51 + 87, "the sum of what arrived");
    expect(loss.weight.item() == 4, "the weights of all micro-batches");
    if (comm.rank() == 0)
      expect(values(w.grad()) == Values{45, 51, 57}, "gradients went back");
    else
      expect(seen == std::vector<std::string>{"f32 [3, 2] 1", "bf16 [2, 3] 1", "f32 [] 1",
                                              "f32 [2, 0] 1"},
             "shapes and dtypes");
  });
  expect.report();
}

TEST_CASE("Pipeline: targets of several tensors, a loss that has a sum and a weight") {
  const LeakGuard guard;
  Expect expect;
  const Tensor x = arange(5, {.dtype = f64}).reshape({5, 1});
  const std::array<Tensor, 2> targets{x * 2.0, tensor({1.0, 0.0, 2.0, 1.0, 0.0}, {.dtype = f64})};
  dist::spawn(2, [&](dist::Communicator& comm) {
    const Tensor w = ones({1}, {.dtype = f64, .requires_grad = true});
    dist::Pipeline pipe{[&](Tensor t) { return t * w; }, comm, {.micro_batches = 2}};
    const Loss loss =
        pipe.backward(x, targets, [](const Tensor& out, const std::array<Tensor, 2>& t) {
          const Tensor each = square(out - t[0]).flatten() * t[1];
          return SumAndWeight{sum(each), sum(t[1])};
        });
    // sum of weight (w w x - 2 x)^2 at w = 1, and its derivative by each w
    expect(loss.sum.item() == 0 + 2 * 4 + 9 && loss.weight.item() == 4, "the sum and the weight");
    expect(loss.item() == 17.0 / 4, "their mean");
    expect(w.grad().item() == -2 * 17, "the derivative");
  });
  expect.report();
}

TEST_CASE("Pipeline: frozen stages get no gradients and ask for none") {
  const LeakGuard guard;
  const int frozen = GENERATE(0, 1, 2);
  const auto part = [&](int rank) {
    nn::Sequential stage = stage_of(mlp(), 3, rank);
    if (rank == frozen) stage.requires_grad_(false);
    return stage;
  };
  Expect expect;
  dist::spawn(3, [&](dist::Communicator& comm) {
    nn::Sequential net = mlp();
    const std::vector<nn::Sequential> all = dist::partition(net, 3);
    all[size_t(frozen)].requires_grad_(false);
    const Samples s = samples();
    class_loss(net(s.x), s.y).sum.backward();
    const nn::Sequential stage = part(comm.rank());
    dist::Pipeline pipe{stage, comm};
    (void)pipe.backward(s.x, s.y, class_loss);
    // The next message is this one: nothing else is under way.
    const Tensor mark = full({3}, comm.rank(), {.dtype = f64});
    if (comm.rank() > 0) comm.send(mark, comm.rank() - 1);
    if (comm.rank() < 2) comm.recv(mark, comm.rank() + 1);
    expect(values(mark)[0] == std::min(comm.rank() + 1, 2), "no gradient was left over");
    const auto mine = stage.parameters(), theirs = all[size_t(comm.rank())].parameters();
    for (size_t i = 0; i < mine.size(); ++i) {
      expect(mine[i].grad().defined() == (comm.rank() != frozen), "a gradient where one is wanted");
      if (mine[i].grad().defined())
        expect(values(mine[i].grad()) == values(theirs[i].grad()), "the same as in one process");
    }
  });
  expect.report();
}

TEST_CASE("Pipeline: forward gives the last rank what the whole net gives") {
  const LeakGuard guard;
  const Samples s = samples();
  Expect expect;
  dist::spawn(3, [&](dist::Communicator& comm) {
    const NoGrad no_grad;
    nn::Sequential net = mlp(), stage = stage_of(mlp(), 3, comm.rank());
    for (const i64 micro_batches : {1, 4, 50}) {
      dist::Pipeline pipe{stage, comm, {.micro_batches = micro_batches}};
      const Tensor out = pipe.forward(pipe.is_first() ? s.x : Tensor());
      expect(out.defined() == pipe.is_last(), "an output on the last rank");
      if (!out.defined()) continue;
      expect(out.shape() == Shape{13, 4}, "all samples");
      const Values a = values(out), b = values(net(s.x));
      for (size_t i = 0; i < a.size(); ++i)
        expect(std::abs(a[i] - b[i]) < 1e-5, "the values of the whole net");
    }
  });
  expect.report();
}

// --- what is held, and when ---

namespace {

// How many micro-batches' graphs are alive: a token in each one's node.
struct Alive {
  std::atomic<int> now{0}, most{0};
};
struct Counted {
  Alive* alive;
  explicit Counted(Alive* a) : alive(a) {
    const int n = ++alive->now;
    if (n > alive->most) alive->most = n;
  }
  ~Counted() { --alive->now; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
};
struct Probe {
  static constexpr OpInfo info{.name = "probe", .derivative = Derivative::linear};
  std::shared_ptr<Counted> counted;
  Tensor forward(Save&, const Tensor& x) const { return x * 1.0; }
  Grads backward(const Saved&, const Tensor& gy) const { return {gy}; }
};

}  // namespace

TEST_CASE("Pipeline: 1F1B holds graphs of as many micro-batches as there are stages from here on") {
  const LeakGuard guard;
  const int stages = GENERATE(2, 3, 4);
  const i64 micro_batches = GENERATE(2, 8);
  const auto schedule = GENERATE(PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b);
  CAPTURE(stages, micro_batches, to_string(schedule));
  Expect expect;
  dist::spawn(stages, [&](dist::Communicator& comm) {
    Alive alive;
    const Tensor w = ones({3}, {.requires_grad = true}), x = ones({8, 3});
    const auto stage = [&](Tensor t) {
      return apply(Probe{std::make_shared<Counted>(&alive)}, t * w);
    };
    dist::Pipeline pipe{stage, comm, {.schedule = schedule, .micro_batches = micro_batches}};
    (void)pipe.backward(
        x, x, [](const Tensor& out, const Tensor& t) { return Loss(sum(out), double(t.size(0))); });
    const int most = schedule == PipelineSchedule::gpipe
                         ? int(micro_batches)
                         : std::min(stages - comm.rank(), int(micro_batches));
    expect(alive.most == most,
           str("stage ", comm.rank(), " held ", alive.most.load(), " of at most ", most));
    expect(alive.now == 0, "nothing is held afterwards");
  });
  expect.report();
}

TEST_CASE("Pipeline: a result that was sent is not held, nor an input that no backward reads") {
  // Sixteen micro-batches whose results are a MiB each; their graphs save nothing of that size.
  const LeakGuard guard;
  std::atomic<i64> most{0};
  const i64 before = memory::stats(Device::cpu()).live;
  dist::spawn(2, [&](dist::Communicator& comm) {
    const auto note = [&] {
      const i64 now = memory::stats(Device::cpu()).live - before;
      i64 seen = most;
      while (now > seen && !most.compare_exchange_weak(seen, now)) {}
    };
    const Tensor w = ones({1}, {.requires_grad = true}), x = ones({16, 1});
    const auto grow = [&](Tensor t) {
      note();
      return (t * w).expand({1, 1 << 18}) + 1.0;
    };
    const auto shrink = [&](Tensor t) {
      note();
      return sum(t);
    };
    const dist::PipelineOptions options{.schedule = PipelineSchedule::gpipe, .micro_batches = 16};
    dist::Pipeline pipe = comm.rank() == 0 ? dist::Pipeline{grow, comm, options}
                                           : dist::Pipeline{shrink, comm, options};
    (void)pipe.backward(x, x, [](const Tensor& out, const Tensor&) { return Loss(out, 1.0); });
  });
  CHECK(most > 1 << 20);
  CHECK(most < 8 << 20);
}

TEST_CASE("Pipeline: stages on the software GPU") {
  const Device d = ready(Device::simt());
  NEEDS_OPERATORS(d);
  const Samples s = samples(4);
  const auto make = [&] {
    manual_seed(1);
    nn::Sequential net{nn::Linear{6, 8}, nn::Tanh{}, nn::Linear{8, 4}};
    net.to(d);
    return net;
  };
  nn::Sequential net = make();
  optim::AdamW opt{net, {.lr = 0.05}};
  TrainStep step{net, opt, {.micro_batches = 2}};
  const StepResult r =
      step(Pair{s.x, s.y}, [&](const Pair& p) { return class_loss(net(p.x), p.y); });
  Trained whole;
  whole.losses = {r.loss()};
  whole.add(net);
  const Trained parts = train_in_stages(
      2, {.micro_batches = 2}, 1, [&](int rank) { return stage_of(make(), 2, rank); }, s);
  CHECK(parts.losses == whole.losses);
  CHECK(parts.weights == whole.weights);
}
