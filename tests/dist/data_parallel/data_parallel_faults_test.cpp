// What one rank meets and the others do not.
#include <cmath>
#include <limits>

#include "warptape/autograd/custom.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/dist/spawn.h"
#include "warptape/tests/dist/data_parallel/data_parallel_ranks.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/catch.h"

using namespace wt_test;

namespace {

// Two heads over a common trunk; a batch may use one of them only.
struct Heads : nn::Module<Heads> {
  nn::Linear trunk = add("trunk", nn::Linear{6, 8});
  nn::Linear left = add("left", nn::Linear{8, 4});
  nn::Linear right = add("right", nn::Linear{8, 4});
  nn::Linear never = add("never", nn::Linear{8, 4});
  Tensor forward(Tensor x, bool use_left, bool use_right) {
    const Tensor h = tanh(trunk(std::move(x)));
    if (use_left && use_right) return left(h) + right(h);
    return use_left ? left(h) : right(h);
  }
};

struct Seen {
  Weights weights;
  std::vector<DataParallel::Missing> missing;
};

// Two steps in which rank r uses the left head if use_left(r), else the right one.
template <class F>
std::vector<Seen> train_heads(int n, F use_left, const DataParallelOptions& options = {}) {
  std::vector<Seen> all(static_cast<size_t>(n));
  all_ranks(n, [&](Communicator& c) {
    manual_seed(7);
    Heads net;
    optim::AdamW opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c, options};
    TrainStep step{net, opt, {.reducer = &ddp}};
    for (i64 i = 0; i < 2; ++i)
      step(part_of(Mlp::data(8, i), c.rank(), n), [&](const Batch& b) {
        const bool left = use_left(c.rank());
        const Tensor e = net(b.x, left, !left) - b.y;
        return Loss{sum(e * e), double(b.size())};
      });
    all[size_t(c.rank())] = {weights_of(net), ddp.unused()};
  });
  for (const Seen& s : all) CHECK(s.weights == all.front().weights);
  return all;
}

std::string missing_text(const std::vector<DataParallel::Missing>& all) {
  std::string text;
  for (const auto& m : all) {
    text += m.parameter + ":";
    for (const int r : m.ranks) text += std::to_string(r);
    text += " ";
  }
  return text;
}

std::vector<double> left_weight(const Seen& s) { return s.weights[2]; }

}  // namespace

TEST_CASE("parameters that no rank reaches stay as they are, without decay", "[dist]") {
  manual_seed(7);
  Heads fresh;
  const Weights before = weights_of(fresh);
  for (const int zero : {0, 1, 2}) {
    CAPTURE(zero);
    const Seen s = train_heads(3, [](int) { return false; }, {.zero = zero}).front();
    CHECK(s.weights[0] != before[0]);
    for (const size_t k : {2, 3, 6, 7}) CHECK(s.weights[k] == before[k]);  // left, never
    CHECK(missing_text(s.missing) ==
          "left.weight:012 left.bias:012 never.weight:012 never.bias:012 ");
  }
}

TEST_CASE("parameters that some ranks reach are stepped on all of them", "[dist]") {
  manual_seed(7);
  Heads fresh;
  const Weights before = weights_of(fresh);
  const std::vector<Seen> all = train_heads(4, [](int r) { return r == 2; });
  for (const Seen& s : all) {
    CHECK(left_weight(s) != before[2]);
    CHECK(missing_text(s.missing) ==
          "left.weight:013 left.bias:013 right.weight:2 right.bias:2 never.weight:0123 "
          "never.bias:0123 ");
  }
  // One process whose batch goes through both heads: the same gradients, zeros included.
  manual_seed(7);
  Heads net;
  optim::AdamW opt{net, {.lr = 0.1}};
  TrainStep step{net, opt, {.micro_batches = 4}};
  for (i64 i = 0; i < 2; ++i) {
    i64 part = 0;
    step(Mlp::data(8, i), [&](const Batch& b) {
      const bool left = part++ == 2;
      const Tensor e = net(b.x, left, !left) - b.y;
      return Loss{sum(e * e), double(b.size())};
    });
  }
  CHECK(largest_difference(weights_of(net), all.front().weights) < 1e-5);
  for (const int zero : {1, 2}) {
    CAPTURE(zero);
    const Seen s = train_heads(4, [](int r) { return r == 2; }, {.zero = zero}).front();
    CHECK(largest_difference(s.weights, all.front().weights) < 1e-5);
    CHECK(missing_text(s.missing) == missing_text(all.front().missing));
  }
}

