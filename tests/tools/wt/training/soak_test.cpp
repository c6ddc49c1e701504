// A long training run with all that a run does (shuffling, workers, dropout, an average of the
// weights, clipping, evaluations, metrics, TensorBoard events, checkpoints, reports): after a
// warm-up nothing grows. WT_SOAK_STEPS makes it longer; tools/soak.sh reads the lines that begin
// with "soak:".
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "warptape/core/memory.h"
#include "warptape/core/random.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/leak_guard.h"
#include "warptape/tests/support/temp_dir.h"
#include "warptape/tools/wt/measure/race.h"
#include "warptape/tools/wt/recipes/recipe_training.h"
#include "warptape/tools/wt/reports/run_output.h"
#include "warptape/tools/wt/training/evaluation.h"

using namespace wt;
using namespace wt::tools;

// There when the program is linked with AddressSanitizer, which keeps freed memory for a while.
extern "C" void __asan_init() __attribute__((weak));

namespace {

// What the process holds, at equal points of the run.
struct Level {
  i64 step = 0, live = 0, reserved = 0, tensors = 0, storages = 0, nodes = 0, rss = 0;
  u64 requests = 0;  // since the level before
  int files = 0, threads = 0;
};

i64 status_kib(const char* key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return std::atoll(line.c_str() + std::string(key).size());
  return 0;
}

int open_files() {
  int n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++n;
  return n;
}

Level level_at(i64 step, u64 requests_before) {
  const memory::Stats s = memory::stats(Device::cpu());
  const memory::LiveObjects o = memory::live_objects();
  return {.step = step,
          .live = s.live,
          .reserved = s.reserved,
          .tensors = o.tensors,
          .storages = o.storages,
          .nodes = o.nodes,
          .rss = status_kib("VmRSS:"),
          .requests = s.requests - requests_before,
          .files = open_files(),
          .threads = int(status_kib("Threads:"))};
}

// Levels are so many steps apart: five at least. A sanitizer, twenty times as slow, has its own
// eyes.
const i64 kEvery = wt_test::whole_walk() ? 100 : 25;

i64 soak_steps() {
  const char* const asked = std::getenv("WT_SOAK_STEPS");
  return asked ? std::max<i64>(5, std::atoll(asked) / kEvery) * kEvery : 5 * kEvery;
}

struct Plan {
  const char* name;
  std::unique_ptr<Recipe> recipe;
  std::string data;
  i64 batch;
  int workers;
};

std::vector<Level> soak(Plan p, const std::string& folder) {
  const i64 steps = soak_steps(), every = kEvery;
  TrainOptions o;
  o.ema = 0.99, o.batch = p.batch;
  const RecipeDefaults d = resolve(o, *p.recipe);
  const RecipeData data = p.recipe->load(p.data);
  RecipeTraining training(o, d, *p.recipe, steps);
  data::Loader<data::AnyDataset> loader(
      data.train,
      {.batch = d.batch, .shuffle = true, .seed = 4, .drop_last = true, .workers = p.workers});
  RunOutput out(folder, {{"recipe", p.name}});
  out.begin({.version = "0", .recipe = p.name, .device = "cpu", .options = {}}, {});
  std::vector<Level> levels;
  u64 requests = memory::stats(Device::cpu()).requests;
  for (i64 step = 1; step <= steps; ++step) {
    {
      data::Batch batch;
      if (!loader.next(batch) && !loader.next(batch)) FAIL("no data");
      const wt::StepRecord r = training.step(batch).read();
      if (step % 10 == 0)
        out.log(
            tools::StepRecord{.step = step, .loss = r.loss, .lr = r.lr, .grad_norm = r.grad_norm},
            1.0);
    }
    if (step % every != 0) continue;
    {
      const optim::EmaScope averaged(training.optimizer());
      const EvalResult e = evaluate(*p.recipe, data.held_out);
      out.log(EvalRecord{step, 0, e.loss, e.accuracy});
    }
    out.save(step, training.state(), 2);
    levels.push_back(level_at(step, requests));
    requests = memory::stats(Device::cpu()).requests;
    if (step % std::max<i64>(every, steps / 10) == 0) {
      const Level& l = levels.back();
      std::printf(
          "soak: %s step %lld: live %lld bytes in %lld tensors, reserved %lld, requests a step "
          "%.2f, RSS %lld KiB, %d files, %d threads\n",
          p.name, static_cast<long long>(step), static_cast<long long>(l.live),
          static_cast<long long>(l.tensors), static_cast<long long>(l.reserved),
          double(l.requests) / double(every), static_cast<long long>(l.rss), l.files, l.threads);
    }
  }
  out.write_report({});  // reads the whole history, so its memory is the history's
  return levels;
}

// After a fifth of the run. ahead: batches that workers have made, or not.
void check_flat(const std::vector<Level>& levels, i64 ahead) {
  const std::size_t warm = std::max<std::size_t>(1, levels.size() / 5);
  const Level& first = levels[warm];
  for (std::size_t i = warm; i < levels.size(); ++i) {
    const Level& l = levels[i];
    CAPTURE(l.step, first.step, l.rss, first.rss);
    const auto close = [&](i64 a, i64 b) { return std::abs(a - b) <= 2 * ahead; };
    CHECK(std::abs(l.live - first.live) <= 4096 * ahead);
    CHECK(close(l.tensors, first.tensors));
    CHECK(close(l.storages, first.storages));
    CHECK(l.nodes == first.nodes);
    CHECK(close(i64(l.requests), i64(first.requests)));
    CHECK(l.reserved <= first.reserved + 4096 * ahead);
    if (!__asan_init) CHECK(l.rss <= first.rss + 256);
    CHECK(l.files == first.files);
    CHECK(l.threads == first.threads);
  }
}

}  // namespace

TEST_CASE("soak: a text model and a CNN train on and on, and nothing grows", "[tools]") {
  const TempDir dir;
  std::string text;
  for (int i = 0; text.size() < 9000; ++i) text += "line " + std::to_string(i * i % 977) + "\n";
  spit(dir / "text", text);
  const LeakGuard guard;
  for (const bool cnn : {false, true}) {
    manual_seed(2);
    Plan p{cnn ? "cnn" : "gpt", nullptr, cnn ? "" : dir / "text", cnn ? 80 : 16, cnn ? 0 : 2};
    p.recipe = cnn ? make_synthetic(Settings({"width=4"}))
                   : find_recipe("charlm").make(Settings(
                         {"layers=1", "heads=2", "channels=16", "context=16", "dropout=0.1"}));
    const i64 ahead =
        4 * p.workers;  // two waiting and one in the making for each, and one to spare
    check_flat(soak(std::move(p), dir / (cnn ? "cnn" : "gpt")), ahead);
  }
}
