// Collectives as operators: values, derivatives against finite differences over all ranks, errors.
#include "warptape/dist/ops.h"

#include <cmath>
#include <functional>
#include <vector>

#include "warptape/autograd/checkpoint.h"
#include "warptape/autograd/grads.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/autograd/ops/reduce.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/dist/spawn.h"
#include "warptape/tests/dist/expect.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/values.h"

using namespace wt;
using namespace wt::dist;

namespace {

using OnTensor = std::function<Tensor(const Tensor&)>;

// 1 + rank, 2 + rank, ... as f64: other values on each rank, without drawing.
Tensor ramp(const Communicator& comm, const Shape& shape) {
  i64 n = 1;
  for (i64 s : shape) n *= s;
  return (arange(n, {.dtype = f64}) * 0.25 + (1.0 + comm.rank())).reshape(shape);
}

// Of a rank's loss: any that differ from rank to rank and from element to element.
Tensor weights(const Communicator& comm, const Tensor& y) {
  return sin(arange(y.numel(), {.dtype = f64}) + (1.0 + 10.0 * comm.rank())).reshape(y.shape());
}

// The sum over ranks of sum(w tanh(f(x))), of which every rank hears.
double total_loss(Communicator& comm, const OnTensor& f, const Tensor& x) {
  const NoGrad no_grad;
  const Tensor y = f(x);
  const Tensor loss = sum(weights(comm, y) * tanh(y * 0.3));
  comm.all_reduce(loss);
  return loss.item();
}

// How far the gradient of that sum is from central differences, at most, over this rank's x.
double distance_to_differences(Communicator& comm, const OnTensor& f, Tensor x) {
  x.set_requires_grad();
  const Tensor y = f(x);
  sum(weights(comm, y) * tanh(y * 0.3)).backward();
  const Values g = values(x.grad()), at = values(x);
  constexpr double kStep = 1e-5;
  double worst = 0;
  for (int r = 0; r < comm.size(); ++r)
    for (size_t i = 0; i < at.size(); ++i) {
      const auto moved = [&](double by) {
        Values v = at;
        if (comm.rank() == r) v[i] += by;
        return total_loss(comm, f, tensor(v).reshape(x.shape()));
      };
      const double numeric = (moved(kStep) - moved(-kStep)) / (2 * kStep);
      if (comm.rank() == r) worst = std::max(worst, std::abs(numeric - g[i]));
    }
  return worst;
}

struct Case {
  std::string name;
  Shape shape;
  std::function<Tensor(Communicator&, const Tensor&)> call;
};
std::vector<Case> cases(int ranks) {
  const i64 n = ranks;
  return {
      {"all_reduce", {2, 3}, [](Communicator& c, const Tensor& x) { return all_reduce(c, x); }},
      {"all_reduce of one element",
       {},
       [](Communicator& c, const Tensor& x) { return all_reduce(c, x); }},
      {"all_reduce, mean",
       {3},
       [](Communicator& c, const Tensor& x) { return all_reduce(c, x, ReduceOp::mean); }},
      {"all_gather", {2, 2}, [](Communicator& c, const Tensor& x) { return all_gather(c, x); }},
      {"all_gather of 0-d", {}, [](Communicator& c, const Tensor& x) { return all_gather(c, x); }},
      {"reduce_scatter",
       {n, 2},
       [](Communicator& c, const Tensor& x) { return reduce_scatter(c, x); }},
      {"reduce_scatter, mean",
       {2 * n},
       [](Communicator& c, const Tensor& x) { return reduce_scatter(c, x, ReduceOp::mean); }},
      {"broadcast",
       {3},
       [](Communicator& c, const Tensor& x) { return broadcast(c, x, c.size() - 1); }},
      {"reduce", {3}, [](Communicator& c, const Tensor& x) { return reduce(c, x, 1); }},
      {"all_reduce of a transposed tensor",
       {2, 3},
       [](Communicator& c, const Tensor& x) { return all_reduce(c, (x * x).transpose(0, 1)); }},
      {"a sum of two, of which one is walked first",
       {n},
       [](Communicator& c, const Tensor& x) {
         const Tensor a = all_reduce(c, x * x), b = all_gather(c, sin(x));
         return sum(b) * a + reduce_scatter(c, a);
       }},
  };
}

}  // namespace

