// `wt models race`: what it measures, what it says, and what it leaves.
#include "warptape/tools/wt/measure/models_race.h"

#include "warptape/core/mode.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tools/wt/recipes/picture_models.h"

using namespace wt;
using namespace wt::tools;

namespace {

ModelsRace made_up() {
  ModelsRace race{.options = {.models = {"resnet18", "mobilenet_v2"}, .batch = 16, .size = 224},
                  .threads = 2,
                  .rows = {}};
  race.rows.push_back({.model = "resnet18",
                       .cost = {11'689'512, 3.6e9, i64{1} << 30},
                       .measured_bytes = (i64{1} << 30) + 4096,
                       .forward_ms = 120,
                       .forward_least_ms = 110,
                       .step_ms = 400,
                       .step_least_ms = 390});
  race.rows.push_back({.model = "mobilenet_v2",
                       .cost = {3'504'872, 0.6e9, i64{2} << 30},
                       .measured_bytes = i64{2} << 30,
                       .forward_ms = 60,
                       .forward_least_ms = 55,
                       .step_ms = 300,
                       .step_least_ms = 290});
  return race;
}

}  // namespace

TEST_CASE("row 83: ResNet-18 beside ResNet-50: forward, step, memory, FLOPs and parameters") {
  const ModelsRaceOptions defaults;
  CHECK(defaults.batch == 16);  // 16 x 3 x 224 x 224
  CHECK(defaults.size == 224);
  if (!wt_test::whole_walk()) SKIP_TEST("seconds in an instrumented build");
  const ModelsRaceOptions o{
      .models = {"resnet18", "resnet50"}, .batch = 2, .size = 32, .seconds = 0.001};
  std::vector<size_t> told;
  const ModelsRace race =
      race_models(o, [&](const ModelsRace& so_far) { told.push_back(so_far.rows.size()); });
  CHECK(told == std::vector<size_t>{1, 2});
  REQUIRE(race.rows.size() == 2);
  const ModelsRaceRow &small = race.rows[0], &large = race.rows[1];
  CHECK(small.cost.parameters == 11'689'512);  // torchvision's counts
  CHECK(large.cost.parameters == 25'557'032);
  CHECK(large.cost.flops > 1.5 * small.cost.flops);
  // A 49th of what 224 x 224 take, but for the layers that have no pixels.
  const double whole = cost_of(models::find_model("resnet18"), {.batch = 1}).flops;
  CHECK(small.cost.flops > whole / 52);
  CHECK(small.cost.flops < whole / 35);
  for (const ModelsRaceRow& r : race.rows) {
    CAPTURE(r.model);
    CHECK(r.forward_ms > 0);
    CHECK(r.forward_least_ms <= r.forward_ms);
    CHECK(r.step_least_ms <= r.step_ms);
    CHECK(r.measured_bytes > 12 * r.cost.parameters);  // weights, gradients, momentum
    CHECK(std::abs(double(r.cost.step_bytes) / double(r.measured_bytes) - 1) < 0.03);
  }
}

TEST_CASE("models race: two small pictures, of which batch norm makes what no training could use") {
  const ModelsRace race =
      race_models({.models = {"mobilenet_v2"}, .batch = 2, .size = 32, .seconds = 0.001});
  REQUIRE(race.rows.size() == 1);
  CHECK(race.rows[0].step_ms > 0);
}

TEST_CASE("models race: pictures that do not go through a model, and models of other things") {
  CHECK(mentions(message_of([] { race_models({.models = {"vit_small_patch16_224"}, .size = 64}); }),
                 "pictures of 64 x 64 do not go through vit_small_patch16_224, whose own are 224"));
  CHECK(mentions(message_of([] { race_models({.models = {"gpt2"}, .size = 64}); }),
                 "gpt2 does not classify pictures"));
  CHECK(mentions(message_of([] { race_models({.models = {"resnet81"}}); }), "resnet18"));
  for (const std::string& name : picture_model_names()) CHECK(name != "unet");
}

TEST_CASE("models race: table, lines, picture and page say the numbers") {
  const ModelsRace race = made_up();
  const std::string table = models_race_table(race);
  CHECK(mentions(table, "16 pictures of 3 x 224 x 224 on cpu, 2 threads; a step with sgd, f32"));
  CHECK(mentions(table, "resnet18         11.69 M    3.6         120      480      400"));
  CHECK(mentions(models_race_json(race, race.rows[0]),
                 "\"forward_ms\":120,\"forward_least_ms\":110,\"step_ms\":400"));
  const std::string svg = models_race_svg(race);
  CHECK(mentions(svg, ">mobilenet_v2</text>"));
  CHECK(mentions(svg, "Time of a forward (ms)"));
  CHECK(svg.find("nan") == std::string::npos);
  const TempDir dir;
  write_models_race(dir.path, race);
  CHECK(slurp(dir / "models.jsonl") ==
        models_race_json(race, race.rows[0]) + "\n" + models_race_json(race, race.rows[1]) + "\n");
  CHECK(slurp(dir / "models.svg") == svg);
  const std::string page = slurp(dir / "report.html");
  CHECK(mentions(page, "<td>11.69 M</td>"));
  CHECK(mentions(page, svg));
}
