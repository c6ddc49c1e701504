// The race of the optimizers: equal conditions for all, and what becomes of its runs.
#include "warptape/tools/wt/measure/race.h"

#include <algorithm>
#include <cmath>

#include "warptape/core/error.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tools/wt/measure/race_output.h"

using namespace wt::tools;
using wt::i64;

namespace {

TrainOptions tiny(std::vector<std::string> more = {}) {
  TrainOptions o;
  o.recipe = kOptimizerRace;
  o.device = "cpu";
  o.steps = 20;
  o.batch = 16;
  o.quiet = true;
  o.set = {"model=mlp", "width=4", "seeds=2", "held_out=50"};
  o.set.insert(o.set.end(), more.begin(), more.end());
  return o;
}

Race run(const TrainOptions& o) {
  return RacePlan(o).run([] { return false; });
}

std::size_t racer(const Race& race, const std::string& name) {
  for (std::size_t r = 0; r < race.racers.size(); ++r)
    if (race.racers[r].name == name) return r;
  FAIL("no racer " << name);
  return 0;
}

const RaceRun& run_of(const Race& race, const std::string& name, wt::u64 seed) {
  for (const RaceRun& r : race.runs)
    if (r.racer == racer(race, name) && r.seed == seed) return r;
  FAIL("no run of " << name);
  return race.runs[0];
}

int lines(const std::string& text) { return int(std::count(text.begin(), text.end(), '\n')); }

}  // namespace

TEST_CASE("optimizer race: every optimizer with every seed, from the same weights") {
  const Race race = run(tiny());
  REQUIRE(race.racers.size() == 10);
  REQUIRE(race.runs.size() == 20);
  for (const RaceRun& r : race.runs) {
    CAPTURE(race.racers[r.racer].name);
    CHECK(r.finished);
    CHECK(r.steps == 20);
    CHECK(r.train.size() == 20);
    REQUIRE(r.evals.size() == 6);
    CHECK(r.evals.back().step == 20);
    const RaceRun& first = race.runs[r.seed == race.runs[0].seed ? 0 : 10];
    CHECK(r.evals[0].loss == first.evals[0].loss);
    CHECK(r.train[0].second == first.train[0].second);  // the same first batch
    CHECK(r.evals.back().loss != r.evals[0].loss);
  }
  CHECK(race.runs[0].evals[0].loss != race.runs[10].evals[0].loss);
  CHECK(race.runs[0].train[0].second != race.runs[10].train[0].second);
}

TEST_CASE("optimizer race: Adam and AdamW without weight decay are one and the same, to the bit") {
  TrainOptions o = tiny();
  o.weight_decay = 0;
  const Race race = run(o);
  for (const wt::u64 seed : {1, 2}) {
    CHECK(run_of(race, "adam", seed).train == run_of(race, "adamw", seed).train);
    CHECK(run_of(race, "adam", seed).train != run_of(race, "sgd", seed).train);
  }
  const Race decayed = run(tiny());
  CHECK(run_of(decayed, "adam", 1).train != run_of(decayed, "adamw", 1).train);
  CHECK(run_of(decayed, "adam", 1).train == run_of(race, "adam", 1).train);  // and repeatable
  const Race lr = run(tiny({"lr_adam=0.0123"}));
  CHECK(lr.racers[racer(lr, "adam")].lr == 0.0123);
  CHECK(run_of(lr, "adam", 1).train != run_of(decayed, "adam", 1).train);
}

TEST_CASE("optimizer race: a rate that is far too high is a divergence of that optimizer only") {
  TrainOptions o = tiny({"lr_sgd=1000000"});
  o.seed =
      2;  // of seed 1 the first step leaves a network whose units are all dead: no step follows
  const Race race = run(o);
  const RaceRow row = race_rows(race).back();
  CHECK(race.racers[row.racer].name == "sgd");
  CHECK(row.diverged == 2);
  CHECK(row.finished == 0);
  CHECK(run_of(race, "sgd", 2).steps < 20);
  for (const RaceRun& r : race.runs) CHECK(r.finished == (r.racer != row.racer));
  CHECK(mentions(race_table(race), "2 diverged"));
}

TEST_CASE("optimizer race: stopped at any step, what is there is kept") {
  for (const int stop_after : {0, 1, 25, 100}) {
    CAPTURE(stop_after);
    int asked = 0, told = 0;
    RacePlan plan(tiny());
    const Race race = plan.run([&] { return asked++ >= stop_after; },
                               [&](const Race& r) { told = int(r.runs.size()); });
    CHECK(told == int(race.runs.size()));
    if (stop_after == 0) CHECK(race.runs.empty());
    if (!race.runs.empty()) CHECK(!race.runs.back().finished);
    for (std::size_t i = 0; i + 1 < race.runs.size(); ++i) CHECK(race.runs[i].finished);
    CHECK(race_rows(race).size() == 10);
    CHECK(mentions(race_table(race), "not finished"));
    CHECK(mentions(race_json(race), race.runs.size() > 1 ? "\"best\":\"" : "\"best\":null"));
    CHECK(mentions(race_page(race), "</html>"));
    CHECK(race_svg(race).find("</svg>") != std::string::npos);
  }
}

