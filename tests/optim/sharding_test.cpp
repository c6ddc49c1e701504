// Optimizer state of which every rank keeps a part: two ranks are two threads here.
#include "warptape/optim/sharding.h"

#include <barrier>
#include <cstring>
#include <functional>
#include <thread>

#include "warptape/autograd/ops.h"
#include "warptape/core/random.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/arena.h"
#include "warptape/optim/clip.h"
#include "warptape/optim/gradient_exponents.h"
#include "warptape/optim/more_rules.h"
#include "warptape/optim/muon.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

using namespace wt;

namespace {

constexpr i64 kWorld = 2;

// Of one parameter after another, each filled up to pieces of 64 elements.
struct Meeting {
  std::barrier<> all{kWorld};
  const Tensor* tensors[kWorld] = {};
};
class Pieces final : public optim::Sharding {
 public:
  Pieces(Meeting& m, i64 rank) : meeting_(m), rank_(rank) {}
  std::vector<Range> cut(std::span<const i64> sizes, i64) const override {
    std::vector<Range> all;
    i64 at = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const i64 count = filled(sizes[i]);
      all.push_back({i, 1, at, count});
      at += count;
    }
    return all;
  }
  static i64 filled(i64 size) { return (size + 64 * kWorld - 1) / (64 * kWorld) * 64 * kWorld; }
  void gather(const Tensor& arena, std::span<const Range> ranges) override {
    const i64 size = item_size(arena.dtype());
    meet(arena, [&] {
      for (const Range& range : ranges)
        for (i64 r = 0; r < kWorld; ++r) {
          const i64 n = range.count / kWorld, at = (range.begin + n * r) * size;
          if (r != rank_)
            std::memcpy(bytes(arena) + at, bytes(*meeting_.tensors[r]) + at, size_t(n * size));
        }
    });
  }
  void sum(const Tensor& t) override {
    std::vector<double> total(size_t(t.numel()), 0);
    meet(t, [&] {
      for (const Tensor* part : meeting_.tensors) {
        const auto* v = reinterpret_cast<const double*>(bytes(*part));
        for (size_t i = 0; i < total.size(); ++i) total[i] += v[i];
      }
    });
    std::memcpy(bytes(t), total.data(), total.size() * sizeof(double));
    meeting_.all.arrive_and_wait();
  }
  i64 rank() const override { return rank_; }
  i64 world() const override { return kWorld; }

 private:
  static char* bytes(const Tensor& t) { return static_cast<char*>(t.impl()->data); }
  // f() while every rank's tensor stands still.
  template <class F>
  void meet(const Tensor& t, const F& f) {
    meeting_.tensors[rank_] = &t;
    meeting_.all.arrive_and_wait();
    f();
    meeting_.all.arrive_and_wait();
  }

  Meeting& meeting_;
  i64 rank_;
};

struct Net : nn::Module<Net> {
  nn::Linear a = add("a", nn::Linear{7, 33});
  nn::Linear b = add("b", nn::Linear{33, 3});
  nn::Linear unused = add("unused", nn::Linear{2, 2});
  Tensor forward(const Tensor& x) { return b(tanh(a(x))); }
};

using Make = std::function<std::unique_ptr<optim::Optimizer>(Net&)>;
using Values = std::vector<std::vector<double>>;

Values values_of(const std::vector<nn::NamedTensor>& all) {
  Values v;
  for (const nn::NamedTensor& t : all) v.push_back(t.tensor.to_vector<double>());
  return v;
}

struct Trained {
  Values parameters, state;
};

void steps(Net& net, optim::Optimizer& opt, int from, int to, double clip) {
  for (int k = from; k < to; ++k) {
    manual_seed(u64(100 + k));
    opt.zero_grad();
    square(net(rand({4, 7})) - rand({4, 3})).sum().backward();
    // The third one is skipped.
    const Tensor skip = tensor(k == 2 ? 1 : 0, {.dtype = DType::i32});
    const Tensor factor = clip > 0 ? optim::clip_factor(opt, clip) : Tensor();
    opt.step({.grad_factor = factor, .skip = skip});
  }
}

Trained train(const Make& make, double clip, double ema, Meeting* meeting, i64 rank) {
  manual_seed(1);
  Net net;
  const auto opt = make(net);
  if (meeting) opt->shard(std::make_shared<Pieces>(*meeting, rank));
  if (ema > 0) opt->track_ema(ema);
  steps(net, *opt, 0, 6, clip);
  Trained t{values_of(net.named_parameters()), {}};
  t.state = values_of(opt->state());
  return t;
}