TEST_CASE("a head that one rank reaches from the fourth step on counts its own steps on all",
          "[dist]") {
  constexpr int kRanks = 2;
  const auto uses_left = [](i64 step, i64 part) { return step >= 3 && part == 1; };
  const auto loss = [](Heads& net, const Batch& b, bool left) {
    const Tensor e = net(b.x, left, !left) - b.y;
    return Loss{sum(e * e), double(b.size())};
  };
  manual_seed(7);
  Heads alone;
  optim::Adam opt{alone, {.lr = 0.01}};
  TrainStep whole{alone, opt, {.micro_batches = kRanks}};
  for (i64 i = 0; i < 6; ++i) {
    i64 part = 0;
    whole(Mlp::data(8, i), [&](const Batch& b) { return loss(alone, b, uses_left(i, part++)); });
  }
  CHECK(opt.applied("left.weight") == 3);
  for (const int zero : {0, 1, 2}) {
    CAPTURE(zero);
    std::vector<Weights> all(kRanks);
    std::vector<i64> counts(kRanks);
    all_ranks(kRanks, [&](Communicator& c) {
      manual_seed(7);
      Heads net;
      optim::Adam mine{net, {.lr = 0.01}};
      DataParallel ddp{net, mine, c, {.zero = zero}};
      TrainStep step{net, mine, {.reducer = &ddp}};
      for (i64 i = 0; i < 6; ++i)
        step(part_of(Mlp::data(8, i), c.rank(), kRanks),
             [&](const Batch& b) { return loss(net, b, uses_left(i, c.rank())); });
      all[size_t(c.rank())] = weights_of(net);
      counts[size_t(c.rank())] = mine.applied("left.weight");
    });
    CHECK(all[0] == all[1]);
    CHECK(counts == std::vector<i64>{3, 3});
    CHECK(largest_difference(weights_of(alone), all[0]) < 1e-5);
  }
}

TEST_CASE("small buckets with parameters that ranks reach differently do not hang", "[dist]") {
  for (const auto unused : {dist::Unused::agree, dist::Unused::fixed})
    for (const i64 bytes : {i64(1), i64(400)})
      for (const int zero : {0, 1, 2})
        train_heads(
            4, [](int r) { return r % 2 == 0; },
            {.bucket_bytes = bytes, .first_bucket_bytes = bytes, .unused = unused, .zero = zero});
}

TEST_CASE("Unused::refuse names what the first step has not reached, on all ranks", "[dist]") {
  const int zero = GENERATE(0, 1, 2);
  CAPTURE(zero);
  const auto thrown = on_ranks(2, [&](Communicator& c) {
    Heads net;
    optim::Sgd opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c, {.unused = dist::Unused::refuse, .zero = zero}};
    TrainStep step{net, opt, {.reducer = &ddp}};
    const Weights before = weights_of(net);
    const auto loss = [&](const Batch& b) {
      const Tensor e = net(b.x, true, c.rank() == 0) - b.y;
      return Loss{sum(e * e), double(b.size())};
    };
    const std::string text = message_of([&] { step(Mlp::data(4, 0), loss); });
    if (weights_of(net) != before) throw std::runtime_error("it stepped");
    net.never.requires_grad_(false);
    // All ranks have thrown alike: they can go on.
    const std::string again = message_of([&] { step(Mlp::data(4, 0), loss); });
    throw UsageError(text + "|" + again);
  });
  for (const auto& e : thrown) {
    const std::string text = text_of(e);
    CHECK(mentions(text,
                   "UsageError: [DataParallel] the first backward has not reached right.weight on "
                   "rank 1, right.bias on rank 1, never.weight on ranks 0, 1"));
    CHECK(text.find("never", text.find('|')) == std::string::npos);
    CHECK(text.find("right.bias on rank 1", text.find('|')) != std::string::npos);
  }
}

