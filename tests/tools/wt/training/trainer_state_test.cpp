// How a run of `wt train` goes on from what it kept: after every write that fails, from checkpoints
// whose numbers are none, and where the best one is gone.
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>

#include "warptape/core/factories.h"
#include "warptape/nn/checkpoint_file.h"
#include "warptape/tests/support/captured_output.h"
#include "warptape/tests/support/catch.h"
#include "warptape/tests/support/devices.h"
#include "warptape/tests/support/errors.h"
#include "warptape/tests/support/faulty_files.h"
#include "warptape/tests/support/tiny_data.h"
#include "warptape/tests/tools/wt/training/tiny_run.h"
#include "warptape/tools/wt/recipes/recipe_training.h"
#include "warptape/tools/wt/training/run_metrics.h"
#include "warptape/tools/wt/training/train.h"

using namespace wt;
using wt_test::tiny_run;

namespace {

std::string checkpoint(const std::string& run, i64 step) {
  return run + "/ckpt/step-00000" + std::to_string(step) + ".safetensors";
}
std::string best(const std::string& run) { return run + "/ckpt/best.safetensors"; }

// Without what depends on time and memory.
std::string history(const std::string& run) {
  const tools::RunHistory h = tools::read_metrics(run + "/metrics.jsonl");
  std::string out;
  for (const auto& r : h.steps) out += str(r.step, " ", r.loss, " ", r.lr, " ", *r.grad_norm, "\n");
  for (const auto& r : h.evals) out += str(r.step, " ", r.eval_loss, " ", *r.accuracy, "\n");
  return out;
}

i64 integer(const std::string& path, const char* name) {
  return tools::integer_of(nn::load_tensors(path).tensors, name);
}

// Trains without a word on the terminal; what it said goes into `said`. Failures of this program's
// checks are to be seen, so the capture ends with the run.
int quietly(const tools::TrainOptions& o, std::string* said = nullptr) {
  const CapturedOutput output;
  const auto tell = [&] {
    if (said) *said = output.text();
  };
  try {
    const int code = tools::train(o);
    tell();
    return code;
  } catch (...) {
    tell();
    throw;
  }
}

// As a run that was killed after `step` has it.
void cut_back_to(const std::string& run, i64 step) {
  for (i64 s = step + 1; s < 10; ++s) std::filesystem::remove(checkpoint(run, s));
}

void replace_number(const std::string& path, const std::string& name, const Tensor& value) {
  nn::LoadedTensors file = nn::load_tensors(path);
  bool found = false;
  for (nn::NamedTensor& t : file.tensors)
    if (t.name == name) t.tensor = value, found = true;
  REQUIRE(found);
  nn::save_tensors(path, file.tensors, file.metadata);
}

}  // namespace

// What a resumed run reads of the folder of another: without the report, and without times.
std::string left_in(const std::string& run) {
  std::string all;
  if (std::filesystem::exists(run + "/metrics.jsonl")) all = history(run);
  if (!std::filesystem::exists(run + "/ckpt")) return all;
  std::vector<std::string> names;
  for (const auto& f : std::filesystem::directory_iterator(run + "/ckpt"))
    names.push_back(f.path().filename().string());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) all += str(name, "\n", slurp(run + "/ckpt/" + name), "\n");
  return all;
}

TEST_CASE("trainer: at every write that fails the run ends, and resumed ends as if none had") {
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 30);
  tools::TrainOptions o = tiny_run(dir, "whole");
  REQUIRE(quietly(o) == 0);
  const std::string whole = o.out;
  int failures = 0;
  const int stride = wt_test::whole_walk() ? 1 : 5;
  for (int nth = 1;; nth += stride) {
    CAPTURE(nth);
    o = tiny_run(dir, "cut");
    std::filesystem::remove_all(o.out);
    bool reached = false, failed = false;
    {
      const FaultyFiles faults(nth, ENOSPC);
      try {
        quietly(o);
      } catch (const CheckpointError&) {
        failed = true;
      }
      reached = faults.reached();
    }
    if (!reached) break;
    failures += failed;
    o.resume = true;
    REQUIRE(quietly(o) == 0);
    REQUIRE(slurp(checkpoint(o.out, 8)) == slurp(checkpoint(whole, 8)));
    REQUIRE(slurp(best(o.out)) == slurp(best(whole)));
    REQUIRE(history(o.out) == history(whole));
  }
  CHECK(failures > 60 / stride);
}

