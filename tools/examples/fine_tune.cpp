// Fine-tuning: a network learns one task and is saved; its body is loaded under a new head, frozen,
// the head is trained on another task, then all of it with a smaller rate for the body.
//
//   example_fine_tune [--steps N] [--weights FILE]
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "warptape/warptape.h"

using namespace wt;

struct Net : nn::Module<Net> {
  nn::Sequential body =
      add("body", nn::Sequential{nn::Conv2d{1, 8, {.kernel = 5, .stride = 2}}, nn::BatchNorm2d{8},
                                 nn::ReLU{}, nn::Conv2d{8, 16, {.kernel = 3, .stride = 2}},
                                 nn::BatchNorm2d{16}, nn::ReLU{}, nn::Flatten{}});
  nn::Linear head;
  explicit Net(i64 classes) : head(add("head", nn::Linear{16 * 5 * 5, classes})) {}
  Tensor forward(Tensor x) { return head(body(std::move(x))); }
};

static void train(Net& net, optim::Optimizer& opt, const data::SyntheticImages& images, int steps) {
  TrainStep step{net, opt, {.clip_norm = 1.0}};
  data::Loader loader{images, {.batch = 50, .shuffle = true, .seed = 3}};
  for (int done = 0; done < steps;)
    for (auto& batch : loader) {
      step(batch, [&](const data::Batch& b) { return cross_entropy(net(b.x), b.y); });
      if (++done == steps) break;
    }
}

int main(int argc, char** argv) {
  hold_standard_descriptors();  // or the weights' file could get the number of a closed stdout
  std::map<std::string, std::string> options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  const int steps = options.count("--steps") ? std::stoi(options["--steps"]) : 40;
  const std::string own = std::filesystem::temp_directory_path() / "fine_tune.safetensors";
  const std::string file = options.count("--weights") ? options["--weights"] : own;
  manual_seed(1);
  {
    Net first{10};  // ten patterns, many images
    optim::AdamW opt{first, {.lr = 2e-3}};
    train(first, opt, data::SyntheticImages{{.samples = 2000, .noise = 2, .seed = 1}}, 2 * steps);
    nn::save_model(first, file);
  }

  // Four other patterns and few images. The head has another shape: what fits is loaded.
  const data::SyntheticImages few{{.samples = 200, .classes = 4, .noise = 2, .seed = 2}};
  const data::SyntheticImages unseen{
      {.samples = 400, .classes = 4, .noise = 2, .seed = 2, .first = 200}};
  data::Loader test{unseen, {.batch = 200}};
  Net net{4};
  const nn::LoadStateResult rest = nn::load_model(net, file, {.strict = false});
  for (const auto& m : rest.misshapen)
    std::printf("not loaded: %s\n", str(m.name, " ", m.there, ", here ", m.here).c_str());
  if (!rest.missing.empty() || !rest.unexpected.empty()) return 1;

  net.requires_grad_("body.*", false);
  optim::AdamW head{net, {.lr = 5e-3}};  // frozen parameters are left out
  train(net, head, few, steps);
  std::printf("head alone: %s\n", evaluate(net, test, {"accuracy", "loss"}).text().c_str());

  net.requires_grad_(true);
  optim::AdamW all{net, {.lr = 1e-3, .groups = {{.names = {"body.*"}, .lr = 1e-4}}}};
  train(net, all, few, steps);
  std::printf("all of it:  %s\n", evaluate(net, test, {"accuracy", "loss"}).text().c_str());
  nn::save_model(net, file);
  if (file == own) std::filesystem::remove(file);
  return 0;
}