TEST_CASE("Unused::fixed refuses what the first step did not reach", "[dist]") {
  const int zero = GENERATE(0, 2);
  CAPTURE(zero);
  const auto thrown = on_ranks(2, [&](Communicator& c) {
    Heads net;
    optim::Sgd opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c, {.unused = dist::Unused::fixed, .zero = zero}};
    TrainStep step{net, opt, {.reducer = &ddp}};
    for (i64 i = 0; i < 3; ++i)
      step(Mlp::data(4, i), [&](const Batch& b) {
        const Tensor e = net(b.x, true, c.rank() == 1 && i == 2) - b.y;
        return Loss{sum(e * e), double(b.size())};
      });
  });
  CHECK(mentions(text_of(thrown[1]),
                 "UsageError: [DataParallel] step 2 on rank 1 has reached "
                 "right.weight, unlike the first one"));
  CHECK(mentions(text_of(thrown[0]), "PeerFailure"));
  CHECK(mentions(text_of(thrown[0]), "step 2 on rank 1 has reached right.weight"));
}

TEST_CASE("an inf on one rank makes all skip, and the f16 scale falls on all", "[dist]") {
  struct Found {
    double scale_before, scale_after;
    bool skipped;
    Weights before, skipped_at, after;
  };
  const int zero = GENERATE(0, 1, 2);
  CAPTURE(zero);
  std::vector<Found> all(4);
  all_ranks(4, [&](Communicator& c) {
    manual_seed(7);
    Mlp net;
    optim::Sgd opt{net, {.lr = 0.01}};
    DataParallel ddp{net, opt, c, {.zero = zero}};
    TrainStep step{
        net, opt, {.precision = DType::f16, .reducer = &ddp, .loss_scale = {.init_scale = 1024}}};
    bool poisoned = false;
    const auto loss = [&](const Batch& b) {
      Loss l = squares(net, b);
      if (poisoned && c.rank() == 2) l.sum = l.sum * std::numeric_limits<float>::infinity();
      return l;
    };
    Found& f = all[size_t(c.rank())];
    step(part_of(Mlp::data(8, 0), c.rank(), 4), loss);
    f.before = weights_of(net);
    f.scale_before = step.scaler().get_scale();
    poisoned = true;
    f.skipped = step(part_of(Mlp::data(8, 1), c.rank(), 4), loss).skipped();
    f.skipped_at = weights_of(net);
    f.scale_after = step.scaler().get_scale();
    poisoned = false;
    step(part_of(Mlp::data(8, 2), c.rank(), 4), loss);
    f.after = weights_of(net);
  });
  for (const Found& f : all) {
    CHECK(f.skipped);
    CHECK(f.scale_before == 1024);
    CHECK(f.scale_after == 512);
    CHECK(f.skipped_at == f.before);
    CHECK(f.after != f.before);
    CHECK(f.after == all.front().after);
  }
}

TEST_CASE("an overflow of the compressed copy is found on all ranks", "[dist]") {
  const int zero = GENERATE(0, 1, 2);
  CAPTURE(zero);
  const auto thrown = on_ranks(2, [&](Communicator& c) {
    manual_seed(7);
    Mlp net;
    optim::Sgd opt{net, {.lr = 0.01}};
    DataParallel ddp{net, opt, c, {.compress = DType::f16, .zero = zero}};
    TrainStep step{net, opt, {.reducer = &ddp}};
    const Weights before = weights_of(net);
    try {
      step(Mlp::data(8, 0), [&](const Batch& b) { return 1e6 * squares(net, b); });
    } catch (...) {
      if (weights_of(net) != before) throw std::runtime_error("it stepped");
      throw;
    }
  });
  for (const auto& e : thrown)
    CHECK(mentions(text_of(e), "NumericError: [TrainStep] the gradient"));
}

TEST_CASE("a bad label on one rank throws there, skips on the others, and training goes on",
          "[dist]") {
  const int zero = GENERATE(0, 1, 2);
  CAPTURE(zero);
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  CAPTURE(to_string(d));
  std::vector<Weights> first(2), last(2), fresh(2);
  std::vector<std::string> texts(2);
  std::vector<i64> applied(2);
  all_ranks(2, [&](Communicator& c) {
    const auto r = size_t(c.rank());
    manual_seed(7);
    Mlp net;
    net.to(d);
    optim::Sgd opt{net, {.lr = 0.01}};
    DataParallel ddp{net, opt, c, {.zero = zero}};
    TrainStep step{net, opt, {.reducer = &ddp}};
    fresh[r] = weights_of(net);
    bool bad = true;
    const auto loss = [&](const Batch& b) {
      if (bad) c.barrier();  // both have begun their step
      if (bad && c.rank() == 1) {
        const MailboxRecord record{i32(MailboxCode::label_out_of_range), 0, 3, 17, 10};
        copy_bytes(mailbox_of(opt.device()), opt.device(), &record, Device::cpu(), sizeof record);
      }
      return squares(net, b);
    };
    texts[r] = message_of([&] {
      if (!step(Mlp::data(8, 0), loss).skipped()) throw std::runtime_error("it stepped");
    });
    first[r] = weights_of(net);
    bad = false;
    step(Mlp::data(8, 1), loss);
    last[r] = weights_of(net);
    applied[r] = step.applied();
  });
  CHECK(texts[0] == "");
  CHECK(mentions(texts[1], "IndexError: "));
  CHECK(mentions(texts[1], "label 17 at sample 3 is outside [0, 10)"));
  for (size_t r = 0; r < 2; ++r) {
    CHECK(first[r] == fresh[r]);
    CHECK(last[r] == last[0]);
    CHECK(last[r] != fresh[r]);
    CHECK(applied[r] == 1);
  }
}

