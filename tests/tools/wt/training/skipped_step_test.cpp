// An inf in the middle of a layer of an f16 run: one step is skipped, and the report says in which
// layer it was.
#include <string_view>

#include "warptape/core/mode.h"
#include "warptape/core/profiler.h"
#include "warptape/core/storage.h"
#include "warptape/tests/support/captured_output.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tools/wt/training/train.h"

using namespace wt;
using namespace wt::tools;

namespace {

// Writes an infinity into the output of some products of the training's forwards, counted from 0.
struct Injected : profiler::Observer {
  std::vector<int> into;
  int calls = 0;
  const Storage* output = nullptr;
  static bool is_linear(const OpInfo* op) { return op && std::string_view(op->name) == "linear"; }
  void allocated(const profiler::Memory& m) noexcept override {
    if (is_linear(m.owner) && m.category == Category::activation && mode.grad)
      output = static_cast<const Storage*>(m.storage);
  }
  void end(const profiler::Range& r) noexcept override {
    if (r.kind != profiler::Kind::op || !is_linear(r.op) || !mode.grad || !output) return;
    const int call = calls++;
    for (const int i : into)
      if (i == call) static_cast<u16*>(output->data)[0] = 0x7C00;
    output = nullptr;
  }
};

}  // namespace

TEST_CASE("an injected inf skips one step of a run, and the report names the layer", "[tools]") {
  const TempDir dir;
  wt_test::write_tiny_fashion(dir, 64, 16);
  TrainOptions o;
  o.recipe = "fashion";
  o.device = "cpu";
  o.set = {"model=mlp"};
  o.data = dir.path;
  o.out = dir / "run";
  o.batch = 8;
  o.steps = 6;
  o.log_every = 1;
  o.precision = "f16";
  Injected inf;
  // Three products a step: the second one of the third step, and of the step that explains it.
  inf.into = {7, 10};
  std::string said;
  {
    const profiler::ObserverScope scope(inf);
    const CapturedOutput output;
    CHECK(train(o) == 0);
    said = output.text();
  }
  CHECK(inf.calls == 3 * (6 + 1));
  CHECK(mentions(said, "\"skipped_steps\":1,"));
  CHECK(mentions(said, "\"steps\":6,"));
  const std::string why = "inf or NaN first in what 3 (Linear) returns";
  const std::string page = slurp(o.out + "/report.html");
  CHECK(page.find("skipped step 3") != page.npos);
  CHECK(page.find("scale 65536: " + why) != page.npos);
  CHECK(page.find("skipped step", page.find("skipped step") + 1) == page.npos);
  const std::string metrics = slurp(o.out + "/metrics.jsonl");
  CHECK(mentions(metrics, "\"scale\":32768"));
  CHECK(metrics.find("\"scale\":16384") == metrics.npos);
}