std::vector<Trained> train_sharded(const Make& make, double clip, double ema) {
  Meeting meeting;
  std::vector<Trained> got(kWorld);
  std::vector<std::thread> ranks;
  for (i64 r = 0; r < kWorld; ++r)
    ranks.emplace_back([&, r] { got[size_t(r)] = train(make, clip, ema, &meeting, r); });
  for (std::thread& t : ranks) t.join();
  return got;
}

template <class Opt, class Options>
Make of(Options o) {
  return [o](Net& net) { return std::make_unique<Opt>(net, o); };
}

// f(rank, its sharding) on a thread a rank.
void on_ranks(const std::function<void(i64, std::shared_ptr<optim::Sharding>)>& f) {
  Meeting meeting;
  std::vector<std::thread> ranks;
  for (i64 r = 0; r < kWorld; ++r)
    ranks.emplace_back([&, r] { f(r, std::make_shared<Pieces>(meeting, r)); });
  for (std::thread& t : ranks) t.join();
}

}  // namespace

TEST_CASE("sharded state: every elementwise rule makes the same steps, bit by bit") {
  const std::pair<const char*, Make> rules[] = {
      {"sgd", of<optim::Sgd>(optim::SgdOptions{.lr = 0.1, .momentum = 0.9})},
      {"plain sgd", of<optim::Sgd>(optim::SgdOptions{.lr = 0.1})},
      {"adam", of<optim::Adam>(optim::AdamOptions{.lr = 0.01, .amsgrad = true})},
      {"adamw in groups",
       of<optim::AdamW>(optim::AdamWOptions{
           .lr = 0.01, .groups = {{.names = {"*.bias"}, .lr = 0.02, .weight_decay = 0}}})},
      {"nadam", of<optim::NAdam>(optim::NAdamOptions{.lr = 0.01})},
      {"radam", of<optim::RAdam>(optim::RAdamOptions{.lr = 0.01})},
      {"adagrad",
       of<optim::Adagrad>(optim::AdagradOptions{.lr = 0.1, .initial_accumulator_value = 0.5})},
      {"rmsprop",
       of<optim::RmsProp>(optim::RmsPropOptions{.lr = 0.01, .momentum = 0.9, .centered = true})},
      {"adamax", of<optim::Adamax>(optim::AdamaxOptions{.lr = 0.01})},
      {"adadelta", of<optim::Adadelta>(optim::AdadeltaOptions{})},
      {"rprop", of<optim::Rprop>(optim::RpropOptions{.lr = 0.001})},
      {"lion", of<optim::Lion>(optim::LionOptions{.lr = 0.01})}};
  for (const auto& [name, make] : rules) {
    CAPTURE(name);
    for (const double ema : {0.0, 0.9}) {
      const Trained whole = train(make, 0, ema, nullptr, 0);
      for (const Trained& rank : train_sharded(make, 0, ema)) {
        CHECK(rank.parameters == whole.parameters);
        CHECK(rank.state == whole.state);
      }
    }
  }
}

TEST_CASE("sharded state: the norm is that of all ranks' pieces") {
  const Make make = of<optim::Sgd>(optim::SgdOptions{.lr = 0.1});
  const Trained whole = train(make, 0.5, 0, nullptr, 0);
  const std::vector<Trained> got = train_sharded(make, 0.5, 0);
  CHECK(got[0].parameters == got[1].parameters);
  REQUIRE(got[0].parameters.size() == whole.parameters.size());
  // Its sum of squares is added up in other groups: f64 of some 300 numbers, then 6 steps of f32.
  for (size_t i = 0; i < whole.parameters.size(); ++i)
    for (size_t k = 0; k < whole.parameters[i].size(); ++k)
      CHECK(got[0].parameters[i][k] == Approx(whole.parameters[i][k]).epsilon(1e-6).margin(1e-6));
}