TEST_CASE("a bad label on one rank ends the others, which hear whose it was", "[dist]") {
  const Device d = ready(GENERATE(Device::cpu(), Device::simt()));
  NEEDS_OPERATORS(d);
  CAPTURE(to_string(d));
  constexpr int kRanks = 3, kBad = 1;
  std::vector<std::string> texts(kRanks);
  std::vector<int> blamed(kRanks, -1);
  std::vector<char> changed(kRanks);
  const std::string text = message_of([&] {
    dist::spawn(kRanks, [&](Communicator& c) {
      const auto r = size_t(c.rank());
      manual_seed(7);
      Mlp net;
      net.to(d);
      optim::Sgd opt{net, {.lr = 0.01}};
      const Weights before = weights_of(net);
      std::vector<i64> labels{0, 1, 2, 3, 0, 1};
      if (c.rank() == kBad) labels[5] = 40 + c.rank();
      const Batch b{Mlp::data(6, 0).x, tensor(labels)};
      try {  // the others may still be about to leave DataParallel's first calls
        DataParallel ddp{net, opt, c};
        TrainStep step{net, opt, {.reducer = &ddp}};
        while (true)  // the others may skip the step, and wait in the next one
          step(b, [&](const Batch& p) { return cross_entropy(net(p.x), p.y); }).loss();
      } catch (const PeerFailure& e) {
        texts[r] = e.what();
        blamed[r] = e.rank;
        changed[r] = weights_of(net) != before;
        throw;
      } catch (const std::exception& e) {
        texts[r] = e.what();
        changed[r] = weights_of(net) != before;
        throw;
      }
    });
  });
  CHECK(mentions(text, "IndexError: "));
  CHECK(mentions(text, "label 41 at sample 5 is outside [0, 4)"));
  CHECK(mentions(text, "on rank 1"));
  for (size_t r = 0; r < kRanks; ++r) {
    CAPTURE(r, texts[r]);
    CHECK(mentions(texts[r], "label 41 at sample 5"));
    CHECK(mentions(texts[r], r == kBad ? "IndexError: " : "PeerFailure: "));
    CHECK(blamed[r] == (r == kBad ? -1 : kBad));
    CHECK(!changed[r]);
  }
}

TEST_CASE("an empty batch on one rank ends the others at once", "[dist]") {
  const auto steps = GENERATE(0, 2);  // before it: the first step agrees on more
  const auto precision = GENERATE(DType::f32, DType::f16);
  CAPTURE(steps, dtype_name(precision));
  const auto thrown =
      on_ranks(3,
               [&](Communicator& c) {
                 manual_seed(7);
                 Mlp net;
                 optim::AdamW opt{net, {.lr = 0.1}};
                 DataParallel ddp{net, opt, c};
                 TrainStep step{net, opt, {.precision = precision, .reducer = &ddp}};
                 const auto loss = [&](const Batch& b) { return squares(net, b); };
                 for (int i = 0; i < steps; ++i) step(Mlp::data(8, i), loss);
                 const Weights before = weights_of(net);
                 try {
                   step(Mlp::data(c.rank() == 2 ? 0 : 8, 9), loss);
                 } catch (...) {
                   if (weights_of(net) != before) throw std::runtime_error("it stepped");
                   throw;
                 }
               },
               {.deadline = std::chrono::seconds(60)});  // whose end would give another reason
  CHECK(mentions(text_of(thrown[2]), "UsageError: [TrainStep] the batch is empty"));
  for (size_t r = 0; r < 2; ++r) {
    CAPTURE(r, text_of(thrown[r]));
    REQUIRE(thrown[r]);
    try {
      std::rethrow_exception(thrown[r]);
    } catch (const PeerFailure& e) {
      CHECK(e.rank == 2);
      CHECK(mentions(e.reason, "the batch is empty"));
    }
  }
}

