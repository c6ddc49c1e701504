// Groups of ranks: communicators of some, and pipelines in several replicas.
#include "warptape/dist/data_parallel.h"
#include "warptape/dist/fault.h"
#include "warptape/tests/dist/on_ranks.h"
#include "warptape/tests/dist/pipeline/pipeline_net.h"
#include "warptape/tests/optim/train_step_net.h"

using namespace wt;
using namespace wt_test;
using dist::Communicator;

namespace {

double sum_of_ranks(Communicator& group, double mine) {
  const Tensor t = full({1}, mine);
  group.all_reduce(t);
  return t.item<double>();
}

}  // namespace

TEST_CASE("split: ranks of one color, in the order of their keys") {
  Expect expect;
  dist::spawn(6, [&](Communicator& comm) {
    const int r = comm.rank();
    comm.set_deadline(std::chrono::seconds(77));
    const auto group = comm.split(r == 5 ? -1 : r % 2, -r);  // 4 2 0 and 3 1
    expect((group == nullptr) == (r == 5), "no group of a color below 0");
    if (!group) return;
    expect(group->size() == (r % 2 ? 2 : 3), "size");
    expect(group->rank() == (r % 2 ? (3 - r) / 2 : (4 - r) / 2), "rank");
    expect(group->deadline() == std::chrono::seconds(77), "deadline");
    expect(std::string(group->backend()) == "local", "backend");
    expect(sum_of_ranks(*group, r) == (r % 2 ? 4 : 6), "sum");
    const Tensor t = full({3}, double(r));
    group->broadcast(t, 0);
    expect(t[2].item<double>() == (r % 2 ? 3 : 4), "the first one is that of the smallest key");
  });
  expect.report();
}

TEST_CASE("split: equal keys keep the order, groups of one and of all, groups of groups") {
  Expect expect;
  dist::spawn(4, [&](Communicator& comm) {
    const int r = comm.rank();
    const auto all = comm.split(3);
    expect(all->rank() == r && all->size() == 4, "all");
    const auto own = comm.split(r);
    expect(own->size() == 1 && sum_of_ranks(*own, r) == r, "one");
    const auto half = all->split(r / 2), pair = half->split(0, -r);
    expect(pair->size() == 2 && pair->rank() == 1 - r % 2, "a group of a group");
    expect(sum_of_ranks(*pair, r) == (r < 2 ? 1 : 5), "its sum");
    // Calls of several groups, in other orders on other ranks where these do not share them.
    const auto column = comm.split(r % 2);
    const Tensor a = full({1000}, double(r)), b = full({1000}, double(r));
    const dist::Work wa = half->start_all_reduce(a), wb = column->start_all_reduce(b);
    wb.wait();
    wa.wait();
    expect(a[999].item<double>() == (r < 2 ? 1 : 5), "rows");
    expect(b[0].item<double>() == (r % 2 ? 4 : 2), "columns");
  });
  expect.report();
}

TEST_CASE("split: a member may end before another one has begun") {
  Expect expect;
  dist::spawn(2, [&](Communicator& comm) {
    for (int i = 0; i < 50; ++i) {
      const auto group = comm.split(0);
      if (comm.rank() == 1) expect(group->size() == 2, "size");
    }
  });
  expect.report();
}

TEST_CASE("split: who gives up or ends is named in the group, and abort of all reaches it") {
  const auto wait_in = [](Communicator& group) { group.all_reduce(zeros({2})); };
  const dist::LocalOptions patient{.deadline = std::chrono::seconds(60)};
  SECTION("gives up as one of all") {
    const auto ends = ends_of(4, patient, [&](Communicator& comm) {
      const auto group = comm.split(comm.rank() / 2);
      group->barrier();
      if (comm.rank() == 3) return comm.abort("lost its data");
      wait_in(*group);
    });
    CHECK(ends[2].reason == "rank 1 gave up before its first step: lost its data");
    CHECK(ends[2].rank == 1);
  }
  SECTION("ends in the group") {
    const auto ends = ends_of(4, patient, [&](Communicator& comm) {
      const auto group = comm.split(comm.rank() / 2);
      if (comm.rank() != 3) wait_in(*group);
    });
    CHECK(ends[2].reason ==
          "rank 1 ended before its first step while others wait for it in all_reduce");
    CHECK(ends[0].rank == -2);
  }
  SECTION("does not come to the split") {
    const auto ends = ends_of(3, patient, [&](Communicator& comm) {
      if (comm.rank() != 1) comm.split(0);
    });
    CHECK(ends[0].rank == 1);
    CHECK(ends[2].rank == 1);
  }
}

TEST_CASE("split: through a wrapper") {
  Expect expect;
  dist::spawn(2,
              [&](Communicator& comm) {
                const auto group = comm.split(0, -comm.rank());
                expect(sum_of_ranks(*group, comm.rank()) == 1 && group->rank() == 1 - comm.rank(),
                       "sum");
              },
              {.wrap = [](std::unique_ptr<Communicator> c) {
                return dist::with_faults(std::move(c), {});
              }});
  expect.report();
}

// --- a grid: stages by replicas ---

