// When buckets are begun, and in which order: by events, not by clocks.
#include <algorithm>

#include "warptape/autograd/custom.h"
#include "warptape/dist/zero.h"
#include "warptape/tests/dist/data_parallel/data_parallel_ranks.h"
#include "warptape/tests/support/catch.h"

using namespace wt_test;

namespace {

// Its backward tells that it runs.
struct Tells {
  const std::function<void()>* tell;
  static constexpr OpInfo info{.name = "tells"};
  Tensor forward(Save&, const Tensor& x) const { return x * 1.0; }
  Grads backward(const Saved&, const Tensor& gy) const {
    (*tell)();
    return {gy};
  }
};

}  // namespace

TEST_CASE("a bucket is begun before the backward of the layers below it", "[dist]") {
  std::vector<std::vector<std::string>> events(2);
  std::vector<i64> early(2);
  all_ranks(2, [&](Communicator& inner) {
    Recorder c(inner);
    manual_seed(7);
    Mlp net;
    optim::Sgd opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c, {.bucket_bytes = 1}};
    TrainStep step{net, opt, {.micro_batches = 2, .reducer = &ddp}};
    const std::function<void()> tell = [&] { c.events.push_back("below fc2"); };
    c.events.clear();
    step(Mlp::data(4, 0), [&](const Batch& b) {
      const Tensor e = net.fc3(tanh(net.fc2(apply(Tells{&tell}, tanh(net.fc1(b.x)))))) - b.y;
      return Loss{sum(e * e), double(b.size())};
    });
    events[size_t(c.rank())] = c.events;
    early[size_t(c.rank())] = ddp.launched_early();
  });
  for (size_t r = 0; r < 2; ++r) {
    const auto& e = events[r];
    // Nothing in the first micro-batch; fc3's and fc2's four buckets, then what is below, then
    // fc1's two. A slot is 256 bytes, 64 elements, at least.
    REQUIRE(e.size() > 8);
    CHECK(e[0] == "below fc2");
    const i64 below = std::find(e.begin() + 1, e.end(), "below fc2") - e.begin();
    CHECK(below == 5);
    for (i64 i = 1; i < below; ++i) CHECK(e[size_t(i)].rfind("all_reduce", 0) == 0);
    CHECK(e[6].rfind("all_reduce", 0) == 0);
    CHECK(e[7].rfind("all_reduce", 0) == 0);
    CHECK(early[r] == 6);
    CHECK(e == events[0]);
  }
}

TEST_CASE("buckets are cut from the end and cover every parameter once", "[dist]") {
  all_ranks(2, [](Communicator& c) {
    manual_seed(7);
    Mlp net;  // slots: fc1 512 + 256, fc2 1024 + 256, fc3 256 + 256 bytes
    optim::Sgd opt{net, {.lr = 0.1}};
    const auto text = [&](i64 bytes, i64 first) {
      const DataParallel ddp{net, opt, c, {.bucket_bytes = bytes, .first_bucket_bytes = first}};
      std::string all;
      for (const auto& b : ddp.buckets()) {
        for (const auto& p : b.parameters) all += p + " ";
        all += std::to_string(b.bytes) + "; ";
      }
      return all;
    };
    const auto want = [](const std::string& got, const std::string& expected) {
      if (got != expected) throw std::runtime_error("got " + got + "\nnot " + expected);
    };
    want(text(1 << 20, 1 << 20),
         "fc1.weight fc1.bias fc2.weight fc2.bias fc3.weight fc3.bias 2560; ");
    want(text(1 << 20, 512),
         "fc3.weight fc3.bias 512; fc1.weight fc1.bias fc2.weight fc2.bias "
         "2048; ");
    want(text(1, 1),
         "fc3.bias 256; fc3.weight 256; fc2.bias 256; fc2.weight 1024; fc1.bias 256; "
         "fc1.weight 512; ");
    want(text(900, 300),
         "fc3.bias 256; fc2.bias fc3.weight 512; fc2.weight 1024; fc1.weight "
         "fc1.bias 768; ");
  });
}

TEST_CASE("a bias is in the bucket of its weight", "[dist]") {
  using dist::Group;
  const auto starts = [](std::vector<i64> sizes, i64 limit) {
    std::vector<size_t> all;
    for (const Group& g : dist::groups_from_end(sizes, 1, limit, limit)) all.push_back(g.first);
    return all;
  };
  using Starts = std::vector<size_t>;
  // weight, bias, weight, bias, ...: without room for the bias, with room for it alone, for two.
  CHECK(starts({1600, 100, 1600, 100, 1600, 100}, 1600) == Starts{4, 2, 0});
  CHECK(starts({1600, 100, 1600, 100, 1600, 100}, 1800) == Starts{4, 2, 0});
  CHECK(starts({1600, 100, 1600, 100, 1600, 100}, 3500) == Starts{2, 0});
  // With the norm behind it, too; of parameters that are not small none goes back.
  CHECK(starts({1600, 20, 20, 20, 1600, 20}, 1700) == Starts{4, 0});
  CHECK(starts({1600, 800, 800}, 1600) == Starts{1, 0});
  // Never an empty bucket.
  CHECK(starts({1600, 10}, 5) == Starts{0});
  CHECK(starts({10, 10, 10}, 10) == Starts{2, 1, 0});
}

