// Mixed precision and gradients that add up over several batches, with progress lines, what to do
// when memory does not suffice, and a report of each class at the end.
//
//   example_accumulate_and_report [--steps N] [--device simt]
//
// docs/articles.md has its lines beside PyTorch's.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <string>

#include "warptape/core/memory_fit.h"
#include "warptape/core/memory_limit.h"
#include "warptape/data/enumerate.h"
#include "warptape/nn/classification_report.h"
#include "warptape/nn/metrics.h"
#include "warptape/warptape.h"

using namespace wt;

constexpr i64 kWindow = 4;  // batches for a step

struct Mlp : nn::Module<Mlp> {
  nn::Linear fc1 = add("fc1", nn::Linear{2, 64});
  nn::Linear fc2 = add("fc2", nn::Linear{64, 64});
  nn::Dropout drop = add("drop", nn::Dropout{0.1});
  nn::Linear out = add("out", nn::Linear{64, 2});
  Tensor forward(Tensor x) { return out(drop(relu(fc2(relu(fc1(std::move(x))))))); }
};

// A step for `kWindow` batches. The last one of an epoch may have fewer: its losses are divided by
// their own number, and none is lost.
static void train(Mlp& net, optim::Optimizer& opt, optim::GradScaler& scaler,
                  data::Loader<data::SyntheticPoints>& loader, int steps) {
  net.train();
  const i64 epochs = (steps * kWindow + loader.size() - 1) / loader.size();
  int done = 0;
  for (const i64 epoch : progress(epochs, {.desc = "epochs", .unit = "epoch"})) {
    auto bar = progress(enumerate(loader), {.desc = str("epoch ", epoch), .leave = false});
    opt.zero_grad();
    for (auto [i, batch] : bar) {
      const i64 window = std::min(kWindow, loader.size() - i / kWindow * kWindow);
      const Loss loss = [&] {
        const AutocastScope autocast(DType::f16);
        return cross_entropy(net(batch.x), batch.y);
      }();
      scaler.scale(loss * (1.0 / double(window))).backward();
      if ((i + 1) % kWindow != 0 && i + 1 != loader.size()) continue;
      scaler.step(opt);
      scaler.update();
      opt.zero_grad();
      if (++done % 20 == 0) bar.set_postfix(str("loss=", loss.item()));
    }
  }
  std::printf("%d steps of %d batches each, scale %.0f\n", done, int(kWindow), scaler.get_scale());
}

// How far the gradients of `kWindow` batches are from those of one that is as large.
static double agreement(Mlp& net, optim::Optimizer& opt, const data::Batch& whole) {
  TrainStep step{net, opt, {.micro_batches = kWindow}};
  const auto found =
      step.verify(whole, [&](const data::Batch& b) { return cross_entropy(net(b.x), b.y); });
  return found.difference;
}

// A batch that does not fit, said before and when it happens, and one that does.
static void out_of_memory() {
  const auto steps = [](i64 batch) {
    Mlp net;
    optim::Adam opt{net};
    TrainStep step{net, opt};
    for (int k = 0; k < 2; ++k)
      step(data::Batch{zeros({batch, 2}), zeros({batch}, {.dtype = int64})},
           [&](const data::Batch& b) { return cross_entropy(net(b.x), b.y); });
  };
  const Device cpu = Device::cpu();
  constexpr i64 kBytes = 2 << 20;
  const memory::BatchFit fit = memory::fit_batch(steps, {.bytes = kBytes, .device = cpu});
  std::printf("in 2 MiB: a batch of %d, predicted %.2f MB\n", int(fit.batch),
              double(fit.bytes) / 1e6);
  const memory::LimitScope limit(cpu, memory::stats(cpu).live + kBytes);
  try {
    steps(2 * fit.batch);
  } catch (const OutOfMemory& e) {
    const std::string text = e.what();
    std::printf("twice as many: %s\n", text.substr(0, text.find('\n')).c_str());
  }
  steps(fit.batch);
  std::printf("that many: done\n");
}

int main(int argc, char** argv) {
  int steps = 150;
  Device device = Device::best();
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!std::strcmp(argv[i], "--steps")) steps = std::stoi(argv[i + 1]);
    if (!std::strcmp(argv[i], "--device")) device = Device::parse(argv[i + 1]);
  }
  manual_seed(1);
  // The report of a few answers, as scikit-learn prints it.
  std::cout << metrics::classification_report({0, 1, 0, 0, 1}, {1, 1, 0, 1, 1},
                                              {.target_names = {"class 0", "class 1"}});

  data::SyntheticPointsOptions points{
      .samples = 1000, .shape = data::PointShape::moons, .classes = 2, .noise = 0.1};
  const data::SyntheticPoints seen(points);
  points.first = points.samples;
  const data::SyntheticPoints unseen(points);
  data::Loader loader{
      seen, {.batch = 16, .shuffle = true, .seed = 1, .workers = data::kAuto, .device = device}};
  std::printf("workers: %s\n", loader.why_workers().c_str());

  Mlp net = Mlp{}.to(device);
  optim::Adam opt{net, {.lr = 1e-2}};
  optim::GradScaler scaler;
  train(net, opt, scaler, loader, steps);

  data::Loader test{unseen, {.batch = 250}};
  metrics::ConfusionMatrix matrix(2);                     // counts on the device, is read once
  const Evaluation result = evaluate(net, test, matrix);  // eval() and no gradients meanwhile
  std::cout << matrix.report({.target_names = {"upper moon", "lower moon"}});
  out_of_memory();

  data::Batch whole;
  test.next(whole);
  net.eval();  // dropout would draw other numbers for the parts
  opt.zero_grad();
  std::printf("gradients of %d parts and of the whole differ by %.1e\n", int(kWindow),
              agreement(net, opt, whole.to(device)));
  std::printf("error on unseen points: %.3f\n", 1 - result.values()[0].second);
  return 0;
}
