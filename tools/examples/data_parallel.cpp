// One training program on several ranks: threads of this process, each with a part of every batch.
// Weights are the same on all of them, and those of one rank with the whole batches within
// rounding.
//
//   example_data_parallel [--steps N] [--ranks N]
#include <cstdio>
#include <cstring>
#include <string>

#include "warptape/dist/data_parallel.h"
#include "warptape/dist/spawn.h"
#include "warptape/warptape.h"

using namespace wt;

struct Mlp : nn::Module<Mlp> {
  nn::Linear fc1 = add("fc1", nn::Linear{2, 64});
  nn::Linear fc2 = add("fc2", nn::Linear{64, 64});
  nn::Linear out = add("out", nn::Linear{64, 3});
  Tensor forward(Tensor x) { return out(relu(fc2(relu(fc1(std::move(x)))))); }
};

void train(dist::Communicator& comm, int steps) {
  const bool talks = comm.rank() == 0;
  data::SyntheticPointsOptions points{
      .samples = 2000, .shape = data::PointShape::spirals, .classes = 3, .noise = 0.03};
  const data::SyntheticPoints all(points);
  points.first = points.samples;
  points.samples = 500;
  const data::SyntheticPoints test(points);

  Mlp net;
  optim::AdamW opt{net, {.lr = 1e-2, .weight_decay = 1e-4}};
  dist::DataParallel ddp{net, opt, comm};
  TrainStep step{net, opt, {.clip_norm = 1.0, .schedule = optim::cosine(steps), .reducer = &ddp}};

  // The batch is that of all ranks together; each loads its part.
  data::Loader loader{
      all, {.batch = 100, .shuffle = true, .seed = 1, .rank = comm.rank(), .world = comm.size()}};
  const auto loss_of = [&](const data::Batch& b) { return cross_entropy(net(b.x), b.y); };
  for (int i = 0; i < steps;)
    for (auto& batch : loader) {
      if (i == steps) break;
      const StepResult r = step(batch, loss_of);
      // The loss of the whole batch, on every rank.
      if (++i % 300 == 0 && talks) std::printf("step %4d  loss %.4f\n", i, r.loss());
    }

  ddp.check_replicas();
  if (!talks) return;
  for (const auto& b : ddp.buckets())
    std::printf("a bucket of %lld bytes, %zu parameters\n", static_cast<long long>(b.bytes),
                b.parameters.size());
  data::Loader unseen{test, {.batch = 500}};
  const Evaluation r = evaluate(net, unseen, {"loss", "accuracy"});
  std::printf("on unseen points: accuracy %.3f, loss %.4f\n", r["accuracy"], r["loss"]);
}

int main(int argc, char** argv) {
  int steps = 1500, ranks = 4;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--steps") == 0) steps = std::stoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--ranks") == 0) ranks = std::stoi(argv[i + 1]);
  }
  manual_seed(1);
  std::printf("%d ranks\n", ranks);
  dist::spawn(ranks, [&](dist::Communicator& comm) { train(comm, steps); });
  return 0;
}