TEST_CASE("what verify() and explain() refuse ends nobody's step", "[dist]") {
  all_ranks(2, [](Communicator& c) {
    manual_seed(7);
    Mlp net;
    optim::Sgd opt{net, {.lr = 0.01}};
    DataParallel ddp{net, opt, c};
    TrainStep step{net, opt, {.micro_batches = 2, .reducer = &ddp}};
    const auto loss = [&](const Batch& b) { return squares(net, b); };
    const Batch none = Mlp::data(0, 0);
    if (c.rank() == 0 && message_of([&] { step.verify(none, loss); }).empty())
      throw std::runtime_error("verified nothing");
    if (c.rank() == 1 && message_of([&] { step.explain(none, loss); }).empty())
      throw std::runtime_error("explained nothing");
    step(Mlp::data(8, 1), loss);
  });
}

namespace {

// Its backward throws where the rank is told to.
struct Breaks {
  bool now;
  static constexpr OpInfo info{.name = "breaks"};
  Tensor forward(Save&, const Tensor& x) const { return x * 1.0; }
  Grads backward(const Saved&, const Tensor& gy) const {
    if (now) throw std::runtime_error("the disk is full");
    return {gy};
  }
};

}  // namespace

TEST_CASE("a rank that throws inside backward ends the step of all, which changes nothing",
          "[dist]") {
  const int zero = GENERATE(0, 1, 2);
  CAPTURE(zero);
  std::vector<Weights> before(4), after(4);
  const auto thrown = on_ranks(4, [&](Communicator& c) {
    const auto r = size_t(c.rank());
    manual_seed(7);
    Mlp net;
    optim::AdamW opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c, {.bucket_bytes = 1, .zero = zero}};
    TrainStep step{net, opt, {.reducer = &ddp}};
    const auto loss = [&](const Batch& b, bool breaks) {
      // fc3's and fc2's buckets are under way when it throws
      const Tensor h = apply(Breaks{breaks}, tanh(net.fc1(b.x)));
      const Tensor e = net.fc3(tanh(net.fc2(h))) - b.y;
      return Loss{sum(e * e), double(b.size())};
    };
    step(Mlp::data(8, 0), [&](const Batch& b) { return loss(b, false); });
    before[r] = weights_of(net);
    try {
      step(Mlp::data(8, 1), [&](const Batch& b) { return loss(b, c.rank() == 3); });
    } catch (...) {
      after[r] = weights_of(net);
      if (opt.applied() != 1) throw std::runtime_error("it stepped");
      throw;
    }
  });
  for (size_t r = 0; r < 3; ++r) {
    CAPTURE(r, text_of(thrown[r]));
    REQUIRE(thrown[r]);
    CHECK(after[r] == before[r]);
    try {
      std::rethrow_exception(thrown[r]);
    } catch (const PeerFailure& e) {
      CHECK(e.rank == 3);
      CHECK(mentions(e.what(), "the disk is full"));
    }
  }
  CHECK(after[3] == before[3]);
  CHECK_THROWS_AS(std::rethrow_exception(thrown[3]), std::runtime_error);
}

TEST_CASE("verify() and explain() sum nothing over ranks", "[dist]") {
  all_ranks(2, [](Communicator& c) {
    manual_seed(7);
    Mlp net;
    optim::Sgd opt{net, {.lr = 0.01}};
    DataParallel ddp{net, opt, c};
    TrainStep step{net, opt, {.micro_batches = 2, .reducer = &ddp}};
    const auto loss = [&](const Batch& b) { return squares(net, b); };
    // On one rank only: a sum would wait for the other one.
    if (c.rank() == 0 && !step.verify(Mlp::data(8, 0), loss).agrees)
      throw std::runtime_error("micro-batches do not add up");
    if (c.rank() == 1) step.explain(Mlp::data(8, 0), loss);
    step(Mlp::data(8, 1), loss);
    if (ddp.launched_early() == 0) throw std::runtime_error("nothing was begun in backward");
  });
}
