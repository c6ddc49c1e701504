// What `wt train` keeps when a step throws. The runs themselves are in wt_train_test.sh.
#include "warptape/tools/wt/training/train.h"

#include "warptape/nn/checkpoint_file.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tools/wt/recipes/recipe_training.h"
#include "warptape/tools/wt/training/run_dir.h"

using namespace wt;

TEST_CASE("a run that a step ends keeps the state before that step, with the batch still to come") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 64, 16);
  tools::TrainOptions o;
  o.recipe = "fashion";
  o.set = {"model=mlp"};
  o.data = dir.path;
  o.out = dir / "run";
  o.batch = 4;
  o.steps = 16;
  o.lr = 1e30;  // no float survives it
  o.clip = o.warmup = 0;
  o.save_every = 100;  // no checkpoint before the step that throws
  o.workers = GENERATE(0, 1);
  o.quiet = true;
  CHECK_THROWS_AS(tools::train(o), NumericError);
  i64 newest = 0;
  std::string path;
  {
    const tools::RunDirectory run(o.out);
    REQUIRE_FALSE(run.checkpoints().empty());
    newest = run.checkpoints()[0].step;
    path = run.checkpoints()[0].path;
  }
  REQUIRE(newest > 0);
  REQUIRE(newest < 16);
  const nn::LoadedTensors file = nn::load_tensors(path);
  CHECK(tools::integer_of(file.tensors, "train.step") == newest);
  CHECK(tools::integer_of(file.tensors, "loader.epoch") == 0);
  CHECK(tools::integer_of(file.tensors, "loader.batch") == newest);
  CHECK(tools::integer_of(file.tensors, "loader.samples") > newest);
}

TEST_CASE("a path that no checkpoint can name is refused before anything is made or trained") {
  const TempDir dir;
  tools::TrainOptions o;
  o.recipe = "charlm";
  o.data = dir / "f\xfcr.txt";
  wt_test::write_tiny_text(o.data, 200);
  o.out = dir / "run";
  o.set = {"layers=1", "heads=2", "channels=8", "context=8"};
  o.steps = 1;
  o.quiet = true;
  CHECK(mentions(message_of([&] { tools::train(o); }), "f\\xfcr.txt is not UTF-8"));
  CHECK_FALSE(std::filesystem::exists(o.out));
  o.init_from = std::exchange(o.data, "");
  CHECK(mentions(message_of([&] { tools::train(o); }), "--init-from " + dir.path));
  CHECK_FALSE(std::filesystem::exists(o.out));
  o.data = std::exchange(o.init_from, "");
  o.out.clear();  // nothing is kept: it may be called what it likes
  CHECK(tools::train(o) == 0);
}