TEST_CASE("trainer: with --on-write-error warn a write that fails changes no number of the run") {
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 30);
  tools::TrainOptions o = tiny_run(dir, "whole");
  REQUIRE(quietly(o) == 0);
  const std::string whole = o.out;
  const auto model = [](const std::string& run) {
    std::vector<float> all;
    for (const auto& t : nn::load_tensors(checkpoint(run, 8)).tensors)
      if (t.name.starts_with("model.") || t.name.starts_with("ema."))
        for (const float v : t.tensor.to_vector<float>()) all.push_back(v);
    return all;
  };
  int went_on = 0;
  const int stride = wt_test::whole_walk() ? 1 : 5;
  for (int nth = 1;; nth += stride) {
    CAPTURE(nth);
    o = tiny_run(dir, "warned");
    o.on_write_error = "warn";
    std::filesystem::remove_all(o.out);
    std::string said;
    bool reached = false, ended = false;
    {
      const FaultyFiles faults(nth, ENOSPC);
      try {
        quietly(o, &said);
      } catch (const CheckpointError&) {
        ended = true;  // before training, or after it: then something is lost
      }
      reached = faults.reached();
    }
    if (!reached) break;
    if (ended) continue;
    const bool warned = said.find("training goes on") != std::string::npos;
    went_on += warned;
    REQUIRE(model(o.out) == model(whole));
    REQUIRE(history(o.out) == history(whole));
    // What the state calls the best is what the file holds.
    REQUIRE(integer(checkpoint(o.out, 8), "train.best_step") == integer(best(o.out), "train.step"));
  }
  CHECK(went_on > 30 / stride);
}

TEST_CASE("trainer: a best model that could not be written is no best until a resumed run has it") {
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 30);
  tools::TrainOptions o = tiny_run(dir, "run");
  o.on_write_error = "warn";
  static int renames;  // of best.safetensors: each evaluation of this run is better than the last
  renames = 0;
  detail::FileOps& ops = detail::file_ops();
  static const detail::FileOps real = ops;
  ops.rename = [](const char* from, const char* to) {
    if (std::string_view(to).ends_with("best.safetensors") && ++renames == 4)
      return errno = EIO, -1;
    return real.rename(from, to);
  };
  std::string said;
  const int code = quietly(o, &said);
  ops.rename = real.rename;
  REQUIRE(code == 0);
  REQUIRE(renames == 4);
  CHECK(said.find("best.safetensors cannot be written") != std::string::npos);
  CHECK(said.find("1 times something could not be written") != std::string::npos);
  CHECK(integer(best(o.out), "train.step") == 6);
  CHECK(integer(checkpoint(o.out, 8), "train.best_step") == 6);
  o.resume = true;
  REQUIRE(quietly(o) == 0);
  CHECK(integer(best(o.out), "train.step") == 8);
  CHECK(integer(checkpoint(o.out, 8), "train.best_step") == 8);
}

