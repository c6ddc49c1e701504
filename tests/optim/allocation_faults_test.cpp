// Strong guarantees by fault injection: the Nth allocation of a call fails, for every N until none
// does; what the call could change is bit for bit as before, nothing leaks, and the try that
// succeeds ends as if there had been no failure. TrainStep itself is in train_step_test.cpp,
// load_state_dict in tests/nn.
#include <array>
#include <functional>

#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/factories.h"
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/data/combine.h"
#include "warptape/data/loader.h"
#include "warptape/data/synthetic.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/nn/evaluate.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/clip.h"
#include "warptape/optim/lbfgs.h"
#include "warptape/optim/more_rules.h"
#include "warptape/optim/muon.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/temp_dir.h"

using namespace wt;

namespace {

using Bytes = std::vector<std::vector<u8>>;

void append(Bytes& out, const Tensor& t) {
  const Tensor c = t.to(Device::cpu()).contiguous();
  const u8* const p = static_cast<const u8*>(c.impl()->data);
  out.emplace_back(p, p + c.numel() * item_size(c.dtype()));
}

struct Net : nn::Module<Net> {
  nn::Linear one = add("one", nn::Linear{6, 5});
  nn::BatchNorm1d norm = add("norm", nn::BatchNorm1d{5});
  nn::Dropout drop = add("drop", nn::Dropout{0.2});
  nn::Linear two = add("two", nn::Linear{5, 3});
  Tensor forward(Tensor x) { return two(drop(relu(norm(one(std::move(x)))))); }
};

// A model and an optimizer that has made two steps, with gradients waiting for the third.
struct Setup {
  Net net;
  std::unique_ptr<optim::Optimizer> opt;
  Tensor x, y;

  using Make = std::function<std::unique_ptr<optim::Optimizer>(const Net&)>;
  explicit Setup(const Make& make, Device d = Device::cpu()) : net((manual_seed(3), Net())) {
    net.to(d);
    opt = make(net);
    x = rand({8, 6}).to(d), y = tensor(std::vector<i64>{0, 1, 2, 0, 1, 2, 0, 1}).to(d);
    for (int i = 0; i < 2; ++i) {
      backward();
      opt->step();
    }
    backward();
  }
  void backward() {
    opt->zero_grad();
    cross_entropy(net(x), y).backward();
  }

  Bytes state() const {
    Bytes out;
    for (const auto& t : net.state_dict()) append(out, t.tensor);
    for (const auto& t : opt->state()) append(out, t.tensor);
    for (const auto& t : net.named_parameters())
      if (t.tensor.grad().defined()) append(out, t.tensor.grad());
    return out;
  }
};

template <class O, class Options>
Setup::Make maker(Options o) {
  return [o](const Net& net) { return std::make_unique<O>(net, o); };
}

const std::vector<std::pair<const char*, Setup::Make>>& optimizers() {
  static const std::vector<std::pair<const char*, Setup::Make>> all{
      {"sgd", maker<optim::Sgd>(optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true})},
      {"adam", maker<optim::Adam>(optim::AdamOptions{.lr = 0.01, .weight_decay = 0.1})},
      {"adamw", maker<optim::AdamW>(optim::AdamWOptions{
                    .lr = 0.01, .groups = {{.names = {"*.bias"}, .weight_decay = 0}}})},
      {"adagrad", maker<optim::Adagrad>(optim::AdagradOptions{})},
      {"rmsprop", maker<optim::RmsProp>(optim::RmsPropOptions{.momentum = 0.9, .centered = true})},
      {"lion", maker<optim::Lion>(optim::LionOptions{.lr = 0.01})},
      {"nadam", maker<optim::NAdam>(optim::NAdamOptions{})},
      {"radam", maker<optim::RAdam>(optim::RAdamOptions{})},
      {"adamax", maker<optim::Adamax>(optim::AdamaxOptions{})},
      {"adadelta", maker<optim::Adadelta>(optim::AdadeltaOptions{})},
      {"rprop", maker<optim::Rprop>(optim::RpropOptions{})},
      {"amsgrad", maker<optim::AdamW>(optim::AdamWOptions{.amsgrad = true})},
      {"muon", maker<optim::Muon>(optim::MuonOptions{})}};
  return all;
}

