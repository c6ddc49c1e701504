// Ranks as threads: what they begin with, and what comes of what they throw.
#include "warptape/dist/spawn.h"

#include <atomic>
#include <stdexcept>
#include <thread>

#include "warptape/autograd/ops.h"
#include "warptape/core/random.h"
#include "warptape/tests/dist/on_ranks.h"

using namespace wt;
using namespace wt::dist;
using namespace wt_test;

TEST_CASE("spawn runs the function on every rank") {
  const int ranks = GENERATE(1, 2, 8);
  std::vector<int> sizes(static_cast<size_t>(ranks));
  std::vector<std::thread::id> ids(static_cast<size_t>(ranks));
  spawn(ranks, [&](Communicator& comm) {
    sizes[size_t(comm.rank())] = comm.size();
    ids[size_t(comm.rank())] = std::this_thread::get_id();
    comm.barrier();
  });
  CHECK(sizes == std::vector<int>(size_t(ranks), ranks));
  CHECK((ids[0] == std::this_thread::get_id()) == (ranks == 1));
  CHECK(mentions(message_of([] { spawn(0, [](Communicator&) {}); }),
                 "UsageError: [spawn] needs at least 1 rank, got 0"));
}

TEST_CASE("ranks begin in the caller's mode") {
  const DefaultDtype doubles(f64);
  const NoGrad no_grad;
  std::vector<DType> dtypes(2);
  std::vector<char> grad(2);
  spawn(2, [&](Communicator& comm) {
    dtypes[size_t(comm.rank())] = ones({1}).dtype();
    grad[size_t(comm.rank())] = mode.grad;
  });
  CHECK(dtypes == std::vector<DType>{f64, f64});
  CHECK(grad == std::vector<char>{0, 0});
}

TEST_CASE("ranks draw the caller's numbers, and dropout of their own") {
  manual_seed(11);
  const Values alone = values(randn({4}));
  const Values dropped = values(dropout(ones({64})));
  const Values next = values(randn({4}));
  std::vector<Values> weights(3), masks(3);
  manual_seed(11);
  spawn(3, [&](Communicator& comm) {
    weights[size_t(comm.rank())] = values(randn({4}));
    masks[size_t(comm.rank())] = values(dropout(ones({64})));
  });
  for (const Values& w : weights) CHECK(w == alone);
  CHECK(masks[0] == dropped);
  CHECK(masks[1] != masks[0]);
  CHECK(masks[2] != masks[0]);
  CHECK(masks[2] != masks[1]);
  CHECK(values(randn({4})) == next);  // it goes on after what rank 0 drew
  CHECK(generator().rank() == 0);
}

TEST_CASE("a seed set on the ranks gives all the same weights") {
  std::vector<Values> weights(2), masks(2);
  spawn(2, [&](Communicator& comm) {
    manual_seed(3);
    weights[size_t(comm.rank())] = values(randn({4}));
    masks[size_t(comm.rank())] = values(dropout(ones({64})));
  });
  CHECK(weights[0] == weights[1]);
  CHECK(masks[0] != masks[1]);
}

TEST_CASE("spawn throws what a rank threw, with its type and rank") {
  const int ranks = GENERATE(1, 3);
  const int bad = ranks - 1;
  std::string text;
  try {
    spawn(ranks, [&](Communicator& comm) {
      comm.barrier();
      if (comm.rank() == bad) throw ShapeError("[matmul] 2 beside 3");
      comm.barrier();
    });
  } catch (const ShapeError& e) {
    text = e.what();
  }
  CHECK(text == (ranks == 1 ? "ShapeError: [matmul] 2 beside 3"
                            : "ShapeError: [matmul] 2 beside 3\n  on rank 2"));
}

TEST_CASE("spawn throws what is no error of the library as it is") {
  CHECK_THROWS_AS(spawn(2,
                        [](Communicator& comm) {
                          if (comm.rank() == 1) throw std::out_of_range("x");
                          comm.barrier();
                        }),
                  std::out_of_range);
  int thrown = 0;
  try {
    spawn(2, [](Communicator& comm) {
      if (comm.rank() == 0) throw 42;
      comm.barrier();
    });
  } catch (int n) {
    thrown = n;
  }
  CHECK(thrown == 42);
}

TEST_CASE("spawn throws the PeerFailure where that is all there is") {
  std::string reason;
  try {
    spawn(3, [](Communicator& comm) {
      if (comm.rank() != 1) comm.barrier();
    });
  } catch (const PeerFailure& e) {
    reason = e.reason;
  }
  CHECK(mentions(reason, "rank 1 ended before its first step"));
}

TEST_CASE("a rank's error counts, also where others heard of its end first") {
  // Rank 0 gives up, lets the others fail, and only then throws.
  std::atomic<int> failed{0};
  CHECK_THROWS_AS(spawn(3,
                        [&](Communicator& comm) {
                          if (comm.rank() == 0) {
                            comm.abort("soon");
                            while (failed < 2) std::this_thread::yield();
                            throw DataError("[read] bad file");
                          }
                          try {
                            comm.barrier();
                          } catch (const PeerFailure&) {
                            ++failed;
                            throw;
                          }
                        }),
                  DataError);
}

TEST_CASE("a label that nobody has waited for is thrown when its rank ends") {
  const Device d = Device::simt();
  const auto use = [&](int bad) {
    spawn(3, [&](Communicator& comm) {
      const Tensor logits = zeros({2, 4}, {.device = d});
      const i64 label = comm.rank() == bad ? 9 : 3;
      (void)cross_entropy(logits, tensor(std::vector<i64>{0, label}).to(d));
    });
  };
  for (const int bad : {2, 0}) {
    const std::string text = message_of([&] { use(bad); });
    CHECK(mentions(text, "label 9 at sample 1 is outside [0, 4)"));
    CHECK(mentions(text, str("on rank ", bad)));
  }
  use(-1);  // of the runs before nothing is left
}

TEST_CASE("what wraps a communicator may throw") {
  CHECK_THROWS_AS(spawn(2, [](Communicator& comm) { comm.barrier(); },
                        {.wrap =
                             [](std::unique_ptr<Communicator> local) {
                               if (local->rank() == 1) throw NotAvailable("[nccl] no library");
                               return local;
                             }}),
                  NotAvailable);
}

TEST_CASE("ranks launch kernels beside each other and get what one thread gets") {
  const Device d = GENERATE(Device::cpu(), Device::simt());
  const i64 n = d == Device::cpu() ? 192 : 24;
  const auto compute = [&](int seed) {
    manual_seed(u64(seed));
    Tensor w = randn({n, n}).to(d);
    w.set_requires_grad();
    const Tensor x = randn({n, n}).to(d);
    for (int i = 0; i < 3; ++i) (softmax(relu(matmul(x, w)), 1) * x).sum().backward();
    return values(w.grad());
  };
  std::vector<Values> got(4);
  spawn(4, [&](Communicator& comm) {
    comm.barrier();
    got[size_t(comm.rank())] = compute(comm.rank());
  });
  for (int r = 0; r < 4; ++r) CHECK(got[size_t(r)] == compute(r));
}
