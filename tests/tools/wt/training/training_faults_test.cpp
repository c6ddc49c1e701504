// A training step of every kind of model with its Nth allocation failing, for every N: model,
// optimizer, average and random numbers are as before to the bit, and the run ends as one without
// failures.
#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tools/wt/measure/race.h"
#include "warptape/tools/wt/recipes/recipe_training.h"

using namespace wt;
using namespace wt::tools;

namespace {

std::vector<std::vector<u8>> state_of(RecipeTraining& t) {
  std::vector<std::vector<u8>> out;
  for (const nn::NamedTensor& n : t.state()) {
    const Tensor c = n.tensor.contiguous();
    const u8* const p = static_cast<const u8*>(c.impl()->data);
    out.emplace_back(p, p + c.numel() * item_size(c.dtype()));
  }
  return out;
}

struct Run {
  std::unique_ptr<Recipe> recipe;
  std::optional<RecipeTraining> training;
  data::Batch batch;

  Run(std::unique_ptr<Recipe> (*make)(Settings), const std::vector<std::string>& set,
      const std::string& data) {
    manual_seed(6);
    recipe = make(Settings(set));
    TrainOptions o;
    o.ema = 0.9, o.micro_batches = 2;
    RecipeDefaults d = resolve(o, *recipe);
    d.clip = 0.5;
    training.emplace(o, d, *recipe, 10);
    const std::vector<i64> samples{0, 1, 2, 3};
    batch = recipe->load(data).train.batch(samples);
    training->step(batch);
  }
};

}  // namespace

TEST_CASE("training faults: a step of an MLP, a CNN and a transformer", "[tools]") {
  const TempDir dir;
  std::string text;
  for (int i = 0; text.size() < 2000; ++i) text += std::to_string(i * i % 977) + "\n";
  spit(dir / "text", text);
  struct Kind {
    const char* name;
    std::unique_ptr<Recipe> (*make)(Settings);
    std::vector<std::string> set;
    std::string data;
  };
  const Kind kinds[] = {{"mlp", make_synthetic, {"model=mlp", "width=4"}, ""},
                        {"cnn", make_synthetic, {"width=4"}, ""},
                        {"gpt",
                         make_charlm,
                         {"layers=2", "heads=2", "channels=8", "context=8", "dropout=0.1"},
                         dir / "text"}};
  for (const Kind& k : kinds) {
    CAPTURE(k.name);
    const LeakGuard guard;
    Run run(k.make, k.set, k.data);
    u64 failures = 0;
    for (;; ++failures) {
      REQUIRE(failures < 3000);
      const auto before = state_of(*run.training);
      const auto live = memory::live_objects();
      memory::fail_nth_request(failures + 1);
      bool failed = false;
      try {
        run.training->step(run.batch);
      } catch (const OutOfMemory&) {
        failed = true;
      }
      memory::fail_nth_request(0);
      if (!failed) break;
      CAPTURE(failures);
      const bool unchanged = state_of(*run.training) == before;
      REQUIRE(unchanged);
      REQUIRE(memory::live_objects() == live);
    }
    CHECK(failures > 10);
    const auto after = state_of(*run.training);
    Run plain(k.make, k.set, k.data);
    plain.training->step(plain.batch);
    const bool same = state_of(*plain.training) == after;
    CHECK(same);
  }
}
