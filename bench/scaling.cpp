#include "warptape/bench/scaling.h"

#include "warptape/bench/replicate_step.h"
#include "warptape/bench/turns.h"
#include "warptape/core/device.h"
#include "warptape/core/error.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/dist/data_parallel.h"
#include "warptape/optim/train_step.h"

namespace wt::bench {

namespace {

constexpr int kIdleTurns = 5;  // before those that are measured

// Of one rank.
struct Turns {
  std::vector<Span> alone, buckets, replicate;
};

void take_turns(const ScalingOptions& o, dist::Communicator& comm, Turns& t) {
  manual_seed(1);
  const data::Batch batch{randn({o.batch, 784}), randint(0, 10, {o.batch})};
  Perceptron one(o.width, o.layers), two(o.width, o.layers), three(o.width, o.layers);
  optim::Sgd opt1{one, {.lr = 0.01}}, opt2{two, {.lr = 0.01}}, opt3{three, {.lr = 0.01}};
  dist::DataParallel ddp{two, opt2, comm, {.bucket_bytes = o.bucket_bytes}};
  TrainStep alone{one, opt1}, buckets{two, opt2, {.reducer = &ddp}};
  ReplicateStep replicate(three, opt3, comm);
  const auto take_alone = [&] { alone(batch, loss_of(one)); };
  const auto take_buckets = [&] { buckets(batch, loss_of(two)); };
  for (int i = 0; i < kIdleTurns + o.turns; ++i) {
    Span a, b, r;
    // First and second by turns: what the first one leaves in the caches is the second one's gain.
    if (i % 2) a = timed_with_others(comm, take_alone);
    b = timed_with_others(comm, take_buckets);
    if (i % 2 == 0) a = timed_with_others(comm, take_alone);
    if (comm.size() > 1) r = timed_with_others(comm, [&] { replicate(batch); });
    if (i < kIdleTurns) continue;
    t.alone.push_back(a), t.buckets.push_back(b), t.replicate.push_back(r);
  }
}

std::vector<double> all_ranks_us(const std::vector<Turns>& ranks, std::vector<Span> Turns::*which) {
  std::vector<std::vector<Span>> all;
  for (const Turns& t : ranks) all.push_back(t.*which);
  return together_us(all);
}

ScalingRow row_of(const ScalingOptions& o, int n) {
  std::vector<Turns> ranks(static_cast<size_t>(n));
  WorldOptions world = o.world;
  world.ranks = n;
  on_each_thread(
      world, [&](dist::Communicator& comm) { take_turns(o, comm, ranks[size_t(comm.rank())]); });
  const std::vector<double> alone = all_ranks_us(ranks, &Turns::alone),
                            buckets = all_ranks_us(ranks, &Turns::buckets);
  ScalingRow row;
  row.ranks = n;
  row.alone = summarize(alone);
  row.buckets = summarize(buckets);
  row.of_alone = summarize(ratios(buckets, alone));
  row.efficiency = 1 / row.of_alone.median_us;
  if (n == 1) return row;
  const std::vector<double> replicate = all_ranks_us(ranks, &Turns::replicate);
  row.replicate = summarize(replicate);
  row.replicate_efficiency = median(ratios(alone, replicate));
  return row;
}

void check_scaling(const ScalingOptions& o) {
  if (ranks_are_processes())
    throw UsageError("[wt bench scaling] its ranks are threads: start it without a launcher");
  for (const int n : o.ranks)
    if (n < 1) throw UsageError(str("[wt bench scaling] ", n, " ranks; they begin at 1"));
  if (o.width < 1 || o.layers < 1 || o.batch < 1 || o.turns < 1 || o.bucket_bytes < 4)
    throw UsageError("[wt bench scaling] sizes and steps begin at 1, buckets at 4 bytes");
}

}  // namespace

void measure_scaling(const ScalingOptions& o, const std::function<void(const ScalingRow&)>& each) {
  check_scaling(o);
  const int threads = num_threads();
  set_num_threads(1);
  for (const int n : o.ranks) each(row_of(o, n));
  set_num_threads(threads);
}

}  // namespace wt::bench
