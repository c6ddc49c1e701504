// What the tests of TrainStep train, and all that a step may change.
#pragma once
#include <array>
#include <memory>

#include "warptape/autograd/ops/dropout.h"
#include "warptape/autograd/ops/matmul.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/mailbox.h"
#include "warptape/core/memory/copy_bytes.h"
#include "warptape/core/stream.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"

namespace wt_test {
using namespace wt;

struct Pair {
  Tensor x, y;
  i64 size() const { return x.size(0); }
  Pair narrow(i64 begin, i64 n) const { return {x.narrow(0, begin, n), y.narrow(0, begin, n)}; }
  std::array<Tensor*, 2> tensors() { return {&x, &y}; }
};

// What nn::Loss is to TrainStep.
struct SumAndWeight {
  Tensor sum, weight;
};

// Two layers with noise between them and a running mean, in f64.
struct Net : nn::Module<Net> {
  nn::Param w1 = add("w1", rand({4, 8}, {.dtype = f64}));
  nn::Param w2 = add("w2", rand({8, 1}, {.dtype = f64}));
  nn::Buffer running = add_buffer("running", zeros({8}, {.dtype = f64}));
  nn::Buffer constant = add_buffer("constant", ones({3}, {.dtype = f64}));
  bool noisy = true;

  Tensor forward(Tensor x) {
    Tensor h = relu(matmul(x, w1));
    {
      const NoGrad no_grad;
      Tensor r = running.tensor();
      r.copy_(wt::add(mul(r, 0.9), mul(mean(h, 0), 0.1)));
    }
    if (noisy) h = dropout(mul(h, rand(h.shape(), {.dtype = f64, .device = h.device()})), 0.25);
    return matmul(h, w2);
  }
};

inline Tensor squares(Net& net, const Pair& b) {
  Tensor e = add(net(b.x), mul(b.y, -1.0));
  return sum(mul(e, e));
}
inline SumAndWeight loss_of(Net& net, const Pair& b) {
  return {squares(net, b), tensor(double(b.size()), {.dtype = f64, .device = b.x.device()})};
}

inline Pair data(i64 n, u64 seed = 5) {
  Generator g(seed);
  Generator* const before = mode.generator;
  mode.generator = &g;
  Pair p{rand({n, 4}, {.dtype = f64}), rand({n, 1}, {.dtype = f64})};
  mode.generator = before;
  return p;
}

// All that a step may change.
struct State {
  std::vector<std::vector<double>> values;
  Generator random;
  friend bool operator==(const State&, const State&) = default;
};
inline State state_of(const Net& net, const optim::Optimizer& opt) {
  State s{{}, generator()};
  for (const auto& t : net.state_dict()) s.values.push_back(t.tensor.to_vector<double>());
  for (const auto& t : opt.state()) s.values.push_back(t.tensor.to_vector<double>());
  return s;
}

struct Setup {
  Net net;
  std::unique_ptr<optim::AdamW> opt;
  explicit Setup(Device d = Device::cpu(), u64 seed = 1) : net((manual_seed(seed), Net())) {
    net.to(d);
    opt = std::make_unique<optim::AdamW>(net, optim::AdamWOptions{.lr = 0.05});
  }
};

// Where the host hears late of a step that was refused, that counts as attempted, and only
// dropout's random state is taken back.
inline State known_late(Device d, State after, const State& before) {
  if (!stream_backend(d)) return after;
  after.random = before.random;
  after.values.back() = before.values.back();  // optim.attempted
  return after;
}

// An operator whose kernel met a bad label.
inline void raise_mailbox(Device d) {
  const MailboxRecord r{i32(MailboxCode::label_out_of_range), 0, 3, 17, 10};
  copy_bytes(mailbox_of(d), d, &r, Device::cpu(), sizeof r);
}

}  // namespace wt_test
