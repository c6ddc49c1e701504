// DataParallel whose ranks keep a part of the gradients each: stage 2 of ZeRO.
#include "warptape/core/memory.h"
#include "warptape/core/memory_trace.h"
#include "warptape/optim/arena.h"
#include "warptape/tests/dist/data_parallel/data_parallel_ranks.h"
#include "warptape/tests/support/catch.h"

using namespace wt_test;

namespace {

// --- memory ---

constexpr i64 kLayers = 16, kWidth = 64;
constexpr i64 kLayerBytes = (kWidth * kWidth + kWidth) * i64(sizeof(float));

struct Tower : nn::Module<Tower> {
  std::vector<nn::Linear> layers;
  Tower() {
    for (i64 i = 0; i < kLayers; ++i)
      layers.push_back(add("fc" + std::to_string(i), nn::Linear{kWidth, kWidth}));
  }
  Tensor forward(Tensor x) {
    for (nn::Linear& l : layers) x = tanh(l(std::move(x)));
    return x;
  }
};

struct Bytes {
  i64 peak = 0, after = 0;  // of gradients, all ranks together
};

Bytes gradient_bytes(int n, const DataParallelOptions& options, i64 micro_batches) {
  Bytes got;
  const auto bytes = [](const memory::Level& l) {
    return l.by_category[size_t(Category::gradient)];
  };
  memory::Trace trace(Device::cpu());
  const i64 before = bytes(trace.now());
  all_ranks(n, [&](Communicator& c) {
    manual_seed(7);
    Tower net;
    optim::Sgd opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c, options};
    TrainStep step{net, opt, {.micro_batches = micro_batches, .reducer = &ddp}};
    // What was there before the arenas were cut is of the past.
    c.barrier();
    for (i64 i = 0; i < 3; ++i)
      step(Batch{Mlp::draw({4, kWidth}, i), Mlp::draw({4, kWidth}, i)},
           [&](const Batch& b) { return squares(net, b); });
    c.barrier();
    if (c.rank() == 0) got.after = bytes(trace.now()) - before;
    c.barrier();
  });
  const std::vector<memory::Level> levels = trace.timeline(trace.events());
  // Making an optimizer lays the whole gradients out once, before they are cut: the last half of
  // the events is steps.
  for (size_t i = levels.size() / 2; i < levels.size(); ++i)
    got.peak = std::max(got.peak, bytes(levels[i]) - before);
  return got;
}

}  // namespace

TEST_CASE("zero 2: gradients take a rank's part and three buckets", "[dist]") {
  for (const int n : {2, 4})
    for (const i64 micro_batches : {1, 2})
      for (const DType compress : {DType::f32, DType::bf16}) {
        CAPTURE(n, micro_batches, dtype_name(compress));
        // A layer is a bucket; two are on their way while a third one fills.
        DataParallelOptions options{.bucket_bytes = kLayerBytes,
                                    .first_bucket_bytes = kLayerBytes,
                                    .compress = compress,
                                    .zero = 2};
        const i64 all = kLayers * kLayerBytes, fill = 64 * n * i64(sizeof(float));
        const i64 own = all / n + kLayers * fill / n;
        const Bytes parts = gradient_bytes(n, options, micro_batches);
        CHECK(parts.after >= all);
        CHECK(parts.after <= n * own);
        CHECK(parts.peak <= n * (own + 3 * (kLayerBytes + fill)));
        options.zero = 1;
        const Bytes whole = gradient_bytes(n, options, micro_batches);
        CHECK(whole.after >= n * all);
        CHECK(whole.peak > n * (own + 3 * (kLayerBytes + fill)));
      }
}

// --- the same bits ---

namespace {

// Small integers: no order of adding rounds anything.
struct Integers : nn::Module<Integers> {
  nn::Param a = add("a", (manual_seed(3), randint(-1, 2, {5, 3}, {.dtype = f32})));
  nn::Param b = add("b", randint(-1, 2, {7, 3}, {.dtype = f32}));
  Tensor forward(const Tensor& x) {
    return matmul(x.narrow(1, 0, 5), a) + matmul(x.narrow(1, 5, 7), b);
  }
  static Batch data(i64 n, i64 step) {
    Generator g(u64(50 + step));
    Generator* const before = std::exchange(mode.generator, &g);
    Batch batch{randint(-1, 2, {n, 12}, {.dtype = f32}), randint(-2, 3, {n, 3}, {.dtype = f32})};
    mode.generator = before;
    return batch;
  }
};

Weights train_integers(Communicator* comm, i64 micro_batches, int zero) {
  Integers net;
  manual_seed(7);
  optim::Sgd opt{net, {.lr = 0.25, .momentum = 0.5}};
  std::optional<DataParallel> ddp;
  if (comm) ddp.emplace(net, opt, *comm, DataParallelOptions{.bucket_bytes = 1, .zero = zero});
  TrainStep step{net, opt, {.micro_batches = micro_batches, .reducer = comm ? &*ddp : nullptr}};
  for (i64 i = 0; i < 2; ++i) {
    const Batch all = Integers::data(8, i);
    step(comm ? part_of(all, comm->rank(), comm->size()) : all,
         [&](const Batch& b) { return squares(net, b); });
  }
  return weights_of(net);
}

}  // namespace

