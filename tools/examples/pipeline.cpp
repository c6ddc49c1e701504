// A deep network in three stages, a rank each: activations go forth and gradients back between
// them, in micro-batches. The ranks are threads here; with a rank a process or a GPU the function
// is the same. Says what the schedules cost, then trains.
//
//   example_pipeline [--steps N]
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "warptape/dist/partition.h"
#include "warptape/dist/pipeline.h"
#include "warptape/dist/spawn.h"
#include "warptape/dist/stage_step.h"
#include "warptape/warptape.h"

using namespace wt;

constexpr int kStages = 3;
constexpr i64 kMicroBatches = 8;

// Every rank makes the whole net, from one seed, and keeps its stage.
nn::Sequential make_net() {
  manual_seed(1);
  nn::Sequential net{nn::Linear{2, 32}, nn::Tanh{}};
  for (int i = 0; i < 4; ++i) {
    net.push_back(nn::Linear{32, 32});
    net.push_back([](Tensor x) { return relu(std::move(x)); });
  }
  net.push_back(nn::Linear{32, 3});
  return net;
}

data::SyntheticPoints make_points() {
  return data::SyntheticPoints(
      {.samples = 1200, .shape = data::PointShape::spirals, .classes = 3, .noise = 0.03});
}

void print_schedules() {
  std::printf("%d stages, %lld micro-batches    idle    micro-batches held by each stage\n",
              kStages, static_cast<long long>(kMicroBatches));
  for (const auto schedule : {dist::PipelineSchedule::gpipe, dist::PipelineSchedule::one_f_one_b}) {
    const dist::PipelineTimes t = dist::pipeline_times(schedule, kStages, kMicroBatches);
    std::printf("%-28s %5.1f %%   ", to_string(schedule), 100 * t.bubble);
    for (const i64 held : t.activations) std::printf(" %lld", static_cast<long long>(held));
    std::printf("\n");
  }
}

// What one rank does. Returns the last loss, which all of them know.
double train(dist::Communicator& comm, int steps) {
  const std::vector<nn::Sequential> stages = dist::partition(make_net(), comm.size());
  const nn::Sequential stage = stages[size_t(comm.rank())];
  dist::Pipeline pipe{stage, comm, {.micro_batches = kMicroBatches}};
  optim::AdamW opt{stage, {.lr = 1e-2}};
  opt.set_schedule(optim::cosine(steps));
  data::Loader loader{make_points(), {.batch = 120, .shuffle = true, .seed = 1}};
  double mean = 0;
  for (int step = 0; step < steps;)
    for (auto& [x, y] : loader) {
      if (step++ == steps) break;
      opt.zero_grad();
      const Loss loss = pipe.backward(x, y, [](const Tensor& output, const Tensor& labels) {
        return cross_entropy(output, labels);
      });
      opt.step(dist::agree_on_step(&opt, comm, loss, 1.0).options);
      mean = loss.item();
      if (pipe.is_last() && step % 100 == 0) std::printf("step %4d  loss %.4f\n", step, mean);
    }
  return mean;
}

int main(int argc, char** argv) {
  const int steps = argc == 3 && std::strcmp(argv[1], "--steps") == 0 ? std::stoi(argv[2]) : 400;
  print_schedules();
  double loss = 0;
  dist::spawn(kStages, [&](dist::Communicator& comm) {
    const double mine = train(comm, steps);
    if (comm.rank() == 0) loss = mine;
  });
  std::printf("loss of the last batch: %.4f\n", loss);
  return 0;
}