TEST_CASE("optimizer race: rows have means and spreads over the finished runs, the best first") {
  Race race;
  race.recipe = "r<b>", race.settings = "a=1", race.device = "cpu", race.item = "images";
  race.steps = 2, race.batch = 8, race.seeds = 3, race.held_out = 10;
  race.racers = {
      {"slow", "sgd", 0.5}, {"fast", "adam", 1e-3}, {"wild", "sgd", 9}, {"late", "sgd", 1}};
  const auto add = [&](std::size_t r, wt::u64 seed, double loss, double accuracy) {
    RaceRun run{.racer = r, .seed = seed};
    run.train = {{1, 9}, {2, loss * 2}}, run.evals = {{0, 5, 0.1}, {2, loss, accuracy}};
    run.steps = 2, run.seconds = double(seed), run.finished = true;
    race.runs.push_back(run);
  };
  for (const wt::u64 s : {1, 2, 3}) add(0, s, 0.5 + 0.1 * double(s), 0.5);
  for (const wt::u64 s : {1, 2, 3}) add(1, s, 0.25, 0.9);
  race.runs.push_back({.racer = 2,
                       .seed = 1,
                       .train = {{1, 3}},
                       .evals = {{0, 5, 0.1}},
                       .steps = 1,
                       .diverged = true});
  const auto rows = race_rows(race);
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].racer == 1);
  CHECK(rows[1].racer == 0);
  CHECK(std::abs(rows[1].loss.mean - 0.7) < 1e-12);
  CHECK(std::abs(rows[1].loss.deviation - 0.1) < 1e-12);
  CHECK(rows[0].loss.deviation == 0);
  CHECK(rows[1].seconds == 2);
  CHECK(std::isnan(rows[2].loss.mean));
  const std::string table = race_table(race);
  CHECK(mentions(table,
                 "fast       0.001  0.5000 +- 0.0000  0.2500 +- 0.0000  90.00 +- 0.00      2.0"));
  CHECK(mentions(table, "1 diverged, 2 not finished"));
  CHECK(mentions(table, "3 not finished"));
  CHECK(mentions(race_json(race), "\"best\":\"fast\""));
  CHECK(mentions(race_json(race), "\"eval_loss\":null"));
  const std::string csv = race_csv(race);
  CHECK(lines(csv) == 1 + 6 * 3 + 2);
  CHECK(mentions(csv, "slow,1,0,,5,0.1\nslow,1,1,9,,\nslow,1,2,1.2,0.6,0.5\n"));
  const std::string page = race_page(race);
  CHECK(mentions(page, "r&lt;b&gt;"));
  for (const char* part : {"<link", "<img", "<script", " src=", "@import", "url("}) {
    CAPTURE(part);
    CHECK(page.find(part) == page.npos);
  }
  race.runs.clear();
  CHECK(mentions(race_page(race), "no finite value"));
}

TEST_CASE("optimizer race: options that mean nothing here are refused before anything is made") {
  const auto refusal = [](auto change, std::vector<std::string> set = {}) {
    TrainOptions o = tiny(std::move(set));
    change(o);
    return message_of([&] { RacePlan{o}; });
  };
  const auto nothing = [](TrainOptions&) {};
  CHECK(mentions(refusal([](auto& o) { o.optimizer = "sgd"; }), "takes no --optimizer"));
  CHECK(mentions(refusal([](auto& o) { o.lr = 1; }), "Try --set lr_adam=1e-3"));
  CHECK(mentions(refusal([](auto& o) { o.resume = true; }), "takes no --resume"));
  CHECK(mentions(refusal([](auto& o) { o.dry_run = true; }), "takes no --dry-run"));
  CHECK(mentions(refusal([](auto& o) { o.schedule = "plateau"; }), "takes no --schedule plateau"));
  CHECK(mentions(refusal(nothing, {"lr_adma=1"}), "did you mean 'lr_adam'"));
  CHECK(mentions(refusal(nothing, {"recipe=fashon"}), "did you mean 'fashion'"));
  CHECK(mentions(refusal(nothing, {"nois=1"}), "did you mean 'noise'"));
  CHECK(mentions(refusal([](auto& o) { o.set = {"seeds=0"}; }), "from 1 to 1000"));
  CHECK(mentions(refusal(nothing, {"recipe=charlm"}), "no setting 'model'"));
  TrainOptions large = tiny();
  large.batch = 100'000;
  CHECK(mentions(message_of([&] { run(large); }), "a batch of 100000 is larger than the data"));
  TrainOptions data = tiny({"recipe=synthetic"});
  data.data = "/nowhere";
  CHECK(mentions(message_of([&] { run(data); }), "takes no --data"));
  data = tiny();
  data.data = "/nowhere";  // is of Fashion-MNIST then
  data.set = {"model=mlp"};
  CHECK(mentions(message_of([&] { run(data); }), "/nowhere"));
}