TEST_CASE(
    "zero 2: where nothing rounds ranks have one process's bits, with fewer samples than "
    "micro-batches too",
    "[dist]") {
  for (const i64 micro_batches : {1, 2, 3, 4}) {
    const Weights alone = train_integers(nullptr, micro_batches, 0);
    // Of 8 samples 3 ranks have 2, 3 and 3: with 3 micro-batches one of them makes two backwards.
    for (const int n : {1, 2, 3, 4, 8}) {
      CAPTURE(n, micro_batches);
      std::vector<Weights> got(static_cast<size_t>(n));
      all_ranks(n, [&](Communicator& c) {
        got[size_t(c.rank())] = train_integers(&c, micro_batches, 2);
      });
      for (const Weights& w : got) CHECK(w == alone);
    }
  }
}

namespace {

using Loop = std::function<void(DataParallel&, Integers&, optim::Optimizer&, int rank, int ranks)>;

std::vector<Weights> run_loop(int n, int zero, const Loop& loop) {
  std::vector<Weights> got(static_cast<size_t>(n));
  all_ranks(n, [&](Communicator& c) {
    Integers net;
    optim::Sgd opt{net, {.lr = 0.25, .momentum = 0.5}};
    DataParallel ddp{net, opt, c, {.bucket_bytes = 1, .zero = zero}};
    loop(ddp, net, opt, c.rank(), c.size());
    got[size_t(c.rank())] = weights_of(net);
  });
  return got;
}

void check_loop(const Loop& loop) {
  for (const int n : {2, 4}) {
    CAPTURE(n);
    const std::vector<Weights> whole = run_loop(n, 0, loop), parts = run_loop(n, 2, loop);
    for (const Weights& w : parts) CHECK(w == whole.front());
  }
}

Tensor mean_loss(Integers& net, i64 step, int rank, int ranks) {
  return squares(net, part_of(Integers::data(8, step), rank, ranks)).sum / 8;
}

}  // namespace

TEST_CASE("zero 2: loops of one's own", "[dist]") {
  check_loop([](DataParallel& ddp, Integers& net, optim::Optimizer& opt, int r, int n) {
    for (i64 i = 0; i < 2; ++i) {
      opt.zero_grad();
      ddp.backward(squares(net, part_of(Integers::data(8, i), r, n)));
      opt.step();
    }
  });
  // Under no_sync() the sums are made at once.
  check_loop([](DataParallel& ddp, Integers& net, optim::Optimizer& opt, int r, int n) {
    for (i64 i = 0; i < 2; ++i) {
      opt.zero_grad();
      {
        const auto guard = ddp.no_sync();
        ddp.backward(squares(net, part_of(Integers::data(4, 2 * i), r, n)));
      }
      ddp.backward(squares(net, part_of(Integers::data(4, 2 * i + 1), r, n)));
      opt.step();
    }
  });
  // Means add up: within a step, after it without zero_grad(), and onto zeros.
  check_loop([](DataParallel& ddp, Integers& net, optim::Optimizer& opt, int r, int n) {
    opt.zero_grad();
    ddp.backward(mean_loss(net, 0, r, n));
    ddp.backward(mean_loss(net, 1, r, n));
    opt.step();
    ddp.backward(mean_loss(net, 2, r, n));
    opt.step();
    opt.zero_grad({.set_to_none = false});
    ddp.backward(mean_loss(net, 3, r, n));
    opt.step();
    opt.zero_grad();
    ddp.backward(mean_loss(net, 4, r, n));
    opt.step();
  });
  // One parameter's sums go on, the other's begin anew.
  check_loop([](DataParallel& ddp, Integers& net, optim::Optimizer& opt, int r, int n) {
    opt.zero_grad();
    ddp.backward(mean_loss(net, 0, r, n));
    opt.step();
    net.a.tensor().zero_grad();
    ddp.backward(mean_loss(net, 1, r, n));
    opt.step();
  });
  // A window that was given up.
  check_loop([](DataParallel& ddp, Integers& net, optim::Optimizer& opt, int r, int n) {
    opt.zero_grad();
    {
      const auto guard = ddp.no_sync();
      ddp.backward(squares(net, part_of(Integers::data(8, 0), r, n)));
    }
    opt.zero_grad();
    ddp.backward(squares(net, part_of(Integers::data(8, 1), r, n)));
    opt.step();
  });
}

TEST_CASE("zero 1: sums in pieces are not added to", "[dist]") {
  const auto thrown = on_ranks(2, [&](Communicator& c) {
    Integers net;
    optim::Sgd opt{net, {.lr = 0.25}};
    DataParallel ddp{net, opt, c, {.zero = 1}};
    ddp.backward(mean_loss(net, 0, c.rank(), 2));
    ddp.backward(mean_loss(net, 1, c.rank(), 2));
  });
  for (const auto& e : thrown)
    CHECK(mentions(text_of(e), "summed in this rank's pieces alone cannot be added to"));
}