TEST_CASE("trainer: the best checkpoint is repaired when a run goes on") {
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 30);
  tools::TrainOptions o = tiny_run(dir, "run");
  o.save_every = 1, o.keep = 9;
  std::string said;
  REQUIRE(quietly(o, &said) == 0);
  const std::string whole = slurp(best(o.out));
  cut_back_to(o.out, 5);
  REQUIRE(integer(checkpoint(o.out, 5), "train.best_step") == 4);
  SECTION("from the checkpoint of its step") {
    std::filesystem::remove(best(o.out));
    o.resume = true;
    REQUIRE(quietly(o, &said) == 0);
    CHECK(said.find("of step 4, is written anew") != std::string::npos);
  }
  SECTION("from the state itself, for a run that ended while it was written") {
    cut_back_to(o.out, 4);
    std::filesystem::copy_file(checkpoint(o.out, 2), best(o.out),
                               std::filesystem::copy_options::overwrite_existing);
    o.resume = true;
    REQUIRE(quietly(o, &said) == 0);
    CHECK(said.find("of step 4, is written anew") != std::string::npos);
  }
  SECTION("not, where nothing of it is left: then the next evaluation is the best") {
    std::filesystem::remove(checkpoint(o.out, 4));
    spit(best(o.out), "damaged");
    o.resume = true;
    REQUIRE(quietly(o, &said) == 0);
    CHECK(said.find("of step 4, is gone") != std::string::npos);
  }
  CHECK(slurp(best(o.out)) == whole);
}

TEST_CASE("trainer: seeds of all 64 bits go on as they are") {
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 30);
  tools::TrainOptions o = tiny_run(dir, "run");
  o.seed = GENERATE(u64{9007199254740993}, u64{9223372036854775809u}, u64{18446744073709551615u});
  REQUIRE(quietly(o) == 0);
  const std::string whole = slurp(checkpoint(o.out, 8)), all = history(o.out);
  cut_back_to(o.out, 6);
  o.resume = true;
  REQUIRE(quietly(o) == 0);
  CHECK(slurp(checkpoint(o.out, 8)) == whole);
  CHECK(history(o.out) == all);
}

TEST_CASE("trainer: a number of a checkpoint that no run can have is an error that names it") {
  const TempDir dir;
  wt_test::write_tiny_text(dir / "text", 30);
  tools::TrainOptions o = tiny_run(dir, "run");
  REQUIRE(quietly(o) == 0);
  const std::string path = checkpoint(o.out, 8), good = slurp(path);
  const auto f = [](double v) { return tensor(v, {.dtype = DType::f64}); };
  const auto n = [](i64 v) { return tensor(v, {.dtype = DType::i64}); };
  constexpr i64 kLeast = std::numeric_limits<i64>::min(), kMost = std::numeric_limits<i64>::max();
  const std::vector<std::pair<const char*, Tensor>> bad{
      {"train.step", n(kLeast)},      {"train.step", n(kMost)},
      {"train.step", n(9)},           {"train.step", f(NAN)},
      {"train.step", f(8)},           {"train.best_step", f(1e300)},
      {"train.best_step", n(9)},      {"train.worse", n(-1)},
      {"train.worse", f(1e300)},      {"train.due", n(2)},
      {"train.best", n(1)},           {"loader.epoch", n(kMost)},
      {"loader.epoch", f(NAN)},       {"loader.batch", n(-1)},
      {"loader.batch", n(kMost)},     {"loader.samples", f(1e300)},
      {"loader.samples", n(-1)},      {"rng.seed", f(1)},
      {"rng.dropout", n(-1)},         {"rng.dropout", n(kMost)},
      {"rng.init", f(NAN)},           {"optim.attempted", n(kLeast)},
      {"optim.attempted", n(9)},      {"optim.applied", f(1e300)},
      {"optim.applied", n(-1)},       {"sched.cooldown", f(1e300)},
      {"sched.bad_epochs", n(kLeast)}};
  o.resume = true;
  for (const auto& [name, value] : bad) {
    CAPTURE(name, describe(value));
    spit(path, good);
    replace_number(path, name, value);
    const std::string before = history(o.out);
    try {
      quietly(o);
      FAIL_CHECK("must throw");
    } catch (const DataError& e) {
      CAPTURE(e.what());
      CHECK(std::string(e.what()).find(path) != std::string::npos);
      // Loader positions are judged together.
      const bool position = std::string_view(name).starts_with("loader.");
      CHECK((position || std::string(e.what()).find(name) != std::string::npos));
    }
    CHECK(history(o.out) == before);
  }
  spit(path, good);
  CHECK(quietly(o) == 0);
}
