// ResNet-18 on CIFAR-10 in mixed precision: tensors as they print, a loop with a loss scale, the
// network captured and as a file that runs without its source, and what memory is held.
//
//   example_resnet_amp [--steps N] [--device cuda] [--data FOLDER] [--width 64]
//
// Without --data the pictures are made up, and the network is an eighth as wide, so that a cpu is
// done in seconds (simt in minutes). docs/articles.md has its lines beside PyTorch's; the
// profiler's tables are in profiling.cpp, several ranks in full_pipeline.cpp.
#include <cstdio>
#include <iostream>
#include <map>
#include <optional>
#include <string>

#include "made_up_cifar10.h"
#include "warptape/autograd/saved_graph.h"
#include "warptape/core/memory_footprint.h"
#include "warptape/core/nvtx.h"
#include "warptape/data/transforms.h"
#include "warptape/nn/resnet.h"
#include "warptape/warptape.h"

using namespace wt;

// What prints how.
static void first_steps(Device device) {
  std::cout << tensor({1, 2, 3}, {.device = device}) << "\n";
  auto line = nn::Linear{3, 1}.to(device);
  nn::init::constant_(line.weight, 2);
  nn::init::constant_(line.bias, 0);
  // Of integers it would be an error: layers compute with floats.
  std::cout << line(tensor({{1.f, 2.f, 3.f}}, {.device = device})).detach() << "\n";
  auto conv = nn::Conv2d{3, 32, {.kernel = 3, .stride = 1, .padding = 1}}.to(device);
  const Tensor features = conv(randn({1, 3, 32, 32}, {.device = device}));
  std::cout << features.shape() << ", parameters on " << str(conv.parameters()[0].device()) << "\n";

  auto wide = nn::Linear{1000, 1000}.to(device);
  const Tensor x = randn({64, 1000}, {.device = device});
  const auto time = bench::time(
      [&] { (void)wide(x); }, {.device = device, .warmups = 1, .seconds = 0.01, .min_samples = 1});
  std::printf("a layer of 1000 x 1000 took %d samples to time\n", time.samples);
}

// The network as a file that another program runs, and captured. Returns by how much they differ.
static double deploy(models::ResNet& net, const Tensor& images) {
  net.eval();
  const NoGrad no_grad;
  const Tensor eager = net(images);
  const std::string file = std::filesystem::temp_directory_path() /
                           ("resnet_amp_" + std::to_string(eager.numel()) + ".wtg");
  save_graph(
      file, [&](const Tensor& x) { return net(x); }, images);
  const SavedGraph saved = SavedGraph::load(file, images.device());
  std::filesystem::remove(file);
  std::printf("saved graph: %d launches\n", int(saved.launches()));
  const double difference = amax(wt::abs(saved(images) - eager), Dims::all()).item();

  if (images.device().kind == DeviceKind::cpu) return difference;  // has no launch to spare
  auto captured = capture([&](const Tensor& x) { return net(x); }, images);
  Tensor replayed;
  for (int call = 0; call < 4; ++call) replayed = captured(images);  // runs, runs, is captured
  std::printf("captured graphs: %d\n", int(captured.captures()));
  return std::max(difference, amax(wt::abs(replayed - eager), Dims::all()).item());
}

int main(int argc, char** argv) {
  hold_standard_descriptors();
  std::map<std::string, std::string> options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  const auto option = [&](const char* name, const std::string& otherwise) {
    return options.count(name) ? options[name] : otherwise;
  };
  const int steps = std::stoi(option("--steps", "60"));
  const Device device =
      options.count("--device") ? Device::parse(options["--device"].c_str()) : Device::best();
  manual_seed(1);
  set_benchmark(true);
  first_steps(device);

  std::optional<MadeUpCifar10> made_up;
  if (!options.count("--data")) made_up.emplace(128);
  const std::string root = made_up ? made_up->root() : options["--data"];
  const data::Compose transform{data::RandomCrop{32, 4}, data::RandomHorizontalFlip{},
                                data::ToTensor{},
                                data::Normalize{{0.4914, 0.4822, 0.4465}, {0.247, 0.243, 0.262}}};
  data::Cifar10 train{root, {.train = true, .transform = transform, .seed = 1}};
  data::Loader loader{train, {.batch = 32, .shuffle = true, .seed = 1, .device = device}};

  // 10 classes and a stem for small pictures: 1000 and the stem of 224 x 224 waste head and pixels.
  const i64 width = std::stoi(option("--width", made_up ? "8" : "64"));
  auto net = models::resnet18({.classes = 10, .width = width, .cifar_stem = true}).to(device);
  optim::SGD opt{net, {.lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4}};
  opt.set_schedule(optim::cosine(steps));
  optim::GradScaler scaler;
  double last = 0;
  for (int step = 0; step < steps;) {
    const nvtx::Range range("epoch");  // for Nsight, where it listens
    for (auto [i, batch] : enumerate(loader)) {
      opt.zero_grad();
      const Loss loss = [&] {
        const AutocastScope autocast(DType::f16);
        return cross_entropy(net(batch.x), batch.y);
      }();
      scaler.scale(loss).backward();
      scaler.step(opt);
      scaler.update();
      if (++step % 10 == 0 || step == steps)
        std::printf("epoch %d, step %2d of %d: loss %.4f, scale %.0f\n",
                    int(loader.state().epoch) + 1, int(i) + 1, int(loader.size()),
                    last = loss.item(), scaler.get_scale());
      if (step == steps) break;
    }
  }

  data::Cifar10 test{root, {.train = false}};
  data::Loader unseen{test, {.batch = 32}};
  std::printf("test: %s\n", evaluate(net, unseen, {"loss", "accuracy"}).text().c_str());

  data::Batch some;
  unseen.next(some);
  const double difference = deploy(net, some.x.to(device));
  std::printf("largest difference of the deployed network: %.1e\n", difference);

  const auto megabytes = [](i64 bytes) { return double(bytes) / 1e6; };
  memory::Stats held = memory::stats(device);
  std::printf("allocated %.1f MB, reserved %.1f MB", megabytes(held.live),
              megabytes(held.reserved));
  memory::empty_cache();  // gives back what nobody uses; what does not fit will not fit now
  held = memory::stats(device);
  std::printf(", after empty_cache() reserved %.1f MB\n", megabytes(held.reserved));
  std::printf("loss at the end: %.4f\n", last);
  return difference < 1e-3 ? 0 : 1;
}