// Calls `call` with its first, second, ... allocation failing until it succeeds; returns the number
// of failures. `prepares`: a call that fails may leave behind what the next one finds ready.
template <class State, class Call>
u64 fail_every(State state, Call call, bool prepares = false) {
  for (u64 n = 1;; ++n) {
    CAPTURE(n);
    REQUIRE(n < 2000);
    const auto before = state();
    const auto live = memory::live_objects();
    memory::fail_nth_request(n);
    bool failed = false;
    try {
      call();
    } catch (const OutOfMemory&) {
      failed = true;
    }
    memory::fail_nth_request(0);
    if (!failed) return n - 1;
    const bool unchanged = state() == before;  // not shown: thousands of bytes
    REQUIRE(unchanged);
    if (!prepares) REQUIRE(memory::live_objects() == live);
  }
}

}  // namespace

TEST_CASE("allocation faults: a step of every optimizer", "[optim]") {
  for (const auto& [name, make] : optimizers()) {
    CAPTURE(name);
    const LeakGuard guard;
    Setup s(make), plain(make);
    fail_every([&] { return s.state(); },
               [&] { s.opt->step({.grad_factor = optim::clip_factor(*s.opt, 0.5)}); });
    plain.opt->step({.grad_factor = optim::clip_factor(*plain.opt, 0.5)});
    CHECK((s.state() == plain.state()));
    CHECK(s.opt->applied() == 3);
  }
}

TEST_CASE("allocation faults: forward and backward leave weights and optimizer alone", "[optim]") {
  const LeakGuard guard;
  Setup s(optimizers()[2].second);
  s.net.eval();  // in training the running statistics are the forward's business
  const auto weights = [&] {
    Bytes out;
    for (const auto& t : s.net.state_dict()) append(out, t.tensor);
    for (const auto& t : s.opt->state()) append(out, t.tensor);
    return out;
  };
  const u64 failures = fail_every(weights, [&] { s.backward(); });
  CHECK(failures > 5);
  s.opt->step();
  CHECK(s.opt->applied() == 3);
}

TEST_CASE("allocation faults: zero_grad, both kinds", "[optim]") {
  for (const bool none : {false, true}) {
    CAPTURE(none);
    const LeakGuard guard;
    Setup s(optimizers()[0].second);
    fail_every([&] { return s.state(); }, [&] { s.opt->zero_grad({.set_to_none = none}); });
    for (const auto& t : s.net.named_parameters()) {
      const Tensor g = t.tensor.grad();
      CHECK(g.defined() == !none);
      if (g.defined()) CHECK(g.to_vector<float>() == std::vector<float>(size_t(g.numel()), 0.0f));
    }
  }
}

TEST_CASE("allocation faults: load_state of every optimizer", "[optim]") {
  for (const auto& [name, make] : optimizers()) {
    CAPTURE(name);
    const LeakGuard guard;
    Setup s(make), other(make);
    other.opt->step();
    std::vector<nn::NamedTensor> values;  // in another dtype: every one has to be converted
    for (const auto& t : other.opt->state())
      values.push_back({t.name, t.tensor.dtype() == f32 ? t.tensor.to(f64) : t.tensor.clone()});
    CHECK(fail_every([&] { return s.state(); }, [&] { s.opt->load_state(values); }) > 0);
    CHECK(s.opt->applied() == 3);
  }
}

TEST_CASE("allocation faults: the average of the weights begins, and takes the weights' place",
          "[optim]") {
  const LeakGuard guard;
  Setup s(optimizers()[1].second);
  const auto state = [&] {
    Bytes out = s.state();
    out.push_back({u8(s.opt->has_ema())});
    return out;
  };
  CHECK(fail_every(state, [&] { s.opt->track_ema(0.9); }) > 0);
  REQUIRE(s.opt->has_ema());
  s.opt->step();
  s.backward();
  const Bytes before = state();
  CHECK(fail_every(state, [&] { const optim::EmaScope scope(*s.opt); }) > 0);
  CHECK((state() == before));  // the scope is closed again
  s.opt->step();               // would throw inside one
}

TEST_CASE("allocation faults: clipping in place", "[optim]") {
  const LeakGuard guard;
  Setup s(optimizers()[0].second);
  fail_every([&] { return s.state(); }, [&] { (void)optim::clip_grad_norm_(s.net, 0.01); });
  fail_every([&] { return s.state(); },
             [&] { (void)optim::clip_grad_norm_(s.net, 0.01, {.norm_type = 3}); });
  fail_every([&] { return s.state(); }, [&] { optim::clip_grad_value_(s.net, 1e-4); });
}

