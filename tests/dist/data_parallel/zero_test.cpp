// DataParallel whose ranks keep a part of the optimizer's state each.
#include "warptape/dist/zero.h"

#include <array>
#include <stdexcept>

#include "warptape/optim/arena.h"
#include "warptape/tests/dist/data_parallel/data_parallel_ranks.h"
#include "warptape/tests/support/catch.h"

using namespace wt_test;

namespace {

struct Plan {
  int zero = 0;
  i64 bucket_bytes = 1 << 20, micro_batches = 1, samples = 13;
  double clip_norm = 0;
  DType precision = DType::f32, compress = DType::f32;
  bool inf_on_rank_1 = false;
};

struct Trained {
  Weights weights, state;
  i64 state_bytes = 0, launched_early = 0, applied = 0;
};

Trained train(Communicator& comm, const Plan& plan) {
  manual_seed(7);
  Mlp net;
  optim::AdamW opt{net, {.lr = 0.01, .eps = 0.1}};
  DataParallel ddp{net,
                   opt,
                   comm,
                   {.bucket_bytes = plan.bucket_bytes,
                    .first_bucket_bytes = plan.bucket_bytes,
                    .compress = plan.compress,
                    .zero = plan.zero}};
  TrainStep step{net,
                 opt,
                 {.precision = plan.precision,
                  .micro_batches = plan.micro_batches,
                  .clip_norm = plan.clip_norm,
                  .on_nonfinite = NonFinite::skip,
                  .reducer = &ddp}};
  for (i64 i = 0; i < 5; ++i) {
    Batch b = part_of(Mlp::data(plan.samples, i), comm.rank(), comm.size());
    if (plan.inf_on_rank_1 && i == 2 && comm.rank() == 1) b.y = b.y + double(INFINITY);
    step(b, [&](const Batch& part) { return squares(net, part); });
  }
  Trained t{.weights = weights_of(net), .state = {}};
  for (const nn::NamedTensor& s : opt.state()) t.state.push_back(s.tensor.to_vector<double>());
  t.state_bytes = opt.arenas().all()[0].state[0]->bytes;
  t.launched_early = ddp.launched_early();
  t.applied = opt.applied();
  return t;
}

// The chain adds in the order of ranks, whatever the length of a part.
std::vector<Trained> train_ranks(int n, const Plan& plan) {
  std::vector<Trained> all(static_cast<size_t>(n));
  all_ranks(n, [&](Communicator& c) { all[size_t(c.rank())] = train(c, plan); },
            {.algorithm = dist::Algorithm::chain});
  return all;
}

// Stage 2 sums each micro-batch over the ranks, and stage 1 their sum: other roundings.
void check_same_as_whole(int n, Plan plan, std::initializer_list<int> stages = {1, 2}) {
  plan.zero = 0;
  const std::vector<Trained> whole = train_ranks(n, plan);
  for (const int stage : stages) {
    CAPTURE(n, stage, plan.bucket_bytes, plan.micro_batches, plan.samples);
    plan.zero = stage;
    for (const Trained& t : train_ranks(n, plan)) {
      CHECK(t.weights == whole[0].weights);
      CHECK(t.state == whole[0].state);
      CHECK(t.applied == whole[0].applied);
    }
  }
}

}  // namespace

TEST_CASE("zero: the bits of ranks that keep all of the state", "[dist]") {
  for (const int n : {1, 2, 3, 4, 8})
    for (const i64 bucket : {1, 1000, 1 << 20}) check_same_as_whole(n, {.bucket_bytes = bucket});
  check_same_as_whole(2, {.micro_batches = 3, .samples = 11}, {1});
  check_same_as_whole(2, {.compress = DType::bf16});
  check_same_as_whole(2, {.compress = DType::f16});
  check_same_as_whole(2, {.precision = DType::f16});
  check_same_as_whole(3, {.precision = DType::f16, .inf_on_rank_1 = true});
  check_same_as_whole(2, {.inf_on_rank_1 = true});
}

TEST_CASE("zero: the norm is that of all ranks' pieces", "[dist]") {
  const std::vector<Trained> whole = train_ranks(4, {.clip_norm = 0.1});
  const std::vector<Trained> parts = train_ranks(4, {.zero = 1, .clip_norm = 0.1});
  for (const Trained& t : parts) CHECK(t.weights == parts[0].weights);
  // The norm's f64 sum is made in other groups: a unit in the last place of f32 a step, five steps.
  CHECK(largest_difference(parts[0].weights, whole[0].weights) < 5 * 0x1p-23);
  CHECK(largest_difference(parts[0].weights, train_ranks(4, {.zero = 1})[0].weights) > 1e-3);
  for (const Trained& t : train_ranks(4, {.zero = 2, .clip_norm = 0.1}))
    CHECK(t.weights == parts[0].weights);
}