TEST_CASE("optimizer race: results are written whole, and not over those of another run") {
  const TempDir dir;
  TrainOptions o = tiny();
  const Race race = run(o);
  write_race(dir.path, race);
  CHECK(dir.count() == 3);
  CHECK(lines(slurp(dir / "race.csv")) == 1 + 20 * 21);
  CHECK(slurp(dir / "race.svg").ends_with("</svg>\n"));
  CHECK(slurp(dir / "report.html").ends_with("</html>\n"));
  o.out = dir.path;
  CHECK(mentions(message_of([&] { run_race(o); }), "holds race.csv of another run"));
  std::filesystem::remove(dir / "race.csv");
  spit(dir / "metrics.jsonl", "");
  CHECK_THROWS_AS(run_race(o), wt::CheckpointError);
}

TEST_CASE("precision race: f32, f16 and bf16 from the same weights, f32 as a run of its own") {
  TrainOptions o = tiny();
  o.recipe = kPrecisionRace;
  const Race race = run(o);
  REQUIRE(race.runs.size() == 6);
  for (const RaceRun& r : race.runs) {
    CAPTURE(race.racers[r.racer].name, r.seed);
    CHECK(r.finished);
    CHECK(r.skipped == 0);
    const RaceRun& f32 = run_of(race, "f32", r.seed);
    CHECK(r.evals[0].loss == f32.evals[0].loss);
    CHECK((r.train == f32.train) == (r.racer == 0));
    CHECK(std::abs(r.evals.back().loss - f32.evals.back().loss) < 0.05 * f32.evals.back().loss);
  }
  CHECK(race.racers[0].lr == RacePlan(o).make_recipe()->defaults().lr);
  o.lr = 0.0123;
  CHECK(RacePlan(o).start().racers[2].lr == 0.0123);
  o.precision = "f16";
  CHECK(mentions(message_of([&] { RacePlan{o}; }), "precision-race takes no --precision"));
  o = tiny({"lr_adam=1"});
  o.recipe = kPrecisionRace;
  CHECK(mentions(message_of([&] { RacePlan{o}; }), "no setting 'lr_adam'"));
}

TEST_CASE("precision race: rows say how many deviations a mean is from f32's") {
  Race race;
  race.name = kPrecisionRace;
  race.recipe = "r", race.settings = "a=1", race.device = "cpu", race.item = "images";
  race.steps = 2, race.batch = 8, race.seeds = 2, race.held_out = 10;
  race.racers = {{"f32", "adamw", 1e-3}, {"f16", "adamw", 1e-3}, {"bf16", "adamw", 1e-3}};
  const auto add = [&](std::size_t r, wt::u64 seed, double loss, i64 skipped) {
    RaceRun run{.racer = r, .seed = seed};
    run.train = {{2, loss}}, run.evals = {{2, loss, 0.5}};
    run.steps = 2, run.skipped = skipped, run.finished = true;
    race.runs.push_back(run);
  };
  add(0, 1, 1.0, 0), add(1, 1, 0.7, 1), add(0, 2, 1.2, 0), add(1, 2, 0.9, 2);
  const std::vector<RaceRow> rows = race_rows(race);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].racer == 0);  // not the best first
  CHECK(rows[0].distance == 0);
  CHECK(std::abs(rows[1].distance - -0.3 / std::sqrt(0.02)) < 1e-9);
  CHECK(rows[1].skipped == 1.5);
  CHECK(std::isnan(rows[2].distance));
  const std::string table = race_table(race);
  CHECK(mentions(table, "precision"));
  CHECK(mentions(table, "     -2.12      1.5\n"));
  CHECK(mentions(race_json(race), "\"precision\":\"f16\""));
  CHECK(mentions(race_json(race), "\"from_f32\":-2.12"));
  CHECK(!mentions(race_json(race), "\"best\""));
  CHECK(race_csv(race).starts_with("precision,seed,"));
  CHECK(mentions(race_page(race), "Precision race: r on cpu"));
}