namespace {

// Registered in the order in which it is not used.
struct Backwards : nn::Module<Backwards> {
  nn::Linear last = add("last", nn::Linear{6, 4});
  nn::Linear first = add("first", nn::Linear{6, 6});
  Tensor forward(Tensor x) { return last(tanh(first(std::move(x)))); }
};

}  // namespace

TEST_CASE("the order is learnt from rank 0's first backward", "[dist]") {
  all_ranks(2, [](Communicator& inner) {
    Recorder c(inner);
    manual_seed(7);
    Backwards net;
    optim::Sgd opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c, {.bucket_bytes = 1}};
    TrainStep step{net, opt, {.reducer = &ddp}};
    const auto first_of = [&] { return ddp.buckets().front().parameters.front(); };
    const auto loss = [&](const Batch& b) { return squares(net, b); };
    const auto require = [](bool ok, const char* what) {
      if (!ok) throw std::runtime_error(what);
    };
    require(first_of() == "first.bias", "before: from the end");
    step(Mlp::data(4, 0), loss);
    require(ddp.launched_early() == 4, "all were complete in the first backward");
    require(first_of() == "last.bias" || first_of() == "last.weight", "after: as they arrived");
    c.events.clear();
    step(Mlp::data(4, 1), loss);
    require(ddp.launched_early() == 4, "all were complete in the second backward");
    require(c.events[0] == "all_reduce 64 f32", "one bucket each");
  });
}

TEST_CASE("a bucket that is complete early waits for its turn", "[dist]") {
  // Rank 1 goes through the layers the other way round: its gradients come in another order.
  struct Two : nn::Module<Two> {
    nn::Linear a = add("a", nn::Linear{4, 4});
    nn::Linear b = add("b", nn::Linear{4, 4, {.bias = false}});
  };
  std::vector<std::vector<std::string>> events(2);
  std::vector<Weights> weights(2);
  all_ranks(2, [&](Communicator& inner) {
    Recorder c(inner);
    manual_seed(7);
    Two net;
    optim::Sgd opt{net, {.lr = 0.1}};
    DataParallel ddp{net, opt, c, {.bucket_bytes = 1}};
    TrainStep step{net, opt, {.reducer = &ddp}};
    for (i64 i = 0; i < 3; ++i)
      step(Mlp::data(4, i), [&](const Batch& b) {
        const Tensor y = c.rank() == 0 ? net.b(tanh(net.a(b.y))) : net.a(tanh(net.b(b.y)));
        return Loss{sum(y * y), double(b.size())};
      });
    events[size_t(c.rank())] = c.events;
    weights[size_t(c.rank())] = weights_of(net);
  });
  CHECK(events[0] == events[1]);
  CHECK(weights[0] == weights[1]);
}

TEST_CASE("buckets follow a model that moves to another device, and thawed parameters", "[dist]") {
  std::vector<Weights> all(2);
  all_ranks(2, [&](Communicator& c) {
    manual_seed(7);
    Mlp net;
    optim::Sgd opt{net, {.lr = 0.1, .momentum = 0.9}};
    DataParallel ddp{net, opt, c, {.bucket_bytes = 600}};
    TrainStep step{net, opt, {.reducer = &ddp}};
    i64 i = 0;
    const auto train = [&] {
      step(part_of(Mlp::data(8, i++), c.rank(), 2),
           [&](const Batch& b) { return squares(net, b); });
    };
    train();
    net.to(Device::simt());
    train();
    net.to(Device::cpu());
    net.fc2.requires_grad_(false);
    train();
    net.fc2.requires_grad_(true);
    train();
    if (ddp.launched_early() != i64(ddp.buckets().size()))
      throw std::runtime_error("hooks are missing");
    all[size_t(c.rank())] = weights_of(net);
  });
  CHECK(all[0] == all[1]);
  manual_seed(7);
  Mlp net;
  optim::Sgd opt{net, {.lr = 0.1, .momentum = 0.9}};
  TrainStep step{net, opt};
  for (i64 i = 0; i < 4; ++i) {
    net.fc2.requires_grad_(i != 2);
    step(Mlp::data(8, i), [&](const Batch& b) { return squares(net, b); });
  }
  CHECK(largest_difference(weights_of(net), all[0]) < 1e-5);
}
