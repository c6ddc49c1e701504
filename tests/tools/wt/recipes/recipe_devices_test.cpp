// The recipes' training on simt beside the cpu: equal seeds, every step's loss within 1e-3
// relative. 50 steps, 10 where rungs are swapped, 4 where each has a run of its own; 4 under the
// sanitizers and the race checker. `wt train` itself, with WT_KERNEL, is in wt_train_test.sh.
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "warptape/core/random.h"
#include "warptape/kernels/run.h"
#include "warptape/kernels/simt/executor.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/test_data.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/recipes/recipes.h"

using namespace wt;

namespace {

constexpr double kTolerance = 1e-3;
const Device kSimt{DeviceKind::simt, 0};

bool plain() { return std::string(simt_flavour()) == "plain"; }

// What the executor did so far: another rung launches other threads, or lets them meet otherwise.
using Work = std::array<uint64_t, 6>;
Work work() {
  const SimtStats s = simt_stats();
  return {s.launches, s.blocks, s.threads, s.switches, s.barriers, s.collectives};
}
Work since(const Work& before) {
  Work w = work();
  for (size_t i = 0; i < w.size(); ++i) w[i] -= before[i];
  return w;
}

struct Problem {
  const char* recipe;
  std::vector<std::string> set;
  std::string data;
  i64 batch;
  int steps = plain() ? 50 : 4;
};
const std::vector<std::string> kMlp = {"model=mlp"};
const std::vector<std::string> kTinyGpt = {"layers=1", "heads=2", "channels=16", "context=16",
                                           "dropout=0.1"};

constexpr int kSwapped = 10;  // the steps of a run whose rungs are swapped

struct Run {
  std::vector<double> losses;
  Work work{};  // until so many steps are done
};

// The first steps as `wt train` would take them, the same of few as of many. From step `from` on
// the rung `kernel`, "CONTRACT:VARIANT", if there is one.
Run train(const Problem& p, Device d, const std::string& kernel = "", int from = 0) {
  const Work before = work();
  Run run;
  manual_seed(3);
  const auto recipe = tools::find_recipe(p.recipe).make(tools::Settings(p.set));
  const tools::RecipeDefaults o = recipe->defaults();
  // An order in which no rounding turns over a relu that the losses then part by (seed 0 has one).
  data::Loader<data::AnyDataset> loader{recipe->load(p.data).train,
                                        {.batch = p.batch, .shuffle = true, .seed = 2}};
  recipe->model().to(d);
  recipe->model().train();
  optim::AdamW opt{recipe->model(), {.lr = o.lr, .weight_decay = o.weight_decay}};
  TrainStep step{recipe->model(), opt, {.clip_norm = o.clip}};
  std::optional<VariantScope> rung;
  for (int i = 0; i < p.steps; ++i) {
    if (i == from && !kernel.empty()) {
      const size_t colon = kernel.find(':');
      rung.emplace(kernel.substr(0, colon), kernel.substr(colon + 1));
    }
    data::Batch b;
    if (!loader.next(b)) loader.next(b);
    run.losses.push_back(
        step(b, [&](const data::Batch& part) { return recipe->loss(part); }).loss());
    if (i + 1 == std::min(p.steps, kSwapped)) run.work = since(before);
  }
  return run;
}

void check_follows(const std::vector<double>& cpu, const std::vector<double>& simt) {
  REQUIRE(simt.size() > 0);
  REQUIRE(simt.size() <= cpu.size());
  double worst = 0;
  for (size_t i = 0; i < simt.size(); ++i) {
    CAPTURE(i, cpu[i], simt[i]);
    const double off = std::fabs(simt[i] - cpu[i]) / std::fabs(cpu[i]);
    worst = std::max(worst, off);
    CHECK(off <= kTolerance);
  }
  std::printf("largest relative difference of %zu losses: %.2g\n", simt.size(), worst);
}

// Equal losses prove nothing if nothing was learnt. Batches differ: halves of the run are compared.
void check_learns(const std::vector<double>& losses) {
  if (!plain())
    return;  // the same steps on the same cpu, and more of them, are in the plain flavour
  const auto middle = losses.begin() + std::ssize(losses) / 2;
  CHECK(std::accumulate(middle, losses.end(), 0.0) < std::accumulate(losses.begin(), middle, 0.0));
}

void check_recipe(Problem p) {
  const Device d = ready(kSimt);
  const std::vector<double> cpu = train(p, Device::cpu()).losses;
  check_learns(cpu);
  const Run best = train(p, d);
  check_follows(cpu, best.losses);
  INFO("every naive rung from the middle on");
  p.steps = std::min(p.steps, kSwapped);
  const Run swapped = train(p, d, "*:naive", p.steps / 2);
  check_follows(cpu, swapped.losses);
  CHECK(swapped.work != best.work);
}

// Each rung of these contracts for a whole run of a problem that check_recipe() has shown to be
// learnt. At least one of each must be another than runs anyway.
void check_rungs(const Problem& p, const std::vector<std::string>& contracts) {
  const Device d = ready(kSimt);
  const std::vector<double> cpu = train(p, Device::cpu()).losses;
  const Run best = train(p, d);
  check_follows(cpu, best.losses);
  for (const std::string& wanted : contracts) {
    int rungs = 0;
    for (const ContractInfo& c : all_contracts()) {
      if (c.name != wanted) continue;
      for (int i = 0; i < c.count(DeviceKind::simt); ++i) {
        const std::string rung = c.variant(DeviceKind::simt, i).name, kernel = wanted + ":" + rung;
        if (i == 0 && rung != "naive") continue;  // the best one runs anyway
        INFO(kernel);
        std::printf("%s: ", kernel.c_str());
        try {
          const Run other = train(p, d, kernel);
          check_follows(cpu, other.losses);
          rungs += other.work != best.work;  // else it is the one that runs anyway
        } catch (const UsageError& e) {      // it says why it does not take these arguments
          std::printf("%s\n", e.what());
        }
      }
    }
    INFO(wanted);
    CHECK(rungs > 0);
  }
}

}  // namespace

