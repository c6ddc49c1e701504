// A multi-layer perceptron on points of three spirals, with a training loop written out.
//
//   example_mlp [--steps N]
#include <cstdio>
#include <cstring>
#include <string>

#include "warptape/warptape.h"

using namespace wt;

struct Mlp : nn::Module<Mlp> {
  nn::Linear fc1 = add("fc1", nn::Linear{2, 64});
  nn::Linear fc2 = add("fc2", nn::Linear{64, 64});
  nn::Linear out = add("out", nn::Linear{64, 3});
  Tensor forward(Tensor x) { return out(relu(fc2(relu(fc1(std::move(x)))))); }
};

int main(int argc, char** argv) {
  const int steps = argc == 3 && std::strcmp(argv[1], "--steps") == 0 ? std::stoi(argv[2]) : 1500;

  manual_seed(1);
  const Device device = Device::best();
  data::SyntheticPointsOptions points{
      .samples = 2000, .shape = data::PointShape::spirals, .classes = 3, .noise = 0.03};
  const data::SyntheticPoints train(points);
  points.first = points.samples;  // the test set goes on where the training set ends
  points.samples = 500;
  const data::SyntheticPoints test(points);

  Mlp net;
  net.to(device);
  std::printf("%s", net.summary().c_str());
  optim::AdamW opt{net, {.lr = 1e-2, .weight_decay = 1e-4}};
  opt.set_schedule(optim::cosine(steps));

  data::Loader loader{train, {.batch = 100, .shuffle = true, .seed = 1, .drop_last = true}};
  int step = 0;
  while (step < steps) {  // an epoch each time around
    metrics::MeanMeter mean;
    for (auto& [x, y] : loader) {
      if (step++ == steps) break;
      const auto loss = cross_entropy(net(x.to(device)), y.to(device));
      opt.zero_grad();
      loss.backward();
      opt.step({.grad_factor = optim::clip_factor(opt, 1.0)});
      mean.add(loss);  // stays on the device until it is read
    }
    if (loader.state().epoch % 15 == 0) std::printf("step %4d  loss %.4f\n", step, mean.value());
  }

  data::Loader unseen{test, {.batch = 500}};
  const Evaluation r = evaluate(net, unseen, {"loss", "accuracy"});
  std::printf("on unseen points: accuracy %.3f, loss %.4f\n", r["accuracy"], r["loss"]);
  return 0;
}
