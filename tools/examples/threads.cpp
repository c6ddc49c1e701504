// Threads and warptape: models that are trained side by side, one model that answers in many
// threads, tensors that are made in one thread and dropped in another. docs/threads.md says what is
// allowed; tools/tsan.sh runs this program under ThreadSanitizer.
//
//   example_threads [--steps N]
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "warptape/warptape.h"

using namespace wt;

struct Net : nn::Module<Net> {
  nn::Conv2d conv = add("conv", nn::Conv2d{1, 4, {.kernel = 3, .padding = 1}});
  nn::Dropout drop = add("drop", nn::Dropout{0.2});
  nn::Linear fc = add("fc", nn::Linear{4 * 8 * 8, 3});
  Tensor forward(Tensor x) { return fc(drop(flatten(relu(conv(std::move(x))), 1))); }
};

data::TensorDataset images() {
  const Tensor y = randint(0, 3, {96});
  return {randn({96, 1, 8, 8}) + y.to(f32).reshape({96, 1, 1, 1}), y};
}

// A model of this thread's own: its numbers depend on `seed` alone, not on what others do.
double train(u64 seed, int steps) {
  manual_seed(seed);
  data::Loader loader{images(), {.batch = 16, .shuffle = true, .seed = seed, .workers = 2}};
  Net net;
  optim::AdamW opt{net, {.lr = 1e-2}};
  TrainStep step{net, opt};
  double loss = 0;
  for (int i = 0; i < steps;)
    for (auto& batch : loader) {
      if (i++ == steps) break;
      loss = step(batch, [&](const data::Batch& b) { return cross_entropy(net(b.x), b.y); }).loss();
    }
  return loss;
}

// f(0), f(1), ... f(n - 1), each in a thread of its own.
template <class F>
void in_threads(int n, F f) {
  std::vector<std::thread> threads;
  for (int i = 0; i < n; ++i) threads.emplace_back(f, i);
  for (std::thread& t : threads) t.join();
}

int main(int argc, char** argv) {
  const int steps = argc == 3 && std::strcmp(argv[1], "--steps") == 0 ? std::stoi(argv[2]) : 60;
  constexpr int kThreads = 4;
  bool good = true;

  double losses[kThreads];
  in_threads(kThreads, [&](int i) { losses[i] = train(u64(i / 2), steps); });
  std::printf("models trained side by side: losses %.4f %.4f (seed 0), %.4f %.4f (seed 1)\n",
              losses[0], losses[1], losses[2], losses[3]);
  good &= losses[0] == losses[1] && losses[2] == losses[3];

  Net shared;
  shared.eval();
  const Tensor x = randn({8, 1, 8, 8});
  Tensor answers[kThreads];
  in_threads(kThreads, [&](int i) {
    const NoGrad no_grad;
    for (int k = 0; k < steps; ++k) answers[i] = shared(x.narrow(0, 0, 4 + k % 4));
  });
  for (const Tensor& a : answers) good &= equal(a, answers[0]);
  std::printf("one model asked by %d threads: the same answers %s\n", kThreads,
              good ? "everywhere" : "NOT everywhere");

  std::mutex mutex;
  std::vector<Tensor> handed;
  in_threads(kThreads, [&](int i) {
    for (int k = 0; k < 20 * steps; ++k) {
      Tensor t = i % 2 == 0 ? ones({i + k % 5, 16}) : Tensor();
      const std::lock_guard lock(mutex);
      if (t.defined())
        handed.push_back(std::move(t));
      else
        handed.clear();
    }
    (void)memory::stats(Device::cpu());
  });
  handed.clear();
  std::printf("after handing tensors over: %.1f MB live, %.1f MB reserved\n",
              double(memory::stats(Device::cpu()).live) * 1e-6,
              double(memory::stats(Device::cpu()).reserved) * 1e-6);
  if (!good) std::printf("WRONG\n");
  return good ? 0 : 1;
}