TEST_CASE("a recipe's device: auto is the best one, others are called by name") {
  const Device best = ready(kSimt);
  CHECK(tools::device_for("auto", best) == best);
  CHECK(tools::device_for("cpu", best) == Device::cpu());
  CHECK_THROWS_AS(tools::device_for("gpu", best), UsageError);
}

TEST_CASE("charlm on simt follows the cpu, also when every rung is swapped in the middle") {
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 60);
  check_recipe({"charlm", kTinyGpt, dir / "text", 8});
}

TEST_CASE("fashion on simt follows the cpu, also when every rung is swapped in the middle") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 64, 8);
  check_recipe({"fashion", kMlp, dir.path, 8});
}

TEST_CASE("fashion's CNN on simt follows the cpu, also when every rung is swapped in the middle") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 64, 8);
  check_recipe({"fashion", {}, dir.path, 4});
}

TEST_CASE("cifar on simt follows the cpu, also when every rung is swapped in the middle") {
  const TempDir dir;
  wt_test::write_tiny_cifar(dir, 32);
  // Of four images the last stage has 64 values a channel: one relu or maximum that a rounding
  // turns over, and the losses part.
  check_recipe({"cifar", {"width=4", "flip=false"}, dir.path, 8});
  // The same images mirrored at random: on that way a rounding turns one over in the sixth step,
  // and after thirteen the losses are 2e-3 apart. Two steps show that the draws are the same.
  const Problem flips{"cifar", {"width=4"}, dir.path, 8, 2};
  check_follows(train(flips, Device::cpu()).losses, train(flips, ready(kSimt)).losses);
}

TEST_CASE("fashion on simt follows the cpu on the real images") {
  const std::string images = test_data("fashion-mnist/train-images-idx3-ubyte.gz");
  if (images.empty()) SKIP_TEST("no fashion-mnist in WT_TEST_DATA or shared/data");
  const Problem p{"fashion", kMlp, images.substr(0, images.rfind('/')), 16};
  const std::vector<double> cpu = train(p, Device::cpu()).losses;
  check_learns(cpu);
  check_follows(cpu, train(p, ready(kSimt)).losses);
}

TEST_CASE("charlm and fashion on simt follow the cpu with each other rung") {
  if (!plain()) return;  // above, all at once
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 60);
  wt_test::write_tiny_fashion(dir, 64, 8);
  check_rungs({"charlm", kTinyGpt, dir / "text", 8, 4},
              {"matmul", "cross_entropy_forward", "cross_entropy_backward", "dropout",
               "embedding_forward", "embedding_backward", "adamw_step", "grad_norm", "step_decide",
               "gelu", "gelu_backward", "layer_norm_forward", "layer_norm_backward_input",
               "attention_forward", "attention_backward"});
  check_rungs({"fashion", kMlp, dir.path, 8, 4}, {"matmul", "relu", "relu_backward"});
}

TEST_CASE("cifar on simt follows the cpu with each other rung") {
  if (!plain()) return;
  const TempDir dir;
  wt_test::write_tiny_cifar(dir, 32);
  check_rungs({"cifar", {"width=4", "flip=false"}, dir.path, 8, 2},
              {"conv_forward", "conv_backward_input", "conv_backward_weight", "channel_stats",
               "channel_norm_forward", "channel_norm_sums", "channel_norm_backward"});
}
