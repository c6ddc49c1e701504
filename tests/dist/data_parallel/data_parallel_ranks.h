// What the tests of DataParallel train, on how many ranks.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "warptape/autograd/ops.h"
#include "warptape/core/memory/mailbox_lane.h"
#include "warptape/core/random.h"
#include "warptape/dist/captured_call.h"
#include "warptape/dist/data_parallel.h"
#include "warptape/dist/local.h"
#include "warptape/nn/conv.h"
#include "warptape/nn/linear.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/support/errors.h"

namespace wt_test {
using namespace wt;
using dist::Communicator;
using dist::DataParallel;
using dist::DataParallelOptions;

// f(comm) on a thread a rank, with a mailbox of its own as spawn gives it; what each threw. What
// one throws does not end the others.
template <class F>
std::vector<std::exception_ptr> on_ranks(int n, F f, dist::LocalOptions options = {}) {
  const auto world = dist::local_world(n, options);
  std::vector<std::exception_ptr> thrown(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  for (size_t r = 0; r < world.size(); ++r)
    threads.emplace_back([&, r] {
      const wt::detail::MailboxLane lane;
      try {
        f(*world[r]);
      } catch (...) {
        thrown[r] = std::current_exception();
      }
    });
  for (std::thread& t : threads) t.join();
  return thrown;
}
// The same, where nothing may be thrown.
template <class F>
void all_ranks(int n, F f, dist::LocalOptions options = {}) {
  for (const std::exception_ptr& e : on_ranks(n, f, options))
    if (e) std::rethrow_exception(e);
}
inline std::string text_of(const std::exception_ptr& e) {
  return message_of([&] {
    if (e) std::rethrow_exception(e);
  });
}

// A communicator that writes down what is begun on it, and passes it on.
class Recorder : public Communicator {
 public:
  explicit Recorder(Communicator& inner)
      : Communicator(inner.rank(), inner.size()), inner_(inner) {}
  const char* backend() const override { return inner_.backend(); }
  bool takes(Device d) const override { return inner_.takes(d); }
  Communicator& control() override { return *this; }
  void at_step(i64 step) override { inner_.at_step(step); }
  void abort(const std::string& reason) noexcept override { inner_.abort(reason); }
  bool captures() const override { return inner_.captures(); }
  // Calls of a replay come by here too.
  dist::Work start(const dist::Call& call) override {
    if (dist::goes_into_graph(call)) return dist::record_call(*this, call);
    events.push_back(std::string(to_string(call.kind)) + " " + std::to_string(call.in.numel()) +
                     " " + std::string(dtype_name(call.in.dtype())));
    const dist::Work work = inner_.start(call);
    if (after) {
      work.wait();
      after(call);
    }
    return work;
  }
  std::vector<std::string> events;
  std::function<void(const dist::Call&)> after;  // each call, which is waited for

 private:
  Communicator& inner_;
};

struct Batch {
  Tensor x, y;
  i64 size() const { return x.size(0); }
  Batch narrow(i64 begin, i64 n) const { return {x.narrow(0, begin, n), y.narrow(0, begin, n)}; }
  std::array<Tensor*, 2> tensors() { return {&x, &y}; }
};
// Part `rank` of `ranks` of a batch, as even as can be.
inline Batch part_of(const Batch& b, int rank, int ranks) {
  const i64 n = b.size(), from = n * rank / ranks, to = n * (rank + 1) / ranks;
  return b.narrow(from, to - from);
}

struct Mlp : nn::Module<Mlp> {
  nn::Linear fc1 = add("fc1", nn::Linear{6, 16});
  nn::Linear fc2 = add("fc2", nn::Linear{16, 16});
  nn::Linear fc3 = add("fc3", nn::Linear{16, 4});
  Tensor forward(Tensor x) { return fc3(tanh(fc2(tanh(fc1(std::move(x)))))); }
  static Batch data(i64 n, i64 step) {
    return {draw({n, 6}, 2 * step), draw({n, 4}, 2 * step + 1)};
  }
  static Tensor draw(const Shape& shape, i64 seed) {
    Generator g(u64(1000 + seed));
    Generator* const before = std::exchange(mode.generator, &g);
    Tensor t = randn(shape);
    mode.generator = before;
    return t;
  }
};
struct Cnn : nn::Module<Cnn> {
  nn::Conv2d conv1 = add("conv1", nn::Conv2d{1, 4, {.kernel = 3}});
  nn::Conv2d conv2 = add("conv2", nn::Conv2d{4, 4, {.kernel = 3}});
  nn::Linear fc = add("fc", nn::Linear{64, 4});
  Tensor forward(Tensor x) { return fc(tanh(conv2(tanh(conv1(std::move(x))))).flatten(1)); }
  static Batch data(i64 n, i64 step) {
    return {Mlp::draw({n, 1, 8, 8}, 2 * step), Mlp::draw({n, 4}, 2 * step + 1)};
  }
};

// Squares of what is off; the weight is the number of samples.
template <class Net>
Loss squares(Net& net, const Batch& b) {
  const Tensor e = net(b.x) - b.y;
  return {sum(e * e), double(b.size())};
}

using Weights = std::vector<std::vector<double>>;
inline Weights weights_of(const nn::ModuleBase& net) {
  Weights all;
  for (const auto& p : net.named_parameters()) all.push_back(p.tensor.to_vector<double>());
  return all;
}
inline double largest_difference(const Weights& a, const Weights& b) {
  double d = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i)
    for (size_t k = 0; k < a[i].size(); ++k) d = std::max(d, std::abs(a[i][k] - b[i][k]));
  return d;
}

}  // namespace wt_test
