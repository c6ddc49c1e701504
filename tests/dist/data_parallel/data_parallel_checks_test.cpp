// What ranks must have in common: found before the first step, and when they drift apart.
#include "warptape/core/memory.h"
#include "warptape/tests/dist/data_parallel/data_parallel_ranks.h"
#include "warptape/tests/support/catch.h"

using namespace wt_test;

namespace {

struct Sized : nn::Module<Sized> {
  nn::Linear fc;
  explicit Sized(i64 out, DType t = DType::f32) : fc(add("fc", nn::Linear{6, out, {.dtype = t}})) {}
  Tensor forward(Tensor x) { return fc(std::move(x)); }
};

// What all three ranks throw, which is the same: "PeerFailure: ..." and the rank it is about.
struct Failure {
  std::string text;
  int rank = -1;
};
template <class F>
Failure common_failure(F f) {
  Failure found;
  for (const auto& e : on_ranks(3, f)) {
    REQUIRE(e);
    try {
      std::rethrow_exception(e);
    } catch (const PeerFailure& p) {
      if (found.text.empty()) found = {p.what(), p.rank};
      CHECK(found.text == p.what());
      CHECK(found.rank == p.rank);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("models that differ are found before anything is sent", "[dist]") {
  const Failure shape = common_failure([](Communicator& c) {
    Sized net(c.rank() == 2 ? 5 : 4);
    optim::Sgd opt{net};
    DataParallel ddp{net, opt, c};
  });
  CHECK(shape.rank == 2);
  CHECK(mentions(shape.text,
                 "PeerFailure: [DataParallel] ranks differ in their number of "
                 "parameters: rank 2 has 35, rank 0 has 28"));
  const Failure dtype = common_failure([](Communicator& c) {
    Sized net(4, c.rank() == 1 ? DType::f64 : DType::f32);
    optim::Sgd opt{net};
    DataParallel ddp{net, opt, c};
  });
  CHECK(dtype.rank == 1);
  CHECK(mentions(dtype.text,
                 "differ in their model: rank 1 has fc.weight [4, 6] f64, rank 0 has "
                 "fc.weight [4, 6] f32"));
  const Failure options = common_failure([](Communicator& c) {
    Sized net(4);
    optim::Sgd opt{net};
    DataParallel ddp{net, opt, c, {.bucket_bytes = c.rank() == 1 ? 77 : 88}};
  });
  CHECK(mentions(options.text, "rank 1 has bucket_bytes 77, rank 0 has bucket_bytes 88"));
}

TEST_CASE("the first step compares seed, precision and the optimizer's numbers", "[dist]") {
  const auto step_with = [](Communicator& c, u64 seed, double lr, DType precision) {
    manual_seed(seed);
    Sized net(4);
    optim::Sgd opt{net, {.lr = lr}};
    DataParallel ddp{net, opt, c};
    TrainStep step{net, opt, {.precision = precision, .reducer = &ddp}};
    step(Mlp::data(6, 0), [&](const Batch& b) { return squares(net, b); });
  };
  const Failure seed = common_failure(
      [&](Communicator& c) { step_with(c, c.rank() == 1 ? 8 : 7, 0.1, DType::f32); });
  CHECK(mentions(seed.text, "ranks differ in their seed: rank 1 has 8, rank 0 has 7"));
  CHECK(seed.rank == 1);
  const Failure lr = common_failure(
      [&](Communicator& c) { step_with(c, 7, c.rank() == 2 ? 0.2 : 0.1, DType::f32); });
  CHECK(mentions(lr.text, "optimizer: rank 2 has optim.lr 0.2, rank 0 has optim.lr 0.1"));
  const Failure precision = common_failure(
      [&](Communicator& c) { step_with(c, 7, 0.1, c.rank() == 0 ? DType::bf16 : DType::f32); });
  CHECK(mentions(precision.text, "precision: rank 1 has f32, rank 0 has bf16"));
}

TEST_CASE("replicas that drift are found at the next check, by name and rank", "[dist]") {
  for (const i64 every : {1, 2}) {
    const Failure drift = common_failure([&](Communicator& c) {
      manual_seed(7);
      Mlp net;
      optim::Sgd opt{net, {.lr = 0.1}};
      DataParallel ddp{net, opt, c, {.check_every = every}};
      TrainStep step{net, opt, {.reducer = &ddp}};
      for (i64 i = 0; i < 8; ++i) {
        if (i == 3 && c.rank() == 2) {
          const NoGrad no_grad;
          Tensor w = net.fc2.weight;
          w.mul_(1.0 + 0x1p-20);
        }
        step(Mlp::data(6, i), [&](const Batch& b) { return squares(net, b); });
      }
    });
    CHECK(drift.rank == 2);
    // Of step 3 itself the forward of rank 2 had other weights: all gradients are the same still.
    CHECK(mentions(drift.text, every == 1 ? "before step 3: fc2.weight is another one on rank 2"
                                          : "before step 4: fc2.weight is another one on rank 2"));
    CHECK(drift.text.find("more parameters") == std::string::npos);
  }
}

TEST_CASE("a sum that comes out wrong on one rank is found by the next check", "[dist]") {
  const Failure drift = common_failure([](Communicator& inner) {
    Recorder c(inner);
    i64 step_number = 0;
    bool wrong = c.rank() == 1;
    c.after = [&](const dist::Call& call) {
      if (!wrong || step_number != 1 || call.in.dtype() != DType::f32) return;
      wrong = false;
      const NoGrad no_grad;
      Tensor first = call.out.narrow(0, 0, 1);  // of the one bucket: fc1.weight's
      first.add_(ones({1}));
    };
    manual_seed(7);
    Mlp net;
    optim::Sgd opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c, {.check_every = 3}};
    TrainStep step{net, opt, {.reducer = &ddp}};
    for (; step_number < 5; ++step_number)
      step(Mlp::data(6, step_number), [&](const Batch& b) { return squares(net, b); });
  });
  CHECK(drift.rank == 1);
  CHECK(mentions(drift.text, "before step 3: fc1.weight is another one on rank 1"));
  CHECK(drift.text.find("more parameters") == std::string::npos);
}

TEST_CASE("check_replicas() may be called at any time", "[dist]") {
  const Failure drift = common_failure([](Communicator& c) {
    Mlp net;
    optim::Sgd opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c};
    ddp.check_replicas();  // rank 0's weights everywhere
    const NoGrad no_grad;
    if (c.rank() != 1)
      for (Tensor p : net.parameters()) p.fill_(0.5);
    ddp.check_replicas();
  });
  CHECK(drift.rank == 1);
  CHECK(mentions(drift.text, "fc1.weight is another one on rank 1, and 5 more parameters differ"));
}

TEST_CASE("frozen parameters, buffers and averages begin as rank 0's", "[dist]") {
  struct Net : nn::Module<Net> {
    nn::Linear fc = add("fc", nn::Linear{6, 4});
    nn::Linear frozen = add("frozen", nn::Linear{4, 4});
    nn::Buffer floats = add_buffer("floats", rand({3}));
    nn::Buffer counts = add_buffer("counts", randint(0, 1000, {2}));
    nn::Buffer none = add_buffer("none", zeros({0}));
  };
  std::vector<Weights> all(3);
  all_ranks(3, [&](Communicator& c) {
    manual_seed(u64(100 + c.rank()));
    Net net;
    net.frozen.requires_grad_(false);
    optim::Sgd opt{net, {.lr = 0.1}};
    opt.track_ema(0.9);
    DataParallel ddp{net, opt, c};
    Weights& w = all[size_t(c.rank())];
    for (const auto& t : net.state_dict()) w.push_back(t.tensor.to_vector<double>());
    for (const auto& t : opt.ema()) w.push_back(t.tensor.to_vector<double>());
  });
  CHECK(all[1] == all[0]);
  CHECK(all[2] == all[0]);
  manual_seed(100);
  Net net;
  CHECK(net.state_dict()[0].tensor.to_vector<double>() == all[0][0]);
}

TEST_CASE("buffers are rank 0's, the mean or each rank's own after a step", "[dist]") {
  struct Net : nn::Module<Net> {
    nn::Linear fc = add("fc", nn::Linear{6, 4});
    nn::Buffer seen = add_buffer("seen", zeros({2}));
    nn::Buffer steps = add_buffer("steps", zeros({}, {.dtype = i64_dtype()}));
    double here = 0;
    static DType i64_dtype() { return DType::i64; }
    Tensor forward(Tensor x) {
      const NoGrad no_grad;
      Tensor s = seen.tensor(), n = steps.tensor();
      s.fill_(here);
      n.fill_(i64(here));
      const EnableGrad grad;
      return fc(std::move(x));
    }
  };
  const auto after = [](dist::Buffers policy, int rank) {
    std::vector<double> found(6);
    all_ranks(3, [&](Communicator& c) {
      manual_seed(7);
      Net net;
      net.here = 10.0 * (c.rank() + 1);
      optim::Sgd opt{net, {.lr = 0.1}};
      DataParallel ddp{net, opt, c, {.buffers = policy}};
      TrainStep step{net, opt, {.reducer = &ddp}};
      step(Mlp::data(6, 0), [&](const Batch& b) { return squares(net, b); });
      found[size_t(2 * c.rank())] = net.seen.tensor().to_vector<double>()[1];
      found[size_t(2 * c.rank() + 1)] = net.steps.tensor().item();
    });
    return std::pair{found[size_t(2 * rank)], found[size_t(2 * rank + 1)]};
  };
  for (int r = 0; r < 3; ++r) {
    CAPTURE(r);
    CHECK(after(dist::Buffers::broadcast, r) == std::pair{10.0, 10.0});
    CHECK(after(dist::Buffers::mean, r) == std::pair{20.0, 10.0});
    CHECK(after(dist::Buffers::each_own, r) == std::pair{10.0 * (r + 1), 10.0 * (r + 1)});
  }
}

TEST_CASE("options out of range and a second DataParallel are refused", "[dist]") {
  const auto world = dist::local_world(1);
  Communicator& c = *world[0];
  Mlp net;
  optim::Sgd opt{net};
  const auto text = [&](const DataParallelOptions& o) {
    return message_of([&] { DataParallel ddp(net, opt, c, o); });
  };
  CHECK(mentions(text({.bucket_bytes = 0}), "must be at least 1, got 0 and 1048576"));
  CHECK(mentions(text({.first_bucket_bytes = -1}), "must be at least 1, got 26214400 and -1"));
  CHECK(mentions(text({.compress = DType::i64}), "compress must be f32 (not at all), f16 or bf16"));
  CHECK(mentions(text({.check_every = -2}), "check_every must be at least 0, got -2"));
  all_ranks(2, [](Communicator& c2) {
    Mlp mine;
    optim::Sgd sgd{mine};
    {
      DataParallel first(mine, sgd, c2);
      const std::string again = message_of([&] { DataParallel second(mine, sgd, c2); });
      if (again.find("[DataParallel] parameter fc1.weight belongs to another DataParallel") ==
          std::string::npos)
        throw std::runtime_error(again);
    }
    DataParallel third(mine, sgd, c2);  // the first one's hooks have gone
  });
}