TEST_CASE("allocation faults: a whole step with average, schedule and clipping", "[optim]") {
  const LeakGuard guard;
  Setup s(optimizers()[2].second), plain(optimizers()[2].second);
  const TrainStepOptions options{.micro_batches = 2,
                                 .clip_norm = 0.5,
                                 .schedule = optim::warmup(5, optim::cosine(10)),
                                 .ema_decay = 0.9};
  TrainStep step{s.net, *s.opt, options}, plain_step{plain.net, *plain.opt, options};
  const auto run = [](TrainStep& t, Setup& of) {
    t(data::Batch{of.x, of.y}, [&](const data::Batch& b) {
      return cross_entropy(of.net(b.x), b.y);
    }).loss();
  };
  manual_seed(5);
  run(step, s);
  const auto state = [&] {
    Bytes out;
    for (const auto& t : s.net.state_dict()) append(out, t.tensor);
    for (const auto& t : s.opt->state()) append(out, t.tensor);
    for (const RandomStream r : {RandomStream::init, RandomStream::dropout, RandomStream::user})
      out.push_back({u8(generator().calls(r)), u8(generator().calls(r) >> 8)});
    return out;
  };
  CHECK(fail_every(state, [&] { run(step, s); }) > 10);
  const Bytes after = state();
  manual_seed(5);
  run(plain_step, plain);
  run(plain_step, plain);
  Bytes wanted;
  for (const auto& t : plain.net.state_dict()) append(wanted, t.tensor);
  for (const auto& t : plain.opt->state()) append(wanted, t.tensor);
  CHECK((Bytes(after.begin(), after.begin() + std::ptrdiff_t(wanted.size())) == wanted));
}

TEST_CASE("allocation faults: steps in 16 bits and as graphs: scaler and random numbers too",
          "[optim]") {
  struct Case {
    Device device;
    DType precision;
    bool graph;
  };
  const Case c = GENERATE(Case{Device::cpu(), f16, false}, Case{Device::cpu(), bf16, false},
                          Case{Device::simt(), f16, false}, Case{Device::simt(), f32, true},
                          Case{Device::simt(), f16, true});
  CAPTURE(to_string(c.device), dtype_name(c.precision), c.graph);
  ready(c.device);
  const LeakGuard guard;
  // The states after each of seven steps; the third overflows in f16, so that the scale moves. The
  // first ones make what stays: 16-bit weights, the scaler's memory, the graph and its batch.
  constexpr int kSteps = 7, kPrepare = 4;
  const auto train = [&](bool faults) {
    const memory::LiveObjects before = memory::live_objects();
    Setup s(optimizers()[2].second, c.device);
    TrainStep step{s.net,
                   *s.opt,
                   {.precision = c.precision,
                    .micro_batches = 2,
                    .clip_norm = 0.5,
                    .schedule = optim::warmup(5, optim::cosine(10)),
                    .graph = c.graph,
                    .on_nonfinite = NonFinite::skip,
                    .loss_scale = {.growth_interval = 2}}};
    manual_seed(5);
    const data::Batch good{s.x, s.y}, huge{mul(s.x, 1e30), s.y};
    int i = 0;
    const auto state = [&] {
      Bytes out;
      step.sync_random();
      for (const auto& t : s.net.state_dict()) append(out, t.tensor);
      for (const auto& t : s.opt->state()) append(out, t.tensor);
      if (c.precision == f16)
        for (const auto& t : step.scaler().state_dict()) append(out, t.tensor);
      for (const RandomStream r : {RandomStream::init, RandomStream::dropout, RandomStream::user})
        out.push_back({u8(generator().calls(r)), u8(generator().calls(r) >> 8)});
      return out;
    };
    const auto once = [&] {
      (void)step(i == 2 ? huge : good, [&](const data::Batch& b) {
        return cross_entropy(s.net(b.x), b.y);
      }).read();
    };
    std::vector<Bytes> states;
    u64 failures = 0;
    for (; i < kSteps; ++i) {
      if (faults)
        failures += fail_every(state, once, i < kPrepare);
      else
        once();
      states.push_back(state());
      if (i < kPrepare) continue;
      const memory::LiveObjects live = memory::live_objects();
      states.back().push_back({u8(live.tensors - before.tensors), u8(live.nodes - before.nodes),
                               u8(live.storages - before.storages)});
    }
    CHECK(step.captures() == (c.graph ? 1 : 0));
    if (c.precision == f16) CHECK(s.opt->applied() == 2 + kSteps - 1);
    if (faults) CHECK(failures > 50);
    return states;
  };
  const std::vector<Bytes> plain = train(false), faulty = train(true);
  for (size_t i = 0; i < plain.size(); ++i) {
    CAPTURE(i);
    CHECK((plain[i] == faulty[i]));
  }
}

