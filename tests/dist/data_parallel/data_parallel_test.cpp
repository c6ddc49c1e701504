// 1, 2, 4 and 8 ranks that have the parts of a batch against one process that has it all.
#include <cmath>

#include "warptape/tests/dist/data_parallel/data_parallel_ranks.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/tolerance.h"

using namespace wt_test;

namespace {

enum class Rule { sgd, adamw };

struct Plan {
  Rule rule = Rule::sgd;
  i64 steps = 6, samples = 16, micro_batches = 1;
  double clip_norm = 0;
  DType precision = DType::f32;
  DataParallelOptions options{};
};

std::unique_ptr<optim::Optimizer> make_optimizer(Rule rule, const nn::ModuleBase& net) {
  // Adam's step moves by lr / eps of a change in a gradient at most.
  if (rule == Rule::adamw)
    return std::make_unique<optim::AdamW>(net, optim::AdamWOptions{.lr = 0.01, .eps = 0.1});
  return std::make_unique<optim::Sgd>(net, optim::SgdOptions{.lr = 0.02, .momentum = 0.9});
}

struct Trained {
  Weights weights;
  double largest_gradient = 0;  // of the mean loss, in all steps
};

// comm null: one process. `moved`: by how much its first weights are off, to see what becomes of
// it.
template <class Net>
Trained train(Communicator* comm, const Plan& plan, double moved = 0) {
  const int rank = comm ? comm->rank() : 0, ranks = comm ? comm->size() : 1;
  manual_seed(u64(7 + rank));  // other ranks begin with rank 0's weights nevertheless
  Net net;
  manual_seed(7);
  const auto opt = make_optimizer(plan.rule, net);
  {
    const NoGrad no_grad;
    if (moved > 0)
      for (Tensor p : net.parameters()) p.add_(Mlp::draw(p.shape(), p.numel()) * moved);
  }
  std::optional<DataParallel> ddp;
  if (comm) ddp.emplace(net, *opt, *comm, plan.options);
  TrainStep step{net,
                 *opt,
                 {.precision = plan.precision,
                  .micro_batches = plan.micro_batches,
                  .clip_norm = plan.clip_norm,
                  .reducer = comm ? &*ddp : nullptr}};
  Trained t;
  for (i64 i = 0; i < plan.steps; ++i) {
    step(part_of(Net::data(plan.samples, i), rank, ranks),
         [&](const Batch& b) { return squares(net, b); });
    for (const Tensor& p : net.parameters())
      for (const double g : p.grad().to_vector<double>())
        t.largest_gradient = std::max(t.largest_gradient, std::abs(g) / double(plan.samples));
  }
  t.weights = weights_of(net);
  return t;
}

template <class Net>
std::vector<Weights> train_ranks(int n, const Plan& plan) {
  std::vector<Weights> all(static_cast<size_t>(n));
  all_ranks(n, [&](Communicator& c) { all[size_t(c.rank())] = train<Net>(&c, plan).weights; });
  return all;
}

// Ranks add the same gradients up in another order. The longest sum on the way of a gradient is
// that over the batch (of a convolution: its places, too), each after a chain of three layers, so
// a gradient is off by `terms` u of the largest one. A step moves a parameter by at most `gain`
// times that. What was off before goes on, amplified by what the training itself does to a small
// change: measured, by moving the first weights. Twice that is allowed, the change being another.
template <class Net>
double bound_of(const Plan& plan, const Trained& alone, double longest_sum) {
  const double moved = 1e-4;
  const double amplified =
      largest_difference(train<Net>(nullptr, plan, moved).weights, alone.weights) / moved;
  const double gain = plan.rule == Rule::sgd ? 0.02 / (1 - 0.9) : 0.01 / 0.1;
  const double terms = longest_sum + 3 * kTermsOfGradient;
  return 2 * std::max(1.0, amplified) * double(plan.steps) * gain * alone.largest_gradient *
         precision_of(DType::f32).u * terms;
}

template <class Net>
void compare_with_one_process(const Plan& plan, double longest_sum) {
  const Trained alone = train<Net>(nullptr, plan);
  const double bound = bound_of<Net>(plan, alone, longest_sum);
  CHECK(bound < 1e-2);  // it says something: the weights are about 0.3
  for (const int n : {1, 2, 4, 8}) {
    CAPTURE(n, int(plan.rule), plan.samples, plan.micro_batches, plan.clip_norm);
    const std::vector<Weights> ranks = train_ranks<Net>(n, plan);
    for (const Weights& w : ranks) CHECK(w == ranks.front());
    CHECK(largest_difference(ranks.front(), alone.weights) <= bound);
  }
}

}  // namespace

TEST_CASE("ranks train the weights that one process trains", "[dist]") {
  for (const Rule rule : {Rule::sgd, Rule::adamw})
    for (const double clip : {0.0, 0.5}) {
      compare_with_one_process<Mlp>({.rule = rule, .clip_norm = clip}, 16);
      compare_with_one_process<Cnn>({.rule = rule, .steps = 4, .clip_norm = clip}, 16 * 36);
    }
}

TEST_CASE("ragged parts of a batch and micro-batches of them add up on ranks", "[dist]") {
  compare_with_one_process<Mlp>({.samples = 13}, 13);
  compare_with_one_process<Mlp>({.samples = 13, .micro_batches = 2}, 13);
  compare_with_one_process<Mlp>({.rule = Rule::adamw, .samples = 11, .micro_batches = 3}, 11);
}