TEST_CASE("sharded state: takes its part of the memory, goes into a checkpoint whole and back") {
  on_ranks([](i64 rank, const std::shared_ptr<optim::Sharding>& shards) {
    manual_seed(1);
    Net net, other;
    optim::AdamW opt{net, {.lr = 0.01}}, alone{other, {.lr = 0.01}};
    const auto bytes = [&](const optim::AdamW& o) { return o.arenas().all()[0].state[0]->bytes; };
    const i64 before = bytes(opt);
    steps(net, opt, 0, 2, 0);
    opt.shard(shards);  // in the middle of a training
    REQUIRE(before > 0);
    i64 kept = 0;
    for (const nn::NamedTensor& p : opt.parameters())
      kept += Pieces::filled((p.tensor.numel() + 63) / 64 * 64) / kWorld * 4;
    CHECK(bytes(opt) == kept);
    steps(net, opt, 3, 5, 0);
    const std::vector<nn::NamedTensor> saved = opt.state();
    // Loaded where all of it is kept, it goes on alike.
    other.load_state_dict(net.state_dict());
    alone.load_state(saved);
    CHECK(values_of(alone.state()) == values_of(saved));
    steps(net, opt, 5, 7, 0);
    steps(other, alone, 5, 7, 0);
    CHECK(values_of(net.named_parameters()) == values_of(other.named_parameters()));
    // And the other way.
    net.load_state_dict(other.state_dict());
    opt.load_state(alone.state());
    steps(net, opt, 7, 9, 0);
    steps(other, alone, 7, 9, 0);
    CHECK(values_of(net.named_parameters()) == values_of(other.named_parameters()));
    CHECK(values_of(opt.state()) == values_of(alone.state()));
    opt.keep_half(DType::f16);
    steps(net, opt, 9, 10, 0);
    alone.keep_half(DType::f16);
    steps(other, alone, 9, 10, 0);
    const auto half = [](const optim::AdamW& o) {
      std::vector<double> all;
      for (const auto& s : o.arenas().all()[0].slots)
        for (const double v : s.half.to_vector<double>()) all.push_back(v);
      return all;
    };
    CHECK(half(opt) == half(alone));
    CHECK(rank == shards->rank());
  });
}

TEST_CASE("sharded state: a parameter that joins late counts its own steps, bit by bit") {
  const auto train_late = [](Meeting* meeting, i64 rank) {
    manual_seed(1);
    Net net;
    optim::NAdam opt{net, {.lr = 0.01, .groups = {{.names = {"*.bias"}, .lr = 0.02}}}};
    if (meeting) opt.shard(std::make_shared<Pieces>(*meeting, rank));
    for (int k = 0; k < 9; ++k) {
      manual_seed(u64(100 + k));
      opt.zero_grad();
      Tensor loss = square(net(rand({4, 7}))).sum();
      if (k >= 4 && k != 6) loss = loss + square(net.unused(rand({4, 2}))).sum();
      loss.backward();
      opt.step({.skip = tensor(k == 5 ? 1 : 0, {.dtype = DType::i32})});
      if (k == 7 && meeting) {  // all of it, and in parts again
        opt.shard(nullptr);
        opt.shard(std::make_shared<Pieces>(*meeting, rank));
      }
    }
    CHECK(opt.applied("unused.weight") == 3);
    Trained t{values_of(net.named_parameters()), {}};
    const std::vector<nn::NamedTensor> state = opt.state();
    t.state = values_of(state);
    opt.load_state(state);
    CHECK(values_of(opt.state()) == t.state);
    CHECK(opt.applied("unused.bias") == 3);
    return t;
  };
  const Trained whole = train_late(nullptr, 0);
  Meeting meeting;
  std::vector<Trained> got(kWorld);
  std::vector<std::thread> ranks;
  for (i64 r = 0; r < kWorld; ++r)
    ranks.emplace_back([&, r] { got[size_t(r)] = train_late(&meeting, r); });
  for (std::thread& t : ranks) t.join();
  for (const Trained& rank : got) {
    CHECK(rank.parameters == whole.parameters);
    CHECK(rank.state == whole.state);
  }
}

TEST_CASE("sharded state: what it is not for") {
  on_ranks([](i64, const std::shared_ptr<optim::Sharding>& shards) {
    manual_seed(1);
    Net net, other;
    optim::Muon muon{net};
    CHECK(mentions(message_of([&] { muon.shard(shards); }),
                   "[shard] Muon needs whole matrices on every rank"));
    optim::Sgd opt{other};
    opt.shard(shards);
    other(rand({4, 7})).sum().backward();
    CHECK(mentions(message_of([&] { optim::gradient_exponents(opt); }),
                   "[gradient_exponents] the optimizer's state is in parts"));
  });
}