TEST_CASE("zero: each rank has its part of the state; buckets are begun within backward",
          "[dist]") {
  const i64 whole = train_ranks(1, {})[0].state_bytes;
  for (const int zero : {1, 2})
    for (const int n : {2, 4})
      for (const Trained& t : train_ranks(n, {.zero = zero, .bucket_bytes = 1024})) {
        // Each bucket is filled up to pieces of 64 elements: five of them have 1024 bytes or more.
        CHECK(t.state_bytes >= whole / n);
        CHECK(t.state_bytes < whole / n + 5 * 64 * i64(sizeof(float)));
        CHECK(t.launched_early > 0);
      }
}

TEST_CASE("zero: a state goes on with another number of ranks", "[dist]") {
  const auto steps = [](Mlp& net, TrainStep& step, Communicator& comm, i64 from, i64 to) {
    for (i64 i = from; i < to; ++i)
      step(part_of(Mlp::data(12, i), comm.rank(), comm.size()),
           [&](const Batch& b) { return squares(net, b); });
  };
  // Checkpoints as one rank would write them.
  struct Kept {
    std::vector<nn::NamedTensor> model, state;
  };
  const auto run = [&](int n, const Kept* begin, i64 from, i64 to, int zero) {
    Kept kept;
    all_ranks(n,
              [&](Communicator& comm) {
                manual_seed(7);
                Mlp net;
                optim::AdamW opt{net, {.lr = 0.01, .eps = 0.1}};
                DataParallel ddp{net, opt, comm, {.zero = zero}};
                if (begin) {
                  net.load_state_dict(begin->model);
                  opt.load_state(begin->state);
                }
                TrainStep step{net, opt, {.reducer = &ddp}};
                steps(net, step, comm, from, to);
                const auto state = opt.state();
                if (comm.rank() != 0) return;
                for (const auto& t : net.state_dict())
                  kept.model.push_back({t.name, t.tensor.detach().clone()});
                for (const auto& t : state) kept.state.push_back({t.name, t.tensor.clone()});
              },
              {.algorithm = dist::Algorithm::chain});
    return kept;
  };
  for (const int stage : {1, 2}) {
    const Kept three = run(3, nullptr, 0, 3, stage);
    const Kept two = run(2, &three, 3, 6, stage), whole = run(2, &three, 3, 6, 0);
    REQUIRE(two.model.size() == whole.model.size());
    REQUIRE(two.state.size() == whole.state.size());
    for (size_t i = 0; i < two.model.size(); ++i)
      CHECK(two.model[i].tensor.to_vector<double>() == whole.model[i].tensor.to_vector<double>());
    for (size_t i = 0; i < two.state.size(); ++i)
      CHECK(two.state[i].tensor.to_vector<double>() == whole.state[i].tensor.to_vector<double>());
  }
}

TEST_CASE("zero: the state is gathered where it is wanted, a bucket at a time", "[dist]") {
  for (const Device d : {Device::cpu(), Device::simt()}) {
    CAPTURE(to_string(d));
    std::array<size_t, 3> states{};
    std::vector<std::vector<double>> got, want;
    all_ranks(3, [&](Communicator& comm) {
      const auto r = size_t(comm.rank());
      manual_seed(7);
      Mlp net;
      net.to(d);
      optim::AdamW opt{net, {.lr = 0.01, .eps = 0.1}};
      DataParallel ddp{net, opt, comm, {.bucket_bytes = 1024, .zero = 2}};
      TrainStep step{net, opt, {.reducer = &ddp}};
      step(part_of(Mlp::data(12, 0), comm.rank(), 3),
           [&](const Batch& b) { return squares(net, b); });
      const auto state = opt.state(comm.rank() == 1);
      for (const nn::NamedTensor& t : state) {
        const bool of_parameter = t.name.find("fc") != std::string::npos;
        states[r] += of_parameter;
        if (of_parameter && !(t.tensor.device() == Device::cpu()))
          throw std::runtime_error(t.name + " is not on the cpu");
        if (r == 1) got.push_back(t.tensor.to_vector<double>());
      }
      const auto all = opt.state();
      if (r == 1)
        for (const nn::NamedTensor& t : all) want.push_back(t.tensor.to_vector<double>());
    });
    CHECK(states == std::array<size_t, 3>{0, 12, 0});
    CHECK(got == want);
  }
}