namespace {

constexpr int kStages = 2, kReplicas = 2, kSteps = 3;
constexpr i64 kMicroBatches = 3;
constexpr double kClip = 0.5;

// 7 and 6 samples.
Samples part_of(const Samples& all, int replica) {
  const i64 begin = replica * 7, count = replica == 0 ? 7 : 6;
  return {all.x.narrow(0, begin, count), all.y.narrow(0, begin, count)};
}

// One process: each replica's gradients, then their sum.
Trained train_replicas_in_turn() {
  const Samples all = samples();
  nn::Sequential net = mlp();
  optim::AdamW opt{net, {.lr = 0.05}};
  Trained t;
  for (int i = 0; i < kSteps; ++i) {
    std::vector<Tensor> first;
    double sum = 0, weight = 0;
    for (int replica = 0; replica < kReplicas; ++replica) {
      opt.zero_grad();
      const PlainLoss loss = plain_backward(net, part_of(all, replica), kMicroBatches);
      sum += loss.sum;
      weight += loss.weight;
      if (replica == 0)
        for (const Tensor& p : net.parameters()) first.push_back(p.grad().clone());
    }
    const NoGrad no_grad;
    double norm = 0;
    const std::vector<Tensor> parameters = net.parameters();
    for (size_t p = 0; p < first.size(); ++p) std::ignore = parameters[p].grad().add_(first[p]);
    for (const Tensor& p : parameters) norm += (p.grad().to(f64) * p.grad().to(f64)).sum().item();
    norm = std::sqrt(norm) / weight;
    opt.step(
        {.grad_factor = tensor(std::min(1.0, kClip / (norm + 1e-6)) / weight, {.dtype = f64})});
    t.losses.push_back(sum / weight);
  }
  t.add(net);
  return t;
}

}  // namespace

TEST_CASE("split: pipelines in replicas train as one process") {
  const int zero = GENERATE(0, 1);
  CAPTURE(zero);
  const Trained whole = train_replicas_in_turn();
  std::vector<Trained> replicas(kReplicas);
  std::mutex mutex;
  Expect expect;
  dist::spawn(kStages * kReplicas, [&](Communicator& world) {
    const int replica = world.rank() / kStages;
    const auto stages = world.split(replica), copies = world.split(world.rank() % kStages);
    nn::Sequential stage = dist::partition(mlp(), kStages)[size_t(stages->rank())];
    optim::AdamW opt{stage, {.lr = 0.05}};
    dist::DataParallel ddp{stage, opt, *copies, {.zero = zero}};
    dist::Pipeline pipe{stage, *stages, {.micro_batches = kMicroBatches}};
    const Samples s = part_of(samples(), replica);
    for (int i = 0; i < kSteps; ++i) {
      opt.zero_grad();
      const Loss loss = ddp.reduce(pipe.backward(s.x, s.y, class_loss));
      opt.step(dist::agree_on_step(&opt, *stages, loss, kClip).options);
      const double mean = loss.item();
      const std::lock_guard lock(mutex);
      if (stages->rank() == 0) replicas[size_t(replica)].losses.push_back(mean);
    }
    ddp.check_replicas();
    const std::lock_guard lock(mutex);
    replicas[size_t(replica)].add(stage);
    expect(ddp.unused().empty(), "all parameters are reached");
  });
  expect.report();
  CHECK(replicas[0] == replicas[1]);
  REQUIRE(whole.weights.size() == replicas[0].weights.size());
  CHECK(replicas[0].losses == whole.losses);
  // Norms are added in another order, so the factors that clip differ in f64's last place: a
  // gradient, its two averages and the weight may round to the f32 beside, in each step.
  for (const auto& [name, values] : whole.weights) {
    INFO(name);
    for (size_t k = 0; k < values.size(); ++k)
      CHECK(std::abs(values[k] - replicas[0].weights.at(name)[k]) <=
            kSteps * 4 * 0x1p-24 * std::max(1.0, std::abs(values[k])));
  }
}

namespace {

// A model whose gradients of loss.sum are there, and wait for the other ranks'.
struct Waiting {
  explicit Waiting(Communicator& comm, int zero = 0) : ddp(net, opt, comm, {.zero = zero}) {}
  Loss backward() {
    const Samples s = samples();
    const Loss loss = class_loss(net(s.x), s.y);
    loss.sum.backward();
    return loss;
  }
  nn::Sequential net = mlp();
  optim::Sgd opt{net, {.lr = 0.1}};
  dist::DataParallel ddp;
};

}  // namespace

TEST_CASE("DataParallel: reduce() adds up what is there, once a backward") {
  Expect expect;
  dist::spawn(2, [&](Communicator& comm) {
    Waiting w(comm);
    const Loss mine = w.backward();
    const Tensor before = w.net.parameters()[0].grad().clone();
    const Loss all = w.ddp.reduce(mine);
    expect(all.weight.item() == 2 * mine.weight.item(), "the weight of both");
    expect(all.sum.item() == 2 * mine.sum.item(), "the sum of both");
    expect(values(w.net.parameters()[0].grad()) == values(mul(before, 2.0)),
           "the gradients of both");
    expect(mentions(message_of([&] { std::ignore = w.ddp.reduce(all); }),
                    "without a backward since the last one"),
           "twice");
  });
  dist::spawn(2, [&](Communicator& comm) {
    Waiting w(comm, 2);
    const Loss any{zeros({}), 1};
    expect(mentions(message_of([&] { std::ignore = w.ddp.reduce(any); }), "Try zero = 1"), "zero");
  });
  dist::spawn(1, [&](Communicator& comm) {
    Waiting w(comm);
    const Loss mine = w.backward();
    expect(w.ddp.reduce(mine).sum.item() == mine.sum.item(), "alone");
  });
  expect.report();
}

TEST_CASE("DataParallel: reduce() is nan everywhere where one rank has met a bad label") {
  Expect expect;
  dist::spawn(2, [&](Communicator& comm) {
    Waiting w(comm);
    const Loss mine = w.backward();
    if (comm.rank() == 1) raise_mailbox(Device::cpu());
    const Loss all = w.ddp.reduce(mine);
    clear_mailbox(Device::cpu());  // reading a value would throw what it has
    expect(std::isnan(all.sum.item<double>()), "the sum is nan");
    expect(dist::agree_on_step(&w.opt, comm, all).options.skip.item() == 1, "and all skip");
  });
  expect.report();
}
