// What `wt train --dry-run` must not do. That it predicts right is in wt_train_test.sh.
#include "warptape/core/memory.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tools/wt/training/train.h"

using namespace wt;

TEST_CASE("a dry run allocates no bytes of any tensor on any real device") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 64, 16);
  wt_test::write_tiny_text(dir / "text", 60);
  const std::string device = GENERATE("cpu", "simt");
  const std::string recipe = GENERATE("charlm", "fashion");
  const i64 batch = GENERATE(8, 16, 32);
  CAPTURE(device, recipe, batch);
  tools::TrainOptions o;
  o.recipe = recipe;
  o.device = device;
  o.data = recipe == "charlm" ? dir / "text" : dir.path;
  if (recipe == "fashion" && device == "simt") o.set = {"model=mlp"};  // no convolution there
  if (recipe == "charlm") o.set = {"layers=1", "channels=32", "context=16"};
  o.batch = batch;
  o.dry_run = true;
  const LeakGuard guard;
  const Device devices[] = {Device::cpu(), {DeviceKind::simt, 0}};
  u64 before[2], i = 0;
  for (const Device d : devices) before[i++] = memory::stats(d).requests;
  CHECK(tools::train(o) == 0);
  i = 0;
  for (const Device d : devices) CHECK(memory::stats(d).requests == before[i++]);
}

TEST_CASE("a dry run without its data says so") {
  tools::TrainOptions o;
  o.dry_run = true;
  o.recipe = GENERATE("charlm", "fashion");
  o.data = "/no/such/folder";
  CHECK(mentions(message_of([&] { tools::train(o); }), "/no/such/folder"));
}
