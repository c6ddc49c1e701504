// A convolutional network on images: Fashion-MNIST from a folder, or patterns that need no file.
//
//   example_cnn [--steps N] [--data FOLDER]
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "warptape/warptape.h"

using namespace wt;

struct Cnn : nn::Module<Cnn> {
  nn::Sequential body =
      add("body", nn::Sequential{nn::Conv2d{1, 8, {.kernel = 3, .padding = 1, .bias = false}},
                                 nn::BatchNorm2d{8}, nn::ReLU{}, nn::MaxPool2d{2},
                                 nn::Conv2d{8, 16, {.kernel = 3, .padding = 1, .bias = false}},
                                 nn::BatchNorm2d{16}, nn::ReLU{}, nn::MaxPool2d{2}, nn::Flatten{}});
  nn::Dropout drop = add("drop", nn::Dropout{0.1});
  nn::Linear head = add("head", nn::Linear{16 * 7 * 7, 10});
  Tensor forward(Tensor x) { return head(drop(body(std::move(x)))); }
};

// Any two data sets of images [1, 28, 28] and labels in [0, 10).
template <class Train, class Test>
static void train_on(const Train& images, const Test& unseen, int steps) {
  Cnn net;
  optim::Sgd opt{net, {.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true}};
  TrainStep step{net, opt, {.clip_norm = 5.0, .schedule = optim::one_cycle(steps + 1)}};
  data::Loader loader{images, {.batch = 64, .shuffle = true, .seed = 1, .drop_last = true}};
  for (int done = 0; done < steps;) {
    for (const auto& batch : wt::progress(loader, {.desc = "train", .leave = false})) {
      const StepResult r =
          step(batch, [&](const data::Batch& b) { return cross_entropy(net(b.x), b.y); });
      if (++done % 20 == 0) std::printf("step %4d  loss %.3f\n", done, r.loss());
      if (done == steps) break;
    }
  }
  metrics::ConfusionMatrix matrix(10);
  data::Loader test{unseen, {.batch = 250}};
  evaluate(net, test, matrix);
  std::printf("%serror rate %.4f\n", matrix.report().text().c_str(), 1 - matrix.value());
}

int main(int argc, char** argv) {
  std::map<std::string, const char*> options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  const char* folder = options.count("--data") ? options["--data"] : nullptr;
  const int steps = options.count("--steps") ? std::atoi(options["--steps"]) : folder ? 900 : 100;
  manual_seed(1);
  if (folder)
    train_on(data::FashionMnist{folder}, data::FashionMnist{folder, {.train = false}}, steps);
  else
    train_on(data::SyntheticImages{{.samples = 4000, .noise = 2}},
             data::SyntheticImages{{.samples = 1000, .noise = 2, .first = 4000}}, steps);
  return 0;
}
