// The recipes' training as `wt train --graph` captures it, beside eager steps: equal bits. 60
// steps of charlm and fashion's perceptron; of the CNNs, on the emulated cuda device and under the
// sanitizers and the race checker 4: two warm up, the third is captured, the fourth replays it.
// 200 steps: tests/optim/captured_step_test.cpp.
#include <cstring>
#include <string>
#include <vector>

#include "warptape/core/random.h"
#include "warptape/kernels/simt/executor.h"
#include "warptape/optim/optimizer.h"
#include "warptape/optim/train_step.h"
#include "warptape/tests/optim/devices.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tools/wt/recipes/recipe_device.h"
#include "warptape/tools/wt/recipes/recipes.h"

using namespace wt;

namespace {

struct Problem {
  const char* recipe;
  std::vector<std::string> set;
  std::string data;
  i64 batch;
  DType precision = f32;
  int steps = 60;
};
struct Run {
  std::vector<StepRecord> records;
  std::vector<std::vector<double>> weights;
  i64 captures = 0;
  std::string why_eager;
};

Run train(const Problem& p, Device d, bool graph) {
  manual_seed(3);
  const auto recipe = tools::find_recipe(p.recipe).make(tools::Settings(p.set));
  const tools::RecipeDefaults o = recipe->defaults();
  data::Loader<data::AnyDataset> loader{recipe->load(p.data).train,
                                        {.batch = p.batch, .shuffle = true}};
  recipe->model().to(d);
  recipe->model().train();
  optim::AdamW opt{recipe->model(), {.lr = o.lr, .weight_decay = o.weight_decay}};
  TrainStep step{recipe->model(),
                 opt,
                 {.precision = p.precision,
                  .clip_norm = o.clip,
                  .schedule = optim::warmup(5, optim::cosine(p.steps)),
                  .graph = graph,
                  .ema_decay = 0.9}};
  Run r;
  std::vector<StepResult> results;
  for (int i = 0; i < p.steps; ++i) {
    data::Batch b;
    if (!loader.next(b)) loader.next(b);
    results.push_back(step(b, [&](const data::Batch& part) { return recipe->loss(part); }));
    if (results.size() == 50) {  // the ring that records lie in is not endless
      for (const StepResult& s : results) r.records.push_back(s.read());
      results.clear();
    }
  }
  for (const StepResult& s : results) r.records.push_back(s.read());
  for (const auto& t : recipe->model().state_dict())
    r.weights.push_back(t.tensor.to_vector<double>());
  r.captures = step.captures();
  r.why_eager = step.why_eager();
  return r;
}

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

void check_same(Problem p) {
  const bool plain = std::string(simt_flavour()) == "plain";
  const int steps = plain ? p.steps : 4;
  for (const Device d : wt_test::kernel_devices()) {
    if (d.kind == DeviceKind::cpu || !has_operators(d)) continue;
    INFO(p.recipe << " on " << to_string(d));
    p.steps = d.kind == DeviceKind::cuda ? 4 : steps;
    const Run eager = train(p, ready(d), false), captured = train(p, ready(d), true);
    INFO(captured.why_eager);
    CHECK(captured.why_eager == "");
    CHECK(captured.captures == 1);
    REQUIRE(captured.records.size() == eager.records.size());
    for (size_t i = 0; i < eager.records.size(); ++i) {
      const StepRecord &a = eager.records[i], &b = captured.records[i];
      INFO("step " << i << ": " << a.loss << " and " << b.loss);
      REQUIRE(same_bits(a.loss, b.loss));
      REQUIRE(same_bits(a.grad_norm, b.grad_norm));
      REQUIRE(a.skipped == b.skipped);
    }
    CHECK(eager.weights == captured.weights);
    // Equal losses prove nothing if nothing was learnt.
    if (p.steps > 50) CHECK(eager.records.back().loss < eager.records.front().loss);
  }
}

}  // namespace

TEST_CASE("charlm: captured steps have the bits of eager ones", "[wall][capture]") {
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 60);
  check_same({"charlm",
              {"layers=1", "heads=2", "channels=16", "context=16", "dropout=0.1"},
              dir / "text",
              4});
}

TEST_CASE("fashion: captured steps have the bits of eager ones", "[wall][capture]") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 64, 8);
  check_same({"fashion", {"model=mlp", "width=8"}, dir.path, 4});
  check_same({"fashion", {"model=mlp", "width=8"}, dir.path, 4, f16, 20});
  check_same({"fashion", {}, dir.path, 2, f32, 4});
}

TEST_CASE("cifar: captured steps have the bits of eager ones", "[wall][capture]") {
  const TempDir dir;
  wt_test::write_tiny_cifar(dir, 32);
  check_same({"cifar", {"width=4"}, dir.path, 4, f32, 4});
}