TEST_CASE("allocation faults: a loader stays where it was, and gives the same batch then",
          "[optim][data]") {
  for (const int workers : {0, 2}) {
    CAPTURE(workers);
    const data::LoaderOptions o{.batch = 4, .shuffle = true, .seed = 9, .workers = workers};
    const data::SyntheticImagesOptions images{.samples = 10, .height = 4, .width = 4};
    data::Loader<data::SyntheticImages> loader(data::SyntheticImages{images}, o);
    data::Loader<data::SyntheticImages> plain(data::SyntheticImages{images}, o);
    data::Batch got, wanted;
    u64 failures = 0;
    for (int i = 0; i < 7; ++i) {  // over the end of an epoch
      bool more = false;
      failures += fail_every(
          [&] {
            return std::array<i64, 2>{loader.state().epoch, loader.state().batch};
          },
          [&] { more = loader.next(got); });
      REQUIRE(more == plain.next(wanted));
      if (!more) continue;
      CHECK(got.x.to_vector<float>() == wanted.x.to_vector<float>());
      CHECK(got.y.to_vector<i64>() == wanted.y.to_vector<i64>());
    }
    if (workers == 0) CHECK(failures > 5);  // workers allocate in their own threads
  }
}

TEST_CASE("allocation faults: evaluate puts modes and positions back", "[optim]") {
  const LeakGuard guard;
  Setup s(optimizers()[0].second);
  data::Loader<data::TensorDataset> loader(data::TensorDataset{s.x.clone(), s.y.clone()},
                                           {.batch = 3});
  data::Batch batch;
  loader.next(batch);
  s.net.train();
  s.net.drop.eval();
  const auto state = [&] {
    Bytes out = s.state();
    out.push_back({u8(s.net.is_training()), u8(s.net.drop.is_training()), u8(loader.state().batch),
                   u8(mode.grad)});
    return out;
  };
  const Bytes before = state();
  const u64 failures = fail_every(state, [&] {
    metrics::Accuracy accuracy;  // keeps what it counted until the failure
    (void)evaluate(s.net, loader, accuracy);
  });
  CHECK(failures > 5);
  CHECK((state() == before));
}

TEST_CASE("allocation faults: saving keeps the old file", "[optim]") {
  const LeakGuard guard;
  const TempDir dir;
  Setup s(optimizers()[2].second);
  const std::string path = dir / "f";
  nn::save_tensors(path, s.net.state_dict());
  s.opt->step();
  std::vector<nn::NamedTensor> state;  // not dense: a copy is needed
  for (const auto& t : s.net.state_dict())
    state.push_back({t.name, t.tensor.ndim() == 2 ? t.tensor.t() : t.tensor});
  const u64 failures =
      fail_every([&] { return slurp(path); }, [&] { nn::save_tensors(path, state); });
  CHECK(failures > 0);
  CHECK(dir.count() == 1);
  CHECK(nn::load_tensors(path).tensors.size() == state.size());
}

TEST_CASE("allocation faults: loading a file has loaded all or nothing", "[optim]") {
  const LeakGuard guard;
  const TempDir dir;
  Setup s(optimizers()[2].second), other(optimizers()[2].second);
  other.opt->step();
  nn::save_tensors(dir / "f", other.net.state_dict());
  CHECK(fail_every([&] { return s.state(); },
                   [&] { s.net.load_state_dict(nn::load_tensors(dir / "f").tensors); }) > 3);
  CHECK(s.net.one.weight.tensor().to_vector<float>() ==
        other.net.one.weight.tensor().to_vector<float>());
}

TEST_CASE("allocation faults: a step of L-BFGS", "[optim]") {
  for (const auto search : {optim::LineSearch::none, optim::LineSearch::strong_wolfe}) {
    const LeakGuard guard;
    struct Model {
      Net net;
      optim::Lbfgs opt;
      Tensor x, y;
      explicit Model(optim::LineSearch search)
          : net((manual_seed(3), Net())),
            opt(net, {.lr = 0.5, .max_iter = 4, .line_search = search}),
            x(rand({8, 6})),
            y(tensor(std::vector<i64>{0, 1, 2, 0, 1, 2, 0, 1})) {
        net.eval();
        step();
      }
      void step() {
        opt.step([&] {
          opt.zero_grad();
          Loss loss = cross_entropy(net(x), y);
          loss.backward();
          return loss;
        });
      }
      Bytes state() const {
        Bytes out;
        for (const auto& t : net.state_dict()) append(out, t.tensor);
        for (const auto& t : opt.state()) append(out, t.tensor);
        return out;
      }
    };
    Model m(search), plain(search);
    CHECK(fail_every([&] { return m.state(); }, [&] { m.step(); }) > 10);
    plain.step();
    CHECK((m.state() == plain.state()));
  }
}
