// What the tests of pipelines train, in stages and as one process.
#pragma once
#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "warptape/autograd/ops/loss.h"
#include "warptape/autograd/ops/pointwise.h"
#include "warptape/core/factories.h"
#include "warptape/core/random.h"
#include "warptape/dist/partition.h"
#include "warptape/dist/pipeline.h"
#include "warptape/dist/spawn.h"
#include "warptape/dist/stage_step.h"
#include "warptape/nn/layers.h"
#include "warptape/optim/optimizer.h"
#include "warptape/tests/dist/expect.h"

namespace wt_test {
using namespace wt;

// The same on every rank: seeded anew.
inline nn::Sequential mlp() {
  manual_seed(1);
  return nn::Sequential{nn::Linear{6, 12},
                        [](Tensor x) { return gelu(std::move(x)); },
                        nn::LayerNorm{12},
                        nn::Linear{12, 10},
                        nn::Tanh{},
                        nn::Linear{10, 12},
                        [](Tensor x) { return relu(std::move(x)); },
                        nn::Linear{12, 4}};
}

// 13 samples: micro-batches of 2 and 3, or of 1 and 2; labels that do not count give them unequal
// weights.
struct Samples {
  Tensor x, y;
};
inline Samples samples(i64 n = 13) {
  manual_seed(5);
  Samples s{randn({n, 6}), randint(0, 4, {n})};
  std::vector<i64> labels = s.y.to_vector<i64>();
  for (size_t i = 0; i < labels.size(); i += 3) labels[i] = -100;
  s.y = tensor(labels);
  return s;
}

inline Loss class_loss(const Tensor& output, const Tensor& labels) {
  return cross_entropy(output, labels);
}

// What a training has come to: bits, not about.
struct Trained {
  std::map<std::string, std::vector<double>> weights{};
  std::vector<double> losses{};
  void add(const nn::ModuleBase& m) {
    for (const nn::NamedTensor& t : m.state_dict()) weights[t.name] = t.tensor.to_vector<double>();
  }
  friend bool operator==(const Trained&, const Trained&) = default;
};

// Gradients of micro-batches added up by hand, with the whole net on this thread.
struct PlainLoss {
  double sum = 0, weight = 0;
};
template <class Net>
PlainLoss plain_backward(Net& net, const Samples& s, i64 micro_batches) {
  const i64 n = s.x.size(0), parts = std::min(micro_batches, n);
  PlainLoss all;
  for (i64 k = 0; k < parts; ++k) {
    const i64 begin = n * k / parts, count = n * (k + 1) / parts - begin;
    const Loss loss = class_loss(net(s.x.narrow(0, begin, count)), s.y.narrow(0, begin, count));
    loss.sum.backward();
    all.sum += loss.sum.item();
    all.weight += loss.weight.item();
  }
  return all;
}
template <class Net, class Opt>
double plain_step(Net& net, Opt& opt, const Samples& s, i64 micro_batches) {
  opt.zero_grad();
  const PlainLoss loss = plain_backward(net, s, micro_batches);
  opt.step({.grad_factor = tensor(1 / loss.weight, {.dtype = f64})});
  return loss.sum / loss.weight;
}

// The stages in threads; `part` gives a rank's stage.
template <class Part>
Trained train_in_stages(int ranks, const dist::PipelineOptions& options, int steps, Part part,
                        const Samples& s) {
  Trained result;
  std::mutex mutex;
  Expect expect;
  dist::spawn(ranks, [&](dist::Communicator& comm) {
    auto stage = part(comm.rank());
    optim::AdamW opt{stage, {.lr = 0.05}};
    dist::Pipeline pipe{stage, comm, options};
    manual_seed(7);
    for (int i = 0; i < steps; ++i) {
      opt.zero_grad();
      const Loss loss = pipe.backward(pipe.is_first() ? s.x : Tensor(),
                                      pipe.is_last() ? s.y : Tensor(), class_loss);
      opt.step(dist::agree_on_step(&opt, comm, loss).options);
      const double mean = loss.item();
      const std::lock_guard lock(mutex);
      if (size_t(i) == result.losses.size()) result.losses.push_back(mean);
      expect(result.losses[size_t(i)] == mean, "one loss on all ranks");
    }
    const std::lock_guard lock(mutex);
    result.add(stage);
  });
  expect.report();
  return result;
}

}  // namespace wt_test
