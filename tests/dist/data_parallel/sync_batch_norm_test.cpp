// Batch norm over all ranks' samples.
#include "warptape/dist/sync_batch_norm.h"

#include "warptape/nn/containers.h"
#include "warptape/tests/dist/data_parallel/data_parallel_ranks.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/tolerance.h"

using namespace wt_test;

namespace {

struct Net : nn::Module<Net> {
  nn::Conv2d conv = add("conv", nn::Conv2d{1, 3, {.kernel = 3}});
  nn::BatchNorm2d bn = add("bn", nn::BatchNorm2d{3, {.activation = Activation::relu}});
  nn::Linear fc = add("fc", nn::Linear{108, 4});
  nn::BatchNorm1d last = add("last", nn::BatchNorm1d{4, {.momentum = std::nullopt}});
  Tensor forward(Tensor x) { return last(fc(bn(conv(std::move(x))).flatten(1))); }
  // Far from zero, where a variance from the mean of squares would lose its digits.
  static Batch data(i64 n, i64 step) {
    return {Mlp::draw({n, 1, 8, 8}, 2 * step) + 30.0, Mlp::draw({n, 4}, 2 * step + 1)};
  }
};

struct Result {
  Weights gradients, buffers;
};

// One forward and backward of this rank's part; gradients are summed over ranks by hand.
Result result_of(Communicator* comm, i64 samples, DType t) {
  manual_seed(7);
  Net net;
  net.to(t);
  if (comm && dist::sync_batch_norm(net, *comm) != 2) throw std::runtime_error("two layers");
  const int rank = comm ? comm->rank() : 0, ranks = comm ? comm->size() : 1;
  Result r;
  for (i64 i = 0; i < 2; ++i) {
    Batch b = part_of(Net::data(samples, i), rank, ranks);
    squares(net, {b.x.to(t), b.y.to(t)}).sum.backward();
  }
  for (const Tensor& p : net.parameters()) {
    const NoGrad no_grad;
    const Tensor g = p.grad().clone();
    if (comm) comm->all_reduce(g);
    r.gradients.push_back(g.to_vector<double>());
  }
  for (const auto& b : net.named_buffers()) r.buffers.push_back(b.tensor.to_vector<double>());
  return r;
}

double largest(const Weights& w) {
  double m = 0;
  for (const auto& t : w)
    for (const double v : t) m = std::max(m, std::abs(v));
  return m;
}

}  // namespace

TEST_CASE("sync batch norm: statistics and gradients of the whole batch", "[dist]") {
  for (const DType t : {DType::f64, DType::f32})
    for (const i64 samples : {8, 7}) {
      const Result whole = result_of(nullptr, samples, t);
      for (const int n : {1, 2, 3}) {
        CAPTURE(dtype_name(t), samples, n);
        std::vector<Result> ranks(static_cast<size_t>(n));
        all_ranks(n, [&](Communicator& c) { ranks[size_t(c.rank())] = result_of(&c, samples, t); });
        // Sums of samples * 36 values of about 30, twice, then a chain of four layers.
        const double bound = precision_of(t).u * double(samples * 36 + 4 * kTermsOfGradient) * 30;
        for (const Result& r : ranks) {
          CHECK(r.buffers == ranks[0].buffers);
          CHECK(largest_difference(r.buffers, whole.buffers) <= bound * largest(whole.buffers));
          CHECK(largest_difference(r.gradients, whole.gradients) <=
                bound * largest(whole.gradients));
        }
      }
    }
}

namespace {
// A module of a user, whose name begins as a batch norm's does.
struct BatchNormRelu : nn::Module<BatchNormRelu> {
  nn::BatchNorm1d norm = add("norm", nn::BatchNorm1d{4});
  Tensor forward(Tensor x) { return relu(norm(std::move(x))); }
};
}  // namespace

TEST_CASE("sync batch norm: it is the layers that count, not what modules are called", "[dist]") {
  all_ranks(2, [](Communicator& comm) {
    BatchNormRelu net;
    if (const i64 n = dist::sync_batch_norm(net, comm); n != 1)
      throw std::runtime_error("one layer, not " + std::to_string(n));
  });
}

TEST_CASE("sync batch norm: evaluation asks nobody; an end to it", "[dist]") {
  all_ranks(2, [](Communicator& comm) {
    manual_seed(7);
    Net net;
    dist::sync_batch_norm(net, comm);
    Recorder recorder(comm);
    dist::sync_batch_norm(net, recorder);
    const Batch b = Net::data(4, 0);
    (void)net(b.x);
    const size_t calls = recorder.events.size();
    if (calls != 4) throw std::runtime_error("two sums a layer, got " + std::to_string(calls));
    net.eval();
    (void)net(b.x);
    net.train();
    nn::BatchNorm::sum_over_ranks(net, {});
    (void)net(b.x);
    if (recorder.events.size() != calls) throw std::runtime_error("it asked");
  });
}