// A linear model of small integers: every product and sum is a dyadic fraction of less than 24
// bits, so that no order of adding rounds anything.
TEST_CASE("where nothing rounds ranks have one process's bits", "[dist]") {
  struct Linear : nn::Module<Linear> {
    nn::Param w = add("w", (manual_seed(3), randint(-1, 2, {5, 3}, {.dtype = f32})));
    Tensor forward(Tensor x) { return matmul(x, w); }
    static Batch data(i64 n, i64 step) {
      Generator g(u64(50 + step));
      Generator* const before = std::exchange(mode.generator, &g);
      Batch b{randint(-1, 2, {n, 5}, {.dtype = f32}), randint(-2, 3, {n, 3}, {.dtype = f32})};
      mode.generator = before;
      return b;
    }
  };
  const auto train = [](Communicator* comm, i64 micro_batches, i64 bucket_bytes) {
    Linear net;
    manual_seed(7);
    optim::Sgd opt{net, {.lr = 0.25, .momentum = 0.5}};
    std::optional<DataParallel> ddp;
    if (comm) ddp.emplace(net, opt, *comm, DataParallelOptions{.bucket_bytes = bucket_bytes});
    TrainStep step{net, opt, {.micro_batches = micro_batches, .reducer = comm ? &*ddp : nullptr}};
    for (i64 i = 0; i < 3; ++i)
      step(part_of(Linear::data(16, i), comm ? comm->rank() : 0, comm ? comm->size() : 1),
           [&](const Batch& b) { return squares(net, b); });
    return weights_of(net);
  };
  const Weights alone = train(nullptr, 1, 1);
  for (const int n : {1, 2, 4, 8})
    for (const i64 micro_batches : {1, 2})
      for (const i64 bytes : {i64(1), i64(25) << 20}) {
        CAPTURE(n, micro_batches, bytes);
        all_ranks(n, [&, alone](Communicator& c) {
          if (train(&c, micro_batches, bytes) != alone) throw std::runtime_error("other bits");
        });
      }
}

TEST_CASE("the sizes of buckets change no bits", "[dist]") {
  // The order of adding is that of the ranks, whatever the size.
  const dist::LocalOptions chain{.algorithm = dist::Algorithm::chain};
  const auto train_in_buckets = [&](i64 bytes) {
    const Plan plan{.options = {.bucket_bytes = bytes, .first_bucket_bytes = bytes}};
    std::vector<Weights> all(4);
    all_ranks(
        4, [&](Communicator& c) { all[size_t(c.rank())] = train<Mlp>(&c, plan).weights; }, chain);
    for (const Weights& w : all) CHECK(w == all.front());
    return all.front();
  };
  const Weights usual = train_in_buckets(i64(25) << 20);
  for (const i64 bytes : {i64(1), i64(300), i64(1500), i64(1) << 30}) {
    CAPTURE(bytes);
    CHECK(train_in_buckets(bytes) == usual);
  }
}

TEST_CASE("bf16 and f16 steps have one scale and one set of bits on all ranks", "[dist]") {
  for (const DType t : {DType::bf16, DType::f16}) {
    CAPTURE(int(t));
    const std::vector<Weights> ranks =
        train_ranks<Mlp>(4, {.micro_batches = 2, .precision = t, .options = {}});
    for (const Weights& w : ranks) CHECK(w == ranks.front());
    CHECK(std::isfinite(ranks[0][0][0]));
  }
}

TEST_CASE("a compressed sum is off by the roundings that it says", "[dist]") {
  // One step of plain gradient descent at rate 1 from rank gradients g_r: w - sum g_r / weight.
  const auto gradients = [](DType compress, int n) {
    std::vector<Weights> all(static_cast<size_t>(n));
    all_ranks(n, [&](Communicator& c) {
      manual_seed(7);
      Mlp net;
      optim::Sgd opt{net, {.lr = 1}};
      DataParallel ddp{net, opt, c, {.compress = compress}};
      TrainStep step{net, opt, {.reducer = &ddp}};
      step(part_of(Mlp::data(16, 0), c.rank(), n), [&](const Batch& b) { return squares(net, b); });
      Weights grads;
      for (const auto& p : net.named_parameters())
        grads.push_back(p.tensor.grad().to_vector<double>());
      all[size_t(c.rank())] = grads;
    });
    for (const Weights& w : all) CHECK(w == all.front());
    return all.front();
  };
  const int n = 4;
  const Weights exact = gradients(DType::f32, n);
  // The absolute values that were added: each rank's part alone.
  Weights magnitude = exact;
  for (auto& v : magnitude) std::fill(v.begin(), v.end(), 0.0);
  for (int r = 0; r < n; ++r) {
    manual_seed(7);
    Mlp net;
    squares(net, part_of(Mlp::data(16, 0), r, n)).sum.backward();
    size_t i = 0;
    for (const auto& p : net.named_parameters()) {
      const std::vector<double> g = p.tensor.grad().to_vector<double>();
      for (size_t k = 0; k < g.size(); ++k) magnitude[i][k] += std::abs(g[k]);
      ++i;
    }
  }
  for (const DType t : {DType::f16, DType::bf16}) {
    const Weights got = gradients(t, n);
    const double u = precision_of(t).u, small = precision_of(t).smallest * 2 * n * n;
    bool differs = false, fits = true;
    for (size_t i = 0; i < got.size(); ++i)
      for (size_t k = 0; k < got[i].size(); ++k) {
        differs |= got[i][k] != exact[i][k];
        fits &= std::abs(got[i][k] - exact[i][k]) <=
                u * (1 + 2 * u) * (magnitude[i][k] + std::abs(exact[i][k])) + small +
                    16 * precision_of(DType::f32).u * magnitude[i][k];
      }
    CAPTURE(int(t));
    CHECK(differs);
    CHECK(fits);
  }
}