TEST_CASE("dist ops: values") {
  const LeakGuard guard;
  Expect expect;
  spawn(3, [&](Communicator& comm) {
    const int r = comm.rank();
    const Tensor x = tensor({1.0 + r, 10.0 * r}, {.dtype = f64});
    expect(values(all_reduce(comm, x)) == Values{6, 30}, "all_reduce");
    expect(values(all_reduce(comm, x, ReduceOp::mean)) == Values{2, 10}, "all_reduce, mean");
    expect(values(all_reduce(comm, x, ReduceOp::max)) == Values{3, 20}, "all_reduce, max");
    expect(values(all_gather(comm, x)) == Values{1, 0, 2, 10, 3, 20}, "all_gather");
    expect(all_gather(comm, x[0]).shape() == Shape{3}, "all_gather of 0-d");
    const Tensor rows = tensor({{1, 2}, {3, 4}, {5, 6}}, {.dtype = f64});
    const Tensor part = reduce_scatter(comm, rows * (1.0 + r));
    expect(part.shape() == Shape{1, 2}, "reduce_scatter, shape");
    expect(values(part) == Values{6.0 * (1 + 2 * r), 6.0 * (2 + 2 * r)}, "reduce_scatter");
    expect(values(broadcast(comm, x, 2)) == Values{3, 20}, "broadcast");
    expect(values(reduce(comm, x, 1)) == (r == 1 ? Values{6, 30} : Values{0, 0}), "reduce");
    expect(values(x) == Values{1.0 + r, 10.0 * r}, "operands stay as they are");
    const Tensor none = all_gather(comm, zeros({0, 4}));
    expect(none.shape() == Shape{0, 4}, "all_gather of nothing");
    const Tensor whole = all_reduce(comm, tensor({r, 2}, {.dtype = DType::i64}));
    expect(values(whole) == Values{3, 6}, "all_reduce of integers");
  });
  expect.report();
}

TEST_CASE("dist ops: first derivatives against finite differences over all ranks") {
  const LeakGuard guard;
  const int ranks = GENERATE(2, 3);
  Expect expect;
  spawn(ranks, [&](Communicator& comm) {
    for (const Case& c : cases(comm.size())) {
      const double d = distance_to_differences(
          comm, [&](const Tensor& x) { return c.call(comm, x); }, ramp(comm, c.shape));
      expect(d < 1e-7, c.name + ": off by " + std::to_string(d));
    }
  });
  expect.report();
}

TEST_CASE("dist ops: second derivatives are those of the first one's differences") {
  const LeakGuard guard;
  Expect expect;
  spawn(2, [&](Communicator& comm) {
    for (const Case& c : cases(comm.size())) {
      // The gradient of the sum of losses as a function of x, whose squares are then the loss.
      const auto slope = [&](const Tensor& x) {
        const EnableGrad recording;
        Tensor at = x.requires_grad() ? x : x.detach();
        if (!at.requires_grad()) at.set_requires_grad();
        const Tensor y = c.call(comm, at);
        return grad(sum(weights(comm, y) * tanh(y * 0.3)), at, {.create_graph = true});
      };
      const double d = distance_to_differences(comm, slope, ramp(comm, c.shape));
      expect(d < 1e-6, c.name + ": off by " + std::to_string(d));
    }
  });
  expect.report();
}

TEST_CASE("dist ops: a checkpoint makes its collectives again, on every rank in one place") {
  const LeakGuard guard;
  Expect expect;
  spawn(2, [&](Communicator& comm) {
    const auto part = [&](const Tensor& v) { return tanh(all_reduce(comm, exp(v))); };
    const Tensor x = ramp(comm, {3}).set_requires_grad();
    const Tensor plain = grad(sum(part(x)), x), again = grad(sum(checkpoint(part, x)), x);
    expect(values(plain) == values(again), "the same gradient");
  });
  expect.report();
}

TEST_CASE("dist ops: send and recv carry values forth and gradients back") {
  const LeakGuard guard;
  Expect expect;
  spawn(2, [&](Communicator& comm) {
    if (comm.rank() == 0) {
      const Tensor x = tensor({{1, 2}, {3, 4}}, {.dtype = f64, .requires_grad = true});
      const Tensor token = send(comm, (x * 2.0).transpose(0, 1), 1);
      expect(token.ndim() == 0, "a token of no dimensions");
      token.backward();
      expect(values(x.grad()) == Values{2 * 10, 2 * 30, 2 * 20, 2 * 40}, "the gradient came back");
    } else {
      const Tensor y = recv(comm, zeros({2, 2}, {.dtype = f64}), 0);
      expect(values(y) == Values{2, 6, 4, 8}, "the values arrived");
      expect(y.requires_grad(), "they need a gradient");
      sum(y * tensor({{10, 20}, {30, 40}}, {.dtype = f64})).backward();
    }
  });
  expect.report();
}

TEST_CASE("dist ops: a loop through another rank is walked as one graph") {
  const LeakGuard guard;
  Expect expect;
  spawn(2, [&](Communicator& comm) {
    const Tensor like = zeros({2}, {.dtype = f64});
    if (comm.rank() == 0) {
      const Tensor x = tensor({3.0, 5.0}, {.dtype = f64, .requires_grad = true});
      const Tensor sent = send(comm, x * x, 1);
      const Tensor back = recv(comm, like, 1, sent);
      sum(back).backward();  // d sum(2 x^2) = 4 x
      expect(values(x.grad()) == Values{12, 20}, "the gradient through rank 1");
    } else {
      const Tensor y = recv(comm, like, 0);
      send(comm, y * 2.0, 0).backward();
    }
  });
  expect.report();
}

