// `wt train --resident`: the training data on the device, the same numbers as without, and a run
// that was interrupted in the middle of an epoch ends as if it had not been.
#include <filesystem>
#include <string>

#include "warptape/tests/support/captured_output.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tools/wt/training/train.h"

using namespace wt;

namespace {

tools::TrainOptions tiny_run(const TempDir& dir, const char* recipe, Device d,
                             const std::string& resident) {
  tools::TrainOptions o;
  o.recipe = recipe;
  o.set = {"model=mlp", "width=8"};
  o.device = to_string(d);
  o.data = dir.path;
  if (o.recipe == "charlm") {
    o.set = {"layers=1", "heads=2", "channels=8", "context=8", "dropout=0.1"};
    o.data = dir / "text";
    o.sample = 0;
  }
  o.out = dir / (std::string(recipe) + to_string(d) + resident);
  o.batch = 8;
  o.steps = 5;  // fashion and cifar: of 3 steps an epoch, the last one of which is not full
  o.save_every = 1;
  o.log_every = 1;
  o.keep = 50;
  o.resident = resident;
  o.quiet = true;
  return o;
}

std::string checkpoint(const tools::TrainOptions& o, int step) {
  return o.out + "/ckpt/step-00000" + std::to_string(step) + ".safetensors";
}

int quietly(const tools::TrainOptions& o) {
  const CapturedOutput output;
  return tools::train(o);
}

}  // namespace

TEST_CASE("trainer: with the data on the device a run has the same bits, also when it is resumed") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 20, 8);
  wt_test::write_tiny_cifar(dir, 4);
  wt_test::write_tiny_text(dir / "text", 30);
  for (const char* recipe : {"fashion", "cifar", "charlm"})
    for (const Device d : wt_test::kernel_devices()) {
      CAPTURE(recipe, to_string(d));
      const tools::TrainOptions off = tiny_run(dir, recipe, d, "off"),
                                on = tiny_run(dir, recipe, d, "on"),
                                automatic = tiny_run(dir, recipe, d, "auto");
      REQUIRE(quietly(off) == 0);
      REQUIRE(quietly(on) == 0);
      const bool automatic_too = wt_test::whole_walk();  // it is one of the two, by the data's size
      if (automatic_too) REQUIRE(quietly(automatic) == 0);
      for (const int step : {1, 3, 5}) {
        CAPTURE(step);
        CHECK(slurp(checkpoint(on, step)) == slurp(checkpoint(off, step)));
        if (automatic_too)
          CHECK(slurp(checkpoint(automatic, step)) == slurp(checkpoint(off, step)));
      }
      const std::string whole = slurp(checkpoint(on, 5));
      for (int step = 3; step <= 5; ++step) std::filesystem::remove(checkpoint(on, step));
      tools::TrainOptions again = on;
      again.resume = true;
      REQUIRE(quietly(again) == 0);
      CHECK(slurp(checkpoint(on, 5)) == whole);
    }
}

TEST_CASE("trainer: --resident on where the device has no room says what to do") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 44, 8);
  tools::TrainOptions small = tiny_run(dir, "fashion", Device::simt(), "on");
  small.out.clear();
  small.memory_limit = 20000;
  CHECK(mentions(message_of([&] { quietly(small); }), "Try a data::Loader over the data"));
}

TEST_CASE("trainer: every recipe trains on synthetic data, on the device too") {
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 30);
  for (const char* recipe : {"fashion", "cifar", "charlm"})
    for (const char* resident : {"off", "on"}) {
      CAPTURE(recipe, resident);
      tools::TrainOptions o = tiny_run(dir, recipe, Device::cpu(), resident);
      o.data = "synthetic";
      o.steps = 3;
      CHECK(quietly(o) == 0);
    }
  for (const char* recipe : {"fashion", "cifar", "charlm"})
    CHECK(slurp(checkpoint(tiny_run(dir, recipe, Device::cpu(), "on"), 3)) ==
          slurp(checkpoint(tiny_run(dir, recipe, Device::cpu(), "off"), 3)));
}