TEST_CASE("dist ops: what needs no gradient is sent and not recorded") {
  const LeakGuard guard;
  Expect expect;
  spawn(2, [&](Communicator& comm) {
    const Tensor whole = tensor({1, 2}, {.dtype = DType::i64});
    const NoGrad no_grad;
    if (comm.rank() == 0) {
      expect(!send(comm, whole, 1).requires_grad(), "integers");
      expect(!send(comm, ones({2}), 1).requires_grad(), "NoGrad");
    } else {
      expect(values(recv(comm, zeros_like(whole), 0)) == Values{1, 2}, "integers arrive");
      expect(!recv(comm, zeros({2}), 0).requires_grad(), "NoGrad");
    }
  });
  expect.report();
}

TEST_CASE("dist ops: data without a gradient has one sent back, and it ends there") {
  const LeakGuard guard;
  Expect expect;
  spawn(2, [&](Communicator& comm) {
    if (comm.rank() == 0) {
      const Tensor token = send(comm, ones({2}), 1);
      expect(token.requires_grad(), "the other side will send one");
      token.backward();
    } else {
      const Tensor w = full({2}, 3.0, {.requires_grad = true});
      sum(recv(comm, ones({2}), 0) * w).backward();
      expect(values(w.grad()) == Values{1, 1}, "the receiver's own gradient");
    }
  });
  expect.report();
}

TEST_CASE("dist ops: errors name the operator and what does not fit") {
  const LeakGuard guard;
  Expect expect;
  spawn(2, [&](Communicator& comm) {
    const auto refused = [&](const std::function<Tensor()>& f, const std::string& part) {
      const std::string text = message_of([&] { (void)f(); });
      expect(text.find(part) != text.npos, part + " in: " + text);
    };
    const Tensor none, x = ones({3}, {.requires_grad = true});
    refused([&] { return all_reduce(comm, none); }, "[all_reduce] operand 0 is undefined");
    refused([&] { return all_gather(comm, none); }, "[all_gather] operand 0 is undefined");
    refused([&] { return reduce_scatter(comm, none); }, "[reduce_scatter] operand 0 is undefined");
    refused([&] { return send(comm, none, 1 - comm.rank()); }, "[send] operand 0 is undefined");
    refused([&] { return recv(comm, none, 1 - comm.rank()); }, "[recv] like is undefined");
    refused([&] { return all_reduce(comm, x, ReduceOp::max); },
            "[all_reduce] max has no derivative");
    refused([&] { return all_reduce(comm, x, ReduceOp::max); }, "collective_ops_test.cpp:");
    refused([&] { return reduce_scatter(comm, x); },
            "[reduce_scatter] the first axis must be a multiple of 2");
    refused([&] { return reduce_scatter(comm, ones({})); },
            "the first axis must be a multiple of 2");
    refused([&] { return reduce_scatter(comm, ones({2}), ReduceOp::min); },
            "[reduce_scatter] sum or mean, got min");
    refused([&] { return all_reduce(comm, ones({2}, {.device = Device::meta(DeviceKind::cpu)})); },
            "whose memory the backend");
    refused(
        [&] {
          return all_reduce(comm, tensor({1, 2}, {.dtype = DType::i64}), ReduceOp::mean);
        },
        "there is no mean of i64");
    refused([&] { return broadcast(comm, x, 2); }, "root must be a rank from 0 to 1, got 2");
    refused([&] { return reduce(comm, x, -1); },
            "[reduce] root must be a rank from 0 to 1, got -1");
    refused([&] { return send(comm, x, comm.rank()); }, "cannot exchange a tensor with itself");
    comm.barrier();  // nothing of all this has reached another rank
  });
  expect.report();
}

TEST_CASE("dist ops: higher derivatives across send and recv are refused") {
  const LeakGuard guard;
  Expect expect;
  spawn(2, [&](Communicator& comm) {
    const Tensor x = tensor({2.0}, {.dtype = f64, .requires_grad = true});
    const auto refused = [&](const Tensor& loss, const Tensor& input, const std::string& name) {
      const std::string text = message_of([&] { (void)grad(loss, input, {.create_graph = true}); });
      expect(text.find(name + " create_graph") != text.npos, text);
    };
    if (comm.rank() == 0) {
      refused(send(comm, x * x, 1), x, "[send.backward]");
    } else {
      const Tensor y = recv(comm, zeros({1}, {.dtype = f64}), 0), loss = sum(y * x * x);
      refused(loss, y, "[recv.backward]");
      const Tensor slope = grad(loss, x, {.create_graph = true});
      expect(values(grad(slope, x)) == Values{2 * 4}, "what stays on a rank has them");
    }
    comm.barrier();
  });
  expect.report();
}
